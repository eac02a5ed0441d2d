// SPDX-License-Identifier: Apache-2.0
// What a kernel must compute, element by element as kernel.h and scalar_expr.h say it, with nothing clever.
#ifndef KILN_TESTS_HALIDE_GEN_ORACLE_H_
#define KILN_TESTS_HALIDE_GEN_ORACLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/kernel/kernel.h"
#include "tests/halide_gen/loaded_kernel.h"

namespace kiln {

// Fills `outputs`. Functions of `kernel` must have been expanded.
void Evaluate(const Kernel& kernel, const std::vector<int32_t>& extents, const std::vector<uint64_t>& params,
              const std::vector<HostArray>& inputs, std::vector<HostArray>& outputs);

// The element at `offset` elements as kConst holds it (16-bit floats widened), and back with rounding.
uint64_t LoadElement(const HostArray& array, int64_t offset);
void StoreElement(HostArray& array, int64_t offset, uint64_t bits);

// The first difference between the bytes of two arrays, or "". NaN equals NaN; all else is compared bit by bit, gaps too.
std::string Difference(const HostArray& got, const HostArray& want);

}  // namespace kiln

#endif  // KILN_TESTS_HALIDE_GEN_ORACLE_H_
