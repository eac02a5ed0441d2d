// SPDX-License-Identifier: Apache-2.0
// What can be said of a plan when it is made: for `kiln explain --library` and KILN_DUMP=plan.
#ifndef KILN_EXEC_PLAN_INFO_H_
#define KILN_EXEC_PLAN_INFO_H_

#include <string>
#include <vector>

#include "exec/library/primitive.h"
#include "kiln/model.h"

namespace kiln {

struct PlannedCall {
  std::string nodes;  // the user's, as the thunk names them
  std::string op;
  std::string post_ops;                         // "add, relu"
  std::vector<library::Considered> considered;  // in order; the last computes
  std::string description;                      // of the code that runs
  int64_t packed_bytes = 0;                     // weights kept in a layout of their own
};

struct PlanInfo {
  std::string text;  // buffers with their places, then launches with what they read and write
  std::vector<PlannedCall> library_calls;
};

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_INFO_H_
