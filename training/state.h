// SPDX-License-Identifier: Apache-2.0
// What training changes: flat tensors of parameters, statistics and moments, and counts; by name,
// and in a file (safetensors):
//
//   fc.weight, bn.running_mean     parameters and statistics, by their names in the model
//   kiln/exp_avg/fc.weight         moments
//   kiln/step, kiln/updates, ...   counts, one element each
//
// Its metadata name the precision: a loss scale is that of f16.
#ifndef KILN_TRAINING_STATE_H_
#define KILN_TRAINING_STATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/tensor.h"
#include "kiln/model.h"
#include "kiln/trainer.h"
#include "training/choice.h"

namespace kiln::training {

struct Counts {
  int64_t step = 0;     // calls of Step that went well
  int64_t updates = 0;  // those of them that changed parameters
  int64_t draws = 0;    // runs of the model, plus 2^31 times the seed
  double scale = 1;     // of the loss; 1 where it is not scaled
  int64_t steady = 0;   // updates since the scale changed
};

// What a loss scale is, in f32 as its reciprocal is.
inline constexpr double kLeastScale = 5.421010862427522e-20;    // 2^-64
inline constexpr double kLargestScale = 1.8446744073709552e19;  // 2^64

// Thread-compatible.
class State {
 public:
  // As `choice`, which must outlive it, has it in the model; moments are zeros, counts those that
  // the options begin with. kResourceExhausted: there is no memory.
  static absl::StatusOr<State> Create(const Choice& choice, const std::vector<std::string>& moments,
                                      const TrainerOptions& options);

  std::vector<Tensor> parameters, statistics;  // one for each group
  std::vector<std::vector<Tensor>> moments;    // by group, then by the moment's number
  Counts counts;

  // A view of a parameter or statistic. kNotFound lists names.
  absl::StatusOr<Tensor> Find(absl::string_view name) const;
  // Copies into it. kInvalidArgument: another type or shape.
  absl::Status Set(absl::string_view name, const Tensor& value);
  // Copies of parameters and statistics by name.
  std::map<std::string, Tensor> Values() const;

  absl::Status Save(FileSystem& files, absl::string_view path,
                    std::map<std::string, std::string> metadata) const;
  // The loss scale is the file's where that and this are of f16; else it begins anew. Nothing has
  // changed after an error.
  absl::StatusOr<std::map<std::string, std::string>> Load(FileSystem& files,
                                                          absl::string_view path);

 private:
  State(const Choice& choice, std::vector<std::string> names, const TrainerOptions& options);
  // Views of everything but counts, by their names in a file.
  std::map<std::string, Tensor> Views(bool with_moments) const;

  const Choice* choice_;
  std::vector<std::string> moment_names_;
  DType precision_;
  double first_scale_;
};

std::vector<PortInfo> PortsOf(const std::vector<FlatGroup>& groups);

}  // namespace kiln::training

#endif  // KILN_TRAINING_STATE_H_
