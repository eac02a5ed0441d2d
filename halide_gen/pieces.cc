// SPDX-License-Identifier: Apache-2.0
#include "kiln/halide_gen/pieces.h"

#include <algorithm>

#include "kiln/halide_gen/nests.h"
#include "kiln/schedule/cuts.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Var;
using Halide::Internal::Call;

// The loads along `lane` of expressions, each once.
class LoadsAlong : public Halide::Internal::IRGraphVisitor {
 public:
  explicit LoadsAlong(const Var& lane) : lane_(lane) {}
  std::vector<Expr> found;

 private:
  using IRGraphVisitor::visit;
  void visit(const Call* op) override {
    IRGraphVisitor::visit(op);
    if (IsLoad(*op) && Halide::Internal::expr_uses_var(op, lane_.name())) found.emplace_back(op);
  }

  const Var& lane_;
};

bool IsAmong(const std::vector<Expr>& loads, const Expr& load) {
  return std::any_of(loads.begin(), loads.end(),
                     [&](const Expr& other) { return Halide::Internal::graph_equal(load, other); });
}

// Those that every piece has.
std::vector<Expr> Common(const std::vector<std::vector<Expr>>& pieces, const Var& lane) {
  std::vector<Expr> common;
  for (size_t i = 0; i < pieces.size(); ++i) {
    LoadsAlong loads(lane);
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
    Expr sum = static_cast<int32_t>(cut.offset);
    for (const IndexExpr::Term& term : cut.terms)
      sum = sum + operands.extents[static_cast<size_t>(term.dim)] * static_cast<int32_t>(term.coef);
    edges.push_back(Halide::clamp(sum, edges.back(), length));
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
  const std::vector<Expr> common = Common(pieces, lane);
  std::vector<Expr> blended;
  for (size_t i = pieces.size(); i-- > 0;) {
    const Expr inside = edges[i] <= lane && lane < edges[i + 1];
    for (size_t k = 0; k < group.size(); ++k) {
      const Expr value = LoadsIf(inside, lane, pieces[i][k], common);
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
