// SPDX-License-Identifier: Apache-2.0
// Engine: how programs of one thread come to be. What runs once shares the kernels of the VM, which
// outlive the programs; what runs again is compiled beside them, while they go on.
//
//   std::shared_ptr<Compilation> compiling = engine.Compile(graph, options);
//   if (compiling->done()) model = compiling->Take();  // some runs later
//
// Belongs to one thread; a Compilation may be looked at by another one.
#ifndef KILN_TRACE_ENGINE_H_
#define KILN_TRACE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/task_queue.h"
#include "graph/graph.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "kiln/runtime.h"

namespace kiln::tracing {

// A model that is being compiled. Thread-safe.
class Compilation {
 public:
  Compilation(Graph graph, CompileOptions options);
  // Whether there is a model or an error, or never will be: the engine is gone, or this process is
  // a child of that in which it was begun.
  bool done() const;
  // Once, after that. kCancelled: never will be.
  absl::StatusOr<Model> Take();
  const std::shared_ptr<Runtime>& runtime() const { return options_.runtime; }

 private:
  friend class Engine;
  void Run();
  const uint32_t generation_;
  Graph graph_;
  CompileOptions options_;
  std::atomic<bool> done_{false};
  absl::StatusOr<Model> model_;
};

class Engine {
 public:
  Engine() = default;
  // What is being compiled ends without a model.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The options for what runs once: no fusion, nothing from disk, no code, and kernels of the VM
  // that are there already. Not for a runtime that requires its device, which has no VM.
  CompileOptions InterpreterOptions(CompileOptions options);
  std::shared_ptr<Compilation> Compile(Graph graph, CompileOptions options);

 private:
  std::shared_ptr<Runtime> runtime_;  // of `kernels_`
  std::shared_ptr<KernelService> kernels_;
  int uses_ = 0;                   // of `kernels_`
  std::atomic<bool> gone_{false};  // what is being compiled ends early
  // From the first Compile on. Not a member itself: an engine may lie on a stack or be a
  // thread's, whose memory a child of a fork does not keep (base/fork.h). Last: its thread is
  // joined first.
  std::unique_ptr<TaskQueue> queue_;
};

// The options of a program, whose results go to memory of its own.
CompileOptions WithBoundResults(CompileOptions options);

// The model of one graph, which is compiled when it is first looked for, with bound results.
class DeferredModel {
 public:
  bool there() const { return model_.has_value(); }
  // Null: it is being compiled beside the program; look again. `waits`: it is compiled here.
  absl::StatusOr<Model*> GetOrCompile(const Graph& graph, const CompileOptions& options,
                                      Engine& engine, bool waits);
  // What it was compiled with; once it is there.
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }

 private:
  std::shared_ptr<Compilation> compiling_;  // null: nothing is
  std::optional<Model> model_;
  std::shared_ptr<Runtime> runtime_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_ENGINE_H_
