// SPDX-License-Identifier: Apache-2.0
// Array: a tensor of the second evaluator. Plain numbers in row-major order; a long double holds
// every i64 and every f32 exactly.
#ifndef KILN_TESTS_SYMBOLS_ARRAY_H_
#define KILN_TESTS_SYMBOLS_ARRAY_H_

#include <cstdint>
#include <vector>

namespace kiln::symbols {

using Ints = std::vector<int64_t>;

// Element types by ONNX's numbers: kFloat, kInt32, kInt64, kBool of tests/onnx/model_writer.h.
struct Array {
  int type = 1;
  Ints shape;
  std::vector<long double> elements;
};

inline int64_t CountOf(const Ints& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace kiln::symbols

#endif  // KILN_TESTS_SYMBOLS_ARRAY_H_
