// SPDX-License-Identifier: Apache-2.0
// kiln-ulp: how exact the functions of kernels are. Prints a table in Markdown, in units of the
// last place.
//
//   kiln-ulp [--type f32|f64|f16|bf16] [--function NAME]... [--operands 1|2] [--stride N] [--check]
//   kiln-ulp --table [...]: a row for all types, as in docs/numerics.md
//
// Inputs are those of inputs.h, or every N-th of them; "all" is printed where there are no others.
// --check: exit 1 where a bound is exceeded or bits differ.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "bench/ulp/functions.h"
#include "bench/ulp/sweep.h"

namespace kiln::ulp {
namespace {

struct Settings {
  DType type = DType::kF32;
  bool table = false;
  std::vector<std::string> only;
  int operands = 0;  // of functions; 0: any
  uint64_t stride = 1;
  bool check = false;
};

// Prints the row of one type. False where a bound is exceeded or bits differ.
absl::StatusOr<bool> RowOfType(const Function& function, const Settings& settings) {
  KILN_ASSIGN_OR_RETURN(const SweepResult r, RunSweep(function, settings.type, settings.stride));
  const double bound = function.Bound(settings.type);
  absl::PrintF("| %s | %s | %s | %s | %s | %g | %s |\n", Info(function.op).name,
               Name(settings.type), r.Inputs(), r.Error(), r.At(), bound, r.SameBits());
  return r.Good(bound);
}

absl::StatusOr<bool> RowOfAll(const Function& function, const Settings& settings) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
  SweepResult results[4];
  bool good = true, same = true;
  for (int i = 0; i < 4; ++i) {
    KILN_ASSIGN_OR_RETURN(results[i], RunSweep(function, kTypes[i], settings.stride));
    good = good && results[i].Good(function.Bound(kTypes[i]));
    same = same && results[i].differing == 0;
  }
  const auto& [f32, f16, bf16, f64] = results;
  absl::PrintF("| %s | %s | %s | %s | %g | %s | %s | %s | %s | %s |\n", Info(function.op).name,
               f32.Inputs(), f32.Error(), f32.At(), function.bound32, f16.Error(), bf16.Error(),
               f64.Error(), f64.At(), same ? f32.executors : "BITS DIFFER");
  return good;
}

bool ParseArguments(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    if (flag == "--check" || flag == "--table") {
      (flag == "--check" ? settings.check : settings.table) = true;
      continue;
    }
    if (i + 1 >= argc) return false;
    const absl::string_view value = argv[++i];
    if (flag == "--function") {
      settings.only.emplace_back(value);
    } else if (flag == "--stride") {
      if (!absl::SimpleAtoi(value, &settings.stride) || settings.stride == 0) return false;
    } else if (flag == "--operands") {
      if (!absl::SimpleAtoi(value, &settings.operands)) return false;
    } else if (flag == "--type") {
      const std::optional<DType> type = ParseDType(value);
      if (!type || !IsFloat(*type)) return false;
      settings.type = *type;
    } else {
      return false;
    }
  }
  return true;
}

bool Wanted(const Function& function, const Settings& settings) {
  if (settings.operands != 0 && settings.operands != function.operands()) return false;
  return settings.only.empty() || std::find(settings.only.begin(), settings.only.end(),
                                            Info(function.op).name) != settings.only.end();
}

int Main(int argc, char** argv) {
  Settings settings;
  if (!ParseArguments(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: kiln-ulp [--type f32|f64|f16|bf16 | --table] [--function NAME]... "
                 "[--operands 1|2] [--stride N] [--check]\n");
    return 2;
  }
  if (settings.table) {
    std::puts(
        "| function | f32: inputs | largest error, ULP | at | bound | f16 | bf16 | f64 | f64 at | "
        "same bits on |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  } else {
    std::puts(
        "| function | type | inputs | largest error, ULP | at | bound | same bits on |\n"
        "| --- | --- | --- | --- | --- | --- | --- |");
  }
  bool good = true;
  for (const Function& function : Functions()) {
    if (!Wanted(function, settings)) continue;
    const absl::StatusOr<bool> row =
        settings.table ? RowOfAll(function, settings) : RowOfType(function, settings);
    if (!row.ok()) {
      std::fprintf(stderr, "%s: %s\n", Info(function.op).name,
                   std::string(row.status().message()).c_str());
      return 1;
    }
    std::fflush(stdout);
    good = good && *row;
  }
  return good || !settings.check ? 0 : 1;
}

}  // namespace
}  // namespace kiln::ulp

int main(int argc, char** argv) { return kiln::ulp::Main(argc, argv); }
