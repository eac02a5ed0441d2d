// SPDX-License-Identifier: Apache-2.0
#include "bench/price/random_graph.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln::bench {
namespace {

constexpr const char* kUnary[] = {"neg", "abs",      "relu",  "sqrt",  "exp", "tanh", "sigmoid",
                                  "erf", "softplus", "swish", "floor", "sin", "log"};
constexpr const char* kBinary[] = {"add", "sub", "mul", "div", "max", "min"};

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed), b_("random") {}

  absl::StatusOr<Graph> Run(Kind kind) {
    const int64_t elements = int64_t{1} << Below(14, 23);
    columns_ = std::min<int64_t>(elements / 4, (int64_t{1} << Below(5, 13)) + Below(0, 2) * 24);
    rows_ = std::max<int64_t>(2, elements / columns_);
    const bool of_rows = kind < Kind::kMiddle;
    ValueId x = of_rows ? Operand() : ValueId();
    switch (kind) {
      case Kind::kMap:
        x = Maps(x, Below(1, 10));
        break;
      case Kind::kRow:
        x = Reductions(x, 1);
        break;
      case Kind::kColumn:
        x = Maps(b_.Op(Pick(kReduces), {Maps(x, Below(0, 6))},
                       {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{1}}}),
                 Below(0, 3), /*operands=*/false);
        break;
      case Kind::kIndex:
        x = Maps(Indexed(Maps(x, Below(0, 3), false)), Below(0, 4), false);
        break;
      case Kind::kMiddle:
        x = Middle();
        break;
      case Kind::kShort:
        rows_ = elements / (columns_ = Below(1, 65));
        x = OperandOf({rows_, columns_});
        x = Below(0, 2) == 0 ? Maps(x, Below(1, 6)) : Reductions(x, 1);
        break;
      case Kind::kMove:
        x = Move(elements);
        break;
      case Kind::kBlock: {
        const int64_t b = Below(2, 11), c = Below(2, 11);
        x = Maps(OperandOf({elements / (b * c), b, c}), Below(0, 2), false);
        x = b_.Op("transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
        x = Maps(x, Below(0, 3), false);
        break;
      }
    }
    b_.Output(x, "y");
    return std::move(b_).Finish();
  }

 private:
  static constexpr const char* kReduces[] = {"reduce_sum", "reduce_max", "reduce_mean"};

  // From `low` up to but without `high`.
  int64_t Below(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low));
  }
  template <size_t n>
  const char* Pick(const char* const (&names)[n]) {
    return names[static_cast<size_t>(Below(0, n))];
  }

  // Of the full shape, or a row or column of it.
  ValueId Operand() {
    const Shape shapes[] = {{rows_, columns_}, {rows_, columns_}, {columns_}, {rows_, 1}};
    const int64_t which = inputs_ == 0 ? 0 : Below(0, 4);
    return b_.Input(absl::StrCat("x", inputs_++), DType::kF32, shapes[which]);
  }

  ValueId OperandOf(Shape shape) {
    return b_.Input(absl::StrCat("x", inputs_++), DType::kF32, std::move(shape));
  }

  // Of [a, b, c] over b, sometimes with the elements once more.
  ValueId Middle() {
    const int64_t inner = Below(3, 400), middle = Below(4, 600);
    const Shape shape = {std::max<int64_t>(1, rows_ * columns_ / inner / middle), middle, inner};
    const ValueId x = Maps(OperandOf(shape), Below(0, 3), false);
    const ValueId sum =
        b_.Op(Pick(kReduces), {x}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
    return Below(0, 2) == 0 ? Maps(sum, Below(0, 3), false)
                            : Maps(b_.Op(Pick(kBinary), {x, sum}), Below(0, 3), false);
  }

  ValueId Move(int64_t elements) {
    const bool four = Below(0, 2) == 0;
    std::vector<int64_t> extents, perm;
    for (int64_t d = 0, left = elements; d < (four ? 4 : 3); ++d) {
      const bool last = d == (four ? 3 : 2);
      const int64_t extent = last ? std::max<int64_t>(1, left) : Below(1, d == 0 ? 200 : 60);
      extents.insert(extents.begin() + Below(0, d + 1), extent);
      perm.push_back(d);
      left /= extent;
    }
    std::shuffle(perm.begin(), perm.end(), random_);
    const ValueId x = Maps(OperandOf({extents.begin(), extents.end()}), Below(0, 2), false);
    return Maps(b_.Op("transpose", {x}, {{"perm", perm}}), Below(0, 3), false);
  }

  ValueId Maps(ValueId x, int64_t count, bool operands = true) {
    for (int64_t i = 0; i < count; ++i) {
      if (Below(0, 3) == 0) {
        x = b_.Op(Pick(kUnary), {x});
      } else {
        const bool other = operands && inputs_ < 6 && Below(0, 3) == 0;
        const ValueId y = other ? Operand() : b_.Scalar(DType::kF32, 0.5 + 0.25 * (i % 5));
        x = b_.Op(Pick(kBinary), {x, y});
      }
    }
    return x;
  }

  ValueId Reductions(ValueId x, int64_t axis) {
    x = Maps(x, Below(0, 5));
    const int64_t count = Below(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      const ValueId reduced = b_.Op(
          Pick(kReduces), {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}});
      if (i + 1 == count && Below(0, 3) == 0) return Maps(reduced, Below(0, 3), false);
      x = Maps(b_.Op(Pick(kBinary), {x, reduced}), Below(0, 4));
    }
    return x;
  }

  ValueId Indexed(ValueId x) {
    switch (Below(0, 4)) {
      case 0:
        return b_.Op("transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}});
      case 1:
        return b_.Op("concat", {x, Operand0()}, {{"axis", Below(0, 2)}});
      case 2:
        return b_.Op("slice", {x, b_.Ints({columns_ / 8}), b_.Ints({columns_}), b_.Ints({1})});
      default: {
        const ValueId index = b_.Input("index", DType::kI64, {rows_, columns_});
        return b_.Op("gather_elements", {x, index}, {{"axis", int64_t{1}}});
      }
    }
  }
  ValueId Operand0() { return b_.Input("other", DType::kF32, {rows_, columns_}); }

  std::mt19937_64 random_;
  GraphBuilder b_;
  int64_t rows_ = 0, columns_ = 0;
  int inputs_ = 0;
};

}  // namespace

const char* Name(Kind kind) {
  constexpr const char* kNames[] = {"map",    "row",   "column", "index",
                                    "middle", "short", "move",   "block"};
  return kNames[static_cast<size_t>(kind)];
}

absl::StatusOr<Graph> RandomGraph(Kind kind, uint64_t seed) {
  return Maker(seed * kNumKinds + static_cast<uint64_t>(kind)).Run(kind);
}

}  // namespace kiln::bench
