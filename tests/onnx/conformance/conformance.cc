// SPDX-License-Identifier: Apache-2.0
// onnx_conformance: runs the ONNX project's backend tests and holds the results against a file of
// known gaps.
//
//   onnx_conformance --on O3 --gaps tests/onnx/conformance/gaps.txt .deps/onnx-tests
//
// A case fails if it does not give what is expected and is no known gap, or if it is one and
// passes, or if a kernel of it has compiled code that could not be validated. A line of the file of
// gaps that no case has fails too, and so does a folder without data, unless KILN_OFFLINE=1. The
// last line counts. Exit 0: nothing failed; 1: something did; 77: there is no data and
// KILN_OFFLINE=1.
#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/kernel_service.h"
#include "exec/runtime_state.h"
#include "tests/base/fetched_data.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/conformance/backend_case.h"

namespace kiln {
namespace {

constexpr int kNoData = 77;

struct Flags {
  std::string on = "interpreter";
  bool vm = false, empty_cache = false, package = false;
  std::string gaps, only, device, filter = "*";
  int every = 1;
  bool verbose = false;
  std::vector<std::string> roots;
};

// A line of the file of gaps: a pattern of "<root>/<suite>/<case>", where it holds ("all",
// "compiled", or as --on), and why. "random" is no gap: the case passes by the share of zeros.
struct Gap {
  std::string pattern, on, reason;
  bool used = false;
};

std::vector<Gap> ReadGaps(const std::string& path) {
  std::vector<Gap> gaps;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Gap gap;
    std::istringstream words(line);
    words >> gap.pattern >> gap.on;
    std::getline(words >> std::ws, gap.reason);
    gaps.push_back(std::move(gap));
  }
  return gaps;
}

std::set<std::string> ReadNames(const std::string& path) {
  std::set<std::string> names;
  std::ifstream file(path);
  for (std::string name; file >> name;) names.insert(name);
  return names;
}

bool Matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

absl::StatusOr<CompileOptions> OptionsOf(const Flags& flags, const std::string& cache) {
  CompileOptions options;
  if (!flags.device.empty()) {
    KILN_ASSIGN_OR_RETURN(options.runtime, Runtime::Create({.device = flags.device}));
    options.target = options.runtime->state().device->device().target();
  }
  options.cache.directory = cache;
  options.graph_opt_level = flags.on == "O0" ? 0 : 3;
  options.compile_mode = flags.vm ? CompileMode::kNever : CompileMode::kBlock;
  options.threads = 2;
  options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  options.kernels = std::make_shared<KernelService>(options);
  return options;
}

// Counts of one run.
class Tally {
 public:
  explicit Tally(const Flags& flags) : flags_(flags), gaps_(ReadGaps(flags.gaps)) {}

  void Add(const std::string& name, const absl::Status& status) {
    const Gap* gap = FindGap(name);
    ++cases_;
    passed_ += status.ok() ? 1 : 0;
    if (!status.ok() && gap != nullptr) ++known_;
    const bool failed = status.ok() == (gap != nullptr);
    if (failed) {
      ++failed_;
      std::cout << "FAIL " << name << ": "
                << (status.ok() ? absl::StrCat("passes, but is listed as a gap: ", gap->reason)
                                : std::string(status.message()))
                << "\n";
    } else if (flags_.verbose) {
      std::cout << (status.ok() ? "pass " : "gap  ") << name << "\n";
    }
    std::cout << std::flush;
  }

  // Whether a gap has this case, run or not.
  void Note(const std::string& name) {
    for (Gap& gap : gaps_) gap.used = gap.used || Matches(gap.pattern, name);
  }

  // Fails every line that no case had.
  void CheckGaps() {
    for (const Gap& gap : gaps_) {
      if (gap.used) continue;
      ++failed_;
      std::cout << "FAIL " << flags_.gaps << ": no case matches \"" << gap.pattern
                << "\": take the line out\n";
    }
  }

  void Fail(const std::string& what) {
    ++failed_;
    std::cout << "FAIL " << what << "\n";
  }

  Judge JudgeOf(const std::string& name) const {
    const bool random = std::any_of(gaps_.begin(), gaps_.end(), [&](const Gap& gap) {
      return gap.on == "random" && Matches(gap.pattern, name);
    });
    return random ? Judge::kShares : Judge::kValues;
  }

  int Close() const {
    std::cout << "onnx conformance on " << flags_.on << (flags_.vm ? " (vm)" : "")
              << (flags_.package ? " (package)" : "") << ": " << cases_ << " cases, " << passed_
              << " passed, " << known_ << " known gaps, " << failed_ << " failed\n";
    return failed_ == 0 ? 0 : 1;
  }

 private:
  const Gap* FindGap(const std::string& name) const {
    for (const Gap& gap : gaps_) {
      const bool here = gap.on == "all" || gap.on == flags_.on ||
                        (gap.on == "compiled" && flags_.on != "interpreter");
      if (here && Matches(gap.pattern, name)) return &gap;
    }
    return nullptr;
  }

  const Flags& flags_;
  std::vector<Gap> gaps_;
  int cases_ = 0, passed_ = 0, known_ = 0, failed_ = 0;
};

int Main(const Flags& flags) {
  const std::optional<TempDir> cache =
      flags.empty_cache ? std::optional<TempDir>(std::in_place) : std::nullopt;
  const absl::StatusOr<CompileOptions> made = OptionsOf(flags, cache ? cache->path() : "");
  if (!made.ok()) {
    std::cerr << made.status().message() << "\n";
    return EXIT_FAILURE;
  }
  const CompileOptions& options = *made;
  const Evaluator executor = flags.on == "interpreter" ? Evaluator::kInterpreter
                             : flags.package           ? Evaluator::kPackage
                                                       : Evaluator::kModel;
  std::optional<std::set<std::string>> only;
  if (!flags.only.empty()) only = ReadNames(flags.only);
  Tally tally(flags);
  int seen = 0;
  bool have_data = false, have_all = true;
  for (const std::string& root : flags.roots) {
    if (!std::filesystem::is_directory(root)) {
      have_all = false;
      const std::string what = absl::StrCat(
          "no data in ", root, ": run scripts/fetch_onnx_tests, or set KILN_OFFLINE=1");
      if (IsOffline()) {
        std::cout << what << "\n";
      } else {
        tally.Fail(what);
      }
      continue;
    }
    have_data = true;
    const std::string prefix = std::filesystem::path(root).filename();
    for (const std::string& name : BackendCases(root)) {
      const std::string id = absl::StrCat(prefix, "/", name);
      tally.Note(id);
      if (!Matches(flags.filter, id)) continue;
      if (only && only->count(name.substr(name.find('/') + 1)) == 0) continue;
      if (seen++ % flags.every != 0) continue;
      if (flags.verbose) std::cout << "run  " << id << std::endl;
      const int failed = options.kernels->counts().failed;
      tally.Add(
          id, RunBackendCase(absl::StrCat(root, "/", name), executor, tally.JudgeOf(id), options));
      if (options.kernels->counts().failed > failed)
        tally.Fail(absl::StrCat(id, ": a kernel of it could not be built or validated"));
    }
  }
  if (have_all) tally.CheckGaps();
  return have_data || !IsOffline() ? tally.Close() : kNoData;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::Flags flags;
  CLI::App app("The ONNX backend tests on Kiln");
  app.add_option("--on", flags.on, "Who computes")
      ->check(CLI::IsMember({"interpreter", "O0", "O3"}));
  app.add_flag("--vm", flags.vm, "Kernels run on the VM, none is built");
  app.add_option("--device", flags.device, "RuntimeOptions::device of the models");
  app.add_flag("--package", flags.package,
               "Each model also as a package, which gives the same bits");
  app.add_flag("--empty-cache", flags.empty_cache, "Kernels are cached in a new, empty folder");
  app.add_option("--gaps", flags.gaps, "The file of known gaps");
  app.add_option("--only", flags.only, "A file with the names of the cases to run");
  app.add_option("--filter", flags.filter, "A pattern of <root>/<suite>/<case>");
  app.add_option("--every", flags.every, "Run one case of so many")->check(CLI::PositiveNumber);
  app.add_flag("--verbose", flags.verbose, "One line per case");
  app.add_option("roots", flags.roots, "Folders of suites")->required();
  CLI11_PARSE(app, argc, argv);
  return kiln::Main(flags);
}
