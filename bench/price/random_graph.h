// SPDX-License-Identifier: Apache-2.0
// Random graphs that become one kernel each, of a kind.
#ifndef KILN_BENCH_PRICE_RANDOM_GRAPH_H_
#define KILN_BENCH_PRICE_RANDOM_GRAPH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace kiln::bench {

enum class Kind : uint8_t {
  kMap,     // element by element, with operands that are broadcast
  kRow,     // reductions over the innermost axis, with maps before, between and after
  kColumn,  // reductions over the outer axis
  kIndex,   // transposes, slices, concatenations and gathers, with maps
  kMiddle,  // reductions over a middle axis, with maps before and after
  kShort,   // rows of 1 to 64 elements, with and without reductions
  kMove,    // transposes of three and four axes of odd sizes, with maps
  kBlock,   // transposes of blocks of 2 to 10 by 2 to 10 elements, with maps
};
inline constexpr int kNumKinds = 8;
const char* Name(Kind kind);

// Equal seeds give equal graphs; extents are numbers, operands have 64 KiB to 32 MiB.
absl::StatusOr<Graph> RandomGraph(Kind kind, uint64_t seed);

}  // namespace kiln::bench

#endif  // KILN_BENCH_PRICE_RANDOM_GRAPH_H_
