// SPDX-License-Identifier: Apache-2.0
// Loads and calls compiled kernels in tests of code generation; the product's loader is exec's.
#ifndef KILN_TESTS_HALIDE_GEN_LOADED_KERNEL_H_
#define KILN_TESTS_HALIDE_GEN_LOADED_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel/abi.h"
#include "kernel/kernel.h"

namespace kiln {

// An operand in someone's memory; strides in elements, per axis, outermost first.
struct HostView {
  DType type = DType::kF32;
  std::vector<int64_t> extents, strides;
  void* data = nullptr;
};

// An operand with memory of its own.
struct HostArray {
  DType type = DType::kF32;
  std::vector<int64_t> extents, strides;
  std::vector<uint8_t> bytes;

  // Row-major, with `gap` elements between innermost rows and `step` between elements; bytes are
  // zero.
  static HostArray Make(DType type, std::vector<int64_t> extents, int64_t step = 1,
                        int64_t gap = 0);
  HostView View() { return {type, extents, strides, bytes.data()}; }
};

class LoadedKernel {
 public:
  // `elf` is the section of an answer.
  static absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const std::string& elf);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;

  // Calls it; `params` as kConst holds them. Tasks run last first, so that a dependence between
  // tasks shows. For each pair of `in_place` the output is written over the input. Outputs of whole
  // lines may be streamed. Returns the kernel's result.
  int Run(const Kernel& kernel, const std::vector<int32_t>& extents,
          const std::vector<uint64_t>& params, const std::vector<HostView>& inputs,
          const std::vector<HostView>& outputs,
          const std::vector<std::pair<int32_t, int32_t>>& in_place = {}) const;

 private:
  LoadedKernel(void* handle, KernelFn function) : handle_(handle), function_(function) {}
  void* handle_;
  KernelFn function_;
};

}  // namespace kiln

#endif  // KILN_TESTS_HALIDE_GEN_LOADED_KERNEL_H_
