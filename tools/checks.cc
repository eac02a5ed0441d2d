// SPDX-License-Identifier: Apache-2.0
#include "tools/checks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/cpu_features.h"
#include "nlohmann/json.hpp"
#include "tools/report.h"

namespace kiln {

void Checks::Add(const std::string& name, CheckStatus status, const std::string& detail,
                 const std::string& advice) {
  checks_.push_back({name, status, detail, status == CheckStatus::kOk ? "" : advice});
}

void Checks::AddProbe(const std::string& name, const absl::StatusOr<std::string>& detail,
                      CheckStatus otherwise, const std::string& advice) {
  Add(name, detail.ok() ? CheckStatus::kOk : otherwise,
      detail.ok() ? *detail : std::string(detail.status().message()), advice);
}

std::string Checks::Word(CheckStatus status) const {
  if (status == CheckStatus::kBad) return bad_;
  return status == CheckStatus::kOk ? "ok" : "note";
}

bool Checks::any_bad() const {
  return std::any_of(checks_.begin(), checks_.end(),
                     [](const Check& check) { return check.status == CheckStatus::kBad; });
}

nlohmann::json Checks::Json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& check : checks_) {
    list.push_back({{"name", check.name},
                    {"status", Word(check.status)},
                    {"detail", check.detail},
                    {"advice", check.advice}});
  }
  return {{"ok", !any_bad()}, {"checks", std::move(list)}};
}

std::string Checks::Text() const {
  constexpr size_t kColumns = 60;  // of the details
  std::vector<std::vector<std::string>> lines;
  for (const Check& check : checks_) {
    const std::string text =
        check.advice.empty() ? check.detail : absl::StrCat(check.detail, "; ", check.advice);
    std::string line;
    std::vector<std::string> head = {check.name, Word(check.status)};
    for (absl::string_view word : absl::StrSplit(text, ' ')) {
      if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
        lines.push_back({head[0], head[1], std::exchange(line, "")});
        head = {"", ""};
      }
      absl::StrAppend(&line, line.empty() ? "" : " ", word);
    }
    lines.push_back({head[0], head[1], line});
  }
  return Table(lines);
}

std::string HostFeatures() {
  std::string features;
  for (const CpuFeatureName& feature : AllCpuFeatures()) {
    if (HostCpu().*feature.has)
      absl::StrAppend(&features, features.empty() ? "" : " ", feature.name);
  }
  return features;
}

}  // namespace kiln
