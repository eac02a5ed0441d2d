// SPDX-License-Identifier: Apache-2.0
// From a grouped Graph to a Program: every group becomes a thunk, every value that thunks hand on
// becomes a buffer.
#ifndef KILN_COMPILER_PROGRAM_BUILDER_H_
#define KILN_COMPILER_PROGRAM_BUILDER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "compiler/machine_of.h"
#include "exec/program.pb.h"
#include "fusion/group.h"
#include "graph/graph.h"

namespace kiln {

struct BuiltProgram {
  program::Program program;
  std::vector<Tensor> constants;  // by Buffer::index
  std::vector<int> thunk_of;  // by group: its last thunk, after copies of what it reads; -1: none
};

// Lowers the groups and chooses schedules as `options` say. Equal kernels are stored once. An
// output that no kernel or library operator writes for itself (an input handed through, a constant,
// the same value twice) is copied. kUnimplemented names the node for which there is no thunk; the
// graph is verified.
absl::StatusOr<BuiltProgram> BuildProgram(const Graph& graph, const Grouping& grouping,
                                          const CompileOptions& options);

// A program of ports only, for what a script runs.
program::Program PortsOf(const Graph& graph);

}  // namespace kiln

#endif  // KILN_COMPILER_PROGRAM_BUILDER_H_
