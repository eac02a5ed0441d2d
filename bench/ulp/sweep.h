// SPDX-License-Identifier: Apache-2.0
// One function over its inputs in one type.
#ifndef KILN_BENCH_ULP_SWEEP_H_
#define KILN_BENCH_ULP_SWEEP_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bench/ulp/functions.h"

namespace kiln::ulp {

struct SweepResult {
  double worst = 0;        // in units of the last place
  double x = 0, y = 0;     // where
  uint64_t count = 0;      // elements tried
  bool all = false;        // there are no others
  uint64_t differing = 0;  // elements on which the executors disagree
  std::string executors;

  bool Good(double bound) const { return differing == 0 && worst <= bound * (1 + 1e-6); }
  // As in tables. The sweep does not look below half a unit; above, two digits are rounded up.
  std::string Error() const;
  std::string At() const;  // "0x1.8p+1", or "0x1.8p+1, 0x1p-3"
  std::string Inputs() const;
  std::string SameBits() const;

  int operands = 1;
};

// Every `stride`-th of the inputs, in arrays that end in a scalar tail of 1 to 15 elements. The
// first executor is measured against the C library (in f64; f64: in long double); the others must
// give the same bits.
absl::StatusOr<SweepResult> RunSweep(const Function& function, DType type, uint64_t stride);

}  // namespace kiln::ulp

#endif  // KILN_BENCH_ULP_SWEEP_H_
