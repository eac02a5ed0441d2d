// SPDX-License-Identifier: Apache-2.0
// The model of a verb. The structure of some models depends on values of their inputs, such as the
// axes of a reduction, or on their shapes, such as the steps of an LSTM: their graph is there only
// for given inputs.
//
//   KILN_ASSIGN_OR_RETURN(LoadedModel model, LoadedModel::Read(path));
//   KILN_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, MakeInputs(model.ports(), specs, options));
//   KILN_ASSIGN_OR_RETURN(Graph graph, model.GraphFor(inputs));
#ifndef KILN_TOOLS_LOADED_MODEL_H_
#define KILN_TOOLS_LOADED_MODEL_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/base/tensor.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/onnx/import.h"
#include "kiln/tools/common.h"

namespace kiln {

class LoadedModel {
 public:
  // ONNX, or text where the name ends in ".graph". Errors as ReadModel; nodes that need values or
  // shapes of inputs are none.
  static absl::StatusOr<LoadedModel> Read(const std::string& path);
  // The same for an ONNX file that was imported with allow_unsupported.
  static LoadedModel Of(const std::string& path, OnnxImport import);

  bool needs_inputs() const { return needs_inputs_; }
  // The graph; all its inputs at least, if it needs inputs.
  const Graph& ports() const { return graph_; }
  // The graph that holds for `inputs`, one for each of its inputs in order.
  absl::StatusOr<Graph> GraphFor(const std::vector<Tensor>& inputs) const;

 private:
  LoadedModel(std::string path, Graph graph, bool needs_inputs)
      : path_(std::move(path)), graph_(std::move(graph)), needs_inputs_(needs_inputs) {}

  std::string path_;
  Graph graph_;
  bool needs_inputs_;
};

// The graph for verbs that only look: values that decide its structure are those that `specs` give,
// as MakeInputs. `exit` is what fits the error.
absl::StatusOr<Graph> GraphToLookAt(const LoadedModel& model, const std::vector<std::string>& specs,
                                    const CommonOptions& options, int* exit);

}  // namespace kiln

#endif  // KILN_TOOLS_LOADED_MODEL_H_
