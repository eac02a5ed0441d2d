// SPDX-License-Identifier: Apache-2.0
// Runs a kernel in the VM and element by element (kernel/naive.h) on random data with special
// values, and compares bits.
#ifndef KILN_TESTS_EXEC_VM_VM_HARNESS_H_
#define KILN_TESTS_EXEC_VM_VM_HARNESS_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_features.h"
#include "kernel/abi.h"
#include "kernel/kernel.h"
#include "kernel/naive.h"
#include "tests/kernel/line_bytes.h"

namespace kiln {

// A BufferArg over memory of the caller; axes outermost first, strides in elements.
struct TestArg {
  TestArg() = default;
  TestArg(DType type, void* data, const std::vector<int64_t>& extents,
          const std::vector<int64_t>& strides);
  TestArg(const TestArg&) = delete;
  TestArg(TestArg&& other) noexcept : dims(std::move(other.dims)), arg(other.arg) {}
  std::vector<BufferDim> dims;
  BufferArg arg;
};

// An operand with memory of its own; bytes that no element covers hold a pattern that Intact()
// checks.
struct TestBuffer {
  DType type = DType::kF32;
  std::vector<int64_t> extents, strides;  // outermost first
  LineBytes bytes;
  std::vector<BufferDim> dims;
  BufferArg arg;

  int64_t elements() const;
  void* data() { return bytes.data() + kGuardBytes; }
  NaiveBuffer naive() { return {data(), strides}; }
  // The offset of the i-th element in row-major order.
  int64_t OffsetOf(int64_t i) const;
  // True if nothing outside the elements was written.
  bool Intact() const;

  static constexpr size_t kGuardBytes = 256;
};

// Memory for `layout`: kRows and kStrided get gaps.
TestBuffer MakeBuffer(DType type, const std::vector<int64_t>& extents, Layout layout);

// Random elements of all kinds: small and large numbers, zeros of both signs, infinities, NaN,
// denormals.
void FillRandom(TestBuffer& buffer, std::mt19937& random);
uint64_t RandomBits(DType type, std::mt19937& random);

struct Case {
  std::vector<int64_t> extents;  // of every dim
  int threads = 1;
  IsaLevel isa = IsaLevel::kBaseline;
  uint32_t seed = 1;
};

// The operands of one case.
struct Operands {
  std::vector<TestBuffer> inputs, outputs;
  std::vector<int32_t> extents;
  std::vector<uint64_t> params;
};
Operands MakeOperands(const Kernel& kernel, const Case& c);

// Runs the VM on `operands`, around the caches where their rows are whole lines; its error, or 0.
int RunInVm(const Kernel& kernel, const Case& c, Operands& operands);

// "" if the VM's outputs equal those of EvalKernel, else what differs first.
std::string CompareWithNaive(const Kernel& kernel, const Case& c);

// CompareWithNaive for threads 1, 2, 3 and every instruction set this machine has.
std::string CompareEverywhere(const Kernel& kernel, const std::vector<int64_t>& extents,
                              uint32_t seed = 1);

// Every level up to HostIsa().
std::vector<IsaLevel> LevelsHere();

}  // namespace kiln

#endif  // KILN_TESTS_EXEC_VM_VM_HARNESS_H_
