// SPDX-License-Identifier: Apache-2.0
// A model as it is compiled, part by part, and what each group of it costs.
#ifndef KILN_TOOLS_EXPLAIN_PLAN_H_
#define KILN_TOOLS_EXPLAIN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "compiler/compile.h"
#include "compiler/machine_of.h"
#include "fusion/bytes_accessed.h"
#include "graph/graph.h"

namespace kiln {

// One program of a model, with costs in us, by group.
struct PlannedPart {
  Compiled compiled;
  BytesAccessed traffic;
  std::vector<double> predicted_us;
  std::vector<double> measured_us;  // empty if not measured
  // How kernels run that have more elements than kernels count: "2 pieces" or "VM, 64-bit indices";
  // else, and where extents are unknown, empty.
  std::vector<std::string> large;
};

struct PlanSums {
  int64_t launches = 0, walked = 0, unfused = 0, lower_bound = 0;
  double predicted_us = 0;
};

// Errors as CompileGraph.
absl::StatusOr<std::vector<PlannedPart>> PlanParts(const Graph& graph,
                                                   const CompileOptions& options);

PlanSums SumOf(const std::vector<PlannedPart>& parts);

// Runs the model on `inputs`, some times, and notes the least time of every group.
// kUnimplemented for several parts, and where these inputs make other groups than the plan has.
absl::Status MeasureParts(const Graph& graph, const std::vector<Tensor>& inputs,
                          const CompileOptions& options, std::vector<PlannedPart>& parts);

}  // namespace kiln

#endif  // KILN_TOOLS_EXPLAIN_PLAN_H_
