// SPDX-License-Identifier: Apache-2.0
#include "compiler/example_launch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "kiln/dim.h"

namespace kiln {
namespace {

constexpr int kMostRounds = 40;  // of changes of one symbol
constexpr int64_t kMostTried = 130;
constexpr int64_t kFreeValue = 7;  // of a symbol that no guard has
constexpr int kExpensive = 1000;   // a guard that does not hold, or what is no extent

// What values of the symbols have to keep: guards, and extents of a launch that has something to
// do.
struct WantedLaunch {
  const std::vector<Guard>* guards = nullptr;
  std::vector<Dim> extents;

  // How many are not kept. Extents count less: a launch without elements is one all the same.
  int Broken(const SymbolValues& values) const {
    int broken = 0;
    for (const Guard& guard : *guards) {
      const bool of_extents = guard.kind != Guard::Kind::kValue &&
                              guard.kind != Guard::Kind::kPresent &&
                              guard.kind != Guard::Kind::kAbsent;
      if (of_extents && !guard.Holds(values).value_or(false)) broken += kExpensive;
    }
    for (const Dim& extent : extents) {
      const int64_t value = extent.Evaluate(values).value_or(-1);
      broken += value < 0 || value > std::numeric_limits<int32_t>::max() ? kExpensive
                : value == 0                                             ? 1
                                                                         : 0;
    }
    return broken;
  }
};

std::set<std::string> SymbolsOf(const WantedLaunch& wanted) {
  std::set<std::string> symbols;
  for (const Guard& guard : *wanted.guards) {
    symbols.merge(guard.Symbols());
  }
  for (const Dim& extent : wanted.extents) extent.CollectSymbols(symbols);
  return symbols;
}

// The change of one symbol that keeps most, if it keeps more than before.
std::optional<std::pair<std::string, int64_t>> BestChange(const WantedLaunch& wanted,
                                                          SymbolValues values) {
  int least = wanted.Broken(values);
  std::optional<std::pair<std::string, int64_t>> best;
  for (auto& changed : values) {
    const int64_t before = changed.second;
    const auto attempt = [&](int64_t to) {
      changed.second = to;
      if (const int broken = wanted.Broken(values); to >= 0 && broken < least) {
        least = broken;
        best.emplace(changed.first, to);
      }
    };
    for (int64_t to = 1; to <= kMostTried; ++to) attempt(to);
    attempt(0);
    for (const Guard& guard : *wanted.guards) {
      for (const int64_t near : {guard.number - 1, guard.number, guard.number + 1}) attempt(near);
    }
    changed.second = before;
  }
  return best;
}

// Changes one symbol at a time, as long as that keeps more.
SymbolValues Mended(const WantedLaunch& wanted, SymbolValues values) {
  for (int round = 0; round < kMostRounds && wanted.Broken(values) > 0; ++round) {
    const auto change = BestChange(wanted, values);
    if (!change.has_value()) break;
    values[change->first] = change->second;
  }
  return values;
}

// Values under which all guards hold: one for all symbols, or mended.
std::optional<SymbolValues> ValuesFor(const std::vector<Guard>& guards) {
  const WantedLaunch wanted{&guards, {}};
  const std::set<std::string> symbols = SymbolsOf(wanted);
  for (const bool mend : {false, true}) {
    for (const int64_t first : {7, 16, 64, 1, 2, 3, 12, 48, 256}) {
      SymbolValues values;
      for (const std::string& symbol : symbols) values[symbol] = first;
      if (mend) values = Mended(wanted, std::move(values));
      if (wanted.Broken(values) == 0) return values;
    }
  }
  return std::nullopt;
}

void SetExample(const std::vector<Guard>& guards, const SymbolValues& usual,
                const program::KernelThunk& thunk, program::KernelDef& def) {
  WantedLaunch wanted{&guards, {}};
  for (const std::string& text : thunk.dims()) {
    absl::StatusOr<Dim> dim = Dim::Parse(text);
    if (!dim.ok()) return;
    wanted.extents.push_back(*std::move(dim));
  }
  SymbolValues values = usual;
  for (const std::string& symbol : SymbolsOf(wanted)) values.emplace(symbol, kFreeValue);
  values = Mended(wanted, std::move(values));
  if (wanted.Broken(values) >= kExpensive) return;
  for (const Dim& extent : wanted.extents) def.add_example(extent.Evaluate(values).value_or(0));
}

}  // namespace

void SetExampleLaunches(const std::vector<Guard>& guards, program::Program& program) {
  const std::optional<SymbolValues> usual = ValuesFor(guards);
  if (!usual.has_value()) return;
  for (const program::Region& region : program.regions()) {
    for (const program::Thunk& thunk : region.thunks()) {
      if (!thunk.has_kernel()) continue;
      program::KernelDef& def = *program.mutable_kernels(thunk.kernel().kernel());
      if (def.example_size() == 0) SetExample(guards, *usual, thunk.kernel(), def);
    }
  }
}

}  // namespace kiln
