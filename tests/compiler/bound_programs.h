// SPDX-License-Identifier: Apache-2.0
// Random programs for outputs that are bound over inputs: many kernels, many inputs and outputs of
// one size in bytes, inputs that are read late, values that lie in an output's memory before it is
// written, outputs that are inputs or each other's twins, and control flow.
#ifndef KILN_TESTS_COMPILER_BOUND_PROGRAMS_H_
#define KILN_TESTS_COMPILER_BOUND_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"

namespace kiln {

struct BoundProgram {
  std::string kind;
  Graph graph;
  std::vector<Tensor> inputs;  // in the order of the graph's; dense
};

// One of the kinds below. Equal seeds give equal programs.
absl::StatusOr<BoundProgram> MakeBoundProgram(uint64_t seed);

// Steps over states of one size: element-wise ones, rows that change places, views, softmax,
// products, casts that keep the size of elements. Extents are numbers or a symbol.
absl::StatusOr<BoundProgram> MakeStateProgram(uint64_t seed);
// A script: branches and loops whose bodies hand on what they are given, nested ones, extents that
// a run finds out, and segments between them.
absl::StatusOr<BoundProgram> MakeControlProgram(uint64_t seed);
// A large batch of images, at which plans tile it (exec/batch_tiling.h).
absl::StatusOr<BoundProgram> MakeImagesProgram(uint64_t seed);

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_BOUND_PROGRAMS_H_
