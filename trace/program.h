// SPDX-License-Identifier: Apache-2.0
// Program: operations of a log as something that runs. The first run is one operation at a time, or
// all of them on the VM; it is compiled when it runs for the second time: what runs once is not
// worth a compiler. Where a SymbolicProgram is compiled already, it runs at once. In background
// mode it goes on as it was until the compiled one is there. Which values it gives is fixed when it
// is made.
//
// Numbers lie in a block of the program, which is bound once; arrays are bound when they are
// others, and so is the memory of results. Once all is compiled, a run takes memory for results
// alone, and none where those of the run before the last are gone. Belongs to one caller at a time.
#ifndef KILN_TRACE_PROGRAM_H_
#define KILN_TRACE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "trace/eager_executor.h"
#include "trace/engine.h"
#include "trace/log.h"
#include "trace/result_memory.h"
#include "trace/symbolic_program.h"

namespace kiln::tracing {

class Program {
 public:
  // Operations [begin, end) of a log; `results` are values that they give. Compiled it is
  // `symbolic`, where there is one.
  Program(size_t begin, size_t end, std::vector<uint32_t> results,
          std::shared_ptr<SymbolicProgram> symbolic = nullptr)
      : begin_(begin), end_(end), results_(std::move(results)), symbolic_(std::move(symbolic)) {}

  // Computes the results from the values that the log has now, and gives them to its nodes, of
  // those that there are. All logs that it is run with have the same words.
  absl::Status Run(Log& log, EagerExecutor& eager, Engine& engine, const CompileOptions& options,
                   bool timed);

  // Gives back what only the first run needed.
  void ReleaseScratch();

  const std::vector<uint32_t>& results() const { return results_; }
  const std::shared_ptr<SymbolicProgram>& symbolic() const { return symbolic_; }
  int64_t runs() const { return runs_; }
  // The compiled model that it runs, which other programs may share; null: none yet.
  const void* compiled() const {
    return !compiled_ ? nullptr : symbolic_ != nullptr ? &symbolic_->model() : &own_;
  }
  // Of timed runs: the launches of the last one, with the milliseconds of all.
  const std::vector<ThunkTime>& times() const { return times_; }
  int64_t timed_runs() const { return timed_runs_; }

 private:
  absl::Status Convert(const Log& log);
  // Of a run that is not the first: compiles, or looks whether that is done.
  absl::Status TryUpgrade(const Log& log, Engine& engine, const CompileOptions& options,
                          bool waits);
  // Runs go to this model from now on.
  absl::Status Use(Model& model, const std::shared_ptr<Runtime>& runtime);
  absl::Status Bind(const Log& log);
  absl::Status BindResults();
  absl::Status RunContext(Log& log, bool timed);

  const size_t begin_, end_;
  const std::vector<uint32_t> results_;
  std::shared_ptr<SymbolicProgram> symbolic_;  // null: it is compiled by itself
  Graph graph_;                                // from the first time that it is compiled on
  std::vector<uint32_t> operands_;             // its inputs, values of the log
  std::vector<uint64_t> numbers_;              // by operand, those that are numbers; never moves
  std::vector<Tensor> bound_;                  // by operand, what the context has
  std::vector<bool> is_bound_;                 // by operand; false after an error, too
  std::vector<ResultMemory> memory_;           // by result
  std::vector<const void*> bound_results_;     // by result, where the context writes it
  std::shared_ptr<Runtime> runtime_;           // of the context
  std::optional<Context> context_;             // none: the first run was one operation at a time
  DeferredModel own_;                          // where there is no symbolic_
  bool compiled_ = false;
  int64_t runs_ = 0, timed_runs_ = 0;
  std::vector<ThunkTime> times_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_PROGRAM_H_
