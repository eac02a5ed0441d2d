// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/example_launch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>

#include "kiln/base/dim.h"

namespace kiln {
namespace {

void Collect(const std::string& dim, std::set<std::string>& symbols) {
  if (const absl::StatusOr<Dim> parsed = Dim::Parse(dim); parsed.ok())
    parsed->CollectSymbols(symbols);
}

std::set<std::string> SymbolsOf(const std::vector<Guard>& guards, const program::Program& program) {
  std::set<std::string> symbols;
  for (const Guard& guard : guards) {
    guard.left.CollectSymbols(symbols);
    guard.right.CollectSymbols(symbols);
  }
  for (const program::Region& region : program.regions()) {
    for (const program::Thunk& thunk : region.thunks()) {
      for (const std::string& dim : thunk.kernel().dims()) Collect(dim, symbols);
    }
  }
  return symbols;
}

std::optional<SymbolValues> ValuesFor(const std::set<std::string>& symbols,
                                      const std::vector<Guard>& guards) {
  for (const int64_t value : {7, 16, 64, 1, 2, 3, 12, 48, 256}) {
    SymbolValues values;
    for (const std::string& symbol : symbols) values[symbol] = value;
    const auto holds = [&](const Guard& guard) {
      return guard.kind == Guard::Kind::kValue || guard.Holds(values).value_or(false);
    };
    if (std::all_of(guards.begin(), guards.end(), holds)) return values;
  }
  return std::nullopt;
}

}  // namespace

void SetExampleLaunches(const std::vector<Guard>& guards, program::Program& program) {
  const std::optional<SymbolValues> values = ValuesFor(SymbolsOf(guards, program), guards);
  if (!values.has_value()) return;
  for (const program::Region& region : program.regions()) {
    for (const program::Thunk& thunk : region.thunks()) {
      if (!thunk.has_kernel()) continue;
      program::KernelDef& def = *program.mutable_kernels(thunk.kernel().kernel());
      if (def.example_size() != 0) continue;
      for (const std::string& text : thunk.kernel().dims()) {
        const absl::StatusOr<Dim> dim = Dim::Parse(text);
        const int64_t extent = dim.ok() ? dim->Evaluate(*values).value_or(-1) : -1;
        if (extent < 0 || extent > std::numeric_limits<int32_t>::max()) {
          def.clear_example();
          break;
        }
        def.add_example(extent);
      }
    }
  }
}

}  // namespace kiln
