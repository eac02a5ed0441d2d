// SPDX-License-Identifier: Apache-2.0
// Reductions over axes. The axes were an attribute until operator set 18 (of ReduceSum: 13) and are
// an input since; either form is read at any version.
#include <limits>
#include <numeric>
#include <vector>

#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"

namespace kiln::onnx {
namespace {

struct Reduction {
  std::vector<int64_t> axes;  // ascending as given, from 0
  int64_t keepdims = 1;
  bool noop = false;  // no axes are given, and that means none instead of all
  Attrs attrs() const { return {{"axes", axes}, {"keepdims", keepdims}}; }
};

absl::StatusOr<Reduction> ReadReduction(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(1, 2));
  Reduction r;
  r.keepdims = n.Int("keepdims", 1);
  r.axes = n.Ints("axes");
  const bool empty_means_none = n.Int("noop_with_empty_axes", 0) != 0;
  if (n.has(1)) {
    KILN_ASSIGN_OR_RETURN(r.axes, n.ConstInts(1, "axes"));
  }
  r.noop = r.axes.empty() && empty_means_none;
  if (r.axes.empty() && !r.noop) {
    r.axes.resize(static_cast<size_t>(n.rank(0)));
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  KILN_ASSIGN_OR_RETURN(r.axes, n.Axes(std::move(r.axes), n.rank(0)));
  return r;
}

// Reductions of which the elements are mapped first, so that reducing over no axes is not the
// identity. Roots and logarithms of integers are made in f64 and cut to integers.
absl::Status EmitReal(NodeView& n, const char* op, ValueId x) {
  const DType type = n.value(0).type;
  if (IsFloat(type)) return n.Emit(op, {x});
  return n.Emit("cast", {n.Op(op, {Cast(n, x, DType::kF64)})}, {{"to", type}});
}

absl::Status ReduceL2(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Reduction r, ReadReduction(n));
  if (r.noop) return n.Emit("abs", {n.in(0)});
  if (!IsFloat(n.value(0).type))
    return EmitReal(n, "sqrt", n.Op("reduce_sum_square", {n.in(0)}, r.attrs()));
  return n.Emit("reduce_l2", {n.in(0)}, r.attrs());
}

absl::Status ReduceSumSquare(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Reduction r, ReadReduction(n));
  if (r.noop) return n.Emit("mul", {n.in(0), n.in(0)});
  return n.Emit("reduce_sum_square", {n.in(0)}, r.attrs());
}

absl::Status ReduceL1(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Reduction r, ReadReduction(n));
  if (r.noop) return n.Emit("abs", {n.in(0)});
  return n.Emit("reduce_l1", {n.in(0)}, r.attrs());
}

absl::Status ReduceLogSum(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Reduction r, ReadReduction(n));
  return EmitReal(n, "log", r.noop ? n.in(0) : n.Op("reduce_sum", {n.in(0)}, r.attrs()));
}

// log(sum(exp(x))) = m + log(sum(exp(x - m))) with the maximum m, or 0 where the maximum is
// infinite.
absl::Status ReduceLogSumExp(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(Reduction r, ReadReduction(n));
  if (r.noop) return n.Emit("identity", {n.in(0)});
  const DType stored = n.value(0).type, type = IsFloat(stored) ? stored : DType::kF64;
  const ValueId x = Cast(n, n.in(0), type);
  const int64_t keepdims = r.keepdims;
  r.keepdims = 1;
  const ValueId top = n.Op("reduce_max", {x}, r.attrs());
  const ValueId infinite =
      n.Op("equal", {n.Op("abs", {top}), n.Scalar(type, std::numeric_limits<double>::infinity())});
  const ValueId shift = n.Op("where", {infinite, n.Scalar(type, 0), top});
  const ValueId sum = n.Op("reduce_sum", {n.Op("exp", {n.Op("sub", {x, shift})})}, r.attrs());
  const ValueId log = Cast(n, n.Op("add", {n.Op("log", {sum}), shift}), stored);
  if (keepdims != 0) return n.Emit("identity", {log});
  return n.Emit("squeeze", {log}, {{"axes", r.axes}});
}

constexpr Converter kReduceRows[] = {
    {"ReduceL1", 6, ReduceL1},
    {"ReduceL2", 6, ReduceL2},
    {"ReduceLogSum", 6, ReduceLogSum},
    {"ReduceLogSumExp", 6, ReduceLogSumExp},
    {"ReduceSumSquare", 6, ReduceSumSquare},
};

}  // namespace

absl::Status AsReduction(NodeView& n) {
  KILN_ASSIGN_OR_RETURN(const Reduction r, ReadReduction(n));
  if (r.noop) return n.Emit("identity", {n.in(0)});
  if (n.value(0).type != DType::kBool) return n.Emit(n.record(), {n.in(0)}, r.attrs());
  const ValueId number = n.Op("cast", {n.in(0)}, {{"to", DType::kU8}});
  return n.Emit("cast", {n.Op(n.record(), {number}, r.attrs())}, {{"to", DType::kBool}});
}

std::span<const Converter> ReduceConverters() { return kReduceRows; }

}  // namespace kiln::onnx
