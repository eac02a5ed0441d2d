// SPDX-License-Identifier: Apache-2.0
// Code for NVIDIA GPUs. Private: has Halide.h.
//
//   ptx     text that the driver of every level assembles; functions k0, k1, ...
//   launch  how these are launched (kernel/launch_recipe.h)
//   cubin   what ptxas makes of the text for the target's level: for that level alone
//   ptxas   what it says of the cubin: registers, spills, stack, shared bytes of each function; or
//           why there is none
//   sass    what nvdisasm makes of the cubin: its instructions
#ifndef KILN_HALIDE_GEN_CUDA_BACKEND_H_
#define KILN_HALIDE_GEN_CUDA_BACKEND_H_

#include "halide_gen/common/backend.h"

namespace kiln {

extern const Backend kCudaBackend;

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_BACKEND_H_
