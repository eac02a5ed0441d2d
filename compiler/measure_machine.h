// SPDX-License-Identifier: Apache-2.0
// Measures a Machine (schedule/machine.h): compiles a dozen small kernels for this computer, times
// them with one thread, and solves for the coefficients of their prices.
#ifndef KILN_COMPILER_MEASURE_MACHINE_H_
#define KILN_COMPILER_MEASURE_MACHINE_H_

#include "absl/status/statusor.h"
#include "compiler/machine_of.h"
#include "graph/graph.h"
#include "schedule/machine.h"

namespace kiln {

class ComputeDevice;  // exec/support/compute_device.h

// Takes some seconds; other work on the computer spoils the numbers. Of `options`, cache, codegen
// and target count. kFailedPrecondition if kernels cannot be compiled here.
absl::StatusOr<Machine> MeasureMachine(const CompileOptions& options);

// What a device measures and says of itself, in place of those lines of the machine that is shipped
// for its level; lanes, latency and gflops stay. Errors as ComputeDevice::Measure.
absl::StatusOr<Machine> MeasureDevice(ComputeDevice& device);

// The least time of a run of `graph`, whose extents are numbers, in ns, among those within about
// `seconds`; at least three. Inputs are numbers near 1, and 0 where integers.
absl::StatusOr<double> RunNs(const Graph& graph, const CompileOptions& options, double seconds);

}  // namespace kiln

#endif  // KILN_COMPILER_MEASURE_MACHINE_H_
