// SPDX-License-Identifier: Apache-2.0
#include "kernel/nan_check_elision.h"

#include <algorithm>
#include <vector>

namespace kiln {
namespace {

// What is known of a value where an element of the maximum's row is NaN.
struct Known {
  bool differs = false;  // it may depend on what the maximum then is
  bool with = false;     // it is NaN where the element at its own coordinates is
  bool shows = false;    // it is NaN
};

// True if a NaN operand makes the result NaN.
bool KeepsNan(const ExprNode& node) {
  if (!IsFloat(node.type)) return false;
  switch (node.op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
    case ScalarOp::kFma:
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kSqrt:
    case ScalarOp::kCast:
    case ScalarOp::kRoundTo:
    case ScalarOp::kExp:
    case ScalarOp::kExp2:
    case ScalarOp::kLog:
    case ScalarOp::kLog2:
      return true;
    default:
      return false;
  }
}

bool IsSubset(const std::vector<int32_t>& some, const std::vector<int32_t>& all) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

class Rows {
 public:
  Rows(const Kernel& kernel, size_t maximum)
      : kernel_(kernel),
        maximum_(maximum),
        row_(kernel.stages[maximum]),
        stages_(kernel.stages.size()) {
    element_ = row_.dims;
    element_.insert(element_.end(), row_.over.begin(), row_.over.end());
    std::sort(element_.begin(), element_.end());
  }

  bool EveryOutputKnows() {
    for (size_t i = 0; i < stages_.size(); ++i) {
      const Stage& stage = kernel_.stages[i];
      stages_[i] = Of(stage.expr);
      if (stage.kind == Stage::Kind::kReduce) stages_[i] = Reduced(stage, stages_[i]);
      if (i == maximum_) stages_[i] = {.differs = true};
    }
    return std::none_of(kernel_.outputs.begin(), kernel_.outputs.end(),
                        [&](const KernelOutput& output) { return Of(output.expr).differs; });
  }

 private:
  // A sum or product over the row has the element that is NaN.
  Known Reduced(const Stage& stage, const Known& element) const {
    const bool combines = stage.op == ReduceOp::kAdd || stage.op == ReduceOp::kMul;
    const bool whole = stage.over == row_.over && stage.dims == row_.dims;
    if (IsFloat(stage.type) && combines && whole && element.with) return {.shows = true};
    return {.differs = element.differs};
  }

  Known Of(const ScalarExpr& expr) const {
    ScalarExpr both = expr;  // equal nodes of one expression have one id
    const auto copy = [](ExprId, const std::vector<ExprId>&) -> ExprId { return -1; };
    const ExprId element = CopyExpr(row_.expr, row_.expr.root(), both, copy);
    std::vector<Known> known(expr.nodes().size());
    for (size_t i = 0; i < known.size(); ++i) {
      const ExprNode& node = expr.nodes()[i];
      known[i] = node.op == ScalarOp::kRead ? OfRead(node, known) : OfOperation(node, known);
      if (static_cast<ExprId>(i) == element) known[i].with = true;
    }
    return known[static_cast<size_t>(expr.root())];
  }

  Known OfRead(const ExprNode& node, const std::vector<Known>& known) const {
    for (const IndexExpr& index : node.index) {
      if (index.load >= 0 && known[static_cast<size_t>(index.load)].differs)
        return {.differs = true};
    }
    if (node.source != ReadSource::kStage) return {};
    const std::vector<int32_t>& dims = kernel_.stages[static_cast<size_t>(node.ref)].dims;
    Known of = stages_[static_cast<size_t>(node.ref)];
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      // Of another row, or element, nothing is known.
      if (node.index[axis] != IndexExpr::Dim(dims[axis])) of.with = of.shows = false;
    }
    of.with = of.with && IsSubset(element_, dims);
    of.shows = of.shows && IsSubset(row_.dims, dims);
    return of;
  }

  static Known OfOperation(const ExprNode& node, const std::vector<Known>& known) {
    Known of;
    for (const ExprId arg : node.args) {
      if (arg < 0) continue;
      const Known& operand = known[static_cast<size_t>(arg)];
      of.differs = of.differs || operand.differs;
      of.with = of.with || operand.with;
      of.shows = of.shows || operand.shows;
    }
    // Of a NaN only that it is one is known, not its bits.
    of.differs = of.differs || (of.shows && node.op == ScalarOp::kBitcast);
    const bool keeps = KeepsNan(node);
    of.with = of.with && keeps;
    of.shows = of.shows && keeps;
    of.differs = of.differs && !of.shows;
    return of;
  }

  const Kernel& kernel_;
  const size_t maximum_;
  const Stage& row_;
  std::vector<int32_t> element_;  // the dims of an element
  std::vector<Known> stages_;
};

}  // namespace

bool NanCheckElisionWithout(const Kernel& kernel, size_t maximum) {
  const Stage& stage = kernel.stages[maximum];
  if (stage.kind != Stage::Kind::kReduce || stage.op != ReduceOp::kMax) return false;
  return IsFloat(stage.type) && Rows(kernel, maximum).EveryOutputKnows();
}

}  // namespace kiln
