// SPDX-License-Identifier: Apache-2.0
// The programs of a trainer, as graphs.
//
//   gradients    inputs of the model, parameters, statistics, count of draws, loss scale, labels
//                -> loss, gradients, statistics
//   sum          gradients, gradients of another part of the batch -> their sums
//   update       parameters, gradients, moments, learning rate, number of the update, share
//                -> parameters, moments, whether the gradients were finite
//   evaluation   inputs of the model, parameters, statistics, labels -> outputs of the model, loss
//
// Parameters, gradients, moments and statistics are flat (graph/training/flat_tensors.h), one value
// for each type. So the update is few launches however many parameters there are, and it is apart
// from the gradients, so that these can be summed over parts of a batch first.
#ifndef KILN_TRAINING_PROGRAMS_H_
#define KILN_TRAINING_PROGRAMS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/trainer.h"
#include "training/choice.h"
#include "training/loss.h"

namespace kiln::training {

// What all programs of a trainer are made of. Never changed once it is made.
struct Plan {
  Graph model;  // as imported for training
  Choice choice;
  size_t output = 0;  // of the model, that the loss is of
  TrainerOptions options;
  LossPort loss;
};

// kInvalidArgument: the model or an option is wrong, as Trainer::Create says.
absl::StatusOr<std::shared_ptr<const Plan>> MakePlan(Graph model, const TrainerOptions& options);

// Errors are those of Gradients. The graph is made again for other extents.
absl::StatusOr<Graph> GradientGraph(const std::shared_ptr<const Plan>& plan);
// Without `with_loss` it has neither labels nor a loss.
absl::StatusOr<Graph> EvaluationGraph(const std::shared_ptr<const Plan>& plan, bool with_loss);
absl::StatusOr<Graph> SumGraph(const Plan& plan);
absl::StatusOr<Graph> UpdateGraph(const Plan& plan);

}  // namespace kiln::training

#endif  // KILN_TRAINING_PROGRAMS_H_
