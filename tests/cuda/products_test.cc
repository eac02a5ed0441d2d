// SPDX-License-Identifier: Apache-2.0
// Products with activations, asked for as the executor does, on the emulated GPU with the fake
// cuBLASLt: what graphs have no call for until fast math is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "exec/cuda/launch_queue.h"
#include "exec/cuda/libraries.h"
#include "tests/base/status_matchers.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/cuda/fake/fakes.h"

namespace kiln::cuda {
namespace {

constexpr int64_t kRows = 5, kSum = 8, kColumns = 7;

std::vector<float> Numbers(int64_t count, int seed) {
  std::vector<float> made;
  for (int64_t i = 0; i < count; ++i)
    made.push_back(static_cast<float>((i * 37 + seed * 11) % 89) * 0.03F - 1.2F);
  return made;
}

library::Operand Dense(int64_t rows, int64_t columns) {
  return {true, DType::kF32, {rows, columns}, {columns, 1}, nullptr};
}

// [5, 8] x [8, 7] + a vector, then the activation, computed at `shift` elements from where memory
// begins.
absl::StatusOr<std::vector<float>> RunProduct(Libraries& libraries, const std::shared_ptr<Gpu>& gpu,
                                              const std::string& activation, size_t shift) {
  library::Request request;
  request.inputs = {Dense(kRows, kSum), Dense(kSum, kColumns), Dense(1, kColumns)};
  request.outputs = {Dense(kRows, kColumns)};
  request.post_ops = {{"add", {}}, {activation, {}}};
  KILN_ASSIGN_OR_RETURN(const auto primitive, libraries.MakeCall("matmul", request));
  KILN_ASSIGN_OR_RETURN(const auto queue, LaunchQueue::Make(gpu));
  std::vector<std::shared_ptr<DeviceMemory>> memory;
  std::vector<void*> at;
  for (const int64_t count : {kRows * kSum, kSum * kColumns, kColumns, kRows * kColumns}) {
    KILN_ASSIGN_OR_RETURN(memory.emplace_back(),
                          DeviceMemory::Allocate(gpu, static_cast<size_t>(count + 4) * 4));
    at.push_back(AsPointer(memory.back()->address() + shift * 4));
    if (at.size() == 4) break;
    const std::vector<float> values = Numbers(count, static_cast<int>(at.size()));
    KILN_RETURN_IF_ERROR(queue->CopyIn(at.back(), values.data(), values.size() * 4));
  }
  LaunchContext context{};
  context.stream = static_cast<DeviceQueue*>(queue.get());
  void* const outputs[] = {at[3]};
  KILN_RETURN_IF_ERROR(primitive->Run({at.data(), outputs, nullptr, &context, nullptr}));
  std::vector<float> got(kRows * kColumns);
  KILN_RETURN_IF_ERROR(queue->CopyOut(got.data(), at[3], got.size() * 4));
  KILN_RETURN_IF_ERROR(queue->Wait());
  return got;
}

TEST(Products, HaveActivations) {
  FakeLibraries fakes;
  fakes.cublaslt.reset();
  const auto gpu = EmulatedGpu();
  Libraries libraries(gpu, {.cublaslt = fakes.cublaslt_path, .cudnn = {}});
  const std::vector<float> a = Numbers(kRows * kSum, 1), b = Numbers(kSum * kColumns, 2),
                           v = Numbers(kColumns, 3);
  for (const std::string activation : {"relu", "gelu_tanh"}) {
    for (const size_t shift : {size_t{0}, size_t{1}}) {  // operands that are not aligned
      SCOPED_TRACE(activation + " at " + std::to_string(shift));
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<float> got,
                                RunProduct(libraries, gpu, activation, shift));
      for (int64_t i = 0; i < kRows * kColumns; ++i) {
        double sum = v[static_cast<size_t>(i % kColumns)];
        for (int64_t k = 0; k < kSum; ++k)
          sum += double{a[static_cast<size_t>(i / kColumns * kSum + k)]} *
                 b[static_cast<size_t>(k * kColumns + i % kColumns)];
        const double want =
            activation == "relu"
                ? std::max(sum, 0.0)
                : sum * 0.5 * (std::tanh((sum + sum * sum * sum * 0.044715) * 0.79788456) + 1);
        EXPECT_NEAR(got[static_cast<size_t>(i)], want, 1e-5) << i;
      }
    }
  }
  EXPECT_EQ(TakeFindings(), "");
}

}  // namespace
}  // namespace kiln::cuda
