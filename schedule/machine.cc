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

template <typename Owner, typename Number>
struct Field {
  const char* name;
  Number Owner::*number;
};
constexpr Field<Machine, double> kFields[] = {{"launch", &Machine::launch_ns},
                                              {"gflops", &Machine::gflops}};
constexpr Field<Machine, int64_t> kWholeCpuFields[] = {
    {"vector", &Machine::vector_bytes}, {"registers", &Machine::registers},
    {"l1", &Machine::l1_bytes},         {"l2", &Machine::l2_bytes},
    {"l3", &Machine::l3_bytes},         {"grain", &Machine::parallel_grain}};
constexpr Field<Machine, double> kCpuFields[] = {{"loop", &Machine::loop_ns},
                                                 {"gather", &Machine::gather_ns},
                                                 {"transpose", &Machine::transpose_ns},
                                                 {"mask", &Machine::mask_ns},
                                                 {"latency", &Machine::latency_ns},
                                                 {"window", &Machine::window},
                                                 {"jump", &Machine::jump_ns},
                                                 {"add", &Machine::add_ns},
                                                 {"div", &Machine::div_ns},
                                                 {"sqrt", &Machine::sqrt_ns},
                                                 {"integer_div", &Machine::integer_div_ns},
                                                 {"extreme", &Machine::extreme_ns}};
constexpr Field<Gpu, double> kGpuFields[] = {{"multiprocessors", &Gpu::multiprocessors},
                                             {"clock", &Gpu::clock_ghz},
                                             {"lanes", &Gpu::lanes},
                                             {"lanes64", &Gpu::lanes64},
                                             {"registers", &Gpu::registers},
                                             {"shared", &Gpu::shared_bytes},
                                             {"threads", &Gpu::threads},
                                             {"latency", &Gpu::latency_ns}};

// Calls `visit(name, number)` for each fact that the machine's device has, but for sets.
template <typename SomeMachine, typename Visit>
void VisitFacts(SomeMachine& machine, const Visit& visit) {
  if (machine.target.device == DeviceKind::kCuda) {
    for (const auto& field : kGpuFields) visit(field.name, machine.gpu.*field.number);
  } else {
    for (const auto& field : kWholeCpuFields) visit(field.name, machine.*field.number);
    for (const auto& field : kCpuFields) visit(field.name, machine.*field.number);
  }
  for (const auto& field : kFields) visit(field.name, machine.*field.number);
}

// What an operation on a 32-bit number takes where every lane of a GPU is busy, in ns.
void SetCosts(Machine& machine) {
  constexpr double kDivision = 10, kRoot = 10, kIntegerDivision = 20;  // speed: instructions
  constexpr double kExtreme = 4;  // speed: two comparisons, two choices
  const Gpu& gpu = machine.gpu;
  machine.add_ns = 1 / (gpu.multiprocessors * gpu.lanes * gpu.clock_ghz);
  machine.div_ns = kDivision * machine.add_ns;
  machine.sqrt_ns = kRoot * machine.add_ns;
  machine.integer_div_ns = kIntegerDivision * machine.add_ns;
  machine.extreme_ns = kExtreme * machine.add_ns;
}

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
    if (machine_.target.device == DeviceKind::kCuda) SetCosts(machine_);
    return std::move(machine_);
  }

 private:
  bool Line(const std::vector<absl::string_view>& words) {
    if (!started_) return started_ = absl::StrJoin(words, " ") == kFirstLine;
    if (words[0] == "target" && words.size() == 2) {
      const std::optional<Target> target = Target::Parse(words[1]);
      if (target) machine_.target = *target;
      return target && seen_.empty() && seen_.insert("target").second;  // it says what may follow
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
    bool taken = false;
    VisitFacts(machine_, [&](absl::string_view name, auto& number) {
      if (words[0] != name || words.size() != 2) return;
      taken = Read(words[1], *last, number) && seen_.insert(std::string(name)).second;
    });
    return taken;
  }

  static bool Read(absl::string_view, double value, double& number) {
    number = value;
    return true;
  }
  static bool Read(absl::string_view text, double, int64_t& number) {
    return absl::SimpleAtoi(text, &number);
  }

  absl::Status Complete() const {
    std::string missing;
    const auto require = [&](bool there, absl::string_view what) {
      if (!there) absl::StrAppend(&missing, missing.empty() ? "" : ", ", what);
    };
    require(started_, absl::StrCat("the line \"", kFirstLine, "\""));
    require(seen_.count("target") != 0, "target");
    VisitFacts(machine_, [&](const char* name, auto&) { require(seen_.count(name) != 0, name); });
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
  VisitFacts(machine, [&](const char* name, const auto& number) {
    absl::StrAppend(&text, name, " ", number, "\n");
  });
  for (const Machine::Set& set : machine.sets)
    absl::StrAppend(&text, "set ", set.bytes, " ", set.gb_per_s, "\n");
  return text;
}

}  // namespace kiln
