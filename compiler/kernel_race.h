// SPDX-License-Identifier: Apache-2.0
// Times the candidates of one kernel on this machine, against each other.
//
// Each candidate is compiled, validated and launched as any kernel is (kernel_service.h, exec/), on
// one pool and the same operands; base/interleave.h decides which one wins. Losers are not kept in
// the cache.
//
// Example, softmax over [64, 768]:
//   KernelRace race(options, store);
//   const Measured measured = race.Run({&kernel, {{64, 768}}, {}, {{64, 768}}}, candidates);
//   measured.winner;  // "row_reduction step=32"
#ifndef KILN_COMPILER_KERNEL_RACE_H_
#define KILN_COMPILER_KERNEL_RACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "exec/measured_choices.h"
#include "exec/program.pb.h"
#include "kernel/kernel.h"
#include "schedule/choose.h"
#include "schedule/machine.h"

namespace kiln {

struct RacedKernel {
  const Kernel* kernel = nullptr;  // canonical, and outlives the race
  SizeClass sizes;
  std::vector<std::string> params;            // bytes of each, as in program::KernelThunk
  std::vector<std::vector<int64_t>> extents;  // launches to time: one extent per dim, in the class
};

// Belongs to one caller at a time.
class KernelRace {
 public:
  // `store`, if any, is where built candidates are looked up; it is not written.
  KernelRace(const CompileOptions& options, const Store* store);

  // Without a winner where the operands take more than 1 GiB. Nothing, to be asked again another
  // time, where nothing is launched at these extents or no candidate can be built and run, which
  // may be for lack of a compiler, a validator or memory.
  std::optional<Measured> Run(const RacedKernel& kernel, const std::vector<Candidate>& candidates);

 private:
  const CompileOptions options_;
  const Machine machine_;
  KernelService service_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_RACE_H_
