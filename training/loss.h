// SPDX-License-Identifier: Apache-2.0
// The loss of a training step: its labels, and its value as graph code.
#ifndef KILN_TRAINING_LOSS_H_
#define KILN_TRAINING_LOSS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "graph/graph.h"
#include "kiln/graph.h"
#include "kiln/model.h"
#include "kiln/trainer.h"

namespace kiln::training {

// kInvalidArgument names the option and its range.
absl::Status CheckLoss(const Loss& loss);

bool HasLabels(const Loss& loss);

struct LossPort {
  std::optional<PortInfo> labels;  // nothing: the loss has none
  std::optional<Dim> classes;      // so many, numbered from 0; nothing: labels are no classes
};
// What labels of an output are. kInvalidArgument: the output is none that the loss can be of.
absl::StatusOr<LossPort> LabelsOf(const Loss& loss, const Value& output, const std::string& name);

// The loss of the graph's value `output`, []. `labels` is invalid where there are none.
absl::StatusOr<ValueId> AddLoss(GraphBuilder& b, const Loss& loss, ValueId output, ValueId labels);

// How many classes there are where these are the first inputs of the model, all of them; nothing
// where that follows from data. kInvalidArgument: extents do not fit.
absl::StatusOr<std::optional<int64_t>> ClassesOf(const LossPort& port, const Graph& model,
                                                 const std::vector<Tensor>& inputs);

// Labels as the port has them: of its type, dense; below `classes` where they are classes and the
// number is known. kInvalidArgument: a type that is none of numbers, or a value that is no label;
// it names the element.
absl::StatusOr<Tensor> AsLabels(const Loss& loss, const LossPort& port,
                                std::optional<int64_t> classes, const Tensor& given);

}  // namespace kiln::training

#endif  // KILN_TRAINING_LOSS_H_
