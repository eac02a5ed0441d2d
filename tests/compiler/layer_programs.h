// SPDX-License-Identifier: Apache-2.0
// Random networks of a few layers over x [n, c], with constants in every role: weights of products,
// rows that are added, places of a gather, masks, operands that are folded, an output by itself.
//
//   absl::StatusOr<BoundProgram> made = MakeLayerProgram(7);
//   // x: f32 [n, 5]; matmul(x, f32 [5, 3]); add(.., f32 [3]); where(bool [3], ..); output y
#ifndef KILN_TESTS_COMPILER_LAYER_PROGRAMS_H_
#define KILN_TESTS_COMPILER_LAYER_PROGRAMS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tests/compiler/bound_programs.h"

namespace kiln {

// Equal seeds give equal programs. Its kind is "layers".
absl::StatusOr<BoundProgram> MakeLayerProgram(uint64_t seed);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_LAYER_PROGRAMS_H_
