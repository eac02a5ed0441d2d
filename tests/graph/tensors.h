// SPDX-License-Identifier: Apache-2.0
// Short tensors for tests: F32({2}, {1, 2}), and what a tensor holds as doubles.
#ifndef KILN_TESTS_GRAPH_TENSORS_H_
#define KILN_TESTS_GRAPH_TENSORS_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "graph/tensors.h"

namespace kiln {

inline Tensor Make(DType type, std::vector<int64_t> shape, const std::vector<double>& values) {
  Tensor tensor = Tensor::Allocate(type, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    if (IsFloat(type)) {
      WriteFloat(tensor, static_cast<int64_t>(i), values[i]);
    } else {
      WriteInt(tensor, static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
    }
  }
  return tensor;
}

inline Tensor F32(std::vector<int64_t> shape, const std::vector<double>& values) {
  return Make(DType::kF32, std::move(shape), values);
}
inline Tensor I64(std::vector<int64_t> shape, const std::vector<double>& values) {
  return Make(DType::kI64, std::move(shape), values);
}

inline std::vector<double> Values(const Tensor& tensor) {
  const Tensor dense = Dense(tensor);
  std::vector<double> values;
  for (int64_t i = 0; i < dense.num_elements(); ++i) values.push_back(ReadFloat(dense, i));
  return values;
}

}  // namespace kiln

#endif  // KILN_TESTS_GRAPH_TENSORS_H_
