// SPDX-License-Identifier: Apache-2.0
// EagerExecutor: runs operations one at a time on the VM, each as a program of its own, cached by
// its signature and types. So a new function has its first answer before a program of all of it
// could be compiled: few of its operations are new ones. Belongs to one caller at a time.
#ifndef KILN_TRACE_EAGER_EXECUTOR_H_
#define KILN_TRACE_EAGER_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/model.h"
#include "kiln/options.h"
#include "trace/engine.h"
#include "trace/log.h"
#include "trace/words.h"

namespace kiln::tracing {

class EagerExecutor {
 public:
  // Whether most of what `results` need is known, or comes more than once.
  bool Suits(const Log& log, size_t begin, size_t end, const std::vector<uint32_t>& results);
  // Computes `results` from the values that the log has, and gives them to its nodes.
  absl::Status Run(Log& log, size_t begin, size_t end, const std::vector<uint32_t>& results,
                   Engine& engine, const CompileOptions& options);
  void Clear() { cached_.clear(); }

 private:
  struct CachedOp {
    std::optional<Context> context;
    std::vector<uint64_t> numbers;  // by input; bound once
    std::vector<bool> has_number;
  };
  bool IsNeeded(const Operation& operation) const;
  void FindNeeded(const Log& log, size_t begin, size_t end, const std::vector<uint32_t>& results);
  void MakeKey(const Log& log, const Operation& operation);
  absl::StatusOr<CachedOp*> GetOrCompile(const Log& log, size_t index, Engine& engine,
                                         const CompileOptions& options);
  absl::Status RunOne(const Log& log, size_t index, CachedOp& step);

  std::unordered_map<Words, std::unique_ptr<CachedOp>, WordsHash, WordsEqual> cached_;
  Words key_;
  std::vector<uint32_t> operands_;  // of one operation, each once; no constants
  std::vector<Tensor> values_;      // by value, from when it is computed to its last use
  std::vector<uint32_t> last_use_;  // by value: an operation; 0: it is not needed
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_EAGER_EXECUTOR_H_
