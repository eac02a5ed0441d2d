// SPDX-License-Identifier: Apache-2.0
// kiln-bench-kernels: Google Benchmark rows for the graphs beside this file (k1 ... k17).
//
//   kiln-bench-kernels [--threads N] [--graphs DIR] [--vm] [Google Benchmark's flags]
//   kiln-bench-kernels --calls [--threads N] [--graphs DIR]
//
// Each row runs a graph compiled at -O3 (with --vm another beside it, on the block VM). Counters:
// GB/s of inputs and outputs, each counted once; `of_probe`, the share of what a probe reached that
// reads and writes as many bytes, measured right before; `launches` of a run. A graph that cannot
// be compiled is left out with a line on stderr.
// --calls: what a run costs beside its kernel, see calls.h.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/kernels/calls.h"
#include "bench/kernels/probe.h"
#include "bench/kernels/row.h"
#include "compiler/compile.h"

namespace kiln::bench {
namespace {

struct Settings {
  int threads = 1;
  bool vm = false, calls = false;
  std::string graphs = KILN_BENCH_GRAPHS;
};

void RunRow(benchmark::State& state, Row& row) {
  for ([[maybe_unused]] auto _ : state) {
    if (const absl::Status status = row.context->Run(); !status.ok()) {
      state.SkipWithError(std::string(status.message()).c_str());
      return;
    }
  }
  const auto bytes = static_cast<double>(row.read + row.written);
  const auto runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes * runs * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of_probe"] = benchmark::Counter(row.probe * runs, benchmark::Counter::kIsRate);
  state.counters["launches"] = row.context->report().kernel_launches;
}

// Takes the flags that are ours out of argv.
bool ParseArguments(int& argc, char** argv, Settings& settings) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    if (flag == "--vm") {
      settings.vm = true;
    } else if (flag == "--calls") {
      settings.calls = true;
    } else if (flag == "--threads" && i + 1 < argc) {
      if (!absl::SimpleAtoi(argv[++i], &settings.threads) || settings.threads < 1) return false;
    } else if (flag == "--graphs" && i + 1 < argc) {
      settings.graphs = argv[++i];
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return true;
}

absl::StatusOr<std::unique_ptr<Row>> CompileRow(const std::string& path, const std::string& name,
                                                const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(path, options));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<Row> row, MakeRow(std::move(model), name));
  Pool pool(options.threads);
  row->probe = ProbeSeconds(row->read, row->written, 20, pool);
  return row;
}

int Main(int argc, char** argv) {
  Settings settings;
  if (!ParseArguments(argc, argv, settings)) {
    std::fprintf(stderr, "usage: kiln-bench-kernels [--threads N] [--graphs DIR] [--vm] ...\n");
    return 2;
  }
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(settings.graphs)) {
    if (file.path().extension() == ".graph") paths.push_back(file.path());
  }
  std::sort(paths.begin(), paths.end());
  // The row of the last call: a benchmark is called several times, and memory is for one row at
  // once.
  const auto current = std::make_shared<std::unique_ptr<Row>>();
  CompileOptions options;
  options.threads = settings.threads;
  if (settings.calls) return PrintCalls(paths, options);
  for (const std::string& path : paths) {
    for (const bool vm : {false, true}) {
      if (vm && !settings.vm) continue;
      options.compile_mode = vm ? CompileMode::kNever : CompileMode::kBlock;
      const std::string name =
          absl::StrCat(std::filesystem::path(path).stem().string(), vm ? "/vm" : "");
      benchmark::RegisterBenchmark(
          name.c_str(),
          [path, name, options, current](auto& state) {
            if (*current == nullptr || (*current)->name != name) {
              current->reset();
              auto row = CompileRow(path, name, options);
              if (!row.ok()) {
                state.SkipWithError(std::string(row.status().message()).c_str());
                return;
              }
              *current = *std::move(row);
            }
            RunRow(state, **current);
          })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) { return kiln::bench::Main(argc, argv); }
