// SPDX-License-Identifier: Apache-2.0
// GraphBuilder: a graph made call by call in C++.
//
//   kiln::GraphBuilder b("scaled");
//   kiln::ValueId x = b.Input("x", kiln::DType::kF32, {kiln::Dim::Symbol("n"), 64});
//   kiln::ValueId scaled = b.Op("mul", {x, b.Scalar(kiln::DType::kF32, 0.125)});
//   b.Output(b.Op("softmax", {scaled}, {{"axis", int64_t{-1}}}), "y");
//   absl::StatusOr<kiln::Model> model = kiln::Compile(std::move(b), options);  // kiln/compile.h
//
// Operators, their attributes and types: docs/ops.md, or `kiln ops`. Errors are kept: after the
// first failing call every call returns an invalid id, and Compile (or status()) tells. So calls
// can be nested without checks in between. Thread-compatible.
#ifndef KILN_GRAPH_H_
#define KILN_GRAPH_H_

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/dim.h"
#include "kiln/status.h"
#include "kiln/tensor.h"

namespace kiln {

class Graph;      // graph/graph.h
struct CustomOp;  // graph/custom_op.h
struct Value;     // graph/graph.h

// A value of one graph: an input, a constant or what an operator computes.
struct ValueId {
  int32_t v = -1;
  bool valid() const { return v >= 0; }
  friend auto operator<=>(const ValueId&, const ValueId&) = default;
};

// A graph that a node owns: a branch of `if`, the body of `loop`. It is closed: what it takes from
// the graph around it are inputs of its own, which the node feeds. Symbols of the graph around it
// keep their meaning inside. Shared, since copies of a node have the same body; never changed.
using Body = std::shared_ptr<const Graph>;

// An attribute: one of a closed set. Lists may be empty.
using AttrValue =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, DType,
                 Tensor, Body, std::shared_ptr<const CustomOp>>;
using Attrs = std::map<std::string, AttrValue>;

class KILN_API GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) = delete;
  ~GraphBuilder();

  ValueId Input(std::string name, DType type, Shape shape);
  ValueId Constant(Tensor tensor, std::string name = "");
  ValueId Scalar(DType type, double value);          // a 0-d constant
  ValueId Ints(const std::vector<int64_t>& values);  // a 1-d i64 constant
  // One-output and many-output operators. An optional input that is absent is an invalid id. `name`
  // becomes the node's name.
  ValueId Op(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
             std::string name = "");
  std::vector<ValueId> Ops(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                           std::string name = "");
  void Output(ValueId value, std::string name);

  // As the operator's rules say. The value must be valid.
  DType type(ValueId value) const;
  const Shape& shape(ValueId value) const;
  // The first error. kInvalidArgument: it names the node and what is wrong.
  const absl::Status& status() const { return status_; }
  // The graph for an attribute of a node in another one; what the builder has made is gone then.
  absl::StatusOr<Body> FinishBody() &&;

  // Inside Kiln. Appends to a graph that someone else owns (decompositions, passes); Finish is not
  // called then.
  explicit GraphBuilder(Graph* graph);
  const Value& value(ValueId id) const;
  const Graph& graph() const { return *graph_; }
  absl::StatusOr<Graph> Finish() &&;
  // What has been made is right only where the guards that stand hold (Graph::premises).
  void HoldToGuards();

 private:
  std::unique_ptr<Graph> own_;
  Graph* graph_;
  absl::Status status_;
};

}  // namespace kiln

#endif  // KILN_GRAPH_H_
