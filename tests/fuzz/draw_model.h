// SPDX-License-Identifier: Apache-2.0
// Random ONNX models that are nearly right: small operands of the kinds that the operators publish,
// with branches, loops, scans and functions. What is wrong comes from mutate_model.h.
//
//   Random random(seed);
//   onnx::ModelProto model = DrawModel(random);
//   for (int k = 0; k < 2; ++k) Mutate(model, random);
#ifndef KILN_TESTS_FUZZ_DRAW_MODEL_H_
#define KILN_TESTS_FUZZ_DRAW_MODEL_H_

#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "graph/onnx/onnx.pb.h"

namespace kiln {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t Below(size_t count) { return static_cast<size_t>(engine_() % count); }
  bool OneIn(size_t count) { return Below(count) == 0; }
  int64_t From(std::initializer_list<int64_t> values) {
    return values.begin()[Below(values.size())];
  }
  template <typename List>
  const auto& Of(const List& list) {
    return *std::next(std::begin(list), static_cast<std::ptrdiff_t>(Below(std::size(list))));
  }
  int64_t Extreme();  // a number that sizes and positions are seldom tried with
  int64_t Small() { return static_cast<int64_t>(Below(6)) - 2; }

 private:
  std::mt19937_64 engine_;
};

onnx::ModelProto DrawModel(Random& random);

// A node's attribute of that kind (operators.h).
onnx::AttributeProto DrawAttribute(Random& random, const std::string& name, char kind);

// A dense tensor of small elements.
onnx::TensorProto DrawTensor(Random& random, const std::string& name, int type,
                             const std::vector<int64_t>& dims);

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_DRAW_MODEL_H_
