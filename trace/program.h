// SPDX-License-Identifier: Apache-2.0
// Program: operations of a log as something that runs. It is made at once without compiled code,
// for the VM, and anew with compiled code when it runs for the second time: what runs once is not
// worth a compiler. Which values it gives is fixed when it is made.
//
// Numbers lie in a block of the program, which is bound once; arrays are bound when they are
// others. Belongs to one caller at a time.
#ifndef KILN_TRACE_PROGRAM_H_
#define KILN_TRACE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "trace/log.h"

namespace kiln::tracing {

class Program {
 public:
  // Operations [begin, end) of the log; `results` are values that they give.
  static absl::StatusOr<std::unique_ptr<Program>> Create(const Log& log, size_t begin, size_t end,
                                                         std::vector<uint32_t> results);

  // Computes the results from the values that the log has now, and gives them to its nodes, of
  // those that there are.
  absl::Status Run(Log& log, const CompileOptions& options, bool timed);

  // Values of the log: operands from outside of the operations, and what is computed.
  const std::vector<uint32_t>& operands() const { return operands_; }
  const std::vector<uint32_t>& results() const { return results_; }
  int64_t runs() const { return runs_; }
  // Of timed runs: the launches of the last one, with the milliseconds of all.
  const std::vector<ThunkTime>& times() const { return times_; }
  int64_t timed_runs() const { return timed_runs_; }
  // The operations; inputs are operands(), outputs results().
  const Graph& graph() const { return graph_; }

 private:
  Program() = default;
  absl::Status Make(CompileOptions options);
  absl::Status Bind(const Log& log);

  Graph graph_;
  std::vector<uint32_t> operands_, results_;
  std::vector<uint64_t> numbers_;  // by operand, those that are numbers; never moves
  std::vector<Tensor> bound_;      // by operand, what the context has
  std::optional<Context> context_;
  int64_t runs_ = 0, timed_runs_ = 0;
  std::vector<ThunkTime> times_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_PROGRAM_H_
