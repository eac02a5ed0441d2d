// SPDX-License-Identifier: Apache-2.0
// What of a model is trained: constants that become parameters, and those that are running means
// and variances of batch norms.
//
//   KILN_ASSIGN_OR_RETURN(const Choice choice, Choose(model, output, {}, {"encoder.*"}));
//   choice.parameters[0].layout.parts[0].name;     // "fc.weight"
#ifndef KILN_TRAINING_CHOICE_H_
#define KILN_TRAINING_CHOICE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/tensor.h"
#include "graph/graph.h"
#include "graph/training/flat_tensors.h"

namespace kiln::training {

// Tensors of one type, back to back.
struct FlatGroup {
  DType type = DType::kF32;
  FlatLayout layout;
};

struct Choice {
  std::vector<FlatGroup> parameters, statistics;  // a group for each type, by the type's number
  std::map<std::string, Tensor> values;           // what each of them is in the model, by its name
};

// Names of what a batch_norm reads as mean and as variance, where both are constants or identities
// of some, else empty: the value's own name where nothing else reads it, else with "@" and the name
// of the node's output, so that batch norms that share a constant at the beginning have statistics
// of their own.
struct StatisticNames {
  std::string mean, variance;
};
StatisticNames StatisticsOf(const Graph& model, const Node& node);

// `output`: what the loss is made of. Patterns are those of TrainerOptions. kInvalidArgument: a
// pattern names nothing, nothing is left to train, a name begins with "kiln/", or a batch norm has
// neither constants nor values made of its batch as statistics.
absl::StatusOr<Choice> Choose(const Graph& model, ValueId output,
                              const std::vector<std::string>& parameters,
                              const std::vector<std::string>& frozen);

}  // namespace kiln::training

#endif  // KILN_TRAINING_CHOICE_H_
