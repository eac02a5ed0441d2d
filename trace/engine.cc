// SPDX-License-Identifier: Apache-2.0
#include "trace/engine.h"

#include "base/fork.h"
#include "base/status_macros.h"
#include "base/stop.h"
#include "compiler/compile.h"

namespace kiln::tracing {

Compilation::Compilation(Graph graph, CompileOptions options)
    : generation_(ForkGeneration()),
      graph_(std::move(graph)),
      options_(std::move(options)),
      model_(absl::CancelledError("its engine is gone")) {}

bool Compilation::done() const {
  return done_.load(std::memory_order_acquire) || generation_ != ForkGeneration();
}

absl::StatusOr<Model> Compilation::Take() {
  // What the parent's thread was writing is not looked at.
  if (!done_.load(std::memory_order_acquire)) return absl::CancelledError("another process has it");
  return std::move(model_);
}

void Compilation::Run() { model_ = kiln::Compile(std::move(graph_), options_); }

Engine::~Engine() {
  gone_.store(true, std::memory_order_relaxed);
  if (queue_ != nullptr) queue_->Drop();
}

std::shared_ptr<Compilation> Engine::Compile(Graph graph, CompileOptions options) {
  auto made = std::make_shared<Compilation>(std::move(graph), std::move(options));
  // Done when the task goes, whether it was begun or not. What nobody waits for any more is freed
  // while it is in the queue, and not begun.
  struct Task {
    std::weak_ptr<Compilation> compilation;
    ~Task() {
      if (const auto of = compilation.lock()) of->done_.store(true, std::memory_order_release);
    }
  };
  const auto task = std::make_shared<Task>(Task{made});
  if (queue_ == nullptr) queue_ = std::make_unique<TaskQueue>(1, Yielding{10});  // to the program
  queue_->Add([this, task] {
    const StopsWhen scope(gone_);
    if (const auto compilation = task->compilation.lock()) compilation->Run();
  });
  return made;
}

CompileOptions WithBoundResults(CompileOptions options) {
  options.output_memory = OutputMemory::kBound;
  if (options.runtime == nullptr) options.runtime = Runtime::Default();
  return options;
}

absl::StatusOr<Model*> DeferredModel::GetOrCompile(const Graph& graph,
                                                   const CompileOptions& options, Engine& engine,
                                                   bool waits) {
  if (model_) return &*model_;
  if (waits || options.compile_mode != CompileMode::kBackground) {
    const CompileOptions bound = WithBoundResults(options);
    compiling_ = nullptr;
    KILN_ASSIGN_OR_RETURN(model_, kiln::Compile(graph, bound));
    runtime_ = bound.runtime;
    return &*model_;
  }
  if (compiling_ == nullptr) compiling_ = engine.Compile(graph, WithBoundResults(options));
  if (!compiling_->done()) return nullptr;
  const std::shared_ptr<Compilation> done = std::exchange(compiling_, nullptr);
  absl::StatusOr<Model> model = done->Take();
  if (absl::IsCancelled(model.status())) return nullptr;  // the next look begins anew
  KILN_ASSIGN_OR_RETURN(model_, std::move(model));
  runtime_ = done->runtime();
  return &*model_;
}

CompileOptions Engine::InterpreterOptions(CompileOptions options) {
  constexpr int kMost = 4096;  // memory: programs whose kernels are kept
  options.graph_opt_level = 0;
  options.compile_mode = CompileMode::kNever;
  options.cache = CacheOptions();
  options.cache.enabled = false;
  options.build_jobs = 1;
  options.schedule_choice = ScheduleChoice::kReproducible;
  options.dump = nullptr;
  if (options.runtime == nullptr) options.runtime = Runtime::Default();
  options.kernels = nullptr;
  if (kernels_ == nullptr || runtime_ != options.runtime || ++uses_ > kMost) {
    runtime_ = options.runtime;
    kernels_ = std::make_shared<KernelService>(options);
    uses_ = 1;
  }
  options.kernels = kernels_;
  return options;
}

}  // namespace kiln::tracing
