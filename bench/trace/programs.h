// SPDX-License-Identifier: Apache-2.0
// The ten programs of bench/trace/programs.py in C++, for runtimes that answer requests as
// bench/interleaved.py makes them.
#ifndef KILN_BENCH_TRACE_PROGRAMS_H_
#define KILN_BENCH_TRACE_PROGRAMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/tensor.h"

namespace kiln::bench {

// One run; the result is what the last run gave.
struct Prepared {
  std::function<absl::Status()> run;
  std::function<absl::StatusOr<Tensor>()> result;
};

// Arrays of f32, dense. kNotFound: no such program.
absl::StatusOr<Prepared> PrepareKiln(const std::string& name, const std::vector<Tensor>& inputs,
                                     int threads);
// Loops that Eigen makes of expressions, into memory that is there. kUnimplemented: built without.
absl::StatusOr<Prepared> PrepareEigen(const std::string& name, const std::vector<Tensor>& inputs);

}  // namespace kiln::bench

#endif  // KILN_BENCH_TRACE_PROGRAMS_H_
