// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/opcodes.h"

#include <array>

#include "absl/strings/match.h"

namespace kiln::ptx {

const Opcode* FindOpcode(absl::string_view name) {
  static const OpcodeTable* const table = [] {
    auto* made = new OpcodeTable();  // for the life of the process
    AddIntegerOpcodes(*made);
    AddBitOpcodes(*made);
    AddFloatOpcodes(*made);
    AddHalfOpcodes(*made);
    AddCompareOpcodes(*made);
    AddConversionOpcodes(*made);
    return made;
  }();
  const auto found = table->find(std::string(name));
  return found == table->end() ? nullptr : &found->second;
}

absl::string_view WhyNotStrict(absl::string_view name) {
  struct Rule {
    absl::string_view part, reason;
  };
  static constexpr std::array<Rule, 8> kRules = {{
      {".approx", "an approximation: its bits differ between GPUs"},
      {".full", "an approximation: its bits differ between GPUs"},
      {".ftz", "flushes subnormal numbers to zero"},
      {"ex2.", "an approximation: its bits differ between GPUs"},
      {"lg2.", "an approximation: its bits differ between GPUs"},
      {"sin.", "an approximation: its bits differ between GPUs"},
      {"cos.", "an approximation: its bits differ between GPUs"},
      {"tanh.", "an approximation: its bits differ between GPUs"},
  }};
  for (const Rule& rule : kRules) {
    const bool found = rule.part[0] == '.' ? absl::StrContains(name, rule.part)
                                           : absl::StartsWith(name, rule.part);
    if (found) return rule.reason;
  }
  if ((absl::StartsWith(name, "atom.") || absl::StartsWith(name, "red.")) &&
      (absl::StrContains(name, ".f16") || absl::StrContains(name, ".f32") ||
       absl::StrContains(name, ".f64") || absl::StrContains(name, ".bf16"))) {
    return "an atomic operation on floats: its result depends on the order of threads";
  }
  return "";
}

}  // namespace kiln::ptx
