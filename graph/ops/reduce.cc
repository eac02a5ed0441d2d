// SPDX-License-Identifier: Apache-2.0
// Reductions over the axes of attribute `axes`; all of them if it is empty.
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

absl::Status InferReduce(InferContext& c, bool (*allowed)(DType), absl::string_view names) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, allowed, names));
  const Shape& shape = c.shape(0);
  KILN_ASSIGN_OR_RETURN(const std::vector<int> axes,
                        NormalAxes(IntsAttr(c.node(), "axes"), shape.size(), true));
  const bool keep = IntAttr(c.node(), "keepdims") != 0;
  Shape result;
  size_t next = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = next < axes.size() && axes[next] == static_cast<int>(i);
    if (reduced) ++next;
    if (!reduced) {
      result.push_back(shape[i]);
    } else if (keep) {
      result.push_back(1);
    }
  }
  c.SetOutput(0, c.type(0), std::move(result));
  return absl::OkStatus();
}

absl::Status InferNumbers(InferContext& c) {
  return InferReduce(c, IsNumber, "a float or integer type");
}
absl::Status InferFloats(InferContext& c) { return InferReduce(c, IsFloat, "a float type"); }

Ex Square(Ex x) { return x * x; }
Ex Magnitude(Ex x) {
  return IsFloat(x.type()) || IsSigned(x.type()) ? Apply(ScalarOp::kAbs, x) : x;
}
Ex Root(Ex sum, Ex) { return Apply(ScalarOp::kSqrt, sum); }
Ex Mean(Ex sum, Ex count) { return sum / count; }

constexpr ReduceRule kSumRule = {ReduceOp::kAdd, nullptr, nullptr};
constexpr ReduceRule kMeanRule = {ReduceOp::kAdd, nullptr, Mean};
constexpr ReduceRule kMaxRule = {ReduceOp::kMax, nullptr, nullptr};
constexpr ReduceRule kMinRule = {ReduceOp::kMin, nullptr, nullptr};
constexpr ReduceRule kProdRule = {ReduceOp::kMul, nullptr, nullptr};
constexpr ReduceRule kL1Rule = {ReduceOp::kAdd, Magnitude, nullptr};
constexpr ReduceRule kL2Rule = {ReduceOp::kAdd, Square, Root};
constexpr ReduceRule kSumSquareRule = {ReduceOp::kAdd, Square, nullptr};

constexpr AttrSpec kAttrs[] = {
    {"axes", AttrKind::kInts, false, 0, "",
     "the axes to reduce; negative ones count from the end; empty: all"},
    {"keepdims", AttrKind::kInt, false, 1, nullptr, "1: reduced axes stay, with extent 1"}};

constexpr OpDef Reduce(const char* name, const char* doc, const ReduceRule& rule,
                       absl::Status (*infer)(InferContext&), OnnxForm onnx, const char* witness,
                       GradientSlot gradient = {}) {
  return {.name = name,
          .doc = doc,
          .kind = OpKind::kReduce,
          .attrs = kAttrs,
          .infer = infer,
          .reduce = &rule,
          .onnx = {onnx},
          .test = {-2, 2},
          .witness = witness,
          .gradient = gradient};
}

constexpr OpDef kReduceOps[] = {
    Reduce("reduce_sum", "The sum; 0 of nothing.", kSumRule, InferNumbers, {"ReduceSum"},
           "onnx node tests: reduce_sum"),
    Reduce("reduce_mean", "The sum divided by the number of elements; NaN of nothing.", kMeanRule,
           InferNumbers, {"ReduceMean"}, "onnx node tests: reduce_mean"),
    Reduce("reduce_max",
           "The largest, or NaN if there is one; the least value of the type of nothing.", kMaxRule,
           InferNumbers, {"ReduceMax"}, "onnx node tests: reduce_max",
           {.note = "a tie: equal parts"}),
    Reduce("reduce_min",
           "The smallest, or NaN if there is one; the greatest value of the type of nothing.",
           kMinRule, InferNumbers, {"ReduceMin"}, "onnx node tests: reduce_min",
           {.note = "a tie: equal parts"}),
    Reduce("reduce_prod", "The product; 1 of nothing.", kProdRule, InferNumbers, {"ReduceProd"},
           "onnx node tests: reduce_prod"),
    Reduce("reduce_l1", "The sum of absolute values.", kL1Rule, InferNumbers, {"ReduceL1"},
           "onnx node tests: reduce_l1", {.note = "0 at 0"}),
    Reduce("reduce_l2", "The square root of the sum of squares.", kL2Rule, InferFloats,
           {"ReduceL2"}, "onnx node tests: reduce_l2",
           {.rule = gradient::L2, .note = "0 where all are 0"}),
    Reduce("reduce_sum_square", "The sum of squares.", kSumSquareRule, InferNumbers,
           {"ReduceSumSquare"}, "onnx node tests: reduce_sum_square"),
};

}  // namespace

std::span<const OpDef> ReduceOps() { return kReduceOps; }

}  // namespace kiln::ops
