// SPDX-License-Identifier: Apache-2.0
// Elements that depend on others in order: sorting, running sums, writes to places that data
// choose. Only ordered sums to zeros have a form as a kernel (kernel/kernel.h, add_at).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"
#include "graph/ops/window.h"
#include "graph/tensors.h"

namespace kiln::ops {
namespace {

size_t Ix(int64_t i) { return static_cast<size_t>(i); }

// A tensor as [outer, extent, inner] around one axis.
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;
};

Around AroundAxis(const std::vector<int64_t>& shape, int64_t axis) {
  if (axis < 0) axis += static_cast<int64_t>(shape.size());
  Around around;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t& part = i < Ix(axis) ? around.outer : i == Ix(axis) ? around.extent : around.inner;
    part *= shape[i];
  }
  return around;
}

// Calls f on typed elements of wide tensors: double, int64_t or uint64_t.
template <typename F>
auto ForWide(const Tensor& tensor, F&& f) {
  if (tensor.dtype() == DType::kU64) return f(uint64_t{});
  return tensor.dtype() == DType::kF64 ? f(double{}) : f(int64_t{});
}

// ---- top_k
absl::Status InferTopK(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsNumber, "a float or integer type"));
  Shape shape = c.shape(0);
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(c.node(), "axis"), shape.size()));
  const int64_t k = IntAttr(c.node(), "k");
  const std::optional<int64_t> extent = shape[Ix(axis)].constant();
  if (k < 0 || (extent && k > *extent)) {
    return absl::InvalidArgumentError(
        absl::StrCat("k is ", k, "; the axis has ", shape[Ix(axis)].ToString(), " elements"));
  }
  if (!extent) c.Assume(Guard::AtLeast(shape[Ix(axis)] - k, 0));
  shape[Ix(axis)] = k;
  c.SetOutput(0, c.type(0), shape);
  c.SetOutput(1, DType::kI64, std::move(shape));
  return absl::OkStatus();
}

template <typename T>
bool IsNan(T value) {
  return value != value;
}

absl::Status ReferenceTopK(const Node& node, std::span<const Tensor> inputs,
                           std::span<Tensor> outputs) {
  const Around x = AroundAxis(inputs[0].shape(), IntAttr(node, "axis"));
  const int64_t k = IntAttr(node, "k");
  const bool largest = IntAttr(node, "largest") != 0;
  return ForWide(inputs[0], [&]<typename T>(T) {
    const auto* from = static_cast<const T*>(inputs[0].data());
    auto* values = static_cast<T*>(outputs[0].data());
    auto* indices = static_cast<int64_t*>(outputs[1].data());
    std::vector<int64_t> order(Ix(x.extent));
    for (int64_t lane = 0; lane < x.outer * x.inner; ++lane) {
      const int64_t base = lane / x.inner * x.extent * x.inner + lane % x.inner;
      std::iota(order.begin(), order.end(), 0);
      // A NaN counts as larger than every number.
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const T va = from[base + a * x.inner], vb = from[base + b * x.inner];
        const bool greater = IsNan(va) ? !IsNan(vb) : va > vb;
        const bool less = IsNan(vb) ? !IsNan(va) : va < vb;
        return largest ? greater : less;
      });
      const int64_t to = lane / x.inner * k * x.inner + lane % x.inner;
      for (int64_t i = 0; i < k; ++i) {
        values[to + i * x.inner] = from[base + order[Ix(i)] * x.inner];
        indices[to + i * x.inner] = order[Ix(i)];
      }
    }
    return absl::OkStatus();
  });
}

// ---- cumulative
absl::Status InferCumulative(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsNumber, "a float or integer type"));
  KILN_RETURN_IF_ERROR(NormalAxis(IntAttr(c.node(), "axis"), c.shape(0).size()).status());
  c.SetOutput(0, c.type(0), c.shape(0));
  return absl::OkStatus();
}

absl::Status ReferenceCumulative(const Node& node, std::span<const Tensor> inputs,
                                 std::span<Tensor> outputs) {
  const Around x = AroundAxis(inputs[0].shape(), IntAttr(node, "axis"));
  const bool product = IntAttr(node, "product") != 0;
  const bool exclusive = IntAttr(node, "exclusive") != 0;
  const bool reverse = IntAttr(node, "reverse") != 0;
  return ForWide(inputs[0], [&]<typename T>(T) {
    using Sum = std::conditional_t<std::is_same_v<T, double>, long double, uint64_t>;
    const auto* from = static_cast<const T*>(inputs[0].data());
    auto* to = static_cast<T*>(outputs[0].data());
    for (int64_t lane = 0; lane < x.outer * x.inner; ++lane) {
      const int64_t base = lane / x.inner * x.extent * x.inner + lane % x.inner;
      Sum sum = product ? 1 : 0;
      for (int64_t i = 0; i < x.extent; ++i) {
        const int64_t at = base + (reverse ? x.extent - 1 - i : i) * x.inner;
        const Sum next =
            product ? sum * static_cast<Sum>(from[at]) : sum + static_cast<Sum>(from[at]);
        to[at] = static_cast<T>(exclusive ? sum : next);
        sum = next;
      }
    }
    return absl::OkStatus();
  });
}

// ---- scatter
enum Reduction : int64_t { kNone, kAddTo, kMultiplyBy, kMaximum, kMinimum };

absl::Status RequireScatter(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 1, IsInt, "integers as indices"));
  if (c.type(0) != c.type(2)) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 is ", Name(c.type(0)), ", input 2 is ",
                                                   Name(c.type(2)), "; cast one of them"));
  }
  const int64_t reduction = IntAttr(c.node(), "reduction");
  if (reduction < kNone || reduction > kMinimum)
    return absl::InvalidArgumentError(absl::StrCat("attribute \"reduction\" is ", reduction));
  c.SetOutput(0, c.type(0), c.shape(0));
  return absl::OkStatus();
}

absl::Status InferScatterElements(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireScatter(c));
  const size_t rank = c.shape(0).size();
  KILN_RETURN_IF_ERROR(RequireRank(c, 1, rank));
  KILN_RETURN_IF_ERROR(RequireRank(c, 2, rank));
  for (size_t i = 0; i < rank; ++i)
    KILN_RETURN_IF_ERROR(c.Require(c.shape(1)[i], c.shape(2)[i], "extents of indices and updates"));
  return NormalAxis(IntAttr(c.node(), "axis"), rank).status();
}

// That the rows of `input` tell places in `data`, and that the next input has updates of these.
absl::Status RequireUpdates(InferContext& c, int input, const Shape& data) {
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, input, 1));
  const Shape& indices = c.shape(input);
  const std::optional<int64_t> depth = indices.back().constant();
  if (!depth || *depth < 0 || *depth > static_cast<int64_t>(data.size())) {
    const std::string message =
        absl::StrCat("indices ", ToString(indices), " do not tell places in ", ToString(data));
    if (!depth) return absl::UnimplementedError(message);
    return absl::InvalidArgumentError(message);
  }
  Shape updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), data.begin() + *depth, data.end());
  KILN_RETURN_IF_ERROR(RequireRank(c, input + 1, updates.size()));
  for (size_t i = 0; i < updates.size(); ++i)
    KILN_RETURN_IF_ERROR(c.Require(updates[i], c.shape(input + 1)[i], "extents of the updates"));
  return absl::OkStatus();
}

absl::Status InferScatterNd(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireScatter(c));
  return RequireUpdates(c, 1, c.shape(0));
}

template <typename T>
T Combined(int64_t reduction, T old, T update) {
  switch (reduction) {
    case kAddTo:
      if constexpr (std::is_same_v<T, double>) return old + update;
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
    case kMultiplyBy:
      if constexpr (std::is_same_v<T, double>) return old * update;
      return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
    case kMaximum:
      return IsNan(old) || old > update ? old : update;
    case kMinimum:
      return IsNan(old) || old < update ? old : update;
    default:
      return update;
  }
}

// The coordinate that `index` names along an axis.
absl::StatusOr<int64_t> Place(int64_t index, int64_t extent) {
  if (index >= -extent && index < extent) return index < 0 ? index + extent : index;
  return absl::InvalidArgumentError(
      absl::StrCat("index ", index, " is outside an axis of ", extent));
}

// Writes all updates; place(i) is the flat element that update i goes to.
template <typename FlatPlace>
absl::Status Scatter(int64_t reduction, std::span<const Tensor> inputs, std::span<Tensor> outputs,
                     FlatPlace&& place) {
  return ForWide(inputs[0], [&]<typename T>(T) -> absl::Status {
    const auto* from = static_cast<const T*>(inputs[0].data());
    const auto* updates = static_cast<const T*>(inputs[2].data());
    auto* to = static_cast<T*>(outputs[0].data());
    std::copy(from, from + inputs[0].num_elements(), to);
    for (int64_t i = 0; i < inputs[2].num_elements(); ++i) {
      KILN_ASSIGN_OR_RETURN(const int64_t at, place(i));
      to[at] = Combined(reduction, to[at], updates[i]);
    }
    return absl::OkStatus();
  });
}

absl::Status ReferenceScatterElements(const Node& node, std::span<const Tensor> inputs,
                                      std::span<Tensor> outputs) {
  const std::vector<int64_t>& data = inputs[0].shape();
  const std::vector<int64_t>& updates = inputs[2].shape();
  const auto* indices = static_cast<const int64_t*>(inputs[1].data());
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), data.size()));
  return Scatter(
      IntAttr(node, "reduction"), inputs, outputs, [&](int64_t i) -> absl::StatusOr<int64_t> {
        int64_t flat = 0, step = 1, rest = i;
        for (size_t d = data.size(); d-- > 0;) {
          const int64_t own = rest % updates[d];
          rest /= updates[d];
          KILN_ASSIGN_OR_RETURN(const int64_t at, Place(d == Ix(axis) ? indices[i] : own, data[d]));
          flat += at * step;
          step *= data[d];
        }
        return flat;
      });
}

absl::Status ScatterRows(int64_t reduction, std::span<const Tensor> inputs,
                         std::span<Tensor> outputs) {
  const std::vector<int64_t>& data = inputs[0].shape();
  const auto* indices = static_cast<const int64_t*>(inputs[1].data());
  const size_t depth = Ix(inputs[1].shape().back());
  const int64_t slice = Count({data.begin() + static_cast<std::ptrdiff_t>(depth), data.end()});
  return Scatter(reduction, inputs, outputs, [&](int64_t i) -> absl::StatusOr<int64_t> {
    int64_t flat = 0;
    for (size_t d = 0; d < depth; ++d) {
      KILN_ASSIGN_OR_RETURN(const int64_t at, Place(indices[Ix(i / slice) * depth + d], data[d]));
      flat = flat * data[d] + at;
    }
    return flat * slice + i % slice;
  });
}

absl::Status ReferenceScatterNd(const Node& node, std::span<const Tensor> inputs,
                                std::span<Tensor> outputs) {
  return ScatterRows(IntAttr(node, "reduction"), inputs, outputs);
}

// ---- scatter_sum: scatter_nd, with a sum, to zeros; indices are clamped as those of a gather are.
bool IsSummed(DType type) { return type != DType::kBool && SizeOf(type) >= 4; }

absl::Status InferScatterSum(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsInt, "integers as indices"));
  KILN_RETURN_IF_ERROR(RequireType(c, 1, IsSummed, "a number of 32 or 64 bits"));
  const Shape shape = DimsAttr(c.node(), "shape");
  KILN_RETURN_IF_ERROR(RequireUpdates(c, 0, shape));
  c.SetOutput(0, c.type(1), shape);
  return absl::OkStatus();
}

absl::Status ReferenceScatterSum(const Node&, std::span<const Tensor> inputs,
                                 std::span<Tensor> outputs) {
  const std::vector<int64_t>& shape = outputs[0].shape();
  if (outputs[0].num_elements() == 0) return absl::OkStatus();  // an axis may have no place
  Tensor zeros = Tensor::Allocate(inputs[1].dtype(), shape);
  std::memset(zeros.data(), 0, static_cast<size_t>(zeros.num_elements()) * SizeOf(zeros.dtype()));
  Tensor places = Tensor::Allocate(DType::kI64, inputs[0].shape());
  const auto* from = static_cast<const int64_t*>(inputs[0].data());
  auto* to = static_cast<int64_t*>(places.data());
  const int64_t depth = inputs[0].shape().back();
  for (int64_t i = 0; i < places.num_elements(); ++i) {
    const int64_t extent = shape[Ix(i % depth)];
    to[i] = std::clamp(from[i] < 0 ? from[i] + extent : from[i], int64_t{0}, extent - 1);
  }
  const Tensor all[] = {std::move(zeros), std::move(places), inputs[1]};
  return ScatterRows(kAddTo, all, outputs);
}

constexpr AttrSpec kTopKAttrs[] = {
    {"k", AttrKind::kInt, true, 0, nullptr, "how many"},
    {"axis", AttrKind::kInt, false, -1, nullptr, "the axis along which elements are compared"},
    {"largest", AttrKind::kInt, false, 1, nullptr, "1: the largest; 0: the smallest"}};
constexpr AttrSpec kCumulativeAttrs[] = {
    {"axis", AttrKind::kInt, false, 0, nullptr, "the axis that is run along"},
    {"product", AttrKind::kInt, false, 0, nullptr, "1: products instead of sums"},
    {"exclusive", AttrKind::kInt, false, 0, nullptr, "1: without the element itself"},
    {"reverse", AttrKind::kInt, false, 0, nullptr, "1: from the end"}};
constexpr AttrSpec kScatterAttrs[] = {
    {"reduction", AttrKind::kInt, false, 0, nullptr,
     "0: the update replaces the element; 1: sum, 2: product, 3: maximum, 4: minimum of both"},
    {"axis", AttrKind::kInt, false, 0, nullptr, "the axis whose coordinate the indices give"}};

constexpr AttrSpec kScatterSumAttrs[] = {
    {"shape", AttrKind::kDims, true, 0, nullptr, "of the result"}};

constexpr OpDef kOrderOps[] = {
    {.name = "top_k",
     .doc = "The k largest elements along an axis in order, and their places; of "
            "equal ones the first; NaN counts as largest.",
     .kind = OpKind::kLibrary,
     .num_outputs = 2,
     .attrs = kTopKAttrs,
     .infer = InferTopK,
     .reference = ReferenceTopK,
     .onnx_converted = "TopK",
     .witness = "onnx node tests: top_k",
     .linear = true,
     .gradient = {.rule = gradient::TopK}},
    {.name = "cumulative",
     .doc = "Running sums, or products, along an axis; integers wrap.",
     .kind = OpKind::kLibrary,
     .attrs = kCumulativeAttrs,
     .infer = InferCumulative,
     .reference = ReferenceCumulative,
     .onnx_converted = "CumSum CumProd",
     .test = {-2, 2},
     .witness = "onnx node tests: cumsum, cumprod",
     .linear = true,
     .gradient = {.rule = gradient::Cumulative}},
    {.name = "scatter_elements",
     .doc = "Input 0, with element i of input 2 written to its own coordinates, but for that along "
            "`axis`, which input 1 gives. Updates of one element follow each other.",
     .kind = OpKind::kLibrary,
     .min_inputs = 3,
     .max_inputs = 3,
     .attrs = kScatterAttrs,
     .infer = InferScatterElements,
     .reference = ReferenceScatterElements,
     .onnx_converted = "ScatterElements Scatter",
     .test = {0, 2},
     .witness = "onnx node tests: scatter_elements",
     .linear = true,
     .gradient = {.rule = gradient::ScatterElements,
                  .note = "replaced: the last update; largest, smallest: equal parts"},
     .index_inputs = {1, 1}},
    {.name = "scatter_nd",
     .doc = "Input 0, with slices of input 2 written where the rows of input 1 say. Updates of one "
            "place follow each other.",
     .kind = OpKind::kLibrary,
     .min_inputs = 3,
     .max_inputs = 3,
     .attrs = std::span(kScatterAttrs).first(1),
     .infer = InferScatterNd,
     .reference = ReferenceScatterNd,
     .onnx_converted = "ScatterND",
     .test = {0, 2},
     .witness = "onnx node tests: scatternd",
     .linear = true,
     .gradient = {.rule = gradient::ScatterNd, .note = "as of scatter_elements"},
     .index_inputs = {1, 1}},
    {.name = "scatter_sum",
     .doc = "Zeros, with slices of input 1 added in order where the rows of input 0 say, from the "
            "end where negative, clamped: what a gather's input takes.",
     .kind = OpKind::kScatter,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kScatterSumAttrs,
     .infer = InferScatterSum,
     .reference = ReferenceScatterSum,
     .witness = "scatter_nd",
     .linear = true,
     .gradient = {.rule = gradient::ScatterSum},
     .index_inputs = {0, 0}},
};

}  // namespace

std::span<const OpDef> OrderOps() { return kOrderOps; }

}  // namespace kiln::ops
