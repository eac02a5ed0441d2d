// SPDX-License-Identifier: Apache-2.0
// Lowered host code -> how its device code is launched. Private: has Halide.h.
//
// Halide's host code calls halide_cuda_run with grid, block and arguments, all of them expressions
// over extents and strides. They are read off the statement, so that no host code is compiled,
// linked or loaded.
//
//   Stmt host = Block::make({OfNest(0, lowered0), OfNest(1, lowered1)});
//   host = Halide::Internal::inject_gpu_offload(host, target);
//   LaunchesOf(host, {names0, names1});  // the launch of nest 0, and of nest 1
#ifndef KILN_HALIDE_GEN_CUDA_RECIPE_H_
#define KILN_HALIDE_GEN_CUDA_RECIPE_H_

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel/launch_recipe.h"

namespace kiln {

// What names in the lowered code of a nest stand for.
struct NestNames {
  std::map<std::string, LaunchOperand> operands;  // whose argument a buffer is
  std::map<std::string, Halide::Expr> strides;    // that are read from a buffer
};

// Marks `code` as that of the nest with this number.
Halide::Internal::Stmt OfNest(int number, const Halide::Internal::Stmt& code);

struct Launches {
  std::string ptx;  // of all functions, as Halide made it
  std::vector<DeviceLaunch> of_nests;
};

// What `host` launches, whose code is marked by nests. kUnimplemented where a nest has not exactly
// one launch, where it needs memory of its own on the device, or where an argument is no term of
// the recipe's language.
absl::StatusOr<Launches> LaunchesOf(const Halide::Internal::Stmt& host,
                                    const std::vector<NestNames>& nests);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_RECIPE_H_
