// SPDX-License-Identifier: Apache-2.0
// How many threads work on what of a plan, by an estimate of its work.
//
// A plan with so little to do that waking threads would cost more than they gain is serial: all of
// it runs on its caller. If it has a little more, and threads are awake, those take part in kernels
// (Admission::Share::kOpportunistic). In other plans a library call of little work is serial.
#ifndef KILN_EXEC_PLAN_THREADS_H_
#define KILN_EXEC_PLAN_THREADS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "exec/library/library.h"
#include "exec/plan_draft.h"
#include "exec/sample_tiling.h"
#include "exec/support/admission.h"

namespace kiln {

class PlanThreads {
 public:
  // By the draft's operands, whole.
  PlanThreads(const PlanDraft& draft, std::shared_ptr<library::Session> session);

  Admission::Share share() const { return share_; }

  // Cuts the draft's steps into parts of the batch where it pays, or into samples, which
  // RunOptions::batch_invariant asks for: its tilings and lanes. kUnimplemented: a thunk cannot be
  // cut into samples.
  absl::Status Tile(PlanDraft& draft, bool by_samples);

  // Those that work on a library call, after Tile.
  const std::shared_ptr<library::Session>& SessionOf(const PlanDraft& draft, size_t t);

 private:
  absl::Status TileSamples(PlanDraft& draft);
  // Whether all threads work on a sample of a step that is cut.
  bool SampleShares(const PlanDraft& draft, size_t t) const;
  // Of a thunk, in elements of a kernel of few operations.
  double Work(const PlanDraft& draft, size_t t) const;

  const double grain_;  // elements that are worth a task
  std::shared_ptr<library::Session> session_;
  std::shared_ptr<library::Session> alone_;  // of one thread; made when first needed
  Admission::Share share_ = Admission::Share::kExclusive;
  std::vector<SampleCut> samples_;  // per thunk, where steps are cut into samples
  bool samples_share_ = false;      // a sample of the program has enough work for all threads
};

}  // namespace kiln

#endif  // KILN_EXEC_PLAN_THREADS_H_
