// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.h"

#include <algorithm>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

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

}  // namespace

Decision Template::Accepts(const Kernel& kernel) const {
  if (adds != Scatters(kernel))
    return Decision::No(adds ? "its output does not add" : "its output adds at loaded places");
  return accepts(kernel);
}

LaunchInfo Schedule::Info() const {
  LaunchInfo info = fields_->Info();
  info.in_place = in_place;
  return info;
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

absl::Status Schedule::CheckFor(const Kernel& kernel) const {
  if (const Decision accepted = template_->Accepts(kernel); !accepted) {
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
