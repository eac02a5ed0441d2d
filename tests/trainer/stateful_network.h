// SPDX-License-Identifier: Apache-2.0
// A network for tests of trainers, and its data.
#ifndef KILN_TESTS_TRAINER_STATEFUL_NETWORK_H_
#define KILN_TESTS_TRAINER_STATEFUL_NETWORK_H_

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "kiln/trainer.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/trainer/plain_network.h"

namespace kiln {

inline TrainerOptions VmOptions() {
  TrainerOptions options;
  options.compile = OnVm();
  return options;
}

inline Tensor Drawn(std::vector<int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) WriteFloat(tensor, i, normal(random));
  return tensor;
}

inline Tensor Classes(int64_t n, int64_t classes, unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor = Tensor::Allocate(DType::kI64, {n});
  for (int64_t i = 0; i < n; ++i) WriteInt(tensor, i, static_cast<int64_t>(random()) % classes);
  return tensor;
}

// A network with everything that has a state: batch norm, dropout, moments.
inline GraphBuilder Stateful() {
  GraphBuilder b("stateful");
  const auto constant = [&](const char* name, std::vector<int64_t> shape, unsigned seed) {
    return b.Constant(Drawn(std::move(shape), seed), name);
  };
  const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), 6});
  const ValueId h = b.Op("matmul", {x, constant("w1", {6, 8}, 1)});
  const ValueId mean = b.Constant(F32({8}, training::Numbers(8, 0)), "running_mean");
  const ValueId variance = b.Constant(F32({8}, training::Numbers(8, 1)), "running_var");
  const ValueId normal =
      b.Op("batch_norm", {h, constant("scale", {8}, 2), constant("bias", {8}, 3), mean, variance});
  const ValueId dropped = b.Ops("dropout", {b.Op("relu", {normal})}, {{"ratio", 0.25}}).at(0);
  b.Output(b.Op("matmul", {dropped, constant("w2", {8, 3}, 4)}), "logits");
  return b;
}

inline NamedTensors StepData(unsigned step) {
  return {{"x", Drawn({12, 6}, 100 + step)}, {"labels", Classes(12, 3, 200 + step)}};
}

}  // namespace kiln

#endif  // KILN_TESTS_TRAINER_STATEFUL_NETWORK_H_
