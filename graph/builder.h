// SPDX-License-Identifier: Apache-2.0
// GraphBuilder: a Graph made call by call in C++; the way decompositions, passes and users write
// graphs.
//
//   GraphBuilder b("scaled");
//   ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), 64});
//   ValueId scaled = b.Op("mul", {x, b.Scalar(DType::kF32, 0.125)});
//   b.Output(b.Op("softmax", {scaled}, {{"axis", int64_t{-1}}}), "y");
//   absl::StatusOr<Graph> g = std::move(b).Finish();
// Errors are kept: after the first failing call every call returns an invalid id, and Finish (or
// status()) tells. So calls can be nested without checks in between. Thread-compatible.
#ifndef KILN_GRAPH_BUILDER_H_
#define KILN_GRAPH_BUILDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace kiln {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);
  // Appends to a graph that someone else owns (decompositions, passes); Finish is not called then.
  explicit GraphBuilder(Graph* graph) : graph_(graph) {}
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  ValueId Input(std::string name, DType type, Shape shape);
  ValueId Constant(Tensor tensor, std::string name = "");
  ValueId Scalar(DType type, double value);          // a 0-d constant
  ValueId Ints(const std::vector<int64_t>& values);  // a 1-d i64 constant
  // One-output and many-output ops. `name` becomes the node's name.
  ValueId Op(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
             std::string name = "");
  std::vector<ValueId> Ops(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                           std::string name = "");
  void Output(ValueId value, std::string name);

  const Value& value(ValueId id) const { return graph_->value(id); }
  const Graph& graph() const { return *graph_; }
  const absl::Status& status() const { return status_; }
  absl::StatusOr<Graph> Finish() &&;

 private:
  Graph own_;
  Graph* graph_ = &own_;
  absl::Status status_;
};

}  // namespace kiln

#endif  // KILN_GRAPH_BUILDER_H_
