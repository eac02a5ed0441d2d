// SPDX-License-Identifier: Apache-2.0
// Links of a long chain of operations.
//
// A processor runs ahead of what it waits for by a few hundred instructions. A step of the loop
// over a chain of many exp, log, ... has more than that, so that each of them waits for the one
// before. Where the chain is cut into links, each of which runs over a strip of elements before the
// next begins, steps of one link overlap. It is less to compile, too: there are fewer registers to
// share out at a time.
//
// Example: exp(tanh(log(sigmoid(x)))), long as it is not, would become
//   s0 : f32 [a] = sigmoid(in0[a])
//   s1 : f32 [a] = log(s0[a])
//   s2 : f32 [a] = tanh(s1[a])
//   out  0 f32 [a] dense = exp(s2[a])
#ifndef KILN_SCHEDULE_CPU_LOOP_FISSION_H_
#define KILN_SCHEDULE_CPU_LOOP_FISSION_H_

#include <optional>

#include "kernel/kernel.h"

namespace kiln {

// Elements of a strip: a page of the first cache at most for each link.
inline constexpr int kStrip = 256;  // speed

// `kernel`, if it is a chain that can be cut, with its links as its only stages: maps over all
// dims. A cut is where one value is all that is needed later of what was computed before it.
std::optional<Kernel> InLinks(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_LOOP_FISSION_H_
