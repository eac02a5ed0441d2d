// SPDX-License-Identifier: Apache-2.0
// Which stages of a kernel are stored, and in which pass each stage and output is computed.
//
// A stored stage has a temporary; every other one is evaluated where it is read. A pass goes over
// one set of dims and may hold several stages and outputs: one may use the value of another in the
// same pass when both go over the same dims and it reads the very element. Reductions have a value
// only after their pass. Outputs come last, those with more dims first, so that an output written
// over an input is written after all that read it.
#ifndef KILN_EXEC_VM_PLAN_H_
#define KILN_EXEC_VM_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernel/kernel.h"

namespace kiln::vm {

using DimSet = uint32_t;  // bit d: iterated dim d

DimSet SetOf(const std::vector<int32_t>& dims);
std::vector<int32_t> DimsOf(DimSet set);

// True if the read asks a stage for the element at the reader's own coordinates.
bool IsIdentity(const ExprNode& read, const std::vector<int32_t>& stage_dims);

struct PassPlan {
  int32_t level = 0;
  DimSet dims = 0;              // beyond the prefix
  int32_t over = -1;            // the reduced dim
  std::vector<int32_t> stages;  // stored ones, ascending
  std::vector<int32_t> outputs;
};

struct Plan {
  Kernel kernel;  // every reduction is over one dim
  int32_t prefix = 0;
  int32_t group = -1;         // wide: the dim before the passes' own that they have too
  std::vector<int32_t> temp;  // per stage: its temporary, or -1
  int32_t num_temps = 0;
  std::vector<PassPlan> passes;  // in the order of execution
};

// `kernel` is verified, its functions are expanded, and it has at most 16 iterated dims. A wide
// plan leaves the last dim of the prefix to the passes.
Plan MakePlan(const Kernel& kernel, bool wide);

}  // namespace kiln::vm

#endif  // KILN_EXEC_VM_PLAN_H_
