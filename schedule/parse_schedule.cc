// SPDX-License-Identifier: Apache-2.0
// Schedule::Parse: the template that a text names, of those of the device, and its fields.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedule/device.h"
#include "schedule/schedule.h"

namespace kiln {
namespace {

// "a=1 b=(c d=2) e" at its spaces, but for those in parentheses.
std::vector<absl::string_view> Words(absl::string_view text) {
  std::vector<absl::string_view> words;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ' ' || depth > 0)) continue;
    if (i > start) words.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  return words;
}

}  // namespace

// Takes the words of a text one by one.
class ScheduleParser : public FieldVisitor {
 public:
  ScheduleParser(std::map<std::string, absl::string_view> words, DeviceKind device)
      : words_(std::move(words)), device_(device) {}

  void Int(const char* name, int64_t& value, Range range) override {
    if (const absl::string_view* text = Take(name)) Number(name, *text, value, range);
  }
  void Flag(const char* name, bool& value) override {
    const absl::string_view* text = Take(name);
    if (text == nullptr) return;
    int64_t number = 0;
    Number(name, *text, number, {0, 1});
    value = number != 0;
  }
  void Dim(const char* name, int64_t& dim) override { Int(name, dim, {0, kMostDims}); }
  void Dims(const char* name, int64_t& count, bool) override { Int(name, count, {1, kMostDims}); }
  void List(const char* name, std::vector<int64_t>& values, Range range) override {
    const absl::string_view* text = Take(name);
    if (text == nullptr) return;
    values.clear();
    for (const absl::string_view item : absl::StrSplit(*text, ','))
      Number(name, item, values.emplace_back(), range);
  }
  void Part(const char* name, Schedule& part) override {
    const absl::string_view* text = Take(name);
    absl::StatusOr<Schedule> parsed = absl::InvalidArgumentError(
        absl::StrCat("schedule: \"", name, "\" is missing; write ", name, "=(another schedule)"));
    const bool enclosed =
        text != nullptr && text->size() > 2 && text->front() == '(' && text->back() == ')';
    if (enclosed && text->find('(', 1) == text->npos)  // a part has no parts
      parsed = Schedule::Parse(text->substr(1, text->size() - 2), device_);
    if (parsed.ok()) {
      part = *std::move(parsed);
    } else {
      status_.Update(parsed.status());
    }
  }

  absl::StatusOr<Schedule> Run(const Template& of) {
    Schedule schedule;
    schedule.template_ = &of;
    schedule.fields_ = of.make();
    schedule.fields_->Visit(*this);
    if (const absl::string_view* pairs = Take("in_place")) {
      if (!ParsePairs(*pairs, schedule.in_place))
        Wrong("in_place", *pairs, "it is written input:output,...");
    }
    if (status_.ok() && !words_.empty()) {
      Wrong(words_.begin()->first, words_.begin()->second,
            absl::StrCat("a ", of.name, " schedule has no such field"));
    }
    if (!status_.ok()) return status_;
    return schedule;
  }

 private:
  // The text of a field, which is found once; null if there is none.
  const absl::string_view* Take(const std::string& name) {
    const auto found = words_.find(name);
    if (found == words_.end()) return nullptr;
    taken_ = found->second;
    words_.erase(found);
    return &taken_;
  }

  void Number(const std::string& name, absl::string_view text, int64_t& value, Range range) {
    if (absl::SimpleAtoi(text, &value) && value >= range.least && value <= range.most) return;
    Wrong(name, text, absl::StrCat("it must be from ", range.least, " to ", range.most));
  }

  void Wrong(absl::string_view name, absl::string_view text, absl::string_view why) {
    status_.Update(absl::InvalidArgumentError(
        absl::StrCat("schedule: \"", name, "\" is \"", text, "\"; ", why)));
  }

  static constexpr int64_t kMostDims = 64;  // correctness
  std::map<std::string, absl::string_view> words_;
  const DeviceKind device_;
  absl::string_view taken_;
  absl::Status status_;
};

absl::StatusOr<Schedule> Schedule::Parse(absl::string_view text, DeviceKind device) {
  const std::vector<absl::string_view> words = Words(text);
  const std::span<const Template* const> names = ModelOf(device).templates();
  const auto of = std::find_if(names.begin(), names.end(), [&](const Template* name) {
    return !words.empty() && words[0] == name->name;
  });
  if (of == names.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule: \"", words.empty() ? "" : words[0], "\" is no template; there are ",
        absl::StrJoin(names, ", ",
                      [](std::string* out, const Template* name) { *out += name->name; })));
  }
  std::map<std::string, absl::string_view> values;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (parts.second.empty() || !values.emplace(parts.first, parts.second).second)
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule: \"", words[i], "\" is no name=value, or not the first of its name"));
  }
  return ScheduleParser(std::move(values), device).Run(**of);
}

}  // namespace kiln
