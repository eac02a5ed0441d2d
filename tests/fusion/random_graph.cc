// SPDX-License-Identifier: Apache-2.0
#include "tests/fusion/random_graph.h"

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
#include "kiln/graph.h"

namespace kiln {
namespace {

class NetMaker {
 public:
  NetMaker(uint64_t seed, int64_t most) : random_(seed), most_(most), b_("random") {}

  absl::StatusOr<RandomNet> Run() {
    const bool library = Below(5) == 0;
    std::vector<int64_t> shape(static_cast<size_t>(1 + Below(4)), 1);
    int64_t elements = 1;
    for (int64_t& extent : shape) {
      extent = 1 + Below(std::min<int64_t>(90, std::max<int64_t>(1, most_ / elements)));
      elements *= extent;
    }
    for (int i = 0; i < 2; ++i) Input(shape);
    for (int i = 0; i < 6 + Below(14); ++i) {
      const ValueId made = Step(library && i % 4 == 3);
      if (!b_.status().ok()) return b_.status();
      values_.push_back(made);
    }
    const size_t first = values_.size() - static_cast<size_t>(1 + Below(3));
    for (size_t i = first; i < values_.size(); ++i) b_.Output(values_[i], absl::StrCat("out", i));
    KILN_ASSIGN_OR_RETURN(net_.graph, std::move(b_).Finish());
    return std::move(net_);
  }

 private:
  int64_t Below(int64_t high) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(high));
  }
  const char* Pick(std::initializer_list<const char*> names) {
    return names.begin()[Below(static_cast<int64_t>(names.size()))];
  }

  Tensor Noise(const std::vector<int64_t>& shape) {
    Tensor tensor = Tensor::Allocate(DType::kF32, shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i)
      static_cast<float*>(tensor.data())[i] = static_cast<float>(Below(1 << 20)) * 0x1p-19f - 1;
    return tensor;
  }

  ValueId Input(const std::vector<int64_t>& shape) {
    values_.push_back(b_.Input(absl::StrCat("x", net_.inputs.size()), DType::kF32, ToShape(shape)));
    net_.inputs.push_back(Noise(shape));
    return values_.back();
  }

  std::vector<int64_t> ShapeOf(ValueId value) const {
    std::vector<int64_t> shape;
    for (const Dim& dim : b_.value(value).shape) shape.push_back(*dim.constant());
    return shape;
  }

  // One of the newest values.
  ValueId Any() {
    const auto newest = std::min<int64_t>(5, static_cast<int64_t>(values_.size()));
    return values_[values_.size() - 1 - static_cast<size_t>(Below(newest))];
  }

  ValueId Step(bool library) {
    const ValueId x = Any();
    if (library && ShapeOf(x).size() >= 2) return Product(x);
    switch (Below(8)) {
      case 0:
      case 1:
        return b_.Op(Pick({"tanh", "sigmoid", "relu", "neg", "abs", "erf", "swish", "softplus"}),
                     {x});
      case 2:
      case 3:
        return Binary(x);
      case 4:
        return Reduction(x);
      case 5:
        return Normalised(x);
      default:
        return Moved(x);
    }
  }

  // With a number, another value, or an operand that is broadcast.
  ValueId Binary(ValueId x) {
    const char* op = Pick({"add", "sub", "mul", "max", "min"});
    const std::vector<int64_t> shape = ShapeOf(x);
    for (int i = 0; i < 4; ++i) {
      const ValueId y = Any();
      if (ShapeOf(y) == shape && Below(2) == 0) return b_.Op(op, {x, y});
    }
    if (Below(2) == 0) {
      const double number = 0.25 * static_cast<double>(Below(7) - 3);
      return b_.Op(op, {x, b_.Scalar(DType::kF32, number)});
    }
    std::vector<int64_t> other = shape;
    for (int64_t& extent : other) extent = Below(2) == 0 ? 1 : extent;
    other.erase(other.begin(), other.begin() + Below(static_cast<int64_t>(other.size()) + 1));
    const ValueId y = Input(other);
    return Below(2) == 0 ? b_.Op(op, {x, y}) : b_.Op(op, {y, x});
  }

  std::vector<int64_t> SomeAxes(size_t rank) {
    std::vector<int64_t> axes;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (Below(2) == 0) axes.push_back(static_cast<int64_t>(axis));
    }
    if (axes.empty() && rank > 0) axes.push_back(Below(static_cast<int64_t>(rank)));
    return axes;
  }

  // Reduced, and mostly joined with what was reduced.
  ValueId Reduction(ValueId x) {
    const std::vector<int64_t> shape = ShapeOf(x);
    if (shape.empty()) return b_.Op("relu", {x});
    const bool back = Below(3) > 0;
    const ValueId reduced =
        b_.Op(Pick({"reduce_mean", "reduce_max", "reduce_min", "reduce_mean"}), {x},
              {{"axes", SomeAxes(shape.size())}, {"keepdims", int64_t{back || Below(2) == 0}}});
    return back ? b_.Op(Pick({"sub", "add", "mul"}), {x, reduced}) : reduced;
  }

  ValueId Normalised(ValueId x) {
    const std::vector<int64_t> shape = ShapeOf(x);
    if (shape.empty()) return b_.Op("tanh", {x});
    const int64_t axis = Below(static_cast<int64_t>(shape.size()));
    if (Below(3) > 0) return b_.Op(Pick({"softmax", "log_softmax"}), {x}, {{"axis", axis}});
    const ValueId mean =
        b_.Op("reduce_mean", {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}});
    const ValueId d = b_.Op("sub", {x, mean});
    const ValueId v = b_.Op("reduce_mean", {b_.Op("mul", {d, d})},
                            {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}});
    return b_.Op("div", {d, b_.Op("sqrt", {b_.Op("add", {v, b_.Scalar(DType::kF32, 0.01)})})});
  }

  ValueId Moved(ValueId x) {
    const std::vector<int64_t> shape = ShapeOf(x);
    const auto rank = static_cast<int64_t>(shape.size());
    if (rank == 0) return b_.Op("sigmoid", {x});
    const int64_t axis = Below(rank);
    const int64_t extent = shape[static_cast<size_t>(axis)];
    switch (Below(6)) {
      case 0: {
        std::vector<int64_t> perm(shape.size());
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), random_);
        return b_.Op("transpose", {x}, {{"perm", perm}});
      }
      case 1:
        return b_.Op("reshape", {x, b_.Ints({-1})});
      case 2: {
        std::vector<int64_t> merged(shape.begin(), shape.end() - 1);
        if (merged.empty()) return b_.Op("unsqueeze", {x, b_.Ints({0})});
        merged.back() *= shape.back();
        return b_.Op("reshape", {x, b_.Ints(merged)});
      }
      case 3:
        return b_.Op("slice", {x, b_.Ints({extent / 4}), b_.Ints({extent}), b_.Ints({axis})});
      case 4:
        return b_.Op("concat", {x, b_.Op("neg", {x})}, {{"axis", axis}});
      default: {
        std::vector<int64_t> places(static_cast<size_t>(1 + Below(2 * extent)));
        for (int64_t& place : places) place = Below(extent);
        return b_.Op("gather", {x, b_.Ints(places)}, {{"axis", axis}});
      }
    }
  }

  ValueId Product(ValueId x) {
    net_.library = true;
    const int64_t inner = ShapeOf(x).back();
    Tensor weights = Noise({inner, 1 + Below(40)});
    for (int64_t i = 0; i < weights.num_elements(); ++i)
      static_cast<float*>(weights.data())[i] /= static_cast<float>(inner);
    return b_.Op("matmul", {x, b_.Constant(std::move(weights))});
  }

  std::mt19937_64 random_;
  const int64_t most_;
  GraphBuilder b_;
  RandomNet net_;
  std::vector<ValueId> values_;
};

}  // namespace

absl::StatusOr<RandomNet> MakeRandomNet(uint64_t seed, int64_t most_elements) {
  return NetMaker(seed, most_elements).Run();
}

}  // namespace kiln
