// SPDX-License-Identifier: Apache-2.0
// The passes over lowered code that Halide runs after its own, in one table.
//
// A pass is an IRMutator in a file of its own, a row here says in which order, for which templates,
// and what is slower without it, which bench/ablate.py measures. Those that are `needed` make code
// right. Private: has Halide.h.
#ifndef KILN_HALIDE_GEN_CPU_LOWERING_PASSES_H_
#define KILN_HALIDE_GEN_CPU_LOWERING_PASSES_H_

#include <Halide.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "halide_gen/cpu/nests.h"
#include "kernel/kernel.h"
#include "schedule/schedule.h"

namespace kiln {

struct LoweringInput {
  const Kernel& kernel;  // functions expanded
  const Schedule& schedule;
  const Operands& operands;
  std::vector<OutputNest>& nests;
  int lanes;  // floats of a vector register
};

struct LoweringPass {
  const char* name;
  const char* reason;
  bool needed;                              // code is wrong without it
  bool (*suits)(const Schedule& schedule);  // null: all schedules
  std::unique_ptr<Halide::Internal::IRMutator> (*make)(const LoweringInput& input);
};

// In running order.
std::span<const LoweringPass> AllLoweringPasses();

// Has `pipeline` run them, but for those named in `without`. The statement before the first and
// after each is appended to `trace`, if that is not null; it lives until the pipeline is lowered.
void AddLoweringPasses(const LoweringInput& input, const std::vector<std::string>& without,
                       std::string* trace, Halide::Pipeline& pipeline);

}  // namespace kiln

#endif  // KILN_HALIDE_GEN_CPU_LOWERING_PASSES_H_
