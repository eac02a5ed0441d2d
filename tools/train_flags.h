// SPDX-License-Identifier: Apache-2.0
// The flags of `kiln train`, and what they mean to a Trainer.
#ifndef KILN_TOOLS_TRAIN_FLAGS_H_
#define KILN_TOOLS_TRAIN_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kiln/trainer.h"
#include "tools/common.h"
#include "tools/flags.h"

namespace kiln {

struct TrainFlags {
  CommonOptions common;
  std::string model, labels, eval_labels, loss = "cross_entropy", optimizer = "adam",
                                          schedule = "constant", precision = "f32";
  std::string output_name, labels_name = "labels", checkpoint, output, curve;
  std::vector<std::string> data, eval, parameters, frozen;
  int epochs = 1, batch = 32, micro_batches = 1, save_every = 0;
  uint64_t seed = 0;
  double clip_norm = 0, clip_value = 0;
  bool resume = false;
};

// `flags` outlives the command.
void AddTrainFlags(Flags& command, TrainFlags& flags);

// kInvalidArgument: a flag has no meaning for training, or a loss, optimizer or schedule is none.
absl::StatusOr<TrainerOptions> TrainerOptionsOf(const TrainFlags& flags);

// That what is written can be, which is said before hours of training, and replaces nothing that is
// read; but a trained model may replace the model.
absl::Status CheckTrainFiles(const TrainFlags& flags);

}  // namespace kiln

#endif  // KILN_TOOLS_TRAIN_FLAGS_H_
