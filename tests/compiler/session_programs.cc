// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/session_programs.h"

#include <utility>

#include "absl/status/statusor.h"
#include "graph/rebuild.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "tests/compiler/bound_programs.h"
#include "tests/compiler/layer_programs.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/typed_graph.h"
#include "tests/symbols/random_model.h"

namespace kiln {
namespace {

using Inputs = std::vector<Tensor>;

absl::StatusOr<BoundProgram> MakeGraph(uint64_t seed, Draw& draw) {
  if (draw.OneIn(4)) return MakeLayerProgram(seed);
  if (!draw.OneIn(8)) return MakeBoundProgram(seed);
  if (draw.OneIn(12)) return MakeImagesProgram(seed);
  if (draw.OneIn(2)) {
    auto typed = MakeTypedGraph(seed, {40000, 10});
    if (!typed.ok()) return typed.status();
    return BoundProgram{"typed", std::move(typed->graph), std::move(typed->inputs)};
  }
  auto net = MakeRandomNet(seed, 30000);
  if (!net.ok()) return net.status();
  return BoundProgram{"net", std::move(net->graph), std::move(net->inputs)};
}

// The shape of input i with other extents for symbols; nothing where those do not give one.
std::optional<std::vector<int64_t>> OtherShape(const BoundProgram& program, size_t i,
                                               SymbolValues& extents, Draw& draw) {
  std::vector<int64_t> shape = program.inputs[i].shape();
  const Shape& declared = program.graph.value(program.graph.inputs()[i]).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (declared[axis].constant()) continue;
    const std::string symbol = SymbolOf(declared[axis]);
    if (!symbol.empty()) extents.emplace(symbol, draw.OneIn(6) ? 0 : 1 + draw.Below(9));
    const auto extent = declared[axis].Evaluate(extents);
    if (!extent.ok() || *extent < 0) return std::nullopt;
    shape[axis] = *extent;
  }
  return shape;
}

// Integers of most generators are places, counts and conditions, so they stay in their range.
Tensor OtherValues(const BoundProgram& program, size_t i, const std::vector<int64_t>& shape,
                   Draw& draw) {
  const Tensor& first = program.inputs[i];
  Tensor made = TypedNoise(first.dtype(), shape, draw.bits());
  if (IsFloat(first.dtype()) || program.kind == "typed") return made;
  if (shape == first.shape()) made = first.Clone();
  if (shape.empty() && first.dtype() == DType::kI64) WriteInt(made, 0, draw.Below(4));
  if (shape.empty() && first.dtype() == DType::kBool) WriteInt(made, 0, draw.Below(2));
  return made;
}

std::optional<Inputs> OtherInputs(const BoundProgram& program, bool other_shapes, Draw& draw) {
  SymbolValues extents;
  Inputs made;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    std::optional<std::vector<int64_t>> shape = program.inputs[i].shape();
    if (other_shapes) shape = OtherShape(program, i, extents, draw);
    if (!shape) return std::nullopt;
    made.push_back(OtherValues(program, i, *shape, draw));
  }
  return made;
}

Tensor ToTensor(const symbols::Array& array) {
  Tensor tensor = Tensor::Allocate(DType::kF32, array.shape);
  for (size_t i = 0; i < array.elements.size(); ++i)
    static_cast<float*>(tensor.data())[i] = static_cast<float>(array.elements[i]);
  return tensor;
}

std::optional<SessionProgram> MakeOnnxProgram(uint64_t seed) {
  const symbols::RandomModel made = symbols::MakeRandomModel(seed, false);
  if (made.model.outputs.empty()) return std::nullopt;
  SessionProgram program{
      "symbols", std::nullopt, symbols::ToOnnx(made.model, nullptr), ".onnx", {}};
  for (size_t k = 0; k < symbols::kSizes; ++k) {
    if (made.expected[k].outcome != symbols::Outcome::kValue) continue;
    Inputs set;
    for (const symbols::ModelInput& input : made.model.inputs)
      set.push_back(ToTensor(made.inputs[k].at(input.name)));
    program.input_sets.push_back(std::move(set));
  }
  return program;
}

}  // namespace

std::optional<SessionProgram> MakeSessionProgram(uint64_t seed, Draw& draw) {
  if (draw.OneIn(5)) return MakeOnnxProgram(seed);
  absl::StatusOr<BoundProgram> made = MakeGraph(seed, draw);
  if (!made.ok()) return std::nullopt;
  SessionProgram program{made->kind, made->graph, Print(made->graph), ".graph", {made->inputs}};
  for (int k = 0; k < 3; ++k) {
    std::optional<Inputs> set = OtherInputs(*made, /*other_shapes=*/k > 0, draw);
    if (set) program.input_sets.push_back(*std::move(set));
  }
  return program;
}

}  // namespace kiln
