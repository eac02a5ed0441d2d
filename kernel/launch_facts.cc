// SPDX-License-Identifier: Apache-2.0
#include "kernel/launch_facts.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kiln {
namespace {

struct Field {
  const char* name;
  int64_t LaunchFacts::*value;
};
constexpr Field kFields[] = {{"step", &LaunchFacts::step},
                             {"columns", &LaunchFacts::columns},
                             {"task", &LaunchFacts::task},
                             {"row_step", &LaunchFacts::row_step}};

bool ParseWord(absl::string_view word, LaunchFacts& facts) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(word, absl::MaxSplits('=', 1));
  if (parts.first == "in_place")
    return facts.in_place.empty() && ParsePairs(parts.second, facts.in_place);
  for (const Field& field : kFields) {
    if (parts.first != field.name) continue;
    int64_t& value = facts.*field.value;
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

std::string LaunchFacts::ToString() const {
  std::string text;
  for (const Field& field : kFields)
    absl::StrAppend(&text, text.empty() ? "" : " ", field.name, "=", this->*field.value);
  if (!in_place.empty()) absl::StrAppend(&text, " in_place=", FormatPairs(in_place));
  return text;
}

absl::StatusOr<LaunchFacts> LaunchFacts::Parse(absl::string_view text) {
  LaunchFacts facts;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!ParseWord(word, facts))
      return absl::InvalidArgumentError(
          absl::StrCat("launch: \"", word,
                       "\" is no fact; there are step, columns, task and row_step, "
                       "each a number from 1, and in_place=input:output,..."));
  }
  return facts;
}

}  // namespace kiln
