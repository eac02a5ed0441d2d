// SPDX-License-Identifier: Apache-2.0
#ifndef KILN_TESTS_HALIDE_GEN_DIFFERENCE_H_
#define KILN_TESTS_HALIDE_GEN_DIFFERENCE_H_

#include <string>

#include "tests/halide_gen/loaded_kernel.h"

namespace kiln {

// The first difference between the bytes of two arrays of one type and size, or "". NaN equals NaN;
// all else is compared bit by bit, gaps between rows and what lies behind the last element too.
std::string Difference(const HostArray& got, const HostArray& want);

}  // namespace kiln

#endif  // KILN_TESTS_HALIDE_GEN_DIFFERENCE_H_
