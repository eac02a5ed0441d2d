// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/constant_value.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"

namespace kiln::onnx {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 16;  // of every tensor on the way
constexpr size_t kMaxConstantNodes = 1024;
constexpr int64_t kNodeWork = 64;  // what a node costs beside its elements
constexpr int64_t kMaxWork = int64_t{1} << 22;

bool IsSmall(const Value& value) {
  const std::optional<std::vector<int64_t>> shape = Constant(value.shape);
  const int64_t elements = shape ? CheckedBytes(DType::kU8, *shape) : -1;
  return elements >= 0 && elements <= kMaxElements;
}

// What is known of a value without computing.
std::optional<Tensor> Known(const Value& value) {
  if (value.constant) return value.constant;
  const std::optional<Shape> content = ContentOf(value);
  const std::optional<std::vector<int64_t>> shape = Constant(value.shape);
  const auto numbers = content ? Constant(*content) : std::nullopt;
  if (!numbers || !shape) return std::nullopt;
  Tensor tensor = Tensor::Allocate(value.type, *shape);
  for (size_t i = 0; i < numbers->size(); ++i)
    WriteInt(tensor, static_cast<int64_t>(i), (*numbers)[i]);
  return tensor;
}

int64_t ElementsOf(const Value& value) { return CheckedBytes(DType::kU8, *Constant(value.shape)); }

// What a run of `node` costs, bodies as often as they run; nothing where that is not bounded, or a
// value on the way is not known to be small.
std::optional<int64_t> WorkOf(const Graph& graph, const Node& node) {
  int64_t read = 0, written = 0;
  for (const ValueId input : node.inputs) {
    if (!input.valid()) continue;
    if (!IsSmall(graph.value(input))) return std::nullopt;
    read += ElementsOf(graph.value(input));
  }
  for (const ValueId output : node.outputs) {
    if (!IsSmall(graph.value(output))) return std::nullopt;
    written += ElementsOf(graph.value(output));
  }
  int64_t work = kNodeWork + read + written;
  if (node.op->kind == OpKind::kLibrary && !node.op->linear) work += read * written;  // at most
  if (node.op->kind != OpKind::kControl) return work;
  int64_t iterations = 1;
  if (absl::string_view(node.op->name) == "loop") {
    const std::optional<Tensor> trips =
        node.inputs[0].valid() ? Known(graph.value(node.inputs[0])) : std::nullopt;
    if (!trips || trips->num_elements() != 1) return std::nullopt;
    iterations = std::clamp<int64_t>(ReadInt(*trips, 0), 0, kMaxWork);
  }
  for (const auto& [name, value] : node.attrs) {
    const Body* body = std::get_if<Body>(&value);
    if (body == nullptr) continue;
    work += iterations * kNodeWork;
    for (const Node& inner : (*body)->nodes()) {
      const std::optional<int64_t> own = WorkOf(**body, inner);
      if (!own || *own > kMaxWork) return std::nullopt;
      work += iterations * *own;
      if (work > kMaxWork) return std::nullopt;
    }
  }
  return work;
}

// Copies what `value` is made of into a graph of its own; false where that is not only constants.
class Extract {
 public:
  explicit Extract(const Graph& from) : from_(from), map_(from.values().size()) {}

  // `budget`: what the run may cost, which is taken off.
  bool Run(ValueId value, int64_t& budget) {
    std::set<int32_t> nodes;
    std::vector<ValueId> open = {value};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (!id.valid() || At(id).valid()) continue;
      const Value& v = from_.value(id);
      if (!IsSmall(v)) return false;
      if (std::optional<Tensor> known = Known(v)) {
        At(id) = to_.AddConstant("", *std::move(known));
        continue;
      }
      if (v.producer.v < 0 || nodes.size() >= kMaxConstantNodes) return false;
      if (!nodes.insert(v.producer.v).second) continue;
      const std::vector<ValueId>& inputs = from_.node(v.producer).inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    int64_t work = 0;
    for (const int32_t node : nodes) {
      const std::optional<int64_t> own = WorkOf(from_, from_.node(NodeId{node}));
      work += own.value_or(kMaxWork + 1);
      if (work > std::min(kMaxWork, budget) || !Copy(NodeId{node})) return false;
    }
    budget -= work;
    to_.AddOutput(At(value), "value");
    return true;
  }

  const Graph& graph() const { return to_; }

 private:
  ValueId& At(ValueId id) { return map_[static_cast<size_t>(id.v)]; }

  bool Copy(NodeId id) {  // producers have smaller numbers
    const Node& node = from_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? At(input) : input);
    const auto outputs = to_.AddNode(*node.op, std::move(inputs), node.attrs, "",
                                     std::vector<std::string>(node.outputs.size()));
    if (!outputs.ok()) return false;
    for (size_t k = 0; k < outputs->size(); ++k) At(node.outputs[k]) = (*outputs)[k];
    return true;
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> map_;
};

}  // namespace

std::optional<Tensor> ConstantValue(const Graph& graph, ValueId value, int64_t& budget) {
  Extract extract(graph);
  if (!extract.Run(value, budget)) return std::nullopt;
  absl::StatusOr<std::vector<Tensor>> result = Interpret(extract.graph(), {});
  if (!result.ok()) return std::nullopt;
  return std::move(result->front());
}

}  // namespace kiln::onnx
