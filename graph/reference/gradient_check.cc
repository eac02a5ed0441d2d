// SPDX-License-Identifier: Apache-2.0
#include "graph/reference/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
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

namespace {

// The loss as a function of the elements of some inputs, in a row, moved along a direction.
class MovedLoss {
 public:
  MovedLoss(const Graph& loss, const std::vector<Tensor>& inputs, std::vector<size_t> places)
      : loss_(loss), inputs_(inputs), places_(std::move(places)) {}

  absl::StatusOr<double> At(const std::vector<double>& direction, double by) const {
    std::vector<Tensor> moved = inputs_;
    size_t next = 0;
    for (const size_t place : places_) {
      const Tensor from = Dense(inputs_[place]);
      Tensor& to = moved[place];
      to = Tensor::Allocate(from.dtype(), from.shape());
      for (int64_t i = 0; i < to.num_elements(); ++i)
        WriteFloat(to, i, ReadFloat(from, i) + by * direction[next++]);
    }
    KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> value, Interpret(loss_, moved));
    return ReadFloat(value[0], 0);
  }

  struct Slope {
    double slope, size;  // of the values between which it was taken
  };
  absl::StatusOr<Slope> SlopeOf(const std::vector<double>& direction, double step) const {
    double values[4];
    for (const int s : {-2, -1, 1, 2}) {
      KILN_ASSIGN_OR_RETURN(values[s < 0 ? s + 2 : s + 1], At(direction, s * step));
    }
    return Slope{(8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * step),
                 std::abs(values[1])};
  }

 private:
  const Graph& loss_;
  const std::vector<Tensor>& inputs_;
  const std::vector<size_t> places_;
};

// Where a direction does not go, an infinite gradient is no matter.
double Along(const std::vector<double>& gradient, const std::vector<double>& direction) {
  double sum = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    if (direction[i] != 0) sum += direction[i] * gradient[i];
  }
  return sum;
}

absl::StatusOr<GradientComparison> CompareInput(const MovedLoss& f,
                                                const std::vector<double>& gradient,
                                                const GradientCheckOptions& options,
                                                std::mt19937_64& random) {
  GradientComparison worst;
  worst.elements = static_cast<int64_t>(gradient.size());
  for (const std::vector<double>& direction : Directions(worst.elements, options, random)) {
    ++worst.directions;
    const double got = Along(gradient, direction);
    std::optional<GradientComparison> best;
    for (const double step : options.steps) {
      KILN_ASSIGN_OR_RETURN(const MovedLoss::Slope want, f.SlopeOf(direction, step));
      const double bound = options.absolute * (1 + want.size) +
                           options.relative * std::max(std::abs(want.slope), std::abs(got));
      GradientComparison here = worst;
      here.gradient = got;
      here.difference = want.slope;
      here.of_bound = std::abs(want.slope - got) / bound;
      if (std::isnan(here.of_bound)) here.of_bound = std::numeric_limits<double>::infinity();
      if (!best || here.of_bound < best->of_bound) best = here;
      if (best->ok()) break;
    }
    if (best->of_bound > worst.of_bound || worst.directions == 1) {
      const int64_t directions = worst.directions;
      worst = *best;
      worst.directions = directions;
    }
  }
  return worst;
}

absl::Status CheckForm(const Value& input, const Tensor& value, const Tensor& gradient) {
  if (gradient.shape() == value.shape() && gradient.dtype() == input.type) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the gradient of \"", input.name, "\" is ",
                                          Name(gradient.dtype()), " ",
                                          ToString(ToShape(gradient.shape())), ", it is ",
                                          Name(input.type), " ", ToString(ToShape(value.shape()))));
}

}  // namespace

absl::StatusOr<std::vector<GradientComparison>> CompareGradients(
    const Graph& graph, const std::vector<Tensor>& given, const GradientCheckOptions& options) {
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
  std::mt19937_64 random(options.seed + 1);
  std::vector<GradientComparison> comparisons;
  std::vector<double> elements;
  std::vector<size_t> moved;
  for (size_t k = 0; k < wrt.size(); ++k) {
    const Tensor gradient = Dense(found[k + 1]);
    const Value& input = loss.value(wrt[k]);
    KILN_RETURN_IF_ERROR(CheckForm(input, inputs[places[k]], gradient));
    for (int64_t i = 0; i < gradient.num_elements(); ++i)
      elements.push_back(ReadFloat(gradient, i));
    moved.push_back(places[k]);
    if (options.together && k + 1 < wrt.size()) continue;
    const MovedLoss f(loss, inputs, moved);
    KILN_ASSIGN_OR_RETURN(comparisons.emplace_back(), CompareInput(f, elements, options, random));
    comparisons.back().input = options.together ? "all" : input.name;
    elements.clear();
    moved.clear();
  }
  return comparisons;
}

absl::Status CheckGradients(const Graph& graph, const std::vector<Tensor>& inputs,
                            const GradientCheckOptions& options) {
  KILN_ASSIGN_OR_RETURN(const std::vector<GradientComparison> comparisons,
                        CompareGradients(graph, inputs, options));
  for (const GradientComparison& c : comparisons) {
    if (c.ok()) continue;
    return absl::InternalError(absl::StrCat("the gradient of \"", c.input, "\", ", c.elements,
                                            " elements, is ", c.gradient,
                                            " along a direction; differences say ", c.difference));
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> InF64(const Graph& graph, std::vector<Tensor>& inputs, bool parameters) {
  const auto wider = [](DType type) { return IsFloat(type) ? DType::kF64 : type; };
  const auto widened = [](const Tensor& given) {
    const Tensor dense = Dense(given);
    if (!IsFloat(dense.dtype()) || dense.dtype() == DType::kF64) return dense;
    Tensor tensor = Tensor::Allocate(DType::kF64, dense.shape());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) WriteFloat(tensor, i, ReadFloat(dense, i));
    return tensor;
  };
  for (Tensor& input : inputs) input = widened(input);
  Graph out;
  out.name = graph.name;
  std::vector<ValueId> map(graph.values().size());
  const auto at = [&](ValueId id) -> ValueId& { return map[static_cast<size_t>(id.v)]; };
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    at(id) = out.AddInput(input.name, wider(input.type), input.shape);
    out.mutable_value(at(id)).shape_content = input.shape_content;
  }
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!value.constant || value.producer.v >= 0 || map[v].valid()) continue;
    Tensor tensor = widened(*value.constant);
    if (parameters && IsFloat(value.type) && tensor.num_elements() > 1) {
      map[v] = out.AddInput(value.name, DType::kF64, value.shape);
      inputs.push_back(std::move(tensor));
    } else {
      map[v] = out.AddConstant(value.name, std::move(tensor));
    }
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> operands;
    for (const ValueId id : node.inputs) operands.push_back(id.valid() ? at(id) : ValueId());
    std::vector<std::string> names;
    for (const ValueId id : node.outputs) names.push_back(graph.value(id).name);
    Attrs attrs = node.attrs;
    for (auto& [name, value] : attrs) {
      if (DType* type = std::get_if<DType>(&value)) *type = wider(*type);
      if (Tensor* tensor = std::get_if<Tensor>(&value)) *tensor = widened(*tensor);
      if (Body* body = std::get_if<Body>(&value)) {
        std::vector<Tensor> none;
        KILN_ASSIGN_OR_RETURN(Graph wide, InF64(**body, none));
        *body = std::make_shared<const Graph>(std::move(wide));
      }
    }
    KILN_ASSIGN_OR_RETURN(
        const std::vector<ValueId> made,
        out.AddNode(*node.op, std::move(operands), std::move(attrs), node.name, std::move(names)));
    for (size_t k = 0; k < made.size(); ++k) at(node.outputs[k]) = made[k];
  }
  for (const Graph::Output& output : graph.outputs()) out.AddOutput(at(output.value), output.name);
  return out;
}

}  // namespace kiln
