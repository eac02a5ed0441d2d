// SPDX-License-Identifier: Apache-2.0
// Ops that only see the same memory under another shape.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

absl::StatusOr<IndexMap> View(const Graph&, const Node&, int) {
  IndexMap map;
  map.view = true;
  return map;
}

// The extent that -1 stands for. A remainder is excluded by a guard, and so is division by 0.
absl::StatusOr<Dim> Infer(InferContext& c, const Dim& total, const Dim& known) {
  if (known.IsConst(0)) return absl::InvalidArgumentError("-1 stands beside an extent of 0");
  c.Assume(Guard::NotEqual(known, 0));
  if (std::optional<Dim> exact = total.DivideExactly(known)) return *std::move(exact);
  const Dim quotient = total.FloorDiv(known);
  if (const auto number = known.constant()) {
    const Guard divisible = Guard::Divisible(total, *number);
    if (divisible.Static() == false) {
      return absl::InvalidArgumentError(
          absl::StrCat(total.ToString(), " elements do not divide by ", *number));
    }
    c.Assume(divisible);
  } else {
    KILN_RETURN_IF_ERROR(c.Require(quotient * known, total, "number of elements"));
  }
  return quotient;
}

absl::Status InferReshape(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(Shape shape, c.Dims("shape"));
  const Shape& from = c.shape(0);
  const bool zero_copies = IntAttr(c.node(), "allowzero") == 0;
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto number = shape[i].constant();
    if (number == 0 && zero_copies) {
      if (i >= from.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("0 at place ", i, " of the new shape; the input is ", ToString(from)));
      }
      shape[i] = from[i];
    } else if (number == -1) {
      if (open) return absl::InvalidArgumentError("the new shape has -1 twice");
      open = i;
    } else if (number && *number < 0) {
      return absl::InvalidArgumentError(absl::StrCat("the new shape has the extent ", *number));
    } else if (!number) {
      // 0 and -1 would mean something else. An extent that stays where it is may be 0.
      const bool stays = i < from.size() && shape[i] == from[i];
      const int64_t least = zero_copies && !stays ? 1 : 0;
      if (Guard::AtLeast(shape[i], least).Static() != false) {
        c.Assume(Guard::AtLeast(shape[i], least));
      } else if (zero_copies && i < from.size() && Guard::AtLeast(shape[i], 0).Static() != false) {
        c.Assume(Guard::Equal(shape[i], 0));  // it is that or an error
        shape[i] = from[i];
      } else {
        c.Assume(Guard::Equal(shape[i], -1));
        if (open) return absl::InvalidArgumentError("the new shape has -1 twice");
        open = i;
      }
    }
  }
  // Extents that stand on both sides are taken out first: they may be 0, and make terms large.
  // Without a -1, numbers of elements are compared, where one 0 is as good as another.
  Dim total = 1, both = 1;
  Shape left = shape;
  if (open) left.erase(left.begin() + static_cast<std::ptrdiff_t>(*open));
  for (const Dim& dim : from) {
    const auto same =
        dim.IsConst(0) && !open ? left.end() : std::find(left.begin(), left.end(), dim);
    if (same != left.end()) {
      left.erase(same);
      both = both * dim;
    } else {
      total = total * dim;
    }
  }
  const Dim known = Product(left);
  const Guard no_elements = Guard::Equal(both, 0);
  if (open) {
    KILN_ASSIGN_OR_RETURN(shape[*open], Infer(c, total, known));
  } else if (Guard::Same(total, known).Static() == false && no_elements.Static() != false) {
    c.Assume(no_elements);  // nothing else makes them equal
  } else {
    KILN_RETURN_IF_ERROR(c.Require(
        total, known, absl::StrCat("elements of ", ToString(from), " and ", ToString(shape))));
  }
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::Status InferSqueeze(InferContext& c) {
  const Shape& from = c.shape(0);
  Shape result;
  if (!c.has_dims("axes")) {
    for (const Dim& dim : from) {
      if (dim.IsConst(1)) continue;
      c.Assume(Guard::NotEqual(dim, 1));
      result.push_back(dim);
    }
  } else {
    KILN_ASSIGN_OR_RETURN(const Shape dims, c.Dims("axes"));
    KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, Numbers(dims, "axes"));
    KILN_ASSIGN_OR_RETURN(const std::vector<int> axes, NormalAxes(numbers, from.size(), false));
    for (size_t i = 0; i < from.size(); ++i) {
      if (!std::binary_search(axes.begin(), axes.end(), static_cast<int>(i))) {
        result.push_back(from[i]);
        continue;
      }
      KILN_RETURN_IF_ERROR(c.Require(from[i], 1, absl::StrCat("extent of the squeezed axis ", i)));
    }
  }
  c.SetOutput(0, c.type(0), std::move(result));
  return absl::OkStatus();
}

absl::Status InferUnsqueeze(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(const Shape dims, c.Dims("axes"));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, Numbers(dims, "axes"));
  const size_t rank = c.shape(0).size() + numbers.size();
  KILN_ASSIGN_OR_RETURN(const std::vector<int> axes, NormalAxes(numbers, rank, false));
  Shape result;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) {
    const bool added = std::binary_search(axes.begin(), axes.end(), static_cast<int>(i));
    result.push_back(added ? Dim(1) : c.shape(0)[next++]);
  }
  c.SetOutput(0, c.type(0), std::move(result));
  return absl::OkStatus();
}

absl::Status InferFlatten(InferContext& c) {
  const Shape& from = c.shape(0);
  const auto rank = static_cast<int64_t>(from.size());
  int64_t axis = IntAttr(c.node(), "axis");
  if (axis < -rank || axis > rank)
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is outside ", ToString(from)));
  if (axis < 0) axis += rank;
  const auto middle = from.begin() + axis;
  c.SetOutput(0, c.type(0),
              {Product(Shape(from.begin(), middle)), Product(Shape(middle, from.end()))});
  return absl::OkStatus();
}

constexpr AttrSpec kReshapeAttrs[] = {
    {"shape", AttrKind::kDims, false, 0, nullptr,
     "the new shape; one -1 is inferred, 0 copies the extent at its place", 1},
    {"allowzero", AttrKind::kInt, false, 0, nullptr, "1: a 0 in the shape is an extent of 0"}};
constexpr AttrSpec kSqueezeAttrs[] = {{"axes", AttrKind::kDims, false, 0, nullptr,
                                       "the axes of extent 1 to drop; absent: all axes of extent 1",
                                       1}};
constexpr AttrSpec kUnsqueezeAttrs[] = {
    {"axes", AttrKind::kDims, false, 0, nullptr, "where axes of extent 1 stand in the result", 1}};
constexpr AttrSpec kFlattenAttrs[] = {
    {"axis", AttrKind::kInt, false, 1, nullptr,
     "axes before it become the first one of the result, the others the second"}};

constexpr OpDef kViewsOps[] = {
    {.name = "reshape",
     .doc = "The same elements, row-major, under another shape.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = 2,
     .attrs = kReshapeAttrs,
     .infer = InferReshape,
     .index = View,
     .onnx = {{"Reshape"}},
     .witness = "onnx node tests: reshape"},
    {.name = "squeeze",
     .doc = "Drops axes of extent 1.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = 2,
     .attrs = kSqueezeAttrs,
     .infer = InferSqueeze,
     .index = View,
     .onnx = {{"Squeeze"}},
     .witness = "onnx node tests: squeeze"},
    {.name = "unsqueeze",
     .doc = "Adds axes of extent 1.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = 2,
     .attrs = kUnsqueezeAttrs,
     .infer = InferUnsqueeze,
     .index = View,
     .onnx = {{"Unsqueeze"}},
     .witness = "onnx node tests: unsqueeze"},
    {.name = "flatten",
     .doc = "A matrix: the axes before `axis`, and the others.",
     .kind = OpKind::kIndex,
     .attrs = kFlattenAttrs,
     .infer = InferFlatten,
     .index = View,
     .onnx = {{"Flatten"}},
     .witness = "onnx node tests: flatten"},
};

}  // namespace

std::span<const OpDef> ViewOps() { return kViewsOps; }

}  // namespace kiln::ops
