// SPDX-License-Identifier: Apache-2.0
// How a training run went so far, and where in the data it is: what a checkpoint of `kiln train`
// keeps besides the trainer's state.
#ifndef KILN_TOOLS_TRAIN_HISTORY_H_
#define KILN_TOOLS_TRAIN_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace kiln {

struct TrainHistory {
  struct Point {  // the mean loss of some steps up to this one
    int64_t step = 0;
    double loss = 0;
  };
  struct Epoch {
    int64_t epoch = 0;                          // from 1
    double loss = 0;                            // mean over its steps
    double lr = 0;                              // of its last step
    std::optional<double> eval_loss, accuracy;  // of the data for evaluation
  };
  // What the order of samples follows from; a run that goes on must have the same.
  struct Data {
    uint64_t seed = 0;
    int64_t samples = 0, batch = 0;
    friend bool operator==(const Data&, const Data&) = default;
  };

  Data data;
  int64_t epoch = 0, next = 0;  // epochs that are over, and the next batch's number in this one
  double sum = 0;               // of losses in this epoch
  double lr = 0;                // of the last step
  std::vector<Point> points;
  double point_sum = 0;  // of losses since the last point
  int64_t point_steps = 0;
  std::vector<Epoch> epochs;
};

nlohmann::json ToJson(const TrainHistory::Epoch& epoch);

// As text, and back; the text is untrusted. kInvalidArgument: it is no such text.
std::string ToText(const TrainHistory& history);
absl::StatusOr<TrainHistory> ParseTrainHistory(const std::string& text);

// The loss curve as a page: one HTML file that loads nothing.
std::string TrainPage(const std::string& model, const TrainHistory& history);

}  // namespace kiln

#endif  // KILN_TOOLS_TRAIN_HISTORY_H_
