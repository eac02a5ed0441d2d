// SPDX-License-Identifier: Apache-2.0
// Lowered host code -> how its device code is launched. Private: has Halide.h.
//
// Halide's host function calls halide_cuda_run with grid, block and arguments, all of them
// expressions over extents and strides. They are read off the statement, so that no host code is
// compiled, linked or loaded.
#ifndef KILN_HALIDE_GEN_CUDA_RECIPE_H_
#define KILN_HALIDE_GEN_CUDA_RECIPE_H_

#include <Halide.h>

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "kernel/launch_recipe.h"

namespace kiln {

// The launch in `function`; `operands` says whose argument each buffer is, `strides`
// what those are that are read from a buffer. kUnimplemented where
// there is not exactly one, where it needs memory of its own on the device, or where an argument is
// no term of the recipe's language.
absl::StatusOr<DeviceLaunch> LaunchOf(const Halide::Internal::LoweredFunc& function,
                                      const std::map<std::string, LaunchOperand>& operands,
                                      const std::map<std::string, Halide::Expr>& strides);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_RECIPE_H_
