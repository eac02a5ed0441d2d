// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/segments.h"

#include <algorithm>

#include "halide_gen/cpu/nests.h"
#include "schedule/index_split.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Var;
using Halide::Internal::Call;

// The loads of expressions, each once.
class Loads : public Halide::Internal::IRGraphVisitor {
 public:
  std::vector<Expr> found;

 private:
  using IRGraphVisitor::visit;
  void visit(const Call* op) override {
    IRGraphVisitor::visit(op);
    if (IsLoad(*op)) found.emplace_back(op);
  }
};

bool IsAmong(const std::vector<Expr>& loads, const Expr& load) {
  return std::any_of(loads.begin(), loads.end(),
                     [&](const Expr& other) { return Halide::Internal::graph_equal(load, other); });
}

// Those that every piece has.
std::vector<Expr> Common(const std::vector<std::vector<Expr>>& pieces) {
  std::vector<Expr> common;
  for (size_t i = 0; i < pieces.size(); ++i) {
    Loads loads;
    for (const Expr& value : pieces[i]) value.accept(&loads);
    if (i == 0) common = loads.found;
    std::erase_if(common, [&](const Expr& load) { return !IsAmong(loads.found, load); });
  }
  return common;
}

}  // namespace

std::vector<Expr> EdgesOf(const std::vector<IndexExpr>& cuts, const Operands& operands,
                          const Expr& length) {
  std::vector<Expr> edges = {0};
  for (const IndexExpr& cut : cuts) {
    Expr sum = Halide::Internal::make_const(Halide::Int(64), cut.offset);
    for (const IndexExpr::Term& term : cut.terms) {
      const Expr extent = Halide::cast<int64_t>(operands.extents[static_cast<size_t>(term.dim)]);
      sum = sum + extent * Halide::Internal::make_const(Halide::Int(64), term.coef);
    }
    // An extent that no operand has may be any, and a multiple of it beyond 32 bits.
    const Expr inside =
        Halide::clamp(sum, Halide::cast<int64_t>(edges.back()), Halide::cast<int64_t>(length));
    edges.push_back(Halide::cast<int32_t>(inside));
  }
  edges.push_back(length);
  return edges;
}

std::vector<Expr> BlendedPieces(const Kernel& kernel, const Operands& operands,
                                const std::vector<size_t>& group, const std::vector<Var>& dims) {
  const std::vector<IndexExpr> cuts = Cuts(kernel);
  const std::vector<Expr> edges = EdgesOf(cuts, operands, operands.extents[dims.size() - 1]);
  const Var& lane = dims.back();
  std::vector<std::vector<Expr>> pieces;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const Kernel decided = Between(kernel, cuts, i);
    const ExprEmitter emitter(decided, operands);
    Scope scope;
    scope.coordinates.assign(dims.begin(), dims.end());
    scope.coordinates.resize(kernel.dims.size());
    pieces.push_back(OutputValues(decided, group, emitter, scope));
  }
  const std::vector<Expr> common = Common(pieces);
  std::vector<Expr> blended;
  for (size_t i = pieces.size(); i-- > 0;) {
    const Expr inside = edges[i] <= lane && lane < edges[i + 1];
    for (size_t k = 0; k < group.size(); ++k) {
      const Expr value = LoadsIf(inside, lane, pieces[i][k], common, edges[i] < edges[i + 1]);
      if (i + 1 == pieces.size()) {
        blended.push_back(value);
      } else {
        blended[k] = select(lane < edges[i + 1], value, blended[k]);
      }
    }
  }
  return blended;
}

}  // namespace kiln
