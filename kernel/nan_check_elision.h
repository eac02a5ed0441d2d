// SPDX-License-Identifier: Apache-2.0
// Maxima that need not let NaN through, because NaN shows in every result without them.
//
// To carry a NaN, a step of a maximum takes four instructions in place of one. In a softmax it is
// not the maximum that has to carry it: a NaN of the row is a term of the sum as well, and with it
// every result of the row is NaN. Example:
//
//   s0 : f32 [a]    = reduce max over b (in0[a, b])              # any value where in0 has a NaN
//   s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))
//   s2 : f32 [a]    = reduce add over b (s1[a, b])               # there NaN
//   out  0 [a, b]   = mul(s1[a, b], div(1, s2[a]))               # there NaN
#ifndef KILN_KERNEL_NAN_CHECK_ELISION_H_
#define KILN_KERNEL_NAN_CHECK_ELISION_H_

#include <cstddef>

#include "kernel/kernel.h"

namespace kiln {

// True if stage `maximum` of `kernel` is a maximum of floats that may have any value where one of
// its elements is NaN: every output is then NaN, or the same, whatever it has.
bool NanCheckElisionWithout(const Kernel& kernel, size_t maximum);

}  // namespace kiln

#endif  // KILN_KERNEL_NAN_CHECK_ELISION_H_
