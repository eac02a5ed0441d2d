// SPDX-License-Identifier: Apache-2.0
// Values for a model's inputs, from what the user typed.
#ifndef KILN_TOOLS_INPUTS_H_
#define KILN_TOOLS_INPUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/base/tensor.h"
#include "kiln/compiler/options.h"
#include "kiln/compiler/warm_model.h"
#include "kiln/graph/graph.h"
#include "kiln/tools/common.h"

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

// Only the shapes of those tensors, by --shape and --dim alone.
absl::StatusOr<std::vector<std::vector<int64_t>>> MakeShapes(const Graph& graph,
                                                             const CommonOptions& options);

// Compiles the graph, and runs it once on `inputs`, in its order.
absl::StatusOr<std::vector<Tensor>> RunGraph(Graph graph, const std::vector<Tensor>& inputs,
                                             const CompileOptions& options);

// "n=@file" of --output and --expect: name and path.
absl::StatusOr<std::pair<std::string, std::string>> ParseFileSpec(const std::string& flag,
                                                                  const std::string& spec);

}  // namespace kiln

#endif  // KILN_TOOLS_INPUTS_H_
