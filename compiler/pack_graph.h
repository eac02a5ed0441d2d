// SPDX-License-Identifier: Apache-2.0
// A graph in memory becomes a package (docs/package_format.md), as `kiln compile -o` makes one of a
// file.
#ifndef KILN_COMPILER_PACK_GRAPH_H_
#define KILN_COMPILER_PACK_GRAPH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/model_notes.h"
#include "compiler/package_writer.h"
#include "exec/package/test_case.h"
#include "graph/graph.h"
#include "kiln/options.h"

namespace kiln {

struct PackedCounts {
  int kernels = 0;
  int on_vm = 0;  // of these, without code
};

// For the target of the options (without one that of their runtime's device), and hands on the file
// piece by piece. With CompileMode::kNever all kernels are left to the VM. kFailedPrecondition:
// kernels are to be built, and there is no cache that may be written; kUnimplemented: an extent
// depends on data; kInvalidArgument: a test case does not fit the graph; else as CompileGraph and
// `append` say.
absl::StatusOr<PackedCounts> PackGraph(const Graph& graph, CompileOptions options,
                                       const std::vector<TestCase>& tests, const ModelNotes& notes,
                                       const PackageWriter::AppendFn& append);

}  // namespace kiln

#endif  // KILN_COMPILER_PACK_GRAPH_H_
