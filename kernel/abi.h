// SPDX-License-Identifier: Apache-2.0
// How a kernel is called: the same for compiled code and for the block VM.
//
//   int kernel(void** argv)    0 on success, else an error that the launcher turns into a status
//
// argv, in this order:
//   argv[0]    LaunchContext**   the address of the context pointer
//   inputs     BufferArg*        one per `in` line
//   dims       int32_t*          the extent of each dim, iterated then sizes, as in the text
//   params     void*             one per `par` line: the value, in the parameter's type
//   outputs    BufferArg*        one per `out` line
//
// BufferArg and its dims are laid out as Halide's halide_buffer_t and halide_dimension_t (checked
// where Halide is included). BufferArg.dim[0] is the innermost axis. min is 0; extents and strides
// (in elements) are always filled in by the launcher, who has validated them: a kernel checks
// nothing. Launches all of whose outputs are empty are skipped, and those with an input without
// elements, or that reduce nothing, run on the VM.
//
// A compiled kernel is an ELF shared object that exports k_argv, kiln_imports and kiln_abi and has
// no undefined symbol: the few runtime functions it calls go through kiln_imports, a table of
// kNumImports pointers that the loader fills.
#ifndef KILN_KERNEL_ABI_H_
#define KILN_KERNEL_ABI_H_

#include <cstddef>
#include <cstdint>

namespace kiln {

inline constexpr uint32_t kKernelAbi = 2;

struct BufferDim {
  int32_t min = 0;
  int32_t extent = 0;
  int32_t stride = 0;  // elements
  uint32_t flags = 0;
};

struct BufferArg {
  uint64_t device = 0;
  const void* device_interface = nullptr;
  uint8_t* host = nullptr;
  uint64_t flags = 0;
  uint8_t type_code = 0;  // 0 int, 1 uint, 2 float, 4 bfloat (halide_type_code_t); bool is uint 8
  uint8_t type_bits = 0;
  uint16_t type_lanes = 1;
  int32_t dimensions = 0;
  BufferDim* dim = nullptr;
  void* padding = nullptr;
};

inline constexpr int64_t kLine = 64;  // bytes that a cache holds or leaves at once

// Whether an operand begins at a line and all its rows do.
inline bool WholeLines(const BufferArg& operand) {
  int64_t bytes = reinterpret_cast<intptr_t>(operand.host);
  for (int32_t axis = 1; axis < operand.dimensions; ++axis)
    bytes |= int64_t{operand.dim[axis].stride} * (operand.type_bits / 8);
  return bytes % kLine == 0;
}

// One call of `task` per index in [0, n); returns the first non-zero result, else 0. Static
// partition; nested calls are serial.
using TaskFn = int (*)(void* user_context, int index, uint8_t* closure);

struct LaunchContext {
  const void* kernel = nullptr;  // the VmKernel when the function is the VM's; else unused
  void* pool = nullptr;          // opaque to kernels
  int (*parallel_for)(LaunchContext* context, TaskFn task, int min, int n,
                      uint8_t* closure) = nullptr;
  void* (*allocate)(LaunchContext* context,
                    size_t bytes) = nullptr;  // 64-byte aligned scratch of the calling worker
  void (*release)(LaunchContext* context, void* memory) = nullptr;
  const volatile bool* cancel = nullptr;  // when set and true, kernels may stop early
  void* stream = nullptr;                 // CUDA
  // Outputs would leave the cache anyway, are WholeLines and lie over no input: they may be written
  // around the caches.
  bool non_temporal = false;
};

using KernelFn = int (*)(void** argv);

// Slots of kiln_imports, in order. The loader fills the first four with functions of the same
// meaning as Halide's, memset with memset, and all others with one that returns an error (they
// cannot be reached in checked launches).
inline constexpr const char* kImportNames[] = {
    "halide_do_par_for",  // int(void* ctx, TaskFn, int min, int n, uint8_t* closure)
    "halide_malloc",      // void*(void* ctx, size_t)
    "halide_free",        // void(void* ctx, void*)
    "memset",
    "memcpy",
    "memmove",
    "halide_error_out_of_memory",
    "halide_error_host_is_null",
    "halide_error_bad_type",
    "halide_error_bad_dimensions",
    "halide_error_constraint_violated",
    "halide_error_access_out_of_bounds",
    "halide_error_buffer_argument_is_null",
    "halide_error_buffer_extents_negative",
    "halide_error_buffer_extents_too_large",
    "halide_error_buffer_allocation_too_large",
    "halide_error_device_dirty_with_no_device_support",
    "halide_error_fold_factor_too_small",
    "halide_error_param_too_small_i64",
    "halide_error_param_too_large_i64",
};
inline constexpr size_t kNumImports = sizeof(kImportNames) / sizeof(kImportNames[0]);

}  // namespace kiln

#endif  // KILN_KERNEL_ABI_H_
