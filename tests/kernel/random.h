// SPDX-License-Identifier: Apache-2.0
// Random kernels and operands, for setting executors against each other and against EvalKernel.
//
//   const Kernel kernel = RandomKernel(seed);            // verified; equal seeds, equal kernels
//   RandomRun run = MakeRandomRun(kernel, seed, 20000);  // extents, parameters, padded operands
//   EvalKernel(kernel, run.InputBuffers(), run.extents, run.params, run.OutputBuffers());
//   EXPECT_EQ(FirstDifference(kernel, run, other), "");  // NaN equals NaN, guard bytes untouched
#ifndef KILN_TESTS_KERNEL_RANDOM_H_
#define KILN_TESTS_KERNEL_RANDOM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/kernel.h"
#include "kernel/naive.h"
#include "tests/kernel/line_bytes.h"

namespace kiln {

// Map chains, reductions over inner, outer and several dims, broadcasts, transposed and shifted
// (guarded) reads, gathers, casts, one to three outputs; f32 mostly, and every other type
// sometimes.
Kernel RandomKernel(uint64_t seed);

// The same whose only output adds such values (add_at) at places that inputs tell, at times with a
// reduction.
Kernel RandomSums(uint64_t seed);

// As RandomKernel, of inputs with axes longer than what is read of them, as slices are: shifted,
// with steps, backwards, without a guard. Extents must be such that they are (probe_fit.h).
Kernel RandomViews(uint64_t seed);

struct RandomOperand {
  DType type = DType::kF32;
  std::vector<int64_t> shape;    // outermost first
  std::vector<int64_t> strides;  // elements
  LineBytes bytes;               // first element at kPad; kPad bytes of 0xa5 on both sides
  static constexpr size_t kPad = 64;
  void* data() { return bytes.data() + kPad; }
};

struct RandomRun {
  std::vector<int64_t> extents;
  std::vector<uint64_t> params;  // as kConst holds them
  std::vector<RandomOperand> inputs, outputs;

  std::vector<NaiveBuffer> InputBuffers();
  std::vector<NaiveBuffer> OutputBuffers();
};

// Extents around the block and lane sizes of the reduction rule, their product at most
// `max_elements`. Float values include NaN, infinities, -0 and denormals.
RandomRun MakeRandomRun(const Kernel& kernel, uint64_t seed, int64_t max_elements);

// The same at these extents.
RandomRun MakeRandomRunAt(const Kernel& kernel, uint64_t seed, std::vector<int64_t> extents);

// Whether an operand has no element: such launches are skipped, or run on the VM.
bool AnyEmpty(const std::vector<RandomOperand>& operands);

// "" if the outputs of both are the same, else the first place where they are not.
std::string FirstDifference(const Kernel& kernel, const RandomRun& got, const RandomRun& want);

}  // namespace kiln

#endif  // KILN_TESTS_KERNEL_RANDOM_H_
