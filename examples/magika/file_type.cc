// SPDX-License-Identifier: Apache-2.0
#include "examples/magika/file_type.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/status_macros.h"

namespace kiln::magika {
namespace {

constexpr size_t kHalf = 1024;
constexpr size_t kBlock = 4096;
constexpr size_t kSmallest = 8;
constexpr int32_t kPadding = 256;
constexpr double kDefaultThreshold = 0.5;
constexpr char kWhite[] = " \t\n\r\v\f";

// Length of the UTF-8 sequence at the front of `s`, or 0 if there is none (RFC 3629: shortest form,
// no surrogates).
size_t SequenceLength(absl::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<uint8_t>(s[i]) : 0u; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool shortest = first != 0xE0 || byte(1) >= 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return continues(1) && continues(2) && shortest && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool in_range = (first != 0xF0 || byte(1) >= 0x90) && (first != 0xF4 || byte(1) <= 0x8F);
    return continues(1) && continues(2) && continues(3) && in_range ? 4 : 0;
  }
  return 0;
}

bool IsUtf8(absl::string_view s) {
  while (!s.empty()) {
    const size_t n = SequenceLength(s);
    if (n == 0) return false;
    s.remove_prefix(n);
  }
  return true;
}

Features Unasked(absl::string_view label) { return {{}, {std::string(label), 1, "undefined"}}; }

}  // namespace

Features Extract(absl::string_view bytes) {
  if (bytes.empty()) return Unasked("empty");
  const size_t n = std::min(kBlock, bytes.size());
  absl::string_view begin = bytes.substr(0, n);
  absl::string_view end = bytes.substr(bytes.size() - n);
  const absl::string_view plain = IsUtf8(begin) ? "txt" : "unknown";
  if (bytes.size() < kSmallest) return Unasked(plain);
  begin.remove_prefix(std::min(begin.find_first_not_of(kWhite), begin.size()));
  end = end.substr(0, end.find_last_not_of(kWhite) + 1);  // npos + 1 is 0
  begin = begin.substr(0, kHalf);
  if (end.size() > kHalf) end.remove_prefix(end.size() - kHalf);
  if (begin.size() < kSmallest) return Unasked(plain);

  Features features;
  features.values.assign(kFeatures, kPadding);
  const auto copy = [&](absl::string_view from, size_t at) {
    for (size_t i = 0; i < from.size(); ++i)
      features.values[at + i] = static_cast<uint8_t>(from[i]);
  };
  copy(begin, 0);
  copy(end, kFeatures - end.size());
  return features;
}

absl::StatusOr<Rules> Rules::Read(const std::string& directory) {
  constexpr int64_t kMost = 1 << 20;
  KILN_ASSIGN_OR_RETURN(const std::string labels,
                        RealFileSystem().ReadFile(absl::StrCat(directory, "/labels.txt"), kMost));
  KILN_ASSIGN_OR_RETURN(const std::string table,
                        RealFileSystem().ReadFile(absl::StrCat(directory, "/rules.tsv"), kMost));
  Rules rules;
  rules.labels_ = absl::StrSplit(labels, '\n', absl::SkipEmpty());
  for (absl::string_view line : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    if (fields.size() < 2) continue;
    if (fields[0] == "binary") rules.binary_.insert(fields[1]);
    if (fields.size() < 3) continue;
    if (fields[0] == "overwrite") rules.overwrites_[fields[1]] = fields[2];
    double threshold = 0;
    if (fields[0] == "threshold" && absl::SimpleAtod(fields[2], &threshold))
      rules.thresholds_[fields[1]] = threshold;
  }
  return rules;
}

Answer Rules::Decide(const float* probabilities) const {
  const auto best = std::max_element(probabilities, probabilities + labels_.size());
  Answer answer;
  answer.score = *best;
  answer.model_label = labels_[static_cast<size_t>(best - probabilities)];
  const auto overwrite = overwrites_.find(answer.model_label);
  answer.label = overwrite != overwrites_.end() ? overwrite->second : answer.model_label;
  const auto threshold = thresholds_.find(answer.model_label);
  if (answer.score < (threshold != thresholds_.end() ? threshold->second : kDefaultThreshold)) {
    answer.label =
        answer.label == "unknown" || binary_.count(answer.label) != 0 ? "unknown" : "txt";
  }
  return answer;
}

}  // namespace kiln::magika
