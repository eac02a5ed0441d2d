// SPDX-License-Identifier: Apache-2.0
#include "kiln/tools/loaded_model.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/compiler/compile.h"
#include "kiln/tools/exit_code.h"
#include "kiln/tools/inputs.h"

namespace kiln {
LoadedModel LoadedModel::Of(const std::string& path, OnnxImport import) {
  const bool needs_inputs = MayNeedInputs(path, import);
  return LoadedModel(path, std::move(import.graph), needs_inputs);
}

absl::StatusOr<LoadedModel> LoadedModel::Read(const std::string& path) {
  if (absl::EndsWith(path, ".kiln")) {
    return absl::UnimplementedError(absl::StrCat(
        "package \"", path, "\": has no graph; use kiln run, kiln inspect or kiln bench --serve"));
  }
  if (!absl::EndsWith(path, ".graph")) {
    KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, {.allow_unsupported = true}));
    const bool complete = import.unsupported.empty();
    LoadedModel model = Of(path, std::move(import));
    if (complete || model.needs_inputs()) return model;
  }
  KILN_ASSIGN_OR_RETURN(Graph graph, ReadModel(path));  // for its error, if it is ONNX
  return LoadedModel(path, std::move(graph), false);
}

absl::StatusOr<Graph> LoadedModel::GraphFor(const std::vector<Tensor>& inputs) const {
  if (!needs_inputs_) return graph_;
  std::map<std::string, Tensor> named;
  for (size_t k = 0; k < inputs.size() && k < graph_.inputs().size(); ++k) {
    const Tensor& value = inputs[k];
    named[graph_.value(graph_.inputs()[k]).name] = value.is_dense() ? value : value.Clone();
  }
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnxFor(path_, named));
  return std::move(import.graph);
}

absl::StatusOr<Graph> GraphToLookAt(const LoadedModel& model, const std::vector<std::string>& specs,
                                    const CommonOptions& options, int* exit) {
  if (!model.needs_inputs()) return model.ports();
  const absl::StatusOr<std::vector<Tensor>> inputs = MakeInputs(model.ports(), specs, options);
  if (!inputs.ok()) {
    *exit = UsageExit(inputs.status());
    return inputs.status();
  }
  absl::StatusOr<Graph> graph = model.GraphFor(*inputs);
  if (!graph.ok()) *exit = ModelExit(graph.status());
  return graph;
}

}  // namespace kiln
