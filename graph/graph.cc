// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/check_node.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "graph/shape_content.h"

namespace kiln {
namespace {

size_t Index(ValueId id) { return static_cast<size_t>(id.v); }

// Replaces inputs that only tell extents by the attributes that say the same.
void BindShapeInputs(const Graph& graph, Node& node) {
  const std::vector<ValueId> given = node.inputs;
  for (const AttrSpec& spec : node.op->attrs) {
    if (spec.input < 0 || static_cast<size_t>(spec.input) >= node.inputs.size()) continue;
    ValueId& input = node.inputs[static_cast<size_t>(spec.input)];
    if (!input.valid()) continue;
    const std::optional<Shape> content = ContentOf(graph.value(input));
    if (!content) continue;
    node.attrs[spec.name] = DimsValue(*content);
    input = ValueId{};
    node.operands = given;
  }
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
}

}  // namespace

std::string Graph::UniqueName(absl::string_view wish) {
  std::string name(wish);
  int& count = names_[name];
  if (count++ == 0) return name;
  while (true) {
    std::string numbered = absl::StrCat(name, "_", count - 1);
    if (names_.emplace(numbered, 1).second) return numbered;
    ++count;
  }
}

ValueId Graph::AddValue(Value value) {
  values_.push_back(std::move(value));
  uses_.emplace_back();
  return ValueId{static_cast<int32_t>(values_.size() - 1)};
}

ValueId Graph::AddInput(std::string name, DType type, Shape shape) {
  Value value;
  value.name = UniqueName(name.empty() ? "input" : name);
  value.type = type;
  value.shape = std::move(shape);
  inputs_.push_back(AddValue(std::move(value)));
  return inputs_.back();
}

ValueId Graph::AddConstant(std::string name, Tensor tensor) {
  Value value;
  value.name = UniqueName(name.empty() ? "const" : name);
  value.type = tensor.dtype();
  value.shape = ToShape(tensor.shape());
  value.constant = std::move(tensor);
  return AddValue(std::move(value));
}

absl::StatusOr<std::vector<ValueId>> Graph::AddNode(const OpDef& op, std::vector<ValueId> inputs,
                                                    Attrs attrs, std::string node_name,
                                                    std::vector<std::string> output_names) {
  Node node;
  node.op = &op;
  const bool named = !node_name.empty();
  node.name = named ? std::move(node_name) : op.name;  // for errors, until the outputs have names
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  const size_t num_outputs = op.num_outputs >= 0 ? static_cast<size_t>(op.num_outputs)
                                                 : std::max<size_t>(1, output_names.size());
  node.outputs.resize(num_outputs);
  if (output_names.size() > num_outputs) {
    return absl::InvalidArgumentError(absl::StrCat("node \"", node.name, "\" (", op.name, "): has ",
                                                   output_names.size(), " outputs; the op gives ",
                                                   num_outputs));
  }
  output_names.resize(num_outputs);

  KILN_RETURN_IF_ERROR(CheckInputs(*this, node));
  BindShapeInputs(*this, node);
  KILN_RETURN_IF_ERROR(CheckAttrs(node));
  const size_t guards_before = guards_.size();
  InferContext context(*this, node);
  if (absl::Status status = InferNode(context); !status.ok()) {
    guards_.resize(guards_before);
    return status;
  }
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  for (size_t k = 0; k < num_outputs; ++k) {
    InferContext::Output& output = context.outputs[k];
    Value value;
    value.name = UniqueName(output_names[k].empty() ? op.name : output_names[k]);
    value.type = output.type;
    value.shape = std::move(output.shape);
    value.shape_content = std::move(output.content);
    value.producer = id;
    node.outputs[k] = AddValue(std::move(value));
  }
  if (!named && num_outputs > 0) node.name = values_[Index(node.outputs[0])].name;
  nodes_.push_back(std::move(node));
  AddUses(id);
  for (size_t k = 0; k < num_outputs; ++k) {
    Value& value = values_[Index(nodes_.back().outputs[k])];
    if (!value.shape_content)
      value.shape_content = FollowContent(*this, nodes_.back(), static_cast<int>(k));
  }
  return nodes_.back().outputs;
}

void Graph::AddOutput(ValueId value, std::string name) {
  outputs_.push_back({std::move(name), value});
  AddUse(static_cast<int32_t>(outputs_.size()) - 1);
}

void Graph::SetOutputs(std::vector<Output> outputs) {
  outputs_ = std::move(outputs);
  FindUses();
}

void Graph::SetNodeName(NodeId id, std::string name) {
  nodes_[static_cast<size_t>(id.v)].name = std::move(name);
}

void Graph::AddUses(NodeId id) {
  const auto add = [&](ValueId value) {
    if (!value.valid()) return;
    std::vector<NodeId>& list = uses_[Index(value)].nodes;
    if (list.empty() || list.back() != id) list.push_back(id);
  };
  for (const ValueId input : node(id).inputs) add(input);
  for (const ValueId operand : node(id).operands) add(operand);
}

void Graph::AddUse(int32_t output) {
  const ValueId value = outputs_[static_cast<size_t>(output)].value;
  if (value.valid() && Index(value) < uses_.size()) uses_[Index(value)].outputs.push_back(output);
}

void Graph::FindUses() {
  uses_.assign(values_.size(), Uses{});
  for (size_t i = 0; i < nodes_.size(); ++i) AddUses(NodeId{static_cast<int32_t>(i)});
  for (size_t i = 0; i < outputs_.size(); ++i) AddUse(static_cast<int32_t>(i));
}

void Graph::AddGuard(Guard guard) {
  if (guard.Static() == true) return;
  if (std::find(guards_.begin(), guards_.end(), guard) == guards_.end())
    guards_.push_back(std::move(guard));
}

std::vector<std::vector<NodeId>> Graph::Users() const {
  std::vector<std::vector<NodeId>> users(values_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    for (const ValueId input : nodes_[i].inputs) {
      if (!input.valid()) continue;
      std::vector<NodeId>& list = users[Index(input)];
      if (list.empty() || list.back() != id) list.push_back(id);
    }
  }
  return users;
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  if (from == to) return;
  Uses uses = std::exchange(uses_[Index(from)], Uses{});
  Uses& now = uses_[Index(to)];
  const auto reads = [&](const std::vector<ValueId>& list) {
    return std::find(list.begin(), list.end(), to) != list.end();
  };
  for (const NodeId id : uses.nodes) {
    Node& node = nodes_[static_cast<size_t>(id.v)];
    if (!reads(node.inputs) && !reads(node.operands)) now.nodes.push_back(id);
    std::replace(node.inputs.begin(), node.inputs.end(), from, to);
    std::replace(node.operands.begin(), node.operands.end(), from, to);
  }
  for (const int32_t output : uses.outputs) {
    outputs_[static_cast<size_t>(output)].value = to;
    now.outputs.push_back(output);
  }
}

bool Graph::RemoveDead() {
  std::vector<bool> live_value(values_.size(), false);
  std::vector<bool> live_node(nodes_.size(), false);
  std::vector<ValueId> work;
  const auto need = [&](ValueId id) {
    if (!id.valid() || live_value[Index(id)]) return;
    live_value[Index(id)] = true;
    work.push_back(id);
  };
  // A live node also needs the nodes that give its symbols their values.
  std::map<std::string, ValueId> teacher;
  for (const Node& node : nodes_) {
    if (!node.op->dynamic) continue;
    for (const ValueId id : node.outputs)
      ForEachLearned(value(id), [&](const std::string& symbol) { teacher.emplace(symbol, id); });
  }
  for (const ValueId id : inputs_) {
    if (!teacher.empty())
      ForEachLearned(value(id), [&](const std::string& symbol) { teacher.erase(symbol); });
  }
  for (const Output& output : outputs_) need(output.value);
  // What is assumed of a symbol can be asked only while something tells it.
  for (const Guard& guard : guards_) {
    if (teacher.empty()) break;
    for (const std::string& symbol : guard.Symbols()) {
      if (const auto found = teacher.find(symbol); found != teacher.end()) need(found->second);
    }
  }
  while (!work.empty()) {
    const NodeId producer = values_[Index(work.back())].producer;
    work.pop_back();
    if (producer.v < 0 || live_node[static_cast<size_t>(producer.v)]) continue;
    live_node[static_cast<size_t>(producer.v)] = true;
    for (const ValueId id : node(producer).inputs) need(id);
    for (const ValueId id : node(producer).outputs) need(id);
    if (teacher.empty()) continue;
    for (const std::string& symbol : SymbolsOf(*this, node(producer))) {
      if (const auto found = teacher.find(symbol); found != teacher.end()) need(found->second);
    }
  }
  for (const ValueId id : inputs_) live_value[Index(id)] = true;

  std::vector<NodeId> new_node(nodes_.size());
  std::vector<Node> nodes;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!live_node[i]) continue;
    new_node[i] = NodeId{static_cast<int32_t>(nodes.size())};
    nodes.push_back(std::move(nodes_[i]));
  }
  std::vector<ValueId> new_value(values_.size());
  std::vector<Value> values;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!live_value[i]) {
      names_.erase(values_[i].name);
      continue;
    }
    new_value[i] = ValueId{static_cast<int32_t>(values.size())};
    if (values_[i].producer.v >= 0)
      values_[i].producer = new_node[static_cast<size_t>(values_[i].producer.v)];
    values.push_back(std::move(values_[i]));
  }
  const bool changed = nodes.size() != nodes_.size() || values.size() != values_.size();
  nodes_ = std::move(nodes);
  values_ = std::move(values);
  const auto renumber = [&](ValueId& id) {
    if (id.valid()) id = new_value[Index(id)];
  };
  for (Node& node : nodes_) {
    node.operands.clear();
    for (ValueId& id : node.inputs) renumber(id);
    for (ValueId& id : node.outputs) renumber(id);
  }
  for (ValueId& id : inputs_) renumber(id);
  for (Output& output : outputs_) renumber(output.value);
  FindUses();
  return changed;
}

absl::Status Graph::Sort() {
  // Kahn's algorithm; among the nodes that are ready, the one that stood first comes first.
  std::vector<int32_t> missing(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> users = Users();
  for (size_t value = 0; value < values_.size(); ++value) {
    if (values_[value].producer.v < 0) continue;
    for (const NodeId user : users[value]) ++missing[static_cast<size_t>(user.v)];
  }
  std::vector<int32_t> ready;  // a heap, least first
  const auto push = [&](int32_t node) {
    ready.push_back(node);
    std::push_heap(ready.begin(), ready.end(), std::greater<>());
  };
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (missing[i] == 0) push(static_cast<int32_t>(i));
  }
  std::vector<int32_t> order;
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::greater<>());
    order.push_back(ready.back());
    ready.pop_back();
    for (const ValueId output : nodes_[static_cast<size_t>(order.back())].outputs) {
      for (const NodeId user : users[Index(output)]) {
        if (--missing[static_cast<size_t>(user.v)] == 0) push(user.v);
      }
    }
  }
  if (order.size() != nodes_.size()) {
    const auto stuck =
        std::find_if(missing.begin(), missing.end(), [](int32_t n) { return n > 0; });
    return absl::InvalidArgumentError(
        absl::StrCat("node \"", nodes_[static_cast<size_t>(stuck - missing.begin())].name,
                     "\": waits for its own result; the graph has a cycle"));
  }
  std::vector<Node> sorted;
  sorted.reserve(nodes_.size());
  for (const int32_t i : order) {
    sorted.push_back(std::move(nodes_[static_cast<size_t>(i)]));
    for (const ValueId output : sorted.back().outputs) {
      values_[Index(output)].producer = NodeId{static_cast<int32_t>(sorted.size() - 1)};
    }
  }
  nodes_ = std::move(sorted);
  FindUses();
  return absl::OkStatus();
}

}  // namespace kiln
