// SPDX-License-Identifier: Apache-2.0
#include "schedule/machine.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr absl::string_view kFirstLine = "kiln machine 4";

struct Field {
  const char* name;
  double Machine::*number;
};
struct WholeField {
  const char* name;
  int64_t Machine::*number;
};
constexpr WholeField kWholeFields[] = {
    {"vector", &Machine::vector_bytes}, {"registers", &Machine::registers},
    {"l1", &Machine::l1_bytes},         {"l2", &Machine::l2_bytes},
    {"l3", &Machine::l3_bytes},         {"grain", &Machine::parallel_grain}};
constexpr Field kFields[] = {{"launch", &Machine::launch_ns},
                             {"loop", &Machine::loop_ns},
                             {"gather", &Machine::gather_ns},
                             {"transpose", &Machine::transpose_ns},
                             {"mask", &Machine::mask_ns},
                             {"gflops", &Machine::gflops},
                             {"latency", &Machine::latency_ns},
                             {"window", &Machine::window},
                             {"jump", &Machine::jump_ns},
                             {"add", &Machine::add_ns},
                             {"div", &Machine::div_ns},
                             {"sqrt", &Machine::sqrt_ns},
                             {"integer_div", &Machine::integer_div_ns},
                             {"extreme", &Machine::extreme_ns}};

// The positive number that `text` is.
std::optional<double> Positive(absl::string_view text) {
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !std::isfinite(number) || number <= 0)
    return std::nullopt;
  return number;
}

class MachineParser {
 public:
  absl::StatusOr<Machine> Run(absl::string_view text) {
    int number = 0;
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++number;
      line = line.substr(0, line.find('#'));
      const std::vector<absl::string_view> words =
          absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
      if (words.empty()) continue;
      if (!Line(words)) {
        return absl::InvalidArgumentError(
            absl::StrCat("machine line ", number, " \"", line,
                         "\": is no fact of a machine; kiln devices --measure writes them all"));
      }
    }
    KILN_RETURN_IF_ERROR(Complete());
    return std::move(machine_);
  }

 private:
  bool Line(const std::vector<absl::string_view>& words) {
    if (!started_) return started_ = absl::StrJoin(words, " ") == kFirstLine;
    if (words[0] == "target" && words.size() == 2) {
      const std::optional<Target> target = Target::Parse(words[1]);
      if (target) machine_.target = *target;
      return target && seen_.insert("target").second;
    }
    const std::optional<double> last = Positive(words.back());
    if (!last) return false;
    if (words[0] == "set" && words.size() == 3) {
      int64_t bytes = 0;
      if (!absl::SimpleAtoi(words[1], &bytes) || bytes <= 0) return false;
      if (!machine_.sets.empty() && machine_.sets.back().bytes >= bytes) return false;
      machine_.sets.push_back({bytes, *last});
      return true;
    }
    for (const WholeField& field : kWholeFields) {
      if (words[0] != field.name || words.size() != 2) continue;
      int64_t& number = machine_.*field.number;
      return absl::SimpleAtoi(words[1], &number) && seen_.insert(field.name).second;
    }
    for (const Field& field : kFields) {
      if (words[0] != field.name || words.size() != 2) continue;
      machine_.*field.number = *last;
      return seen_.insert(field.name).second;
    }
    return false;
  }

  absl::Status Complete() const {
    std::string missing;
    const auto require = [&](bool there, absl::string_view what) {
      if (!there) absl::StrAppend(&missing, missing.empty() ? "" : ", ", what);
    };
    require(started_, absl::StrCat("the line \"", kFirstLine, "\""));
    require(seen_.count("target") != 0, "target");
    for (const WholeField& field : kWholeFields) require(seen_.count(field.name) != 0, field.name);
    for (const Field& field : kFields) require(seen_.count(field.name) != 0, field.name);
    require(!machine_.sets.empty(), "set");
    if (missing.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("machine: lacks ", missing, "; kiln devices --measure writes them all"));
  }

  Machine machine_;
  bool started_ = false;
  std::set<std::string> seen_;
};

}  // namespace

double Machine::GbPerS(double bytes) const {
  const auto above = std::find_if(sets.begin(), sets.end(), [&](const Set& set) {
    return static_cast<double>(set.bytes) >= bytes;
  });
  if (above == sets.begin()) return above->gb_per_s;
  if (above == sets.end()) return sets.back().gb_per_s;
  const Set& below = *(above - 1);
  const double share =
      (bytes - static_cast<double>(below.bytes)) / static_cast<double>(above->bytes - below.bytes);
  return below.gb_per_s * (1 - share) + above->gb_per_s * share;
}

absl::StatusOr<Machine> ParseMachine(absl::string_view text) { return MachineParser().Run(text); }

std::string ToString(const Machine& machine) {
  std::string text = absl::StrCat(kFirstLine, "\ntarget ", machine.target.name(), "\n");
  for (const WholeField& field : kWholeFields)
    absl::StrAppend(&text, field.name, " ", machine.*field.number, "\n");
  for (const Field& field : kFields)
    absl::StrAppend(&text, field.name, " ", machine.*field.number, "\n");
  for (const Machine::Set& set : machine.sets)
    absl::StrAppend(&text, "set ", set.bytes, " ", set.gb_per_s, "\n");
  return text;
}

}  // namespace kiln
