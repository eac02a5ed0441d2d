// SPDX-License-Identifier: Apache-2.0
#include "kernel/params.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kiln {

int64_t Params::Get(absl::string_view name, int64_t otherwise) const {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return otherwise;
}

int64_t Params::RowStep() const {
  const bool other_rows = Get("flat", 1) > 1 || Get("unroll", 0) > 0 || Get("across", 0) > 0;
  return other_rows || Get("turn", -1) >= 0 ? 1 : Get("lanes", 1);
}

std::string Params::ToString() const {
  std::string text = scheduler;
  for (const auto& [name, value] : values) absl::StrAppend(&text, " ", name, "=", value);
  for (size_t i = 0; i < in_place.size(); ++i) {
    const auto& [input, output] = in_place[i];
    absl::StrAppend(&text, i == 0 ? " inplace=" : ",", input, ":", output);
  }
  return text;
}

namespace {

bool IsName(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
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

}  // namespace

absl::StatusOr<Params> Params::Parse(absl::string_view text) {
  Params params;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (params.scheduler.empty()) {
      params.scheduler = std::string(word);
      continue;
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(word, '=');
    int64_t value = 0;
    if (parts.size() == 2 && parts[0] == "inplace" && params.in_place.empty()) {
      if (ParsePairs(parts[1], params.in_place)) continue;
    } else if (parts.size() == 2 && IsName(parts[0]) && absl::SimpleAtoi(parts[1], &value)) {
      params.values.emplace_back(std::string(parts[0]), value);
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "params: \"", word, "\" is neither name=integer nor inplace=input:output,...; see Params"));
  }
  if (!IsName(params.scheduler)) {
    return absl::InvalidArgumentError(
        "params: no scheduler named; write for example \"row lanes=16\"");
  }
  std::sort(params.values.begin(), params.values.end());
  const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::adjacent_find(params.values.begin(), params.values.end(), same_name) !=
      params.values.end()) {
    return absl::InvalidArgumentError("params: a name is given twice; give each once");
  }
  return params;
}

}  // namespace kiln
