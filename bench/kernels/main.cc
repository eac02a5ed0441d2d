// SPDX-License-Identifier: Apache-2.0
// kiln-bench-kernels: Google Benchmark rows for the graphs beside this file (k1 ... k17).
//
//   kiln-bench-kernels [--threads N] [--graphs DIR] [--vm] [Google Benchmark's flags]
//
// Each row runs a graph compiled at -O3 (with --vm another beside it, on the block VM). Counters:
// GB/s of inputs and outputs, each counted once; `of_probe`, the share of what a probe reached that
// reads and writes as many bytes, measured right before; `launches` of a run. A graph that cannot
// be compiled is left out with a line on stderr.
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
#include "bench/kernels/probe.h"
#include "kiln/base/status_macros.h"
#include "kiln/compiler/compile.h"

namespace kiln::bench {
namespace {

struct Settings {
  int threads = 1;
  bool vm = false;
  std::string graphs = KILN_BENCH_GRAPHS;
};

// Numbers in [0.1, 1.1), integers below 100: nothing a kernel's time depends on.
void Fill(const Tensor& tensor) {
  uint32_t state = 12345;
  const auto next = [&state] { return (state = state * 1664525 + 1013904223) >> 8; };
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    switch (tensor.dtype()) {
      case DType::kF32:
        static_cast<float*>(tensor.data())[i] = static_cast<float>(next()) * 0x1p-24f + 0.1f;
        break;
      case DType::kI64:
        static_cast<int64_t*>(tensor.data())[i] = next() % 100;
        break;
      default:
        std::memset(static_cast<uint8_t*>(tensor.data()) + i * SizeOf(tensor.dtype()),
                    static_cast<int>(next() % 100), SizeOf(tensor.dtype()));
    }
  }
}

// A graph ready to run, its operands in memory of their own.
struct Row {
  std::string name;
  Model model;
  std::unique_ptr<Context> context;
  std::vector<Tensor> operands;
  int64_t read = 0, written = 0;
  double probe = 0;  // seconds
};

absl::StatusOr<std::unique_ptr<Row>> MakeRow(const std::string& path, const std::string& name,
                                             const CompileOptions& options) {
  auto row = std::make_unique<Row>();
  row->name = name;
  KILN_ASSIGN_OR_RETURN(row->model, Compile(path, options));
  row->context = std::make_unique<Context>(row->model.NewContext());
  const auto allocate = [&row](const PortInfo& port) -> absl::StatusOr<Tensor> {
    std::vector<int64_t> shape;
    for (const Dim& dim : port.shape) {
      const std::optional<int64_t> extent = dim.constant();
      if (!extent) return absl::InvalidArgumentError(port.name + ": an extent is no number");
      shape.push_back(*extent);
    }
    row->operands.push_back(Tensor::Allocate(port.type, shape));
    Fill(row->operands.back());
    return row->operands.back();
  };
  for (const PortInfo& port : row->model.inputs()) {
    KILN_ASSIGN_OR_RETURN(const Tensor tensor, allocate(port));
    row->read += tensor.size_bytes();
    KILN_RETURN_IF_ERROR(row->context->Bind(port.name, tensor));
  }
  for (const PortInfo& port : row->model.outputs()) {
    KILN_ASSIGN_OR_RETURN(const Tensor tensor, allocate(port));
    row->written += tensor.size_bytes();
    KILN_RETURN_IF_ERROR(row->context->BindOutput(port.name, tensor));
  }
  KILN_RETURN_IF_ERROR(row->context->Run());
  Pool pool(options.threads);
  row->probe = ProbeSeconds(row->read, row->written, 20, pool);
  return row;
}

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
              auto row = MakeRow(path, name, options);
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
