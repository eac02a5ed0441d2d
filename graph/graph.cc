// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

size_t Index(ValueId id) { return static_cast<size_t>(id.v); }

absl::Status InACycle(const Node& node) {
  return absl::InvalidArgumentError(
      absl::StrCat("node \"", node.name, "\": waits for its own result; the graph has a cycle"));
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

ValueId Graph::AddConstant(std::string name, Tensor tensor, bool literal) {
  Value value;
  value.name = UniqueName(name.empty() ? "const" : name);
  value.type = tensor.dtype();
  value.shape = ToShape(tensor.shape());
  value.constant = std::move(tensor);
  value.literal = literal;
  return AddValue(std::move(value));
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

void Graph::ReplaceInput(NodeId id, size_t k, ValueId to) {
  Node& node = nodes_[static_cast<size_t>(id.v)];
  const ValueId from = std::exchange(node.inputs[k], to);
  const auto reads = [&](ValueId value) {
    return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
  };
  if (!reads(from)) std::erase(uses_[Index(from)].nodes, id);
  std::vector<NodeId>& now = uses_[Index(to)].nodes;
  if (std::find(now.begin(), now.end(), id) == now.end()) now.push_back(id);
}

absl::Status Graph::SortByFirstUse() {
  std::vector<int32_t> order;
  std::vector<bool> placed(nodes_.size(), false), waits(nodes_.size(), false);
  const auto missing = [&](int32_t i) {  // a node that has to stand before, or -1
    for (const ValueId input : nodes_[static_cast<size_t>(i)].inputs) {
      const int32_t maker = input.valid() ? values_[Index(input)].producer.v : -1;
      if (maker >= 0 && !placed[static_cast<size_t>(maker)]) return maker;
    }
    return -1;
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    std::vector<int32_t> open;
    if (!placed[i]) open.push_back(static_cast<int32_t>(i));
    while (!open.empty()) {
      const int32_t next = missing(open.back());
      if (next >= 0) {
        waits[static_cast<size_t>(open.back())] = true;
        if (waits[static_cast<size_t>(next)]) return InACycle(nodes_[static_cast<size_t>(next)]);
        open.push_back(next);
        continue;
      }
      waits[static_cast<size_t>(open.back())] = false;
      placed[static_cast<size_t>(open.back())] = true;
      order.push_back(open.back());
      open.pop_back();
    }
  }
  Reorder(order);
  return absl::OkStatus();
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
    return InACycle(nodes_[static_cast<size_t>(stuck - missing.begin())]);
  }
  Reorder(order);
  return absl::OkStatus();
}

void Graph::Reorder(const std::vector<int32_t>& order) {
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
}

}  // namespace kiln
