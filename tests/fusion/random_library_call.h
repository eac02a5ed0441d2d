// SPDX-License-Identifier: Apache-2.0
// Random calls of library operators, with values for their inputs.
//
//   RandomCall call(seed);
//   MakeRandomCall("conv", call);            // of conv_transpose, matmul, max_pool, ... as well
//   if (call.b.status().ok()) graph = std::move(call.b).Finish();
#ifndef KILN_TESTS_FUSION_RANDOM_LIBRARY_CALL_H_
#define KILN_TESTS_FUSION_RANDOM_LIBRARY_CALL_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "graph/graph.h"
#include "kiln/graph.h"

namespace kiln {

class RandomCall {
 public:
  explicit RandomCall(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  int64_t Between(int64_t first, int64_t last) { return first + Below(last - first + 1); }
  std::vector<int64_t> List(size_t size, int64_t first, int64_t last);
  ValueId Input(DType type, const std::vector<int64_t>& shape);
  DType Float();  // f32, f64 or bf16
  DType Byte();   // u8 or i8
  // Attributes of a window over the axes of `kernel`, with pads below the kernel's span.
  Attrs Window(const std::vector<int64_t>& kernel);

  std::mt19937_64 random_;
  GraphBuilder b{"call"};
  std::vector<Tensor> inputs;
};

// One call, whose result is output "y". The builder has an error where no output is left.
void MakeRandomCall(const std::string& op, RandomCall& call);

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_RANDOM_LIBRARY_CALL_H_
