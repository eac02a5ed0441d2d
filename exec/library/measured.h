// SPDX-License-Identifier: Apache-2.0
// The choice of a library operator's implementation by what was measured on this machine: oneDNN
// against loops of ours, for exact operands and a number of threads.
//
// Example: a matmul of [1, 768] x [768, 768] that "matrix times vector" and oneDNN accept. Without
// a record the first computes it; a record whose winner is "oneDNN" lets that one.
#ifndef KILN_EXEC_LIBRARY_MEASURED_H_
#define KILN_EXEC_LIBRARY_MEASURED_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "exec/library/library.h"
#include "exec/measured_choices.h"

namespace kiln {
class Pool;
}  // namespace kiln

namespace kiln::library {

struct Choosing {
  MeasuredChoices* measured = nullptr;  // null: the first implementation that accepts
  int64_t workspace_limit = 0;          // bytes of scratch; 0: none
  Pool* pool = nullptr;                 // of the session: nobody else is admitted to it meanwhile
};

// As Make, with the implementation that won, if it accepts. Where `measured` measures and has
// nothing, those that accept are timed on operands of this form first; their outputs are thrown
// away. An implementation that needs more scratch than the limit is passed over while there is
// another.
absl::StatusOr<std::unique_ptr<Primitive>> MakeChosen(const Operator& op, const Request& request,
                                                      const std::shared_ptr<Session>& session,
                                                      const Choosing& choosing);

// Everything on which the time of a request depends, for the key of a record.
std::string RequestText(const Operator& op, const Request& request, int threads);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_MEASURED_H_
