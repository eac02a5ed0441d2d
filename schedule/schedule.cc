// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.h"

#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedule/device.h"

namespace kiln {
namespace {

// Fields and their values, as texts.
class Lister : public FieldVisitor {
 public:
  void Int(const char* name, int64_t& value, Range) override { Add(name, absl::StrCat(value)); }
  void Flag(const char* name, bool& value) override { Add(name, value ? "1" : "0"); }
  void Dim(const char* name, int64_t& dim) override { Add(name, absl::StrCat(dim)); }
  void Dims(const char* name, int64_t& count, bool) override { Add(name, absl::StrCat(count)); }
  void List(const char* name, std::vector<int64_t>& values, Range) override {
    Add(name, absl::StrJoin(values, ","));
  }
  void Part(const char* name, Schedule& part) override {
    Add(name, absl::StrCat("(", part.ToString(), ")"));
  }
  std::vector<std::pair<std::string, std::string>> values;

 private:
  void Add(const char* name, std::string text) { values.emplace_back(name, std::move(text)); }
};

// Doubles or halves the number `at`, if it can.
class Varier : public FieldVisitor {
 public:
  Varier(int at, bool twice) : at_(at), twice_(twice) {}
  void Int(const char*, int64_t& value, Range range) override {
    if (count_++ != at_) return;
    const int64_t other = twice_ ? 2 * value : value / 2;
    varied_ = value > 1 && other >= range.least && other <= range.most && other != value;
    if (varied_) value = other;
  }
  void Bound(const char*, int64_t&, Range) override {}
  void Flag(const char*, bool& value) override {
    if (count_++ != at_ || !twice_) return;
    value = !value;
    varied_ = true;
  }
  void Dim(const char*, int64_t&) override {}
  void Dims(const char*, int64_t&, bool) override {}
  void List(const char*, std::vector<int64_t>&, Range) override {}
  void Part(const char*, Schedule&) override {}
  int count() const { return count_; }
  bool varied() const { return varied_; }

 private:
  const int at_;
  const bool twice_;
  int count_ = 0;
  bool varied_ = false;
};

// Whether the dims that a schedule names are there.
class DimChecker : public FieldVisitor {
 public:
  explicit DimChecker(const Kernel& kernel) : kernel_(kernel) {}
  void Int(const char*, int64_t&, Range) override {}
  void Flag(const char*, bool&) override {}
  void Dim(const char* name, int64_t& dim) override {
    Check(name, dim, 0, std::max(0, kernel_.innermost() - 1));
  }
  void Dims(const char* name, int64_t& count, bool all) override {
    Check(name, count, 1, std::max(1, all ? kernel_.num_iterated() : kernel_.innermost()));
  }
  void List(const char*, std::vector<int64_t>&, Range) override {}
  void Part(const char*, Schedule&) override {}
  const absl::Status& status() const { return status_; }

 private:
  void Check(absl::string_view name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return;
    status_.Update(absl::InvalidArgumentError(absl::StrCat("schedule: \"", name, "\" is ", value,
                                                           "; for this kernel it must be from ",
                                                           least, " to ", most)));
  }
  const Kernel& kernel_;
  absl::Status status_;
};

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

  static constexpr int64_t kMostDims = 64;
  std::map<std::string, absl::string_view> words_;
  const DeviceKind device_;
  absl::string_view taken_;
  absl::Status status_;
};

LaunchFacts Schedule::Facts() const {
  LaunchFacts facts = fields_->Facts();
  facts.in_place = in_place;
  return facts;
}

std::vector<std::pair<std::string, std::string>> Schedule::Values() const {
  Lister lister;
  fields_->Visit(lister);
  return std::move(lister.values);
}

void Schedule::VisitCopy(FieldVisitor& visitor) {
  fields_ = fields_->Copy();
  fields_->Visit(visitor);
}

std::string Schedule::ToString() const {
  if (template_ == nullptr) return "";
  std::string text = template_->name;
  Lister defaults;
  template_->make()->Visit(defaults);
  const auto values = Values();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != defaults.values[i])
      absl::StrAppend(&text, " ", values[i].first, "=", values[i].second);
  }
  if (!in_place.empty()) absl::StrAppend(&text, " in_place=", FormatPairs(in_place));
  return text;
}

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

absl::Status Schedule::CheckFor(const Kernel& kernel) const {
  if (const Decision accepted = template_->accepts(kernel); !accepted) {
    return absl::InvalidArgumentError(absl::StrCat("schedule \"", template_->name,
                                                   "\": does not accept the kernel, ",
                                                   accepted.reason(), "; choose another"));
  }
  DimChecker checker(kernel);
  fields_->Visit(checker);
  if (!checker.status().ok()) return checker.status();
  return fields_->CheckFor(kernel);
}

std::vector<Schedule> Schedule::Neighbours() const {
  std::vector<Schedule> neighbours;
  int count = 1;
  for (int at = 0; at < count; ++at) {
    for (const bool twice : {true, false}) {
      Schedule other = *this;
      Varier varier(at, twice);
      other.VisitCopy(varier);
      count = varier.count();
      if (varier.varied()) neighbours.push_back(std::move(other));
    }
  }
  return neighbours;
}

std::vector<int64_t> Members(const std::vector<bool>& in) {
  std::vector<int64_t> members;
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i]) members.push_back(static_cast<int64_t>(i));
  return members;
}

std::vector<bool> AsFlags(const std::vector<int64_t>& members, size_t size) {
  std::vector<bool> in(size);
  for (const int64_t member : members)
    if (member >= 0 && static_cast<size_t>(member) < size) in[static_cast<size_t>(member)] = true;
  return in;
}

}  // namespace kiln
