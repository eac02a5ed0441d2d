// SPDX-License-Identifier: Apache-2.0
#include "compiler/code_figures.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "kernel/launch_recipe.h"

namespace kiln {
namespace {

// The number before " `what`" in a line: "40 bytes smem" has 40 of "bytes smem".
int64_t NumberBefore(absl::string_view line, absl::string_view what) {
  const size_t at = line.find(what);
  if (at == absl::string_view::npos || at < 2) return 0;
  const size_t begin = line.rfind(' ', at - 2);
  const size_t from = begin == absl::string_view::npos ? 0 : begin + 1;
  int64_t number = 0;
  return absl::SimpleAtoi(line.substr(from, at - 1 - from), &number) ? number : 0;
}

// The n-th text in quotes.
std::string Quoted(absl::string_view line, size_t n) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, '\'');
  return std::string(2 * n + 1 < parts.size() ? parts[2 * n + 1] : "");
}

void AddLaunch(const LaunchRecipe& recipe, FunctionFigures& figures) {
  for (const DeviceLaunch& launch : recipe.launches) {
    if (launch.entry != figures.name) continue;
    int64_t threads = 1;
    bool constant = true;
    for (const LaunchExpr& size : launch.block) {
      constant = constant && size.Constant().has_value();
      threads *= size.Constant().value_or(1);
    }
    if (constant) figures.threads = threads;
    const int64_t declared = figures.shared.value_or(0);
    figures.shared = launch.shared_bytes.Constant();
    if (figures.shared) *figures.shared += declared;
  }
}

}  // namespace

std::vector<FunctionFigures> ParseFigures(absl::string_view figures, absl::string_view recipe) {
  std::vector<FunctionFigures> all;
  for (const absl::string_view line : absl::StrSplit(figures, '\n')) {
    if (line.find("Compiling entry function") != absl::string_view::npos) {
      all.emplace_back();
      all.back().name = Quoted(line, 0);
      all.back().level = Quoted(line, 1);
    }
    if (all.empty()) continue;
    FunctionFigures& last = all.back();
    if (line.find("bytes stack frame") != absl::string_view::npos) {
      last.local = NumberBefore(line, "bytes stack frame");
      last.spill_stores = NumberBefore(line, "bytes spill stores");
      last.spill_loads = NumberBefore(line, "bytes spill loads");
    }
    if (line.find("Used ") != absl::string_view::npos) {
      last.registers = NumberBefore(line, "registers");
      last.barriers = NumberBefore(line, "barriers");
      last.shared = NumberBefore(line, "bytes smem");
    }
  }
  const absl::StatusOr<LaunchRecipe> launches = LaunchRecipe::Parse(recipe);
  if (launches.ok())
    for (FunctionFigures& one : all) AddLaunch(*launches, one);
  return all;
}

std::vector<FunctionFigures> FiguresOf(const Entry& entry) {
  const std::string* const figures = entry.Find("ptxas");
  const std::string* const recipe = entry.Find("launch");
  if (figures == nullptr) return {};
  return ParseFigures(*figures, recipe != nullptr ? *recipe : "");
}

}  // namespace kiln
