// SPDX-License-Identifier: Apache-2.0
// What fusion gains: every kernel of several nodes against its nodes run one by one.
#ifndef KILN_BENCH_PRICE_GAIN_H_
#define KILN_BENCH_PRICE_GAIN_H_

#include <string>

#include "absl/status/status.h"
#include "kiln/dim.h"

namespace kiln::bench {

struct GainSettings {
  SymbolValues dims;      // of the model's symbols; 1 where nothing is said
  double seconds = 0.02;  // for each run
  double least_us = 1;    // kernels that take less are noise
  bool list = false;      // a line for each kernel
};

// Times the distinct fused kernels of a model three times in turn with their nodes as kernels of
// their own, with one thread. Prints a line for each that is slower by more than 8 % in two of the
// three, and a summary.
absl::Status PrintGains(const std::string& path, const GainSettings& settings);

}  // namespace kiln::bench

#endif  // KILN_BENCH_PRICE_GAIN_H_
