// SPDX-License-Identifier: Apache-2.0
// (Kernel, Schedule) -> PTX and the recipe of its launches. Private: has Halide.h.
//
// PTX is made for sm_80, the least of the levels, and is right for all; what a level gains from its
// own instructions is the assembler's to find.
#ifndef KILN_HALIDE_GEN_CUDA_EMIT_H_
#define KILN_HALIDE_GEN_CUDA_EMIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernel/kernel.h"
#include "kernel/launch_recipe.h"
#include "schedule/schedule.h"

namespace kiln {

struct DeviceCode {
  std::string ptx;  // the functions k0, k1, ...: one for each launch
  LaunchRecipe recipe;
};

// kInvalidArgument if the template of `schedule` does not accept the kernel; kUnimplemented for
// what 32-bit index arithmetic cannot say, or a nest that is not one launch. Halide's own errors
// are thrown as Halide::Error.
absl::StatusOr<DeviceCode> EmitDeviceCode(const Kernel& kernel, const Schedule& schedule);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_EMIT_H_
