// SPDX-License-Identifier: Apache-2.0
// Tape: what gives the values and gradients of a function whose operations a log has, as calls on
// numbered values.
//
//   reduce_sum(x * x) by x      calls    mul(x, x) -> 0, reduce_sum(0) -> 1, expand(1) -> 2,
//                                        mul(2, x) -> 3, mul(2, x) -> 4, add(3, 4) -> 5
//                               results  1, 5
//
// It holds for all logs with the same words: values from outside are those of the log at hand.
#ifndef KILN_TRACE_TAPE_H_
#define KILN_TRACE_TAPE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kiln/trace.h"
#include "trace/log.h"
#include "trace/recorder.h"

namespace kiln::tracing {

class Tape {
 public:
  // The last operation of the log is kResults; its first operand is differentiated by the first
  // `arguments` values of the log. The results are those gradients, after all operands of kResults
  // where `with_values`. kUnimplemented: an operator has no gradient.
  static absl::StatusOr<Tape> Of(const Log& log, size_t arguments, bool with_values);

  // Writes the calls into `to`, and gives the results. `arguments` stand for the first values of
  // the log. Calls that the log has not come from `where`.
  absl::StatusOr<std::vector<Array>> Write(const Log& log, std::span<const Array> arguments,
                                           Recorder& to, Location where) const;

 private:
  struct Source {
    enum class Kind : uint8_t { kAbsent, kExternal, kIntermediate, kConstant };
    Kind kind = Kind::kAbsent;
    uint32_t id = 0;  // a value of the log, a value made, or one of constants_
  };
  struct Call {
    const OpDef* op = nullptr;
    Attrs attrs;
    std::vector<Attribute> attributes;  // views of attrs
    std::vector<Source> operands;
    size_t num_results = 1;
    size_t operation = SIZE_MAX;  // of the log; SIZE_MAX: none
  };
  class Maker;

  std::vector<Call> calls_;
  std::vector<TypedOperand> constants_;
  std::vector<Array> arrays_;     // that constants_ have
  std::vector<size_t> last_use_;  // of values made: a call; SIZE_MAX: a result
  std::vector<Source> results_;
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_TAPE_H_
