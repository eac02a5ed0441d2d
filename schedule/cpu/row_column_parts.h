// SPDX-License-Identifier: Apache-2.0
// The two halves of a kernel of rows with reductions down the same rows, which no row needs.
//
// Layer norm backward is such: the gradient of its input is made row by row, those of scale and
// bias are sums of all rows. With dims a, b:
//
//   s0 : f32 [a] = reduce add over b (mul(in0[a, b], in1[a, b]))     rows
//   s1 : f32 [b] = reduce add over a (in0[a, b])                     columns
//   out  0 f32 [a, b] dense = sub(in0[a, b], s0[a])                  rows
//   out  1 f32 [b] dense = s1[b]                                     columns
#ifndef KILN_SCHEDULE_CPU_ROW_COLUMN_PARTS_H_
#define KILN_SCHEDULE_CPU_ROW_COLUMN_PARTS_H_

#include <cstddef>
#include <vector>

#include "kernel/kernel.h"

namespace kiln {

// Some outputs of a kernel and what they need, and where those were in it. Dims, inputs and
// parameters are all those of the kernel.
struct Half {
  Kernel kernel;
  std::vector<size_t> stages, outputs;
};

struct Halves {
  Half rows, columns;
};

// The outputs over all dims, and the others. Stages are read in place (StagesReadInPlace).
Halves HalvesOf(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_ROW_COLUMN_PARTS_H_
