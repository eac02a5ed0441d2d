// SPDX-License-Identifier: Apache-2.0
// The record of a traced function as a Graph with names: what is dumped.
#ifndef KILN_TRACE_DUMP_GRAPH_H_
#define KILN_TRACE_DUMP_GRAPH_H_

#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/trace_dump.h"
#include "trace/record.h"

namespace kiln::tracing {

// All arguments are inputs, used or not; numbers and captured arrays are constants, with the
// elements that they have now. Names are as the options say, of which arg_names and output_names
// have been checked. kUnimplemented: a captured array lies on a device.
absl::StatusOr<Graph> ToNamedGraph(const Record& record, const std::string& name,
                                   const DumpOptions& options);

}  // namespace kiln::tracing

#endif  // KILN_TRACE_DUMP_GRAPH_H_
