// SPDX-License-Identifier: Apache-2.0
// Samples in memory, and the batches of an epoch.
#ifndef KILN_TOOLS_TRAIN_DATA_H_
#define KILN_TOOLS_TRAIN_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "kiln/model.h"

namespace kiln {

class Samples {
 public:
  // `data`: "x.npy" (of the first input), "NAME=x.npy" or "D.npz", whose arrays have the names of
  // inputs. `labels`: a file, or empty where an array has them, or there are none. Elements become
  // those of their port. kInvalidArgument: an input is missing, unknown or given twice, or has
  // another number of samples (its first extent) than the first.
  static absl::StatusOr<Samples> Read(const std::string& flag, const std::vector<std::string>& data,
                                      const std::string& labels_flag, const std::string& labels,
                                      const std::vector<PortInfo>& ports);

  int64_t size() const { return size_; }

  // Samples order[begin], ..., order[end - 1], copied.
  absl::StatusOr<NamedTensors> Batch(const std::vector<int64_t>& order, int64_t begin,
                                     int64_t end) const;

 private:
  std::vector<std::pair<std::string, Tensor>> tensors_;
  int64_t size_ = 0;
};

// The file of a specification: FILE or NAME=FILE.
std::string FileOf(const std::string& spec);

// 0 ... n - 1 in the order of this epoch: the same on every machine.
std::vector<int64_t> Shuffled(int64_t n, uint64_t seed, uint64_t epoch);

}  // namespace kiln

#endif  // KILN_TOOLS_TRAIN_DATA_H_
