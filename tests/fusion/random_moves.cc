// SPDX-License-Identifier: Apache-2.0
#include "tests/fusion/random_moves.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/tensors.h"
#include "kernel/naive.h"
#include "kernel/scalar_expr.h"
#include "kiln/dim.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

constexpr int64_t kMostElements = 20'000;

class MovesMaker {
 public:
  explicit MovesMaker(uint64_t seed) : random_(seed), b_("moves") {}

  absl::StatusOr<RandomMoves> Run() {
    symbols_["n"] = 1 + Below(13);
    symbols_["m"] = 1 + Below(40);
    type_ = Pick({DType::kF32, DType::kF32, DType::kF32, DType::kI32, DType::kF16, DType::kI64});
    open_ = Below(2) == 0;
    Shape shape;
    for (int64_t rank = 1 + Below(3); rank > 0; --rank) shape.push_back(Extent(open_));
    if (open_) {  // a symbol is known by an axis of its own
      for (const char* const symbol : {"n", "m"}) Input(type_, {Dim::Symbol(symbol)});
    }
    for (int i = 0; i < 2; ++i) Input(type_, shape);
    for (int64_t steps = 4 + Below(10); steps > 0; --steps) {
      const ValueId made = Step(Any());
      if (!b_.status().ok()) return b_.status();
      if (Elements(made) > 0 && Elements(made) <= kMostElements) values_.push_back(made);
    }
    const size_t first = values_.size() - std::min<size_t>(values_.size(), 1 + Size(3));
    for (size_t i = first; i < values_.size(); ++i) b_.Output(values_[i], absl::StrCat("out", i));
    KILN_ASSIGN_OR_RETURN(made_.graph, std::move(b_).Finish());
    return std::move(made_);
  }

 private:
  int64_t Below(int64_t high) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(1, high)));
  }
  size_t Size(int64_t high) { return static_cast<size_t>(Below(high)); }
  template <typename T>
  T Pick(std::initializer_list<T> of) {
    return of.begin()[Size(static_cast<int64_t>(of.size()))];
  }

  Dim Extent(bool open) {
    if (!open || Below(3) == 0) return Dim(1 + Below(20));
    const Dim n = Dim::Symbol("n"), m = Dim::Symbol("m");
    return Pick<Dim>({n, m, n + m, n * 2, m + 3});
  }
  int64_t Value(const Dim& dim) const { return dim.Evaluate(symbols_).value_or(-1); }
  const Shape& ShapeOf(ValueId id) const { return b_.value(id).shape; }
  int64_t Elements(ValueId id) const {
    int64_t count = 1;
    for (const Dim& dim : ShapeOf(id)) count *= std::max<int64_t>(-1, Value(dim));
    return count;
  }

  ValueId Input(DType type, const Shape& shape, int64_t most = 4) {
    std::vector<int64_t> extents;
    for (const Dim& dim : shape) extents.push_back(Value(dim));
    Tensor tensor = Tensor::Allocate(type, extents);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      const int64_t value = most == 4 ? Below(9) - 4 : Below(most);
      StoreElement(tensor.data(), type, i,
                   ConstBits(ComputeType(type), static_cast<double>(value)));
    }
    const ValueId id = b_.Input(absl::StrCat("x", made_.inputs.size()), type, shape);
    made_.inputs.push_back(std::move(tensor));
    if (most == 4) values_.push_back(id);
    return id;
  }

  ValueId Any() {
    const auto newest = std::min<int64_t>(6, static_cast<int64_t>(values_.size()));
    return values_[values_.size() - 1 - Size(newest)];
  }

  ValueId Step(ValueId x) {
    if (ShapeOf(x).empty()) return b_.Op("neg", {x});
    switch (Below(14)) {
      case 0:
      case 1:
        return Slice(x);
      case 2:
        return Pad(x);
      case 3:
      case 4:
        return Concat(x);
      case 5:
        return Transpose(x);
      case 6:
        return Reshape(x);
      case 7:
        return Upsample(x);
      case 8:
        return Gather(x);
      case 9:
        return GatherElements(x);
      case 10:
        return Split(x);
      case 11:
        return Reduce(x);
      case 12:
        return Expand(x);
      default:
        return Binary(x);
    }
  }

  size_t Axis(ValueId x) { return Size(static_cast<int64_t>(ShapeOf(x).size())); }

  // The extent of an axis as a value of one element.
  ValueId ExtentOf(ValueId x, size_t axis) {
    const auto at = static_cast<int64_t>(axis);
    return b_.Op("slice", {b_.Op("shape", {x}), b_.Ints({at}), b_.Ints({at + 1})});
  }

  // Bounds are numbers, or told by the extent.
  ValueId Slice(ValueId x) {
    const size_t axis = Axis(x);
    const bool open = !ShapeOf(x)[axis].constant().has_value();
    const int64_t value = Value(ShapeOf(x)[axis]);
    const int64_t from = Below(value);
    const int64_t to = from + 1 + Below(value - from);
    const bool backwards = Below(4) == 0;
    const int64_t step = 1 + (Below(3) == 0 ? Below(3) : 0);
    const auto bound = [&](int64_t at) {  // the same element, counted from either end
      if (!open || Below(2) == 0) return b_.Ints({at});
      if (at < value && Below(2) == 0) return b_.Ints({at - value});
      return b_.Op("sub", {ExtentOf(x, axis), b_.Ints({value - at})});
    };
    const ValueId starts = bound(backwards ? to - 1 : from);
    const ValueId ends = !backwards  ? bound(to)
                         : from == 0 ? b_.Ints({INT64_MIN})
                                     : bound(from - 1);
    return b_.Op("slice", {x, starts, ends, b_.Ints({static_cast<int64_t>(axis)}),
                           b_.Ints({backwards ? -step : step})});
  }

  ValueId Pad(ValueId x) {
    const size_t rank = ShapeOf(x).size();
    const size_t axis = Axis(x);
    std::vector<ValueId> pads(2 * rank, b_.Ints({0}));
    pads[axis] = Below(3) == 0 ? ExtentOf(x, Axis(x)) : b_.Ints({Below(4)});
    pads[rank + axis] = b_.Ints({Below(4)});
    return b_.Op("pad", {x, b_.Op("concat", std::move(pads), {{"axis", int64_t{0}}})},
                 {{"value", 1.0}});
  }

  ValueId Concat(ValueId x) {
    const size_t axis = Axis(x);
    std::vector<ValueId> pieces = {x};
    for (int64_t more = 1 + Below(3); more > 0; --more) {
      ValueId other = Any();
      const Shape a = ShapeOf(x);
      const Shape b = ShapeOf(other);
      bool fits = a.size() == b.size();
      for (size_t k = 0; fits && k < a.size(); ++k) fits = k == axis || a[k] == b[k];
      if (!fits && Below(2) == 0) {
        Shape shape = a;
        shape[axis] = Extent(open_);
        other = Input(type_, shape);
        fits = true;
      }
      pieces.push_back(fits ? other : b_.Op("neg", {x}));
    }
    return b_.Op("concat", std::move(pieces), {{"axis", static_cast<int64_t>(axis)}});
  }

  ValueId Transpose(ValueId x) {
    std::vector<int64_t> perm(ShapeOf(x).size());
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random_);
    return b_.Op("transpose", {x}, {{"perm", perm}});
  }

  // Two axes become one, or one of an even extent two.
  ValueId Reshape(ValueId x) {
    const Shape shape = ShapeOf(x);
    const size_t axis = Axis(x);
    std::vector<int64_t> to;
    bool known = true;  // the extents before are those of the input
    for (size_t k = 0; k < shape.size(); ++k) {
      if (k == axis && k + 1 < shape.size()) {
        to.push_back(-1);
        ++k;
        known = false;
      } else if (k == axis && shape[k].DivideExactly(Dim(2)).has_value()) {
        to.insert(to.end(), {-1, 2});
        known = false;
      } else if (known) {
        to.push_back(0);
      } else if (shape[k].constant().has_value()) {
        to.push_back(*shape[k].constant());
      } else {
        return b_.Op("neg", {x});
      }
    }
    return b_.Op("reshape", {x, b_.Ints(to)});
  }

  ValueId Upsample(ValueId x) {
    std::vector<int64_t> scales(ShapeOf(x).size(), 1);
    scales[Axis(x)] = 1 + Below(3);
    return b_.Op("upsample", {x}, {{"scales", scales}});
  }

  ValueId Gather(ValueId x) {
    const size_t axis = Axis(x);
    const int64_t value = Value(ShapeOf(x)[axis]);
    Shape shape = {Extent(open_)};
    if (Below(3) == 0) shape.push_back(Dim(1 + Below(3)));
    const ValueId indices =
        Input(Pick({DType::kI64, DType::kI32}), shape, std::max<int64_t>(5, value));
    return b_.Op("gather", {x, indices}, {{"axis", static_cast<int64_t>(axis)}});
  }

  ValueId GatherElements(ValueId x) {
    const size_t axis = Axis(x);
    Shape shape = ShapeOf(x);
    shape[axis] = Extent(open_);
    const ValueId indices = Input(DType::kI64, shape, 5);
    return b_.Op("gather_elements", {x, indices}, {{"axis", static_cast<int64_t>(axis)}});
  }

  ValueId Split(ValueId x) {
    const size_t axis = Axis(x);
    const Dim extent = ShapeOf(x)[axis];
    if (Value(extent) < 2) return b_.Op("neg", {x});
    const int64_t first = 1 + Below(Value(extent) - 1);
    if (extent.LowerBound().value_or(0) < first) return b_.Op("neg", {x});
    const ValueId rest = b_.Op("sub", {ExtentOf(x, axis), b_.Ints({first})});
    const ValueId sizes = b_.Op("concat", {b_.Ints({first}), rest}, {{"axis", int64_t{0}}});
    const std::vector<ValueId> parts =
        b_.Ops("split", {x, sizes}, {{"axis", static_cast<int64_t>(axis)}});
    return parts.empty() ? x : parts[Size(static_cast<int64_t>(parts.size()))];
  }

  ValueId Reduce(ValueId x) {
    const auto axis = static_cast<int64_t>(Axis(x));
    const ValueId reduced = b_.Op(Pick({"reduce_max", "reduce_sum", "reduce_min"}), {x},
                                  {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}});
    return Below(2) == 0 ? b_.Op("max", {x, reduced}) : reduced;
  }

  ValueId Expand(ValueId x) {
    const ValueId other = Any();
    const ValueId before =
        ShapeOf(other).empty() ? b_.Ints({1 + Below(5)}) : ExtentOf(other, Axis(other));
    return b_.Op("expand",
                 {x, b_.Op("concat", {before, b_.Op("shape", {x})}, {{"axis", int64_t{0}}})});
  }

  ValueId Binary(ValueId x) {
    const char* const op = Pick({"add", "sub", "max", "min"});
    const ValueId y = Any();
    if (ShapeOf(y) == ShapeOf(x)) return b_.Op(op, {x, y});
    Shape other = ShapeOf(x);
    for (Dim& extent : other) extent = Below(2) == 0 ? Dim(1) : extent;
    return b_.Op(op, {x, Input(type_, other)});
  }

  std::mt19937_64 random_;
  GraphBuilder b_;
  RandomMoves made_;
  SymbolValues symbols_;
  bool open_ = false;  // whether there are symbols
  DType type_ = DType::kF32;
  std::vector<ValueId> values_;
};

}  // namespace

absl::StatusOr<RandomMoves> MakeRandomMoves(uint64_t seed) { return MovesMaker(seed).Run(); }

}  // namespace kiln
