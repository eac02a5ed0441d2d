// SPDX-License-Identifier: Apache-2.0
// What magika 1.0.3 does around its network standard_v3_3: from a file's bytes to 2,048 integers,
// and from 214 probabilities to an answer. A file is seen as its first and its last 1,024 bytes,
// without the white space at its very edges.
#ifndef KILN_EXAMPLES_MAGIKA_FILE_TYPE_H_
#define KILN_EXAMPLES_MAGIKA_FILE_TYPE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::magika {

inline constexpr int kFeatures = 2048;

struct Answer {
  std::string label;        // "python", "txt", "unknown", ...
  double score = 1;         // probability of the network's label; 1 where it was not asked
  std::string model_label;  // before the rules; "undefined" where the network was not asked
};

// Either what the network is asked about, or the answer of a file that it is not asked about
// (empty, tiny).
struct Features {
  std::vector<int32_t> values;  // kFeatures, or none
  Answer answer;
};
Features Extract(absl::string_view bytes);

// The network's labels, and the rules that turn a label and its probability into an answer.
class Rules {
 public:
  // Reads labels.txt (one label a line) and rules.tsv (rule, label, value) of a directory.
  static absl::StatusOr<Rules> Read(const std::string& directory);

  int num_labels() const { return static_cast<int>(labels_.size()); }
  Answer Decide(const float* probabilities) const;

 private:
  std::vector<std::string> labels_;
  std::map<std::string, double> thresholds_;
  std::map<std::string, std::string> overwrites_;
  std::set<std::string> binary_;
};

}  // namespace kiln::magika

#endif  // KILN_EXAMPLES_MAGIKA_FILE_TYPE_H_
