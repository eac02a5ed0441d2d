// SPDX-License-Identifier: Apache-2.0
// What fusion gains: every kernel of several nodes against its nodes run one by one.
#ifndef KILN_BENCH_PRICE_GAIN_H_
#define KILN_BENCH_PRICE_GAIN_H_

#include <string>

#include "absl/status/status.h"

namespace kiln::bench {

// Times the distinct fused kernels of a model whose extents are numbers, three times in turn with
// their nodes as kernels of their own, with one thread. Prints a line for each that is slower by
// more than 8 % in two of the three (with `list`, for all), and a summary. Runs of less than
// `least` us are left out.
absl::Status PrintGains(const std::string& path, double least_us, bool list);

}  // namespace kiln::bench

#endif  // KILN_BENCH_PRICE_GAIN_H_
