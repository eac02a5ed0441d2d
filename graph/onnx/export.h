// SPDX-License-Identifier: Apache-2.0
// ExportOnnx: a Graph becomes an ONNX model that other tools open and other runtimes run.
//
//   KILN_ASSIGN_OR_RETURN(std::string bytes, ExportOnnx(graph));
//
// Operator set 20 of ONNX. Inputs and outputs keep their names, types and shapes, symbols become
// names of dimensions, and attributes that say extents by symbols become shape arithmetic. Sets of
// nodes may be wrapped in functions of the domain "kiln": a tool then shows what runs together,
// and a runtime that knows nothing of it runs the function's body.
#ifndef KILN_GRAPH_ONNX_EXPORT_H_
#define KILN_GRAPH_ONNX_EXPORT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/model_notes.h"
#include "graph/graph.h"

namespace kiln {

// Nodes that become one function: with its copies a convex set, so that it can run at once.
struct OnnxFunction {
  std::string name;           // unique among the functions
  std::vector<NodeId> nodes;  // ascending
  // Others that lie between them, such as views that a kernel looks through: written inside, and
  // outside as well if something there needs them.
  std::vector<NodeId> copies = {};
  std::vector<ValueId> outputs;  // values of `nodes` that others, or the graph's user, need
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

// A serialized ModelProto. Nodes in no function are nodes of the main graph; those that no output
// needs are left out. Nodes that have a name of their own keep it; notes are metadata of the model,
// user_info under that key, and its version. kUnimplemented names a node that ONNX has no form for;
// kResourceExhausted if the model would not fit a file of 2 GiB.
absl::StatusOr<std::string> ExportOnnx(const Graph& graph,
                                       const std::vector<OnnxFunction>& functions = {},
                                       const ModelNotes& notes = {});

}  // namespace kiln

#endif  // KILN_GRAPH_ONNX_EXPORT_H_
