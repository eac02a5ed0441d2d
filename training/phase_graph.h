// SPDX-License-Identifier: Apache-2.0
// The graph of a model for one phase, training or inference, with what is trained as inputs.
//
//   input x : f32 [n, 3]                       input x : f32 [n, 3]
//   const w : f32 [3, 4] = ...                 input kiln/parameters : f32 [12]
//   y = matmul(x, w)                           w = reshape(slice(kiln/parameters))
//   z = dropout(y) {ratio = 0.5}               input kiln/draws : i64 []
//                                              y = matmul(x, w);  z = dropout(y, kiln/draws)
//
// In training, batch norms normalise by the batch at hand, and random operators draw by the count
// of draws. In inference, dropout is the identity.
#ifndef KILN_TRAINING_PHASE_GRAPH_H_
#define KILN_TRAINING_PHASE_GRAPH_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"
#include "kiln/graph.h"
#include "training/choice.h"

namespace kiln::training {

enum class Phase : uint8_t { kTraining, kInference };

struct PhaseGraph {
  // Inputs: the model's, a flat tensor for each group of parameters and of statistics, and, in
  // training, the count of draws. Outputs: the model's; parameters, in the order of groups and
  // parts; and, in training, the statistics after this run, flat, one for each group.
  Graph graph;
  size_t model_outputs = 0, parameters = 0, statistics = 0;  // how many outputs are which
};

// `momentum`: TrainerOptions::batch_norm_momentum. kUnimplemented: dropout or a batch norm inside a
// loop or branch.
absl::StatusOr<PhaseGraph> MakePhaseGraph(const Graph& model, const Choice& choice, Phase phase,
                                          double momentum);

// The model for inference with these constants in place of its own, by the names of `Choice`.
absl::StatusOr<Graph> WithValues(const Graph& model, const std::map<std::string, Tensor>& values);

}  // namespace kiln::training

#endif  // KILN_TRAINING_PHASE_GRAPH_H_
