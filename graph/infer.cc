// SPDX-License-Identifier: Apache-2.0
#include "graph/infer.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

absl::Status InferOf(InferContext& c, bool (*allowed)(DType), absl::string_view names,
                     std::optional<DType> result = {}) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, allowed, names));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  KILN_ASSIGN_OR_RETURN(Shape shape, BroadcastInputs(c));
  c.SetOutput(0, result.value_or(c.type(0)), std::move(shape));
  return absl::OkStatus();
}

bool IsAny(DType) { return true; }

}  // namespace

bool IsNumber(DType type) { return type != DType::kBool; }
bool IsBits(DType type) { return !IsFloat(type); }

absl::Status InferElementwise(InferContext& c) { return InferOf(c, IsAny, "any type"); }
absl::Status InferFloat(InferContext& c) { return InferOf(c, IsFloat, "a float type"); }
absl::Status InferNumber(InferContext& c) {
  return InferOf(c, IsNumber, "a float or integer type");
}
absl::Status InferInteger(InferContext& c) { return InferOf(c, IsInt, "an integer type"); }
absl::Status InferBits(InferContext& c) { return InferOf(c, IsBits, "an integer type or bool"); }
absl::Status InferCompare(InferContext& c) { return InferOf(c, IsAny, "any type", DType::kBool); }
absl::Status InferOrder(InferContext& c) {
  return InferOf(c, IsNumber, "a float or integer type", DType::kBool);
}
absl::Status InferFloatToBool(InferContext& c) {
  return InferOf(c, IsFloat, "a float type", DType::kBool);
}

absl::Status InferSameAsFirst(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsFloat, "a float type"));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  c.SetOutput(0, c.type(0), c.shape(0));
  return absl::OkStatus();
}

namespace {

absl::StatusOr<bool> WhereAllAre(int64_t size, const Guard& guard) {
  SymbolValues values;
  for (const std::string& symbol : guard.Symbols()) values[symbol] = size;
  return guard.Holds(values);
}

}  // namespace

bool HoldsWhereAllAre(int64_t size, const Guard& guard) {
  return WhereAllAre(size, guard).value_or(false);
}

bool HoldsForLarge(const Guard& guard) {
  // Products of many symbols have values of smaller ones only.
  for (const int64_t size : {1 << 20, 1 << 12, 1 << 6, 1 << 3}) {
    if (const absl::StatusOr<bool> holds = WhereAllAre(size, guard); holds.ok()) return *holds;
  }
  return false;
}

bool AssumeEither(InferContext& c, const Guard& first, const Guard& second) {
  if (first.Static() == true || second.Static() == true) return first.Static() == true;
  const bool chosen = second.Static() == false || HoldsForLarge(first);
  c.Assume(chosen ? first : second);
  return chosen;
}

absl::StatusOr<Shape> Broadcast(InferContext& c, const Shape& a, const Shape& b) {
  if (a.size() < b.size()) return Broadcast(c, b, a);
  Shape shape = a;
  const size_t skip = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    Dim& dim = shape[skip + i];
    if (dim == b[i] || b[i].IsConst(1)) continue;
    if (dim.IsConst(1)) {
      dim = b[i];
      continue;
    }
    if (c.Require(dim, b[i], "").ok()) {
      if (b[i].constant()) dim = b[i];
      continue;
    }
    // Extents that are never equal, such as n and n + 1, still fit where one of them is 1.
    const Guard one = Guard::Equal(b[i], 1), other = Guard::Equal(dim, 1);
    if (one.Static() == false && other.Static() == false) {
      return absl::InvalidArgumentError(absl::StrCat("shapes ", ToString(a), " and ", ToString(b),
                                                     " do not broadcast: ", dim.ToString(), " and ",
                                                     b[i].ToString(), " differ"));
    }
    // What reads a value repeats it along axes that are said to have one element, not along those
    // that guards make so: whatever extents these are, the graph is made for the numbers.
    const Guard& unsaid = one.Static() == false ? other : one;
    c.Assume(unsaid);
    c.Assume(Guard::NotEqual(unsaid.left, 1));
    if (one.Static() == false) dim = b[i];
  }
  return shape;
}

absl::StatusOr<Shape> BroadcastInputs(InferContext& c) {
  Shape shape;
  for (int k = 0; k < c.num_inputs(); ++k) {
    if (!c.has_input(k)) continue;
    KILN_ASSIGN_OR_RETURN(shape, Broadcast(c, shape, c.shape(k)));
  }
  return shape;
}

absl::StatusOr<Shape> BroadcastTo(InferContext& c, const Shape& to, const Shape& own,
                                  absl::string_view what) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " ", ToString(own), " does not broadcast to ", ToString(to)));
  };
  if (own.size() > to.size()) return wrong();
  Shape shape = to;
  for (size_t i = 0; i < own.size(); ++i) {
    Dim& dim = shape[to.size() - own.size() + i];
    if (own[i].IsConst(1) || own[i] == dim) continue;
    if (c.Require(own[i], dim, what).ok()) {
      if (own[i].constant()) dim = own[i];
      continue;
    }
    // Extents that are never equal still fit where the own one is 1, which is said of numbers
    // alone.
    const Guard one = Guard::Equal(own[i], 1);
    if (one.Static() == false) return wrong();
    c.Assume(one);
    c.Assume(Guard::NotEqual(own[i], 1));
  }
  return shape;
}

void AssumeKnownIfEmpty(InferContext& c, const Dim& extent) {
  if (!extent.constant()) c.Assume(Guard::AtLeast(extent, 1));
}

absl::Status RequireType(const InferContext& c, int input, bool (*allowed)(DType),
                         absl::string_view names) {
  if (!c.has_input(input) || allowed(c.type(input))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input ", input, " is ", Name(c.type(input)), "; the op takes ", names));
}

absl::Status RequireSameTypes(const InferContext& c) {
  for (int k = 1; k < c.num_inputs(); ++k) {
    if (!c.has_input(k) || c.type(k) == c.type(0)) continue;
    return absl::InvalidArgumentError(absl::StrCat("input 0 is ", Name(c.type(0)), ", input ", k,
                                                   " is ", Name(c.type(k)), "; cast one of them"));
  }
  return absl::OkStatus();
}

absl::Status RequireRank(const InferContext& c, int input, size_t rank) {
  if (!c.has_input(input) || c.shape(input).size() == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input ", input, " is ", ToString(c.shape(input)), "; its rank must be ", rank));
}

absl::Status RequireRankAtLeast(const InferContext& c, int input, size_t rank) {
  if (!c.has_input(input) || c.shape(input).size() >= rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input ", input, " is ", ToString(c.shape(input)),
                                                 "; its rank must be at least ", rank));
}

absl::StatusOr<int> NormalAxis(int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is outside a tensor of rank ", rank));
  }
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

absl::StatusOr<std::vector<int>> NormalAxes(std::vector<int64_t> axes, size_t rank,
                                            bool empty_is_all) {
  std::vector<int> normal;
  if (axes.empty() && empty_is_all) {
    for (size_t i = 0; i < rank; ++i) normal.push_back(static_cast<int>(i));
    return normal;
  }
  for (const int64_t axis : axes) {
    KILN_ASSIGN_OR_RETURN(normal.emplace_back(), NormalAxis(axis, rank));
  }
  std::sort(normal.begin(), normal.end());
  if (std::adjacent_find(normal.begin(), normal.end()) != normal.end()) {
    return absl::InvalidArgumentError("an axis is named twice");
  }
  return normal;
}

absl::StatusOr<std::vector<int64_t>> Numbers(const Shape& dims, absl::string_view what) {
  std::optional<std::vector<int64_t>> numbers = Constant(dims);
  if (numbers) return *std::move(numbers);
  return absl::UnimplementedError(absl::StrCat(what, " ", ToString(dims), " must be numbers"));
}

}  // namespace kiln
