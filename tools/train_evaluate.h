// SPDX-License-Identifier: Apache-2.0
// The loss and the accuracy of a model over samples that it is not trained on.
#ifndef KILN_TOOLS_TRAIN_EVALUATE_H_
#define KILN_TOOLS_TRAIN_EVALUATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/trainer.h"
#include "tools/train_data.h"

namespace kiln {

struct EvaluatedSamples {
  struct Of {
    int64_t batch = 1;               // samples evaluated at once
    bool whole_batches = false;      // a last, smaller batch is left out
    std::string output;              // whose largest element is the class; empty: the first
    std::string labels;              // the name of the input of labels
    std::optional<int64_t> ignored;  // the label that does not count
  };
  double loss = 0;                 // the mean over labels that count: that of one batch of all
  std::optional<double> accuracy;  // from 0 to 1; none where outputs and labels are no classes
};

// kInvalidArgument: fewer samples than a whole batch, or no label counts. Errors of the trainer.
absl::StatusOr<EvaluatedSamples> EvaluateSamples(Trainer& trainer, const Samples& samples,
                                                 const EvaluatedSamples::Of& of);

}  // namespace kiln

#endif  // KILN_TOOLS_TRAIN_EVALUATE_H_
