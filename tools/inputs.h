// SPDX-License-Identifier: Apache-2.0
// Values for a model's inputs, from what the user typed.
#ifndef KILN_TOOLS_INPUTS_H_
#define KILN_TOOLS_INPUTS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "compiler/machine_of.h"
#include "compiler/model_source.h"
#include "compiler/warm_model.h"
#include "graph/graph.h"
#include "kiln/model.h"
#include "tools/common.h"

namespace kiln {

// One tensor per graph input, in order, by `specs` of the form  n=@a.npy | n=random:SEED[:LO:HI] |
// n=zeros | n=ones  (split at the first '='). An input not given is random, with a notice: floats
// in [-1, 1), integers that only index an axis within that axis, other integers 0 and 1. Extents
// come from .npy files, --shape and --dim; a symbol that nothing sets is 1, with a notice.
// kInvalidArgument names the input and what does not fit.
absl::StatusOr<std::vector<Tensor>> MakeInputs(const Graph& graph,
                                               const std::vector<std::string>& specs,
                                               const CommonOptions& options);

// The same; the model's graph is read only if some input is not given by a file.
absl::StatusOr<std::vector<Tensor>> MakeInputs(WarmModel& model,
                                               const std::vector<std::string>& specs,
                                               const CommonOptions& options);

// A graph of nothing but inputs, for what has no other: a package.
Graph GraphOfPorts(const std::vector<PortInfo>& ports);

// The tensors, one for each port, as Model::Run takes them.
NamedTensors Named(const std::vector<PortInfo>& ports, const std::vector<Tensor>& tensors);

// Only those tensors that `specs` give, by name.
absl::StatusOr<std::map<std::string, Tensor>> MakeValues(const Graph& graph,
                                                         const std::vector<std::string>& specs,
                                                         const CommonOptions& options);

// The same tensors as MakeInputs, without data where `specs` give none.
absl::StatusOr<std::vector<Tensor>> MakeShapes(const Graph& graph,
                                               const std::vector<std::string>& specs,
                                               const CommonOptions& options);

// Whether the model and the user leave no extent open, for models that need shapes. kUnimplemented
// names an input, its dim and the flags for all that is open.
absl::Status AllShapesGiven(const Graph& graph, const std::vector<std::string>& specs,
                            const CommonOptions& options);

// The graph for verbs that only look: shapes and values that decide its structure are those that
// MakeInputs makes of `specs`. `exit` is what fits the error.
absl::StatusOr<Graph> GraphToLookAt(const ModelSource& model, const std::vector<std::string>& specs,
                                    const CommonOptions& options, int* exit);

// Compiles the graph, and runs it once on `inputs`, in its order.
absl::StatusOr<std::vector<Tensor>> RunGraph(Graph graph, const std::vector<Tensor>& inputs,
                                             const CompileOptions& options);

// "n=@file" of --output and --expect: name and path.
absl::StatusOr<std::pair<std::string, std::string>> ParseFileSpec(const std::string& flag,
                                                                  const std::string& spec);

}  // namespace kiln

#endif  // KILN_TOOLS_INPUTS_H_
