// SPDX-License-Identifier: Apache-2.0
#include "tests/fusion/typed_graph.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

using Names = std::initializer_list<const char*>;

// Bits of f32 numbers that f32, f16, bf16 or an integer type treats specially: halves of last
// places, the ends of ranges and their neighbours.
std::vector<float> FloatBoundaries() {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0F,
                               -0.0F,
                               kInf,
                               -kInf,
                               std::numeric_limits<float>::quiet_NaN(),
                               0x1p-149F,
                               -0x1p-149F,
                               0x1p-126F,
                               0x1.8p-127F,
                               0x1.fffffep127F,
                               -0x1.fffffep127F,
                               0x1p-24F,
                               0x1p-25F,
                               0x1.8p-25F,
                               0x1p-14F,
                               0x1.ffcp-15F,
                               65504.0F,
                               65519.0F,
                               65520.0F,
                               -65520.0F,
                               1.0F,
                               -1.0F,
                               0.5F,
                               -0.5F,
                               1.5F,
                               2.5F,
                               0.99999994F,
                               1.0004883F,
                               1.0014648F,
                               1.00390625F,
                               1.01171875F,
                               127.0F,
                               127.5F,
                               128.0F,
                               -128.0F,
                               -128.5F,
                               -129.0F,
                               255.0F,
                               255.5F,
                               256.0F,
                               257.0F,
                               2049.0F,
                               32767.0F,
                               32767.5F,
                               32768.0F,
                               -32768.0F,
                               -32769.0F,
                               65535.0F,
                               65536.0F,
                               16777216.0F,
                               16777218.0F,
                               2147483520.0F,
                               2147483648.0F,
                               -2147483648.0F,
                               4294967040.0F,
                               4294967296.0F,
                               0x1.fffffep62F,
                               0x1p63F,
                               -0x1p63F,
                               0x1.fffffep63F,
                               0x1p64F,
                               3.3e38F,
                               1e-3F,
                               7.1F,
                               -300.25F};
  return values;
}

std::vector<double> DoubleBoundaries() {
  std::vector<double> values;
  for (const float value : FloatBoundaries()) values.push_back(static_cast<double>(value));
  const double more[] = {0x1p-1074,
                         -0x1p-1074,
                         0x1p-1022,
                         0x1.fffffffffffffp1023,
                         1e300,
                         -1e300,
                         0x1.ffffff0000001p-1,
                         0x1.0000010000001p0,
                         0x1.002p0,
                         0x1.0020000001p0,
                         0x1p-150,
                         0x1.8p-150,
                         9007199254740993.0,
                         2147483647.5,
                         -2147483648.5,
                         0.1,
                         0x1.fffffffffffffp62,
                         0x1.fffffffffffffp63};
  values.insert(values.end(), std::begin(more), std::end(more));
  return values;
}

std::vector<int64_t> IntBoundaries(DType type) {
  const int bits = static_cast<int>(8 * SizeOf(type));
  std::vector<int64_t> values = {0, 1, 2, 3, 7, 100, -1, -2, -100};
  // Wraps, at the ends of 64 bits.
  const auto add = [&](uint64_t value, int64_t near) {
    values.push_back(static_cast<int64_t>(value + static_cast<uint64_t>(near)));
  };
  for (const int width : {8, 15, 16, 24, 31, 32, 53, 63}) {
    if (width > bits) continue;
    const uint64_t power = uint64_t{1} << width;
    for (const int64_t near : {-2, -1, 0, 1, 2}) add(power, near);
    for (const int64_t near : {-1, 0, 1}) add(-power, near);
  }
  for (const int64_t near : {-1, 0, 1}) add(uint64_t{1} << (bits - 1), near);
  values.push_back((int64_t{1} << 24) + 1);
  values.push_back(int64_t{0x40404041});
  return values;
}

template <typename T, typename Write>
Tensor Filled(DType type, const std::vector<T>& values, Write&& write) {
  Tensor tensor = Tensor::Allocate(type, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) write(tensor, static_cast<int64_t>(i), values[i]);
  return tensor;
}

class Maker {
 public:
  Maker(uint64_t seed, const TypedGraphOptions& options)
      : random_(seed), options_(options), b_("typed") {}

  absl::StatusOr<TypedGraph> Run() {
    MakeBase();
    for (int64_t i = 0, types = 1 + Below(3); i < types; ++i) types_.push_back(AnyType());
    for (int64_t i = 0, inputs = 1 + Below(3); i < inputs; ++i) Input(PickType(), base_);
    const int64_t nodes = 3 + Below(options_.most_nodes - 2);
    for (int64_t i = 0; i < nodes; ++i) {
      const ValueId made = Step();
      if (!b_.status().ok()) return b_.status();
      if (made.valid()) values_.push_back(made);
    }
    const auto outputs = std::min<size_t>(values_.size(), static_cast<size_t>(1 + Below(3)));
    for (size_t i = values_.size() - outputs; i < values_.size(); ++i)
      b_.Output(values_[i], absl::StrCat("out", i));
    if (Below(4) == 0) {
      const ValueId inner =
          values_[static_cast<size_t>(Below(static_cast<int64_t>(values_.size())))];
      b_.Output(inner, "inner");
    }
    KILN_ASSIGN_OR_RETURN(made_.graph, std::move(b_).Finish());
    return std::move(made_);
  }

 private:
  int64_t Below(int64_t high) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(high, 1)));
  }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  const char* Pick(Names names) { return names.begin()[Below(static_cast<int64_t>(names.size()))]; }
  DType AnyType() {
    // 16-bit floats come most often: they are rounded where others are not.
    constexpr DType kMore[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
    if (OneIn(2)) return kMore[Below(4)];
    return static_cast<DType>(Below(kNumDTypes));
  }
  DType PickType() {
    return types_[static_cast<size_t>(Below(static_cast<int64_t>(types_.size())))];
  }

  // The shape of the first inputs: some extents are symbols.
  void MakeBase() {
    const char* const symbols[] = {"n", "m"};
    int64_t elements = 1;
    const int64_t rank = Below(5);
    const bool symbolic = OneIn(3);
    // Few are long: several blocks of a reduction.
    const bool is_long = OneIn(40);
    const int64_t longest = is_long ? 70 * options_.most_elements : 80;
    const int64_t room = is_long ? 70 * options_.most_elements : options_.most_elements;
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t most = std::max<int64_t>(1, std::min<int64_t>(longest, room / elements));
      const int64_t extent = OneIn(4) ? int64_t{!OneIn(12)} : 1 + Below(most);
      elements *= std::max<int64_t>(1, extent);
      if (symbolic && i < 2 && !OneIn(3)) {
        extents_[symbols[i]] = extent;
        base_.push_back(Dim::Symbol(symbols[i]));
      } else {
        base_.push_back(Dim(extent));
      }
    }
  }

  std::vector<int64_t> Numbers(const Shape& shape) const {
    std::vector<int64_t> numbers;
    for (const Dim& dim : shape) numbers.push_back(dim.Evaluate(extents_).value_or(1));
    return numbers;
  }

  ValueId Input(DType type, const Shape& shape) {
    values_.push_back(b_.Input(absl::StrCat("x", made_.inputs.size()), type, shape));
    made_.inputs.push_back(TypedNoise(type, Numbers(shape), random_));
    return values_.back();
  }

  const Value& At(ValueId id) const { return b_.value(id); }
  int64_t Elements(ValueId id) const {
    const std::vector<int64_t> shape = Numbers(At(id).shape);
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  bool IsStatic(ValueId id) const { return Constant(At(id).shape).has_value(); }

  ValueId Any() {
    const auto newest = std::min<int64_t>(5, static_cast<int64_t>(values_.size()));
    return values_[values_.size() - 1 - static_cast<size_t>(Below(newest))];
  }

  ValueId Step() {
    const ValueId x = Any();
    switch (Below(12)) {
      case 0:
      case 1:
        return CastTo(x, OneIn(2) ? PickType() : AnyType());
      case 2:
      case 3:
        return Unary(x);
      case 4:
      case 5:
      case 6:
        return Binary(x);
      case 7:
        return Reduction(x);
      case 8:
        return Composite(x);
      case 9:
        return Choice(x);
      default:
        return Moved(x);
    }
  }

  ValueId CastTo(ValueId x, DType type) { return b_.Op("cast", {x}, {{"to", type}}); }

  // A number of `type`, some of them special.
  ValueId Number(DType type) {
    const Tensor all = OneIn(2) ? BoundaryValues(type) : Tensor();
    Tensor one =
        Tensor::Allocate(type, OneIn(4) ? std::vector<int64_t>{1} : std::vector<int64_t>{});
    constexpr double kUsual[] = {0, 1, 2, 3, -1, 0.5, -2, 4, 100, -0.0, 10, 7, 0.1};
    if (all.data() == nullptr) {
      const Tensor filled = FilledTensor(type, {}, kUsual[Below(std::size(kUsual))]);
      std::memcpy(one.data(), filled.data(), SizeOf(type));
    } else {
      std::memcpy(one.data(),
                  static_cast<const char*>(all.data()) +
                      static_cast<size_t>(Below(all.num_elements())) * SizeOf(type),
                  SizeOf(type));
    }
    return b_.Constant(std::move(one));
  }

  // Another operand for x: a value of its type and shape, a number, or something that broadcasts.
  ValueId Operand(ValueId x) {
    const DType type = At(x).type;
    const Shape shape = At(x).shape;
    for (int i = 0; i < 4; ++i) {
      const ValueId y = Any();
      if (At(y).type == type && At(y).shape == shape && OneIn(2)) return y;
    }
    if (OneIn(3)) return Number(type);
    Shape other = shape;
    for (Dim& dim : other) dim = OneIn(3) ? Dim(1) : dim;
    other.erase(other.begin(), other.begin() + Below(static_cast<int64_t>(other.size()) + 1));
    if (OneIn(3) && Constant(other)) {
      return b_.Constant(TypedNoise(type, *Constant(other), random_));
    }
    return Input(type, other);
  }

  ValueId Unary(ValueId x) {
    const DType type = At(x).type;
    if (type == DType::kBool) return b_.Op(Pick({"not", "identity"}), {x});
    if (!IsFloat(type)) return b_.Op(Pick({"neg", "abs", "sign", "not", "relu"}), {x});
    if (OneIn(5)) {
      const double alpha = 0.1 * static_cast<double>(1 + Below(9));
      return b_.Op(Pick({"leaky_relu", "elu", "celu", "hard_sigmoid", "swish", "thresholded_relu"}),
                   {x}, {{"alpha", alpha}});
    }
    if (OneIn(6)) {
      return b_.Op(Pick({"tan", "asin", "acos", "sinh", "cosh", "acosh", "atanh"}), {x});
    }
    if (OneIn(4)) {
      return b_.Op(Pick({"exp", "log", "tanh", "erf", "sigmoid", "sqrt", "rsqrt", "sin", "cos",
                         "softplus", "softsign", "mish", "selu", "hard_swish", "leaky_relu",
                         "hard_sigmoid", "atan", "asinh", "swish"}),
                   {x});
    }
    return b_.Op(
        Pick({"neg", "abs", "sign", "relu", "floor", "ceil", "round", "reciprocal", "identity"}),
        {x});
  }

  ValueId Binary(ValueId x) {
    const DType type = At(x).type;
    const ValueId y = Operand(x);
    const bool swap = OneIn(2);
    const std::vector<ValueId> operands = swap ? std::vector{y, x} : std::vector{x, y};
    if (OneIn(6) && type != DType::kBool)
      return b_.Op(Pick({"less", "less_equal", "greater", "equal", "not_equal"}), operands);
    if (type == DType::kBool) return b_.Op(Pick({"and", "or", "xor", "equal"}), operands);
    if (IsFloat(type)) {
      if (OneIn(8)) return b_.Op("mod", operands, {{"fmod", Below(2)}});
      return b_.Op(Pick({"add", "sub", "mul", "div", "max", "min", "max", "min", "pow", "prelu"}),
                   operands);
    }
    return b_.Op(Pick({"add", "sub", "mul", "div", "max", "min", "mod", "and", "or", "xor",
                       "shift_left", "shift_right", "pow"}),
                 operands);
  }

  ValueId Choice(ValueId x) {
    const DType type = At(x).type;
    if (IsFloat(type) && OneIn(3)) return b_.Op(Pick({"is_nan", "is_inf"}), {x});
    if (type != DType::kBool && OneIn(3)) return b_.Op("clip", {x, Number(type), Number(type)});
    const ValueId y = Operand(x);
    for (size_t i = values_.size(); i-- > 0;) {
      const ValueId mask = values_[i];
      if (At(mask).type == DType::kBool && At(mask).shape == At(x).shape)
        return b_.Op("where", {mask, x, y});
    }
    if (type == DType::kBool) return b_.Op("where", {x, y, x});
    return b_.Op("where", {b_.Op("less", {x, y}), x, y});
  }

  std::vector<int64_t> SomeAxes(size_t rank) {
    std::vector<int64_t> axes;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (OneIn(2)) axes.push_back(static_cast<int64_t>(axis));
    }
    if (axes.empty() && rank > 0) axes.push_back(Below(static_cast<int64_t>(rank)));
    return axes;
  }

  ValueId Reduction(ValueId x) {
    const DType type = At(x).type;
    const size_t rank = At(x).shape.size();
    if (type == DType::kBool || rank == 0) return Unary(x);
    const char* op = IsFloat(type)
                         ? Pick({"reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
                                 "reduce_prod", "reduce_l1", "reduce_l2", "reduce_sum_square"})
                         : Pick({"reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
                                 "reduce_prod", "reduce_sum_square"});
    const bool back = OneIn(2);
    const ValueId reduced =
        b_.Op(op, {x}, {{"axes", SomeAxes(rank)}, {"keepdims", int64_t{back || OneIn(2)}}});
    if (OneIn(4)) {
      values_.push_back(reduced);
      return b_.Op(OneIn(2) ? "div" : "mul", {reduced, Number(type)});
    }
    return back ? b_.Op(Pick({"sub", "add", "mul", "max"}), {x, reduced}) : reduced;
  }

  ValueId Composite(ValueId x) {
    const size_t rank = At(x).shape.size();
    if (!IsFloat(At(x).type) || rank == 0) return Binary(x);
    const int64_t axis = Below(static_cast<int64_t>(rank));
    switch (Below(6)) {
      case 0:
        return b_.Op("softmax", {x}, {{"axis", axis}});
      case 1:
        return b_.Op("log_softmax", {x}, {{"axis", axis}});
      case 2:
        return b_.Op("layer_norm", {x}, {{"axis", axis}});
      case 3:
        return OverChannels(x, "batch_norm", 4);
      case 4:
        return OverChannels(x, "instance_norm", 2);
      default:
        return b_.Op("gelu", {x}, {{"approximate", std::string(OneIn(2) ? "tanh" : "none")}});
    }
  }

  // A normalization whose other operands have an element for each channel.
  ValueId OverChannels(ValueId x, const char* op, int operands) {
    const Shape shape = At(x).shape;
    if (shape.size() < 3 || !shape[1].constant()) return Unary(x);
    std::vector<ValueId> inputs = {x};
    for (int i = 0; i < operands; ++i)
      inputs.push_back(b_.Constant(TypedNoise(At(x).type, {*shape[1].constant()}, random_)));
    return b_.Op(op, inputs);
  }

  ValueId Moved(ValueId x) {
    const Shape shape = At(x).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    if (rank == 0) return CastTo(x, PickType());
    const int64_t axis = Below(rank);
    if (const int64_t kind = Below(4); kind == 0) {
      std::vector<int64_t> perm(shape.size());
      std::iota(perm.begin(), perm.end(), 0);
      std::shuffle(perm.begin(), perm.end(), random_);
      return b_.Op("transpose", {x}, {{"perm", perm}});
    } else if (kind == 1 && Elements(x) < 10 * options_.most_elements) {
      return b_.Op("concat", {x, Unary(x)}, {{"axis", axis}});
    }
    if (OneIn(3)) return Indexed(x, axis);
    if (!IsStatic(x)) return b_.Op("reshape", {x, b_.Ints({-1})});
    return MovedStatic(x, *Constant(shape), axis);
  }

  // Elements of x at computed places, many of them outside.
  ValueId Indexed(ValueId x, int64_t axis) {
    const ValueId from = Any();
    if (Elements(from) > options_.most_elements || Elements(from) * Elements(x) > 30000)
      return Unary(x);
    const ValueId places =
        IsInt(At(from).type) ? from : CastTo(from, OneIn(2) ? DType::kI64 : DType::kI32);
    if (At(places).shape.size() + At(x).shape.size() > 6) return Unary(x);
    if (At(places).shape == At(x).shape && OneIn(2))
      return b_.Op("gather_elements", {x, places}, {{"axis", axis}});
    return b_.Op("gather", {x, places}, {{"axis", axis}});
  }

  ValueId MovedStatic(ValueId x, const std::vector<int64_t>& shape, int64_t axis) {
    const int64_t extent = shape[static_cast<size_t>(axis)];
    switch (Below(9)) {
      case 0: {
        std::vector<int64_t> merged(shape.begin(), shape.end() - 1);
        const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();  // 0: as it is
        if (merged.empty() || empty) return b_.Op("unsqueeze", {x, b_.Ints({0})});
        merged.back() *= shape.back();
        return b_.Op("reshape", {x, b_.Ints(merged)});
      }
      case 1:
        return b_.Op("slice", {x, b_.Ints({extent / 4}), b_.Ints({extent}), b_.Ints({axis})});
      case 2: {
        std::vector<int64_t> pads(2 * shape.size(), 0);
        pads[static_cast<size_t>(axis)] = Below(3);
        pads[static_cast<size_t>(axis) + shape.size()] = Below(3);
        if (OneIn(2)) return b_.Op("pad", {x, b_.Ints(pads), Number(At(x).type)});
        return b_.Op("pad", {x, b_.Ints(pads)}, {{"value", 0.1 * static_cast<double>(Below(30))}});
      }
      case 3:  // backwards
        return b_.Op("slice", {x, b_.Ints({-1 - Below(2)}), b_.Ints({-1 - extent}), b_.Ints({axis}),
                               b_.Ints({-1 - Below(3)})});
      case 4: {
        if (extent < 2) return b_.Op("unsqueeze", {x, b_.Ints({axis})});
        const int64_t cut = 1 + Below(extent - 1);
        const std::vector<ValueId> parts = b_.Ops(
            "split", {x}, {{"axis", axis}, {"split", std::vector<int64_t>{cut, extent - cut}}});
        if (parts.size() != 2) return {};
        values_.push_back(parts[0]);
        return parts[1];
      }
      case 5: {
        std::vector<int64_t> wide = shape;
        for (int64_t& e : wide) e = e == 1 ? 1 + Below(3) : e;
        return b_.Op("expand", {x, b_.Ints(wide)});
      }
      case 6:
        if (IsFloat(At(x).type) && OneIn(2)) return b_.Op("cumulative", {x}, {{"axis", axis}});
        return extent == 1 ? b_.Op("squeeze", {x, b_.Ints({axis})}) : Unary(x);
      default: {
        if (extent == 0) return Unary(x);
        std::vector<int64_t> places(static_cast<size_t>(1 + Below(2 * extent)));
        for (int64_t& place : places) place = Below(extent) - (OneIn(3) ? extent : 0);
        return b_.Op("gather", {x, b_.Ints(places)}, {{"axis", axis}});
      }
    }
  }

  std::mt19937_64 random_;
  const TypedGraphOptions options_;
  GraphBuilder b_;
  TypedGraph made_;
  std::vector<DType> types_;
  Shape base_;
  SymbolValues extents_;
  std::vector<ValueId> values_;
};

}  // namespace

Tensor BoundaryValues(DType type) {
  if (type == DType::kF64) return Filled(type, DoubleBoundaries(), WriteFloat);
  if (IsFloat(type)) return Filled(type, FloatBoundaries(), WriteFloat);
  if (type == DType::kBool) return Filled(type, std::vector<int64_t>{0, 1}, WriteInt);
  return Filled(type, IntBoundaries(type), WriteInt);
}

Tensor TypedNoise(DType type, std::vector<int64_t> shape, std::mt19937_64& random) {
  const Tensor boundaries = BoundaryValues(type);
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  const size_t size = SizeOf(type);
  const uint64_t special = random() % 4;  // of four elements, in this tensor
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (random() % 4 < special) {
      const uint64_t at = random() % static_cast<uint64_t>(boundaries.num_elements());
      std::memcpy(static_cast<char*>(tensor.data()) + static_cast<size_t>(i) * size,
                  static_cast<const char*>(boundaries.data()) + at * size, size);
    } else if (IsFloat(type)) {
      WriteFloat(tensor, i, static_cast<double>(random() % (1 << 20)) * 0x1p-17 - 4);
    } else {
      WriteInt(tensor, i, static_cast<int64_t>(random() % 23) - 11);
    }
  }
  return tensor;
}

absl::StatusOr<TypedGraph> MakeTypedGraph(uint64_t seed, const TypedGraphOptions& options) {
  return Maker(seed, options).Run();
}

}  // namespace kiln
