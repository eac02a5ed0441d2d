// SPDX-License-Identifier: Apache-2.0
#include "tests/gradient/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/gradients.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln {
namespace {

Tensor RandomTensor(DType type, std::vector<int64_t> shape, std::mt19937_64& random) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    WriteFloat(tensor, i, std::uniform_real_distribution<double>(-1, 1)(random));
  return tensor;
}

Tensor Moved(const Tensor& x, const std::vector<double>& direction, double by) {
  Tensor moved = Tensor::Allocate(x.dtype(), x.shape());
  const Tensor dense = Dense(x);
  for (int64_t i = 0; i < moved.num_elements(); ++i)
    WriteFloat(moved, i, ReadFloat(dense, i) + by * direction[static_cast<size_t>(i)]);
  return moved;
}

// The directions along which an input of `count` elements is moved.
std::vector<std::vector<double>> Directions(int64_t count, const GradientCheckOptions& options,
                                            std::mt19937_64& random) {
  std::vector<std::vector<double>> directions;
  const auto size = static_cast<size_t>(count);
  if (count <= options.most_elements) {
    for (size_t i = 0; i < size; ++i) {
      directions.emplace_back(size, 0.0);
      directions.back()[i] = 1;
    }
    return directions;
  }
  for (int d = 0; d < options.directions; ++d) {
    directions.emplace_back();
    for (size_t i = 0; i < size; ++i)
      directions.back().push_back(std::uniform_real_distribution<double>(-1, 1)(random));
  }
  return directions;
}

}  // namespace

absl::StatusOr<Graph> WithScalarLoss(const Graph& graph, std::vector<Tensor>& inputs,
                                     uint64_t seed) {
  std::mt19937_64 random(seed);
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, Interpret(graph, inputs));
  Graph result = graph;
  GraphBuilder b(&result);
  ValueId loss;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const ValueId output = graph.outputs()[k].value;
    if (!IsFloat(b.type(output))) continue;
    const ValueId weight = b.Input(absl::StrCat("weight_", k), DType::kF64, b.shape(output));
    inputs.push_back(RandomTensor(DType::kF64, outputs[k].shape(), random));
    ValueId term = output;
    if (b.type(output) != DType::kF64) term = b.Op("cast", {output}, {{"to", DType::kF64}});
    term = b.Op("mul", {term, weight});
    if (!b.status().ok()) return b.status();
    if (!b.shape(term).empty()) term = b.Op("reduce_sum", {term}, {{"keepdims", int64_t{0}}});
    loss = loss.valid() ? b.Op("add", {loss, term}) : term;
  }
  KILN_RETURN_IF_ERROR(b.status());
  if (!loss.valid()) return absl::InvalidArgumentError("no output is of floats");
  result.SetOutputs({{"loss", loss}});
  result.maker = nullptr;
  return result;
}

absl::Status CheckGradients(const Graph& graph, const std::vector<Tensor>& given,
                            const GradientCheckOptions& options) {
  std::vector<Tensor> inputs = given;
  KILN_ASSIGN_OR_RETURN(const Graph loss, WithScalarLoss(graph, inputs, options.seed));
  std::vector<ValueId> wrt;
  std::vector<size_t> places;
  for (size_t k = 0; k < given.size(); ++k) {
    if (!IsFloat(loss.value(loss.inputs()[k]).type)) continue;
    wrt.push_back(loss.inputs()[k]);
    places.push_back(k);
  }
  KILN_ASSIGN_OR_RETURN(const Graph gradients, Gradients(loss, loss.outputs()[0].value, wrt));
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> found, Interpret(gradients, inputs));
  const auto f = [&](size_t place, const std::vector<double>& direction,
                     double by) -> absl::StatusOr<double> {
    std::vector<Tensor> moved = inputs;
    moved[place] = Moved(inputs[place], direction, by);
    KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> value, Interpret(loss, moved));
    return ReadFloat(value[0], 0);
  };
  std::mt19937_64 random(options.seed + 1);
  for (size_t k = 0; k < wrt.size(); ++k) {
    const Tensor gradient = Dense(found[k + 1]);
    const Value& input = loss.value(wrt[k]);
    if (gradient.shape() != inputs[places[k]].shape() || gradient.dtype() != input.type) {
      return absl::InternalError(
          absl::StrCat("the gradient of \"", input.name, "\" is ", Name(gradient.dtype()), " ",
                       ToString(ToShape(gradient.shape())), ", it is ", Name(input.type), " ",
                       ToString(ToShape(inputs[places[k]].shape()))));
    }
    for (const std::vector<double>& direction :
         Directions(gradient.num_elements(), options, random)) {
      double values[4];
      for (const int s : {-2, -1, 1, 2}) {
        KILN_ASSIGN_OR_RETURN(values[s < 0 ? s + 2 : s + 1],
                              f(places[k], direction, s * options.step));
      }
      const double wanted =
          (8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * options.step);
      double got = 0;
      for (int64_t i = 0; i < gradient.num_elements(); ++i) {
        const double part = direction[static_cast<size_t>(i)];
        if (part != 0) got += part * ReadFloat(gradient, i);
      }
      const double bound = options.absolute * (1 + std::abs(values[1])) +
                           options.relative * std::max(std::abs(wanted), std::abs(got));
      if (std::abs(wanted - got) <= bound) continue;
      return absl::InternalError(absl::StrCat("the gradient of \"", input.name, "\" along ",
                                              direction.size(), " elements is ", got,
                                              ", differences say ", wanted));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> InF64(const Graph& graph) {
  const auto wider = [](DType type) { return type == DType::kF32 ? DType::kF64 : type; };
  Graph out;
  out.name = graph.name;
  std::vector<ValueId> map(graph.values().size());
  const auto at = [&](ValueId id) -> ValueId& { return map[static_cast<size_t>(id.v)]; };
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    at(id) = out.AddInput(input.name, wider(input.type), input.shape);
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!value.constant || value.producer.v >= 0) continue;
    Tensor tensor = Tensor::Allocate(wider(value.type), value.constant->shape());
    const Tensor dense = Dense(*value.constant);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      if (IsFloat(value.type)) {
        WriteFloat(tensor, i, ReadFloat(dense, i));
      } else {
        WriteInt(tensor, i, ReadInt(dense, i));
      }
    }
    map[v] = out.AddConstant(value.name, std::move(tensor));
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) inputs.push_back(id.valid() ? at(id) : ValueId());
    Attrs attrs = node.attrs;
    for (auto& [name, value] : attrs) {
      if (DType* type = std::get_if<DType>(&value)) *type = wider(*type);
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                          out.AddNode(*node.op, std::move(inputs), std::move(attrs), node.name,
                                      std::vector<std::string>(node.outputs.size())));
    for (size_t k = 0; k < made.size(); ++k) at(node.outputs[k]) = made[k];
  }
  for (const Graph::Output& output : graph.outputs()) out.AddOutput(at(output.value), output.name);
  return out;
}

DistinctNumbers::DistinctNumbers(double lo, double hi, int64_t slots, uint64_t seed) {
  std::mt19937_64 random(seed);
  const double width = (hi - lo) / static_cast<double>(std::max<int64_t>(slots, 1));
  for (int64_t i = 0; i < slots; ++i) {
    const double jitter = std::uniform_real_distribution<double>(0.3, 0.7)(random);
    double number = lo + (static_cast<double>(i) + jitter) * width;
    const double kink = std::round(number * 2) / 2;
    if (std::abs(number - kink) < 5e-3) number = kink + (number < kink ? -5e-3 : 5e-3);
    numbers_.push_back(number);
  }
  std::shuffle(numbers_.begin(), numbers_.end(), random);
}

double DistinctNumbers::Next() {
  const double number = numbers_.back();
  if (numbers_.size() > 1) numbers_.pop_back();
  return number;
}

}  // namespace kiln
