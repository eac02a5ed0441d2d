// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/calls.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "bench/kernels/row.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "compiler/variants.h"

namespace kiln::bench {
namespace {

constexpr int kRounds = 101;
constexpr double kChunkMicroseconds = 200;

template <typename F>
double Microseconds(int calls, F f) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) f();
  const auto took = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::micro>(took).count() / calls;
}

// Stands for a kernel. Its arguments live as long as a launch: what they are timed with is called
// there.
struct Recorder {
  std::shared_ptr<const KernelFunction> kernel;
  int launches = 0;
  int timed = 0;            // calls of the kernel that the next launch times, beside its own
  double microseconds = 0;  // for each of them
};

int Record(void** argv) {
  LaunchContext* const context = *static_cast<LaunchContext**>(argv[0]);
  auto* const recorder = static_cast<Recorder*>(const_cast<void*>(context->kernel));
  ++recorder->launches;
  const auto call = [&] {
    context->kernel = recorder->kernel->self;
    return recorder->kernel->run(argv);
  };
  const int result = call();
  const int timed = std::exchange(recorder->timed, 0);
  if (timed > 0) recorder->microseconds = Microseconds(timed, call);
  context->kernel = recorder;  // boxes of one launch are called one after the other
  return result;
}

// Hands out the variants of another provider with every kernel recorded.
class RecordingProvider : public VariantProvider {
 public:
  explicit RecordingProvider(std::shared_ptr<VariantProvider> from) : from_(std::move(from)) {}
  const std::vector<PortInfo>& inputs() const override { return from_->inputs(); }
  const std::vector<PortInfo>& outputs() const override { return from_->outputs(); }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(
      const std::vector<InputInfo>& inputs) override {
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const Variant> variant, from_->Get(inputs));
    auto recorded = std::make_shared<Variant>(*variant);
    for (auto& choices : recorded->kernels) {
      for (std::shared_ptr<KernelHandle>& handle : choices) {
        recorders_.push_back(std::make_unique<Recorder>());
        recorders_.back()->kernel = handle->Get();
        auto function = std::make_shared<KernelFunction>();
        function->run = &Record;
        function->self = recorders_.back().get();
        handle = std::make_shared<KernelHandle>(std::move(function));
      }
    }
    return recorded;
  }

  // The recorder of the only launch so far; null if there were others, or none.
  Recorder* OnlyLaunch() const {
    Recorder* only = nullptr;
    int launches = 0;
    for (const auto& recorder : recorders_) {
      launches += recorder->launches;
      if (recorder->launches > 0) only = recorder.get();
    }
    return launches == 1 ? only : nullptr;
  }

 private:
  const std::shared_ptr<VariantProvider> from_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  return values[kRounds / 2];
}

absl::Status PrintRow(const std::string& path, const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Graph graph, ReadModel(path));
  const auto provider = std::make_shared<RecordingProvider>(std::make_shared<Variants>(
      std::move(graph), options, std::make_shared<KernelService>(options)));
  KILN_ASSIGN_OR_RETURN(Model model, Model::Create(provider, {.threads = options.threads}));
  const std::string name = std::filesystem::path(path).stem();
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<Row> row, MakeRow(std::move(model), name));
  Recorder* const recorder = provider->OnlyLaunch();
  if (recorder == nullptr) return absl::OkStatus();  // several kernels, or boxes
  const auto run = [&row] { return row->context->Run().ok(); };
  const auto bare_call = [&](int calls) {
    recorder->timed = calls;
    run();
    return recorder->microseconds;
  };
  const int calls = std::max(1, static_cast<int>(kChunkMicroseconds / bare_call(20)));
  std::vector<double> runs, bare, more;
  for (int round = 0; round < kRounds; ++round) {
    runs.push_back(Microseconds(calls, run));
    bare.push_back(bare_call(calls));
    more.push_back(runs.back() - bare.back());
  }
  const double least = *std::min_element(runs.begin(), runs.end()),
               least_bare = *std::min_element(bare.begin(), bare.end());
  std::printf("| %s | %.2f / %.2f | %.2f / %.2f | %.2f, %.2f | %.2f |\n", name.c_str(), least,
              Median(runs), least_bare, Median(bare), least / least_bare,
              Median(runs) / Median(bare), Median(more));
  return absl::OkStatus();
}

}  // namespace

int PrintCalls(const std::vector<std::string>& graphs, const CompileOptions& options) {
  std::printf(
      "| row | run, us | kernel, us | ratio | overhead, us |\n| --- | --- | --- | --- | --- |\n");
  for (const std::string& path : graphs) {
    if (const absl::Status status = PrintRow(path, options); !status.ok()) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), std::string(status.message()).c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace kiln::bench
