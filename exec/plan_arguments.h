// SPDX-License-Identifier: Apache-2.0
// Fills in the arguments of launches, once buffers have places.
//
//   PlanArguments arguments(program, problem, placement, block);
//   arguments.Fill(launch, operands, step, {});              // outside tilings
//   arguments.Fill(other, operands, step, {1, 4, &moving});  // lane 1: parts from 4 on
#ifndef KILN_EXEC_PLAN_ARGUMENTS_H_
#define KILN_EXEC_PLAN_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/argument_block.h"
#include "exec/checked_program.h"
#include "exec/operands.h"
#include "exec/placement.h"
#include "exec/plan_step.h"

namespace kiln {

class PlanArguments {
 public:
  // Whose addresses are filled in: a lane of a tiling (batch_tiling.h), outside tilings the only
  // one.
  struct Lane {
    int64_t number = 0;
    int64_t first = 0;                                  // of its parts
    std::vector<PlanTiling::Moving>* moving = nullptr;  // gets the words that differ by part
  };

  // All must outlive it. `uploads`: per constant, its copy on the device, where a buffer there has
  // it.
  PlanArguments(const CheckedProgram& program, const PlacementProblem& problem,
                const Placement& placement, const std::vector<std::shared_ptr<void>>& uploads,
                ArgumentBlock& block);

  // `step`: its number in the problem, whose scratch it has.
  void Fill(PlanLaunch& launch, const Operands& operands, size_t step, const Lane& lane);
  // Of a copy from one range of bytes to another.
  void FillCopy(CopyLaunch& launch, const PlacementProblem::Access& from,
                const PlacementProblem::Access& to);

 private:
  void FillKernel(KernelLaunch& launch, const Operands& operands, const Lane& lane);
  void FillArgv(KernelLaunch& launch);
  void FillLibrary(LibraryLaunch& launch, const Operands& operands, size_t step, const Lane& lane);
  void Point(Word word, const ResolvedRef& ref, const Lane& lane);
  // `word` holds the address of byte `offset` of a buffer.
  void Point(Word word, int32_t buffer, int64_t offset, int64_t lane);

  const CheckedProgram& program_;
  const PlacementProblem& problem_;
  const Placement& placement_;
  const std::vector<std::shared_ptr<void>>& uploads_;
  ArgumentBlock& block_;
};

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_ARGUMENTS_H_
