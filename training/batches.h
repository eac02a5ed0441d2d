// SPDX-License-Identifier: Apache-2.0
// The inputs of a step in the order of their ports, and the parts of a batch.
#ifndef KILN_TRAINING_BATCHES_H_
#define KILN_TRAINING_BATCHES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "kiln/model.h"

namespace kiln::training {

// One tensor for each port. kInvalidArgument: one is missing, given twice, or unknown.
absl::StatusOr<std::vector<Tensor>> InOrder(const std::vector<PortInfo>& ports,
                                            const NamedTensors& given);

// `parts` lists of views: of a tensor whose first dim is, by its port, that of the first port, a
// part of equal size; of others the whole. kInvalidArgument: they do not divide.
absl::StatusOr<std::vector<std::vector<Tensor>>> Cut(const std::vector<PortInfo>& ports,
                                                     const std::vector<Tensor>& tensors, int parts);

}  // namespace kiln::training

#endif  // KILN_TRAINING_BATCHES_H_
