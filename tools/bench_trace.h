// SPDX-License-Identifier: Apache-2.0
// kiln bench --trace: what happened to a model, from its file to a run, on the tracks of a trace
// (trace_file.h).
//
//   compile   import; passes, groups, lowering; kernels; the model; its first run, with its plans
//   kernels   a slice for each kernel: where it came from
//   cache     hits and misses, and how many so far
//   launches  a slice for each launch of a profiled run, and the arena's bytes that live
//
// Kernels are fetched or built one after the other, so that each has its slice; without a trace
// several are built at once. A profiled run knows how long each launch took, not when it began:
// launches lie end to end from the run's beginning.
#ifndef KILN_TOOLS_BENCH_TRACE_H_
#define KILN_TOOLS_BENCH_TRACE_H_

#include <string>

#include "absl/status/status.h"
#include "graph/graph.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "tools/plan_text.h"
#include "tools/trace_file.h"

namespace kiln {

// Compiles the graph up to its kernels, and gets these from options.kernels, which must be there.
// Errors as CompileParts and KernelService::Get.
absl::Status TraceKernels(const Graph& graph, const CompileOptions& options, TraceFile& trace);

// Runs the model once with clocks. `plan`: the plan that runs, for the arena; null: without it.
absl::Status TraceLaunches(Context& context, const PlanText* plan, TraceFile& trace);

}  // namespace kiln

#endif  // KILN_TOOLS_BENCH_TRACE_H_
