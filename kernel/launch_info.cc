// SPDX-License-Identifier: Apache-2.0
#include "kernel/launch_info.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kiln {
namespace {

struct Field {
  const char* name;
  int64_t LaunchInfo::*value;
};
constexpr Field kFields[] = {{"step", &LaunchInfo::step},
                             {"columns", &LaunchInfo::columns},
                             {"task", &LaunchInfo::task},
                             {"row_step", &LaunchInfo::row_step}};

bool ParseWord(absl::string_view word, LaunchInfo& info) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(word, absl::MaxSplits('=', 1));
  if (parts.first == "in_place")
    return info.in_place.empty() && ParsePairs(parts.second, info.in_place);
  for (const Field& field : kFields) {
    if (parts.first != field.name) continue;
    int64_t& value = info.*field.value;
    return absl::SimpleAtoi(parts.second, &value) && value >= 1 && value <= 1 << 30;
  }
  return false;
}

}  // namespace

std::string FormatPairs(const std::vector<std::pair<int32_t, int32_t>>& pairs) {
  std::string text;
  for (const auto& [first, second] : pairs)
    absl::StrAppend(&text, text.empty() ? "" : ",", first, ":", second);
  return text;
}

bool ParsePairs(absl::string_view text, std::vector<std::pair<int32_t, int32_t>>& pairs) {
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, ':');
    std::pair<int32_t, int32_t> pair;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &pair.first) ||
        !absl::SimpleAtoi(parts[1], &pair.second) || pair.first < 0 || pair.second < 0) {
      return false;
    }
    pairs.push_back(pair);
  }
  return true;
}

std::string LaunchInfo::ToString() const {
  std::string text;
  for (const Field& field : kFields)
    absl::StrAppend(&text, text.empty() ? "" : " ", field.name, "=", this->*field.value);
  if (!in_place.empty()) absl::StrAppend(&text, " in_place=", FormatPairs(in_place));
  return text;
}

absl::StatusOr<LaunchInfo> LaunchInfo::Parse(absl::string_view text) {
  LaunchInfo info;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!ParseWord(word, info))
      return absl::InvalidArgumentError(
          absl::StrCat("launch: \"", word,
                       "\" is no fact; there are step, columns, task and row_step, "
                       "each a number from 1, and in_place=input:output,..."));
  }
  return info;
}

}  // namespace kiln
