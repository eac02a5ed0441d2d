// SPDX-License-Identifier: Apache-2.0
// The networks of bench/training/networks.py: a forward graph, what its inputs are, and its loss;
// and from that, as a user's program would make it, gradients and a training step.
//
// FOLDER/NAME.graph has the graph, FOLDER/NAME.json what the graph does not say: the role of each
// input (`parameter`, `state`: a running statistic whose next value is the output NAME_next, or
// `data`), the numbers that it begins with, the loss, the optimizer. bench/training/files.py writes
// both.
#ifndef KILN_TESTS_TRAINING_NETWORK_H_
#define KILN_TESTS_TRAINING_NETWORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tensor.h"
#include "graph/graph.h"
#include "graph/training/flat_tensors.h"
#include "graph/training/optimizer.h"
#include "kiln/model.h"
#include "nlohmann/json.hpp"

namespace kiln::training {

struct NetworkPort {
  enum class Role : uint8_t { kParameter, kState, kData };

  std::string name;
  Role role = Role::kData;
  double low = 0, high = 1;  // floats are from low to high, integers from 0 below high
};

struct Network {
  Graph forward;
  std::vector<NetworkPort> ports;  // of forward.inputs(), in their order
  std::string head;                // "value", or a loss of losses.h
  Optimizer optimizer;
  double lr = 0;
  nlohmann::json file;  // the whole NAME.json
};

// With floats of `type`, f32 or f64. Errors name the file.
absl::StatusOr<Network> ReadNetwork(const std::string& folder, const std::string& name,
                                    DType type = DType::kF32);

// `count` numbers of [0, 1) that depend on the name alone: those of SplitMix64 from its FNV-1a
// hash on. bench/training/seeded.py makes the same.
std::vector<double> SeededUnits(absl::string_view name, int64_t count);
// What input `k` of the forward graph begins with: numbers of f32 whatever its type is.
Tensor SeededValue(const Network& network, size_t k);

// Outputs: the loss, then its gradient by each parameter, in the order of the ports.
absl::StatusOr<Graph> GradientGraph(const Network& network);

struct NetworkStep {
  Graph graph;
  FlatLayout layout;  // of the state "parameters"
  std::vector<StateBuffer> states;
  std::string parameters;  // the state that holds them
};
// A training step: outputs "loss" and the next value of each state, parameters and moments back to
// back in one state each. Inputs beside states: the data, and "lr", f64 [].
absl::StatusOr<NetworkStep> TrainingStep(const Network& network);

// Sets states and binds data to what a run begins with; `bound` keeps what is bound.
absl::Status BeginTraining(const Network& network, const NetworkStep& step, Context& context,
                           std::vector<Tensor>& bound);

}  // namespace kiln::training

#endif  // KILN_TESTS_TRAINING_NETWORK_H_
