// SPDX-License-Identifier: Apache-2.0
#include "tests/training/network.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "graph/training/losses.h"
#include "kiln/gradients.h"

namespace kiln::training {
namespace {

constexpr const char* kFlat = "all.parameters";
using Role = NetworkPort::Role;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat("\"", path, "\": cannot be opened"));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

absl::StatusOr<Optimizer> ReadOptimizer(const std::string& name) {
  if (name == "sgd") return Sgd{.momentum = 0.9};
  if (name == "adam") return Adam();
  return absl::InvalidArgumentError(absl::StrCat("optimizer \"", name, "\": not sgd, adam"));
}

absl::StatusOr<Network> Parse(const std::string& text, const std::string& record) {
  Network network;
  KILN_ASSIGN_OR_RETURN(network.forward, ParseGraph(text));
  network.file = nlohmann::json::parse(record);
  network.head = network.file.at("head");
  network.lr = network.file.at("lr");
  KILN_ASSIGN_OR_RETURN(network.optimizer, ReadOptimizer(network.file.at("optimizer")));
  const std::map<std::string, Role> roles = {
      {"parameter", Role::kParameter}, {"state", Role::kState}, {"data", Role::kData}};
  const nlohmann::json& ports = network.file.at("ports");
  for (const ValueId id : network.forward.inputs()) {
    const std::string& name = network.forward.value(id).name;
    const nlohmann::json& port = ports.at(name);
    network.ports.push_back(
        {name, roles.at(port.at(0)), port.at(1).get<double>(), port.at(2).get<double>()});
  }
  return network;
}

// The nodes of `forward` in `b`; what its inputs are there stands in `map` already.
void CopyNodes(const Graph& forward, GraphBuilder& b, std::vector<ValueId>& map) {
  const auto at = [&](ValueId id) -> ValueId& { return map[static_cast<size_t>(id.v)]; };
  for (size_t v = 0; v < map.size(); ++v) {
    const Value& value = forward.values()[v];
    if (value.constant && value.producer.v < 0) map[v] = b.Constant(*value.constant, value.name);
  }
  for (const Node& node : forward.nodes()) {
    std::vector<ValueId> operands;
    for (const ValueId id : node.inputs) operands.push_back(id.valid() ? at(id) : id);
    const std::vector<ValueId> made =
        b.Ops(node.op->name, std::move(operands), node.attrs, node.name);
    for (size_t k = 0; k < made.size(); ++k) at(node.outputs[k]) = made[k];
  }
}

// The forward graph and its loss, in a builder.
struct Forward {
  std::vector<ValueId> map;  // of the forward graph's values
  ValueId loss;
  std::vector<ValueId> parameters;
};

Forward Build(const Network& network, GraphBuilder& b, const std::vector<ValueId>& parameters) {
  const Graph& forward = network.forward;
  Forward made = {
      .map = std::vector<ValueId>(forward.values().size()), .loss = {}, .parameters = parameters};
  size_t next = 0;
  for (size_t k = 0; k < network.ports.size(); ++k) {
    const ValueId id = forward.inputs()[k];
    const Value& input = forward.value(id);
    ValueId& to = made.map[static_cast<size_t>(id.v)];
    const bool parameter = network.ports[k].role == Role::kParameter;
    to = parameter && next < parameters.size() ? parameters[next++]
                                               : b.Input(input.name, input.type, input.shape);
    if (parameter && next == 0) made.parameters.push_back(to);
  }
  CopyNodes(forward, b, made.map);
  std::map<std::string, ValueId> ends;
  for (const Graph::Output& output : forward.outputs())
    ends[output.name] = made.map[static_cast<size_t>(output.value.v)];
  if (network.head == "cross_entropy") {
    made.loss = CrossEntropy(b, ends["logits"], ends["target"]);
  } else if (network.head == "mean_squared_error") {
    made.loss = MeanSquaredError(b, ends["x"], ends["y"]);
  } else if (network.head == "binary_cross_entropy") {
    const ValueId pixels = BinaryCrossEntropy(b, ends["logits"], ends["target"]);
    made.loss = b.Op("add", {pixels, ends["extra"]});
  }
  return made;
}

uint64_t Seed(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

absl::StatusOr<Network> ReadNetwork(const std::string& folder, const std::string& name,
                                    DType type) {
  const std::string stem = absl::StrCat(folder, "/", name);
  KILN_ASSIGN_OR_RETURN(std::string text, ReadText(stem + ".graph"));
  KILN_ASSIGN_OR_RETURN(const std::string record, ReadText(stem + ".json"));
  if (type == DType::kF64) text = absl::StrReplaceAll(text, {{" : f32 ", " : f64 "}});
  try {
    absl::StatusOr<Network> network = Parse(text, record);
    if (network.ok()) return network;
    return absl::Status(network.status().code(),
                        absl::StrCat(stem, ": ", network.status().message()));
  } catch (const std::exception& error) {  // a member that is missing, or of another type
    return absl::InvalidArgumentError(absl::StrCat(stem, ".json: ", error.what()));
  }
}

std::vector<double> SeededUnits(absl::string_view name, int64_t count) {
  std::vector<double> units(static_cast<size_t>(count));
  uint64_t state = Seed(name);
  for (double& unit : units) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    unit = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  return units;
}

Tensor SeededValue(const Network& network, size_t k) {
  const Value& input = network.forward.value(network.forward.inputs()[k]);
  const NetworkPort& port = network.ports[k];
  std::vector<int64_t> shape;
  for (const Dim& dim : input.shape) shape.push_back(dim.constant().value_or(1));
  Tensor tensor = Tensor::Allocate(input.type, std::move(shape));
  const std::vector<double> units = SeededUnits(port.name, tensor.num_elements());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double unit = units[static_cast<size_t>(i)];
    if (input.type == DType::kI64) {
      WriteInt(tensor, i, static_cast<int64_t>(unit * port.high));
    } else {
      WriteFloat(tensor, i, static_cast<float>(port.low + (port.high - port.low) * unit));
    }
  }
  return tensor;
}

absl::StatusOr<Graph> GradientGraph(const Network& network) {
  GraphBuilder b(network.forward.name);
  const Forward made = Build(network, b, {});
  KILN_RETURN_IF_ERROR(b.status());
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients,
                        Gradients(b, made.loss, made.parameters));
  b.Output(made.loss, "loss");
  for (size_t k = 0; k < gradients.size(); ++k)
    b.Output(gradients[k], absl::StrCat("d_", b.value(made.parameters[k]).name));
  return std::move(b).Finish();
}

absl::StatusOr<NetworkStep> TrainingStep(const Network& network) {
  NetworkStep step;
  step.parameters = kFlat;
  GraphBuilder b(network.forward.name);
  DType type = DType::kF32;
  std::vector<NamedShape> shapes;
  for (size_t k = 0; k < network.ports.size(); ++k) {
    if (network.ports[k].role != Role::kParameter) continue;
    const Value& input = network.forward.value(network.forward.inputs()[k]);
    type = input.type;
    shapes.push_back({input.name, {}});
    for (const Dim& dim : input.shape) shapes.back().shape.push_back(dim.constant().value_or(1));
  }
  KILN_ASSIGN_OR_RETURN(step.layout, LayOut(shapes, type));
  const auto state = [&](const std::string& name, DType of, Shape shape) {
    step.states.push_back({name, name + "_next"});
    return b.Input(name, of, std::move(shape));
  };
  const ValueId lr = b.Input("lr", DType::kF64, {}), count = state("step", DType::kI64, {});
  const Shape flat = {step.layout.elements};
  const ValueId parameters = state(kFlat, type, flat);
  std::vector<ValueId> moments;
  for (const std::string& name : MomentNames(network.optimizer))
    moments.push_back(state(absl::StrCat("all.", name), type, flat));

  const std::vector<ValueId> parts = Parts(b, step.layout, parameters);
  const Forward made = Build(network, b, parts);
  KILN_RETURN_IF_ERROR(b.status());
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients, Gradients(b, made.loss, parts));
  const ValueId t = b.Op("add", {count, b.Scalar(DType::kI64, 1)});
  KILN_ASSIGN_OR_RETURN(
      const Updated next,
      Update(b, network.optimizer, parameters, Flat(b, step.layout, gradients), moments, lr, t));
  b.Output(made.loss, "loss");
  b.Output(t, "step_next");
  b.Output(next.parameter, step.states[1].output);
  for (size_t k = 0; k < moments.size(); ++k) b.Output(next.moments[k], step.states[k + 2].output);
  for (const Graph::Output& output : network.forward.outputs()) {
    if (!output.name.ends_with("_next")) continue;
    step.states.push_back({output.name.substr(0, output.name.size() - 5), output.name});
    b.Output(made.map[static_cast<size_t>(output.value.v)], output.name);
  }
  KILN_ASSIGN_OR_RETURN(step.graph, std::move(b).Finish());
  return step;
}

absl::Status BeginTraining(const Network& network, const NetworkStep& step, Context& context,
                           std::vector<Tensor>& bound) {
  KILN_RETURN_IF_ERROR(context.ResetStates());
  std::map<std::string, Tensor> parameters;
  for (size_t k = 0; k < network.ports.size(); ++k) {
    const NetworkPort& port = network.ports[k];
    Tensor value = SeededValue(network, k);
    if (port.role == Role::kParameter) {
      parameters[port.name] = std::move(value);
    } else if (port.role == Role::kState) {
      KILN_RETURN_IF_ERROR(context.SetState(port.name, value));
    } else {
      KILN_RETURN_IF_ERROR(context.Bind(port.name, value));
      bound.push_back(std::move(value));
    }
  }
  const DType type = parameters.begin()->second.dtype();
  const Tensor flat = Tensor::Allocate(type, {step.layout.elements});
  for (const FlatLayout::Part& part : step.layout.parts) {
    const Tensor& value = parameters.at(part.name);
    const auto size = static_cast<size_t>(value.size_bytes());
    if (size == 0) continue;
    std::memcpy(static_cast<char*>(flat.data()) +
                    static_cast<size_t>(part.offset) * (size / static_cast<size_t>(part.elements)),
                value.data(), size);
  }
  KILN_RETURN_IF_ERROR(context.SetState(step.parameters, flat));
  bound.push_back(Tensor::Allocate(DType::kF64, {}));
  WriteFloat(bound.back(), 0, network.lr);
  return context.Bind("lr", bound.back());
}

}  // namespace kiln::training
