// SPDX-License-Identifier: Apache-2.0
// Random functions (random_function.h) that are traced once and dumped.
#ifndef KILN_TESTS_TRACE_DUMPED_FUNCTION_H_
#define KILN_TESTS_TRACE_DUMPED_FUNCTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/trace.h"
#include "tests/trace/random_function.h"

namespace kiln {

// One that reads nothing.
RandomFunction RandomModel(uint64_t seed);

// Traces the function with constants on the VM, dumps it, and gives its results.
absl::StatusOr<std::vector<Tensor>> TraceAndDump(const RandomFunction& function,
                                                 const std::vector<Tensor>& inputs,
                                                 const std::string& file,
                                                 const DumpOptions& options);

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_DUMPED_FUNCTION_H_
