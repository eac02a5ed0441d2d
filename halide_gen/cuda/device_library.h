// SPDX-License-Identifier: Apache-2.0
// The device functions that kernels call (device_library.ll), in place of Halide's library.
//
// Halide links NVIDIA's libdevice into every device module, and LLVM reads it, optimises it and
// drops it: most of the time that a small kernel takes. Kernels of Kiln have expansions of their
// own for functions (kernel/math.h) and call none of it. libHalide looks the library up by a
// symbol, which device_library.cc defines: a module of a few functions, each an instruction in
// inline assembly, which LLVM 21 does not look into. What it knows of them by their names is wrong
// in places: of two roundings to f16 that are stored side by side it drops the conversion, and it
// fails at bits that it takes to be known of a `prmt`.
//
//   Call::make(Float(32, 8).with_code(halide_type_uint), kDeviceRoundBf16, {x}, Call::PureExtern)
//
// A call over a vector is one of NAMEx2 or NAMEx4 for every two or four elements.
#ifndef KILN_HALIDE_GEN_CUDA_DEVICE_LIBRARY_H_
#define KILN_HALIDE_GEN_CUDA_DEVICE_LIBRARY_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

inline constexpr char kDeviceWidenI8[] = "kiln_widen_i8";      // i8 -> i32
inline constexpr char kDeviceWidenBf16[] = "kiln_widen_bf16";  // bits -> f32
// f32 -> bits of 16, to nearest even; a NaN becomes 0x7fff.
inline constexpr char kDeviceRoundF16[] = "kiln_f16";
inline constexpr char kDeviceRoundBf16[] = "kiln_bf16";
inline constexpr char kDeviceRoundToBf16[] = "kiln_round_bf16";  // f32 -> the f32 of its bf16

// kUnimplemented if the text calls a function that is not in it.
absl::Status CheckCallsNoLibrary(absl::string_view ptx);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CUDA_DEVICE_LIBRARY_H_
