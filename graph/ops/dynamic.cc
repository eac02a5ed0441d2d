// SPDX-License-Identifier: Apache-2.0
// Ops whose results have as many elements as the data say. They run on the host; here are their
// rules and a plain reference.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"
#include "graph/tensors.h"

namespace kiln::ops {
namespace {

// Exact for every element: a long double has 64 bits of mantissa.
long double Number(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kF64) return ReadFloat(t, i);
  if (t.dtype() == DType::kU64) return static_cast<uint64_t>(ReadInt(t, i));
  return ReadInt(t, i);
}

absl::Status SetExtents(InferContext& c, std::vector<std::pair<DType, size_t>> outputs) {
  const Shape extents = DimsAttr(c.node(), "extents");
  size_t at = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto [type, rank] = outputs[k];
    if (at + rank > extents.size())
      return absl::InvalidArgumentError(
          absl::StrCat("extents ", ToString(extents), " are too few"));
    const auto first = extents.begin() + static_cast<std::ptrdiff_t>(at);
    c.SetOutput(static_cast<int>(k), type, Shape(first, first + static_cast<std::ptrdiff_t>(rank)));
    at += rank;
  }
  return absl::OkStatus();
}

// ---- elements: the elements of a small integer tensor become symbols.
absl::Status InferElements(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsInt, "an integer type"));
  const Shape symbols = DimsAttr(c.node(), "symbols");
  const std::optional<std::vector<int64_t>> shape = Constant(c.shape(0));
  if (!shape || CheckedBytes(DType::kU8, *shape) != static_cast<int64_t>(symbols.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(symbols.size(), " symbols for the elements of ", ToString(c.shape(0))));
  }
  c.SetOutput(0, c.type(0), c.shape(0));
  c.SetContent(0, symbols);
  return absl::OkStatus();
}

absl::Status Same(const Node&, std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  outputs.push_back(inputs[0]);
  return absl::OkStatus();
}

// ---- measure: the extents of a tensor become symbols.
absl::Status InferMeasure(InferContext& c) {
  return SetExtents(c, {{c.type(0), c.shape(0).size()}});
}

// ---- match_extent: an extent that must be another tensor's.
absl::Status InferMatchExtent(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(c.node(), "axis"), c.shape(0).size()));
  KILN_ASSIGN_OR_RETURN(const int to, NormalAxis(IntAttr(c.node(), "to"), c.shape(1).size()));
  Shape shape = c.shape(0);
  shape[static_cast<size_t>(axis)] = c.shape(1)[static_cast<size_t>(to)];
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status MatchExtentOf(const Node& node, std::span<const Tensor> inputs,
                           std::vector<Tensor>& outputs) {
  std::array<int64_t, 2> extents;
  for (const size_t k : {size_t{0}, size_t{1}}) {
    const std::vector<int64_t>& shape = inputs[k].shape();
    KILN_ASSIGN_OR_RETURN(const int axis,
                          NormalAxis(IntAttr(node, k == 0 ? "axis" : "to"), shape.size()));
    extents[k] = shape[static_cast<size_t>(axis)];
  }
  if (extents[0] != extents[1])
    return absl::InvalidArgumentError(absl::StrCat("axis ", IntAttr(node, "axis"), " has extent ",
                                                   extents[0], ", expected ", extents[1]));
  outputs.push_back(inputs[0]);
  return absl::OkStatus();
}

// ---- nonzero
absl::Status InferNonzero(InferContext& c) { return SetExtents(c, {{DType::kI64, 2}}); }

absl::Status NonzeroOf(const Node&, std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  const Tensor& x = inputs[0];
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    if (Number(x, i) != 0) found.push_back(i);  // NaN is not zero
  }
  const auto count = static_cast<int64_t>(found.size());
  outputs.push_back(Tensor::Allocate(DType::kI64, {x.rank(), count}));
  for (int64_t j = 0; j < count; ++j) {
    int64_t rest = found[static_cast<size_t>(j)];
    for (int axis = x.rank(); axis-- > 0;) {
      const int64_t extent = x.shape()[static_cast<size_t>(axis)];
      WriteInt(outputs[0], axis * count + j, rest % extent);
      rest /= extent;
    }
  }
  return absl::OkStatus();
}

// ---- compress: the slices of an axis (or elements) that a mask chooses
absl::Status InferCompress(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRank(c, 1, 1));
  if (c.type(1) != DType::kBool) return absl::InvalidArgumentError("the condition is not bool");
  const size_t rank = c.shape(0).size();
  if (!HasAttr(c.node(), "axis")) return SetExtents(c, {{c.type(0), 1}});
  KILN_RETURN_IF_ERROR(NormalAxis(IntAttr(c.node(), "axis"), rank).status());
  return SetExtents(c, {{c.type(0), rank}});
}

// `x` seen as [outer, extent, inner] around an axis; without one as [1, elements, 1].
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;
  size_t axis = 0;
};
absl::StatusOr<Around> AroundAxis(const Node& node, const Tensor& x) {
  Around a;
  if (!HasAttr(node, "axis")) {
    a.extent = x.num_elements();
    return a;
  }
  KILN_ASSIGN_OR_RETURN(const int axis,
                        NormalAxis(IntAttr(node, "axis"), static_cast<size_t>(x.rank())));
  a.axis = static_cast<size_t>(axis);
  for (size_t i = 0; i < x.shape().size(); ++i)
    (i < a.axis ? a.outer : i == a.axis ? a.extent : a.inner) *= x.shape()[i];
  return a;
}

void CopyElement(const Tensor& from, int64_t i, Tensor& to, int64_t j) {
  if (from.dtype() == DType::kF64) {
    WriteFloat(to, j, ReadFloat(from, i));
  } else {
    WriteInt(to, j, ReadInt(from, i));
  }
}

// The slices `chosen` of x along the axis, one behind the other.
Tensor TakeSlices(const Node& node, const Tensor& x, const Around& a,
                  const std::vector<int64_t>& chosen) {
  const auto count = static_cast<int64_t>(chosen.size());
  std::vector<int64_t> shape = {count};
  if (HasAttr(node, "axis")) {
    shape = x.shape();
    shape[a.axis] = count;
  }
  Tensor out = Tensor::Allocate(x.dtype(), shape);
  int64_t j = 0;
  for (int64_t o = 0; o < a.outer; ++o) {
    for (const int64_t k : chosen) {
      for (int64_t i = 0; i < a.inner; ++i)
        CopyElement(x, (o * a.extent + k) * a.inner + i, out, j++);
    }
  }
  return out;
}

absl::Status CompressOf(const Node& node, std::span<const Tensor> inputs,
                        std::vector<Tensor>& outputs) {
  KILN_ASSIGN_OR_RETURN(const Around a, AroundAxis(node, inputs[0]));
  std::vector<int64_t> chosen;
  for (int64_t k = 0; k < inputs[1].num_elements(); ++k) {
    if (ReadInt(inputs[1], k) == 0) continue;
    if (k >= a.extent)
      return absl::InvalidArgumentError(
          absl::StrCat("the condition chooses ", k, " of an axis of ", a.extent));
    chosen.push_back(k);
  }
  outputs.push_back(TakeSlices(node, inputs[0], a, chosen));
  return absl::OkStatus();
}

// ---- unique
absl::Status InferUnique(InferContext& c) {
  size_t rank = 1;
  if (HasAttr(c.node(), "axis")) {
    rank = c.shape(0).size();
    KILN_RETURN_IF_ERROR(NormalAxis(IntAttr(c.node(), "axis"), rank).status());
  }
  return SetExtents(c, {{c.type(0), rank}, {DType::kI64, 1}, {DType::kI64, 1}, {DType::kI64, 1}});
}

absl::Status UniqueOf(const Node& node, std::span<const Tensor> inputs,
                      std::vector<Tensor>& outputs) {
  const Tensor& x = inputs[0];
  KILN_ASSIGN_OR_RETURN(const Around a, AroundAxis(node, x));
  const auto slice = [&](int64_t k) {
    std::vector<long double> values;
    for (int64_t o = 0; o < a.outer; ++o) {
      for (int64_t i = 0; i < a.inner; ++i)
        values.push_back(Number(x, (o * a.extent + k) * a.inner + i));
    }
    return values;
  };
  std::vector<int64_t> firsts, inverse, counts;
  std::vector<std::vector<long double>> kinds;
  for (int64_t k = 0; k < a.extent; ++k) {
    std::vector<long double> values = slice(k);
    const auto known = std::find(kinds.begin(), kinds.end(), values);
    inverse.push_back(known - kinds.begin());
    if (known == kinds.end()) {
      kinds.push_back(std::move(values));
      firsts.push_back(k);
      counts.push_back(0);
    }
    ++counts[static_cast<size_t>(inverse.back())];
  }
  std::vector<size_t> order(firsts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (IntAttr(node, "sorted") != 0) {
    // NaN is the largest, and equal to nothing.
    const auto less = [](long double p, long double q) {
      return std::isnan(q) ? !std::isnan(p) : p < q;
    };
    std::stable_sort(order.begin(), order.end(), [&](size_t p, size_t q) {
      return std::lexicographical_compare(kinds[p].begin(), kinds[p].end(), kinds[q].begin(),
                                          kinds[q].end(), less);
    });
  }
  const auto count = static_cast<int64_t>(order.size());
  std::vector<int64_t> chosen, place(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    chosen.push_back(firsts[order[i]]);
    place[order[i]] = static_cast<int64_t>(i);
  }
  outputs.push_back(TakeSlices(node, x, a, chosen));
  for (const int64_t n : {count, static_cast<int64_t>(inverse.size()), count})
    outputs.push_back(Tensor::Allocate(DType::kI64, {n}));
  for (int64_t i = 0; i < count; ++i) {
    WriteInt(outputs[1], i, chosen[static_cast<size_t>(i)]);
    WriteInt(outputs[3], i, counts[order[static_cast<size_t>(i)]]);
  }
  for (size_t k = 0; k < inverse.size(); ++k)
    WriteInt(outputs[2], static_cast<int64_t>(k), place[static_cast<size_t>(inverse[k])]);
  return absl::OkStatus();
}

// ---- non_max_suppression
absl::Status InferNms(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRank(c, 0, 3));
  KILN_RETURN_IF_ERROR(RequireRank(c, 1, 3));
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireType(c, 1, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(c.Require(c.shape(0)[0], c.shape(1)[0], "batches"));
  KILN_RETURN_IF_ERROR(c.Require(c.shape(0)[1], c.shape(1)[2], "boxes"));
  KILN_RETURN_IF_ERROR(c.Require(c.shape(0)[2], 4, "coordinates of a box"));
  return SetExtents(c, {{DType::kI64, 2}});
}

struct Box {
  double y1, x1, y2, x2;
};
Box BoxAt(const Tensor& boxes, int64_t at, bool center) {
  const double v[4] = {ReadFloat(boxes, at), ReadFloat(boxes, at + 1), ReadFloat(boxes, at + 2),
                       ReadFloat(boxes, at + 3)};
  if (center)  // x, y, width, height
    return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}
double Overlap(const Box& a, const Box& b) {
  const double both = std::max(0.0, std::min(a.y2, b.y2) - std::max(a.y1, b.y1)) *
                      std::max(0.0, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
  const double all = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - both;
  return all > 0 ? both / all : 0;
}

absl::Status NmsOf(const Node& node, std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  const Tensor& boxes = inputs[0];
  const Tensor& scores = inputs[1];
  const auto given = [&](size_t k) { return inputs.size() > k && inputs[k].num_elements() == 1; };
  const int64_t most = given(2) ? ReadInt(inputs[2], 0) : 0;
  const double overlap = given(3) ? ReadFloat(inputs[3], 0) : 0;
  const bool center = IntAttr(node, "center_point_box") != 0;
  const int64_t batches = scores.shape()[0], classes = scores.shape()[1], n = scores.shape()[2];
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t cl = 0; cl < classes; ++cl) {
      const int64_t base = (b * classes + cl) * n;
      std::vector<int64_t> order;
      for (int64_t i = 0; i < n; ++i) {
        if (!given(4) || ReadFloat(scores, base + i) > ReadFloat(inputs[4], 0)) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t p, int64_t q) {
        return ReadFloat(scores, base + p) > ReadFloat(scores, base + q);
      });
      std::vector<Box> kept;
      for (const int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        const Box box = BoxAt(boxes, (b * n + i) * 4, center);
        if (std::any_of(kept.begin(), kept.end(),
                        [&](const Box& k) { return Overlap(k, box) > overlap; }))
          continue;
        kept.push_back(box);
        rows.insert(rows.end(), {b, cl, i});
      }
    }
  }
  outputs.push_back(Tensor::Allocate(DType::kI64, {static_cast<int64_t>(rows.size()) / 3, 3}));
  for (size_t i = 0; i < rows.size(); ++i) WriteInt(outputs[0], static_cast<int64_t>(i), rows[i]);
  return absl::OkStatus();
}

constexpr AttrSpec kExtents = {"extents", AttrKind::kDims, true,
                               0,         nullptr,         "of all outputs, in a row"};
constexpr AttrSpec kElementsAttrs[] = {
    {"symbols", AttrKind::kDims, true, 0, nullptr, "one for each element"}};
constexpr AttrSpec kMeasureAttrs[] = {kExtents};
constexpr AttrSpec kMatchExtentAttrs[] = {
    {"axis", AttrKind::kInt, true, 0, nullptr, "of the first input"},
    {"to", AttrKind::kInt, true, 0, nullptr, "axis of the second input"}};
constexpr AttrSpec kNonzeroAttrs[] = {kExtents};
constexpr AttrSpec kCompressAttrs[] = {
    {"axis", AttrKind::kInt, false, 0, nullptr, "absent: of all elements in a row"}, kExtents};
constexpr AttrSpec kUniqueAttrs[] = {
    {"axis", AttrKind::kInt, false, 0, nullptr, "absent: of all elements in a row"},
    {"sorted", AttrKind::kInt, false, 1, nullptr, "0: in the order of their first occurrence"},
    kExtents};
constexpr AttrSpec kNmsAttrs[] = {{"center_point_box", AttrKind::kInt, false, 0, nullptr,
                                   "boxes are x, y, width, height instead of two corners y, x"},
                                  kExtents};

constexpr OpDef kDynamicOps[] = {
    {.name = "elements",
     .doc = "The input. From here on its elements are known as symbols; none may be negative.",
     .kind = OpKind::kHost,
     .attrs = kElementsAttrs,
     .infer = InferElements,
     .witness = "identity",
     .dynamic = true,
     .evaluate = Same,
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "measure",
     .doc = "The input. From here on its extents are known as symbols.",
     .kind = OpKind::kHost,
     .attrs = kMeasureAttrs,
     .infer = InferMeasure,
     .witness = "identity",
     .dynamic = true,
     .evaluate = Same,
     .gradient = {.rule = gradient::Unchanged}},
    {.name = "match_extent",
     .doc = "The first input; an error where its extent is not that of the second.",
     .kind = OpKind::kHost,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kMatchExtentAttrs,
     .infer = InferMatchExtent,
     .witness = "identity",
     .dynamic = true,
     .evaluate = MatchExtentOf,
     .gradient = {.rule = gradient::Unchanged}},
    {.name = "nonzero",
     .doc = "Indices of the elements that are not zero, [rank, count], i64.",
     .kind = OpKind::kHost,
     .attrs = kNonzeroAttrs,
     .infer = InferNonzero,
     .onnx = {{"NonZero", 9}},
     .witness = "onnx node tests: nonzero",
     .dynamic = true,
     .evaluate = NonzeroOf,
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "compress",
     .doc = "The slices of an axis for which the condition is true.",
     .kind = OpKind::kHost,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kCompressAttrs,
     .infer = InferCompress,
     .onnx = {{"Compress"}},
     .witness = "onnx node tests: compress",
     .dynamic = true,
     .evaluate = CompressOf,
     .gradient = {.rule = gradient::Compress}},
    {.name = "unique",
     .doc = "The different slices of an axis; where each is first, which one each is, how many.",
     .kind = OpKind::kHost,
     .num_outputs = 4,
     .attrs = kUniqueAttrs,
     .infer = InferUnique,
     .onnx = {{"Unique", 11}},
     .witness = "onnx node tests: unique",
     .dynamic = true,
     .evaluate = UniqueOf,
     .gradient = {.rule = gradient::Unique, .note = "to the first of equals"}},
    {.name = "non_max_suppression",
     .doc = "Boxes of the best scores that overlap no better one: rows of batch, class, box.",
     .kind = OpKind::kHost,
     .min_inputs = 2,
     .max_inputs = 5,
     .attrs = kNmsAttrs,
     .infer = InferNms,
     .onnx = {{"NonMaxSuppression", 10}},
     .witness = "onnx node tests: nonmaxsuppression",
     .dynamic = true,
     .evaluate = NmsOf,
     .gradient = {.none = gradient::kGivesIntegers}},
};

}  // namespace

std::span<const OpDef> DynamicOps() { return kDynamicOps; }

}  // namespace kiln::ops
