// SPDX-License-Identifier: Apache-2.0
#include "schedule/index_split.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "schedule/size_class.h"

namespace kiln {
namespace {

constexpr int64_t kMostFactor = 1 << 10;  // correctness
constexpr size_t kMostCuts = 8;           // compile time: each piece is a loop nest of its own

// offset + sum of coefficient * (coordinate or extent of a dim); the key is (is extent, dim).
struct Linear {
  std::map<std::pair<bool, int32_t>, int64_t> terms;
  int64_t offset = 0;

  void Add(const Linear& other, int64_t factor) {
    offset += factor * other.offset;
    for (const auto& [key, coef] : other.terms) {
      if ((terms[key] += factor * coef) == 0) terms.erase(key);
    }
  }
};

// Sums of few such terms, and their values for extents of 32 bits, are within 64 bits.
std::optional<Linear> IfSmall(Linear linear) {
  constexpr int64_t kMostCoef = int64_t{1} << 20, kMostOffset = int64_t{1} << 40;  // correctness
  bool small = std::abs(linear.offset) <= kMostOffset;
  for (const auto& [key, coef] : linear.terms) small = small && std::abs(coef) <= kMostCoef;
  return small ? std::optional(std::move(linear)) : std::nullopt;
}

std::optional<Linear> LinearOf(const ScalarExpr& expr, ExprId id) {
  const ExprNode& node = expr.node(id);
  if (node.type != DType::kI64) return std::nullopt;
  Linear linear;
  switch (node.op) {
    case ScalarOp::kConst:
      linear.offset = static_cast<int64_t>(node.imm);
      if (linear.offset > INT32_MAX || linear.offset < INT32_MIN) return std::nullopt;
      return linear;
    case ScalarOp::kIndex:
    case ScalarOp::kExtent:
      linear.terms[{node.op == ScalarOp::kExtent, node.ref}] = 1;
      return linear;
    case ScalarOp::kAdd:
    case ScalarOp::kSub: {
      const std::optional<Linear> a = LinearOf(expr, node.args[0]);
      const std::optional<Linear> b = LinearOf(expr, node.args[1]);
      if (!a || !b) return std::nullopt;
      linear = *a;
      linear.Add(*b, node.op == ScalarOp::kAdd ? 1 : -1);
      return IfSmall(std::move(linear));
    }
    case ScalarOp::kMul: {
      const std::optional<Linear> a = LinearOf(expr, node.args[0]);
      const std::optional<Linear> b = LinearOf(expr, node.args[1]);
      if (!a || !b || (!a->terms.empty() && !b->terms.empty())) return std::nullopt;
      const Linear& number = a->terms.empty() ? *a : *b;
      if (std::abs(number.offset) > kMostFactor) return std::nullopt;
      linear.Add(a->terms.empty() ? *b : *a, number.offset);
      return IfSmall(std::move(linear));
    }
    default:
      return std::nullopt;
  }
}

// What a comparison says of the innermost coordinate x: x < cut, or x >= cut.
struct Side {
  Linear cut;
  bool below = false;
};

std::optional<Side> SideOf(const Kernel& kernel, const ScalarExpr& expr, ExprId id) {
  const ExprNode& node = expr.node(id);
  if (node.op != ScalarOp::kLt && node.op != ScalarOp::kLe) return std::nullopt;
  std::optional<Linear> rest = LinearOf(expr, node.args[0]);
  const std::optional<Linear> right = LinearOf(expr, node.args[1]);
  if (!rest || !right) return std::nullopt;
  rest->Add(*right, -1);  // the comparison is rest < 0, or rest <= 0
  const auto own = rest->terms.find({false, kernel.innermost()});
  if (own == rest->terms.end() || (own->second != 1 && own->second != -1)) return std::nullopt;
  Side side;
  side.below = own->second == 1;
  rest->terms.erase(own);
  for (const auto& term : rest->terms) {
    if (!term.first.first) return std::nullopt;  // another coordinate
  }
  side.cut.Add(*rest, side.below ? -1 : 1);
  const bool strict = node.op == ScalarOp::kLt;
  if (side.below != strict) side.cut.offset += 1;
  return side;
}

// Nodes that some guard's condition consists of.
std::vector<bool> Conditions(const ScalarExpr& expr) {
  std::vector<bool> condition(expr.nodes().size(), false);
  for (auto id = static_cast<ExprId>(expr.nodes().size()) - 1; id >= 0; --id) {
    const ExprNode& node = expr.node(id);
    if (node.op == ScalarOp::kGuard) condition[static_cast<size_t>(node.args[0])] = true;
    if (!condition[static_cast<size_t>(id)]) continue;
    if (node.op != ScalarOp::kAnd && node.op != ScalarOp::kOr && node.op != ScalarOp::kNot)
      continue;
    for (const ExprId arg : node.args) {
      if (arg >= 0) condition[static_cast<size_t>(arg)] = true;
    }
  }
  return condition;
}

IndexExpr ToIndex(const Linear& linear) {
  IndexExpr index = IndexExpr::Constant(linear.offset);
  for (const auto& [key, coef] : linear.terms) index.terms.push_back({key.second, true, coef});
  return index;
}

// True if a <= b whatever the extents are.
bool NeverAbove(const IndexExpr& a, const IndexExpr& b) {
  std::map<int32_t, int64_t> difference;
  for (const IndexExpr::Term& term : b.terms) difference[term.dim] += term.coef;
  for (const IndexExpr::Term& term : a.terms) difference[term.dim] -= term.coef;
  return a.offset <= b.offset && std::all_of(difference.begin(), difference.end(),
                                             [](const auto& term) { return term.second >= 0; });
}

// Calls fn(expr) for each expression of the kernel.
template <typename K, typename Fn>
void ForEachExpr(K& kernel, Fn&& fn) {
  for (auto& stage : kernel.stages) fn(stage.expr);
  for (auto& output : kernel.outputs) fn(output.expr);
}

class Decider {
 public:
  Decider(const Kernel& kernel, const std::vector<IndexExpr>& cuts, size_t piece)
      : kernel_(kernel), cuts_(cuts), piece_(piece) {}

  ScalarExpr Decide(const ScalarExpr& from) const {
    ScalarExpr to;
    const std::vector<bool> condition = Conditions(from);
    const ExprId root =
        CopyExpr(from, from.root(), to, [&](ExprId id, const std::vector<ExprId>& map) {
          return Known(from, id, condition[static_cast<size_t>(id)], map, to);
        });
    to.set_root(root);
    to.Prune();
    return to;
  }

 private:
  static std::optional<bool> Truth(const ScalarExpr& expr, ExprId id) {
    const ExprNode& node = expr.node(id);
    if (node.op != ScalarOp::kConst || node.type != DType::kBool) return std::nullopt;
    return node.imm != 0;
  }

  // The node of `to` that `id` is in this piece; -1 if nothing is known of it.
  ExprId Known(const ScalarExpr& from, ExprId id, bool condition, const std::vector<ExprId>& map,
               ScalarExpr& to) const {
    const ExprNode& node = from.node(id);
    const auto arg = [&](int k) { return map[static_cast<size_t>(node.args[k])]; };
    if (node.op == ScalarOp::kGuard) {
      const std::optional<bool> holds = Truth(to, arg(0));
      return holds ? arg(*holds ? 1 : 2) : -1;
    }
    if (!condition || node.type != DType::kBool) return -1;
    if (node.op == ScalarOp::kNot) {
      const std::optional<bool> a = Truth(to, arg(0));
      return a ? LiteralBits(to, DType::kBool, *a ? 0 : 1).id : -1;
    }
    if (node.op == ScalarOp::kAnd || node.op == ScalarOp::kOr) {
      const bool decides = node.op == ScalarOp::kOr;  // the operand that settles it
      for (int k = 0; k < 2; ++k) {
        const std::optional<bool> known = Truth(to, arg(k));
        if (known) return arg(*known == decides ? k : 1 - k);
      }
      return -1;
    }
    const std::optional<Side> side = SideOf(kernel_, from, id);
    if (!side) return -1;
    const auto at = std::find(cuts_.begin(), cuts_.end(), ToIndex(side->cut));
    if (at == cuts_.end()) return -1;
    const bool is_below = piece_ <= static_cast<size_t>(at - cuts_.begin());
    return LiteralBits(to, DType::kBool, is_below == side->below ? 1 : 0).id;
  }

  const Kernel& kernel_;
  const std::vector<IndexExpr>& cuts_;
  const size_t piece_;
};

}  // namespace

std::vector<IndexExpr> Cuts(const Kernel& kernel) {
  std::vector<IndexExpr> cuts;
  ForEachExpr(kernel, [&](const ScalarExpr& expr) {
    const std::vector<bool> condition = Conditions(expr);
    for (size_t id = 0; id < condition.size(); ++id) {
      if (!condition[id]) continue;
      const std::optional<Side> side = SideOf(kernel, expr, static_cast<ExprId>(id));
      if (!side) continue;
      IndexExpr cut = ToIndex(side->cut);
      if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) cuts.push_back(std::move(cut));
    }
  });
  if (cuts.size() > kMostCuts) return {};
  // A total order, or none: each is compared with all.
  std::vector<IndexExpr> sorted;
  for (const IndexExpr& cut : cuts) {
    const auto at = std::find_if(sorted.begin(), sorted.end(),
                                 [&](const IndexExpr& other) { return NeverAbove(cut, other); });
    sorted.insert(at, cut);
  }
  for (size_t k = 1; k < sorted.size(); ++k) {
    if (!NeverAbove(sorted[k - 1], sorted[k])) return {};
  }
  return sorted;
}

Kernel Between(const Kernel& kernel, const std::vector<IndexExpr>& cuts, size_t piece) {
  Kernel decided = kernel;
  const Decider decider(kernel, cuts, piece);
  ForEachExpr(decided, [&](ScalarExpr& expr) { expr = decider.Decide(expr); });
  return decided;
}

std::vector<int64_t> PieceLengths(const Kernel& kernel, const std::vector<IndexExpr>& cuts,
                                  std::span<const int64_t> extents) {
  const int64_t row = extents[static_cast<size_t>(kernel.innermost())];
  if (row == kUnbounded) return {};
  std::vector<int64_t> lengths;
  int64_t begin = 0;
  for (const IndexExpr& cut : cuts) {
    int64_t edge = cut.offset;
    for (const IndexExpr::Term& term : cut.terms) {
      const int64_t extent = extents[static_cast<size_t>(term.dim)];
      if (extent == kUnbounded) return {};
      edge += term.coef * extent;
    }
    edge = std::clamp(edge, begin, row);
    lengths.push_back(edge - begin);
    begin = edge;
  }
  lengths.push_back(row - begin);
  return lengths;
}

}  // namespace kiln
