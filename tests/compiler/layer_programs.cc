// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/layer_programs.h"

#include <numeric>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/tensors.h"
#include "kiln/graph.h"
#include "tests/compiler/draw.h"

namespace kiln {
namespace {

class LayerMaker {
 public:
  explicit LayerMaker(uint64_t seed) : draw_(seed), b_("layers") {}

  absl::StatusOr<BoundProgram> Make() {
    BoundProgram made;
    made.kind = "layers";
    type_ = draw_.Pick({DType::kF32, DType::kF32, DType::kF16, DType::kF64});
    columns_ = 1 + draw_.Below(12);
    const int64_t rows = 1 + draw_.Below(6);
    const Dim n = draw_.OneIn(2) ? Dim::Symbol("n") : Dim(rows);
    ValueId x = b_.Input("x", type_, {n, Dim(columns_)});
    made.inputs.push_back(Noise({rows, columns_}));
    for (int64_t layers = 2 + draw_.Below(5); layers > 0; --layers) x = Layer(x);
    b_.Output(x, "y");
    if (draw_.OneIn(4)) b_.Output(Constant({3}), "w");
    auto graph = std::move(b_).Finish();
    if (!graph.ok()) return graph.status();
    made.graph = *std::move(graph);
    return made;
  }

 private:
  // In [-1, 1], so that products stay small.
  Tensor Noise(std::vector<int64_t> shape) {
    Tensor made = Tensor::Allocate(type_, std::move(shape));
    for (int64_t i = 0; i < made.num_elements(); ++i)
      WriteFloat(made, i, static_cast<double>(draw_.Below(2001) - 1000) / 1000);
    return made;
  }
  ValueId Constant(std::vector<int64_t> shape) { return b_.Constant(Noise(std::move(shape))); }

  ValueId Layer(ValueId x) {
    switch (draw_.Below(9)) {
      case 0: {
        const int64_t from = std::exchange(columns_, 1 + draw_.Below(12));
        return b_.Op("matmul", {x, Constant({from, columns_})});
      }
      case 1:
        return b_.Op(draw_.Pick({"add", "mul", "max"}), {x, Constant({columns_})});
      case 2:  // folded
        return b_.Op("add",
                     {x, b_.Op("tanh", {b_.Op("mul", {Constant({columns_}), Constant({1})})})});
      case 3:
        return Gathered(x);
      case 4:
        return Masked(x);
      case 5:
        return b_.Op("softmax", {x}, {{"axis", int64_t{1}}});
      case 6: {
        const ValueId scaled = b_.Op("mul", {x, Constant({columns_})});
        columns_ *= 2;
        return b_.Op("concat", {x, scaled}, {{"axis", int64_t{1}}});
      }
      case 7:
        return b_.Op("concat", {Constant({1, columns_}), x}, {{"axis", int64_t{0}}});
      default: {  // one constant, two readers
        const ValueId both = Constant({columns_});
        return b_.Op("sub", {b_.Op("mul", {x, both}), both});
      }
    }
  }

  ValueId Gathered(ValueId x) {
    std::vector<int64_t> places(static_cast<size_t>(columns_));
    std::iota(places.begin(), places.end(), 0);
    return b_.Op("gather", {x, b_.Ints(places)}, {{"axis", int64_t{1}}});
  }
  ValueId Masked(ValueId x) {
    Tensor mask = Tensor::Allocate(DType::kBool, {columns_});
    for (int64_t i = 0; i < columns_; ++i) WriteInt(mask, i, draw_.Below(2));
    return b_.Op("where", {b_.Constant(mask), x, b_.Op("neg", {x})});
  }

  Draw draw_;
  GraphBuilder b_;
  DType type_ = DType::kF32;
  int64_t columns_ = 1;
};

}  // namespace

absl::StatusOr<BoundProgram> MakeLayerProgram(uint64_t seed) { return LayerMaker(seed).Make(); }

}  // namespace kiln
