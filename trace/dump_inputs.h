// SPDX-License-Identifier: Apache-2.0
// DumpOptions::input_data: inputs of test cases, from files and at random.
#ifndef KILN_TRACE_DUMP_INPUTS_H_
#define KILN_TRACE_DUMP_INPUTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"
#include "kiln/options.h"
#include "kiln/trace_dump.h"

namespace kiln::tracing {

// For each test case a tensor for each input of the graph, whose shapes are numbers. The same texts
// and files give the same tensors. Transforms run with `on_vm`. kInvalidArgument: names the case
// and what is wrong; errors of files.
absl::StatusOr<std::vector<std::vector<Tensor>>> ReadInputData(const Graph& graph,
                                                               const DumpOptions& options,
                                                               const CompileOptions& on_vm);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_DUMP_INPUTS_H_
