// SPDX-License-Identifier: Apache-2.0
// Halide's library of device functions (NVIDIA's libdevice), left out.
//
// Halide links it into every device module, and LLVM reads it, optimises it and drops it: most of
// the time that a small kernel takes. Kernels of Kiln have expansions of their own for functions
// (kernel/math.h) and call none of it, so an empty module stands in its place: libHalide looks the
// library up by a symbol, which device_library.cc defines. The text is the same to the byte.
#ifndef KILN_HALIDE_GEN_CUDA_DEVICE_LIBRARY_H_
#define KILN_HALIDE_GEN_CUDA_DEVICE_LIBRARY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// kUnimplemented if the text calls a function that is not in it.
absl::Status CheckCallsNoLibrary(absl::string_view ptx);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_DEVICE_LIBRARY_H_
