// SPDX-License-Identifier: Apache-2.0
// What this machine gives now, to hold times of launches against: bytes of memory and operations
// per second, measured with the threads that the model runs on.
#ifndef KILN_TOOLS_MACHINE_PROBE_H_
#define KILN_TOOLS_MACHINE_PROBE_H_

#include "absl/status/statusor.h"
#include "kiln/options.h"

namespace kiln {

// Bytes read and written per second by a copy between two arrays, each several times as large as
// the last cache, of which every thread has a part. The best of some passes. kResourceExhausted:
// there is no memory for the arrays. Takes some 100 ms.
absl::StatusOr<double> ProbeBandwidth(int threads);

// Floating-point operations per second of a product of square f32 matrices, as a model with these
// options runs it. The best of some runs. Errors as Compile and Run.
absl::StatusOr<double> ProbeMatmul(const CompileOptions& options);

}  // namespace kiln

#endif  // KILN_TOOLS_MACHINE_PROBE_H_
