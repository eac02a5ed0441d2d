// SPDX-License-Identifier: Apache-2.0
// Graph: a tensor program. Vectors of nodes and values, joined by typed ids; no pointers, so
// copying a Graph copies it.
//
// A value has an element type and a shape of Dims (numbers or expressions over the symbols of the
// graph's inputs), a name that is unique in its graph, and one producer: a node, the graph (an
// input) or a constant. A node applies an op of the registry (op.h) to values, with attributes.
// Nodes are stored in topological order; Verify checks all of this.
//
// Text form (text.h), one line a node; attributes in braces:
//   graph softmax_rows
//   input x : f32 [n, 64]
//   const scale : f32 [] = 0.125
//   y : f32 [n, 64] = mul(x, scale)
//   z : f32 [n, 64] = softmax(y) {axis = 1}
//   output z
// An input whose elements are symbols names them, `input s : i64 [2] = [h, w]`. A graph that a node
// owns (ops/control.cc) stands before it, between `body NAME` and `end`.
#ifndef KILN_GRAPH_GRAPH_H_
#define KILN_GRAPH_GRAPH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/guard.h"
#include "base/tensor.h"
#include "kiln/dim.h"
#include "kiln/graph.h"

namespace kiln {

struct OpDef;

struct NodeId {
  int32_t v = -1;
  friend auto operator<=>(const NodeId&, const NodeId&) = default;
};
struct Value {
  std::string name;
  DType type = DType::kF32;
  Shape shape;
  std::optional<Tensor> constant;      // set for constants, and for values that folding has found
  std::optional<Shape> shape_content;  // for small tensors of integers, or of truths: their
                                       // elements, symbolically. Of an input: its elements give
                                       // these symbols their values
  bool literal = false;  // of a constant: a node of the user's says it, such as a mask; a tensor
                         // that a model stores is none. Trainers look at it

  NodeId producer;  // invalid for inputs and constants
};

struct Node {
  const OpDef* op = nullptr;  // never null in a graph; points into the immutable registry
  std::string name;  // of the user's node where there is one: what errors and explain print
  std::vector<ValueId> inputs;  // an absent optional input is an invalid id
  std::vector<ValueId> outputs;
  Attrs attrs;
  // The inputs as they were given, where some of them have become attributes (AttrSpec::input):
  // what the node is made of when the graph is made for other extents. RemoveDead forgets them.
  std::vector<ValueId> operands;
};

class Graph {
 public:
  std::string name;

  // Makes the graph again for other shapes of its inputs, from what it was imported from: an
  // importer writes shapes that hold under guards into attributes, from where they cannot be taken
  // back. Null: the graph itself says all (rebuild.h). Passes do not keep it right.
  using Maker = std::function<absl::StatusOr<Graph>(const std::vector<Shape>& input_shapes)>;
  std::shared_ptr<const Maker> maker;
  // Guards by which nodes were made that only they make right (Gradients of a GraphBuilder). The
  // graph is not made for extents that break one.
  std::vector<Guard> premises;

  struct Output {
    std::string name;
    ValueId value;
  };

  ValueId AddInput(std::string name, DType type, Shape shape);
  // `tensor` lies on the CPU. An empty name is made up.
  ValueId AddConstant(std::string name, Tensor tensor, bool literal = false);
  // Adds a node and its outputs with inferred types and shapes; fails as the op's rule says, naming
  // the node. Empty output names are made up from the op's name, and names in use get a number.
  // Guards that inference needed are added to guards(). Inputs that only tell extents become
  // attributes (AttrSpec::input). `output_names` says how many outputs there are where the record
  // leaves it open. On error the graph is as before.
  absl::StatusOr<std::vector<ValueId>> AddNode(const OpDef& op, std::vector<ValueId> inputs,
                                               Attrs attrs, std::string node_name,
                                               std::vector<std::string> output_names);
  void AddOutput(ValueId value, std::string name);
  void SetOutputs(std::vector<Output> outputs);
  void SetNodeName(NodeId id, std::string name);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id.v)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id.v)]; }
  Value& mutable_value(ValueId id) { return values_[static_cast<size_t>(id.v)]; }

  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::vector<Guard>& guards() const { return guards_; }
  std::vector<Guard>& mutable_guards() { return guards_; }
  void AddGuard(Guard guard);  // kept once; dropped if it always holds

  // Uses of every value by nodes (graph outputs not counted), ascending. O(size of the graph).
  std::vector<std::vector<NodeId>> Users() const;
  // The nodes that read a value, each once, in no order. O(1).
  const std::vector<NodeId>& UsersOf(ValueId id) const {
    return uses_[static_cast<size_t>(id.v)].nodes;
  }
  bool IsOutput(ValueId id) const {
    return id.valid() && !uses_[static_cast<size_t>(id.v)].outputs.empty();
  }

  // Replaces every use of `from`, outputs included, by `to` (same type and shape). O(operands of
  // the nodes that read `from`).
  void ReplaceUses(ValueId from, ValueId to);
  // Makes input `k` of a node another value of the same type and shape. Not of a node whose inputs
  // have become attributes (Node::operands). O(users of the old value).
  void ReplaceInput(NodeId id, size_t k, ValueId to);
  // Drops nodes and constants that no output needs, keeps inputs, and renumbers: all ids change.
  // Returns whether any went.
  bool RemoveDead();
  // Restores topological order after a pass has appended nodes; stable. Fails on a cycle.
  absl::Status Sort();
  // The same, with each node that stands behind its first reader moved to before that one.
  absl::Status SortByFirstUse();

 private:
  // Who reads a value: nodes, as an input or an operand, and outputs of the graph, by their
  // numbers.
  struct Uses {
    std::vector<NodeId> nodes;
    std::vector<int32_t> outputs;
  };

  std::string UniqueName(absl::string_view wish);
  ValueId AddValue(Value value);
  void AddUses(NodeId id);
  void AddUse(int32_t output);
  void FindUses();
  void Reorder(const std::vector<int32_t>& order);

  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Uses> uses_;  // of values_[i]
  std::vector<ValueId> inputs_;
  std::vector<Output> outputs_;
  std::vector<Guard> guards_;
  std::map<std::string, int> names_;
};

// Graphs in a graph, itself and bodies at all depths. A body that two nodes name counts twice: it
// is compiled, printed and run as often.
inline constexpr int64_t kMaxGraphs = 4096;

// Checks all invariants, types and shapes by the ops' rules included; the error names the node.
// kResourceExhausted past kMaxGraphs. Thread-safe.
absl::Status Verify(const Graph& graph);

}  // namespace kiln

#endif  // KILN_GRAPH_GRAPH_H_
