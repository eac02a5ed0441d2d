// SPDX-License-Identifier: Apache-2.0
#include "exec/plan_threads.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/status_macros.h"
#include "exec/batch_tiling.h"
#include "exec/support/device.h"

namespace kiln {
namespace {

constexpr int64_t kDefaultGrain = 1 << 15;  // speed
constexpr double kProductsPerElement = 16;  // speed
// A plan of less work, some 50 us, is serial: to wake a thread that sleeps takes as long.
constexpr double kSerialGrains = 4;  // speed
// And so is a library call of less.
constexpr double kAloneGrains = 0.5;  // speed
// From this on, some 10 us, kernels are cut into tasks, which threads that are awake may share.
constexpr double kOpportunisticGrains = 1;  // speed

double GrainOf(const CheckedProgram& program) {
  const int64_t given = program.variant->program.parallel_grain();
  return static_cast<double>(given > 0 ? given : kDefaultGrain);
}

}  // namespace

PlanThreads::PlanThreads(const PlanDraft& draft, std::shared_ptr<library::Session> session)
    : grain_(GrainOf(draft.program)), session_(std::move(session)) {
  double work = 0;
  for (size_t t = 0; t < draft.operands.size(); ++t) work += Work(draft, t);
  if (work >= kSerialGrains * grain_) return;
  share_ = work < kOpportunisticGrains * grain_ ? Admission::Share::kShared
                                                : Admission::Share::kOpportunistic;
  session_ = session_->Serial();
}

// A contraction of a and b to y has as many products as the root of the product of their sizes for
// a matmul or a 1x1 convolution, and roughly so for others; kProductsPerElement of them take the
// time of an element.
double PlanThreads::Work(const PlanDraft& draft, size_t t) const {
  const CheckedThunk& thunk = draft.program.thunks[t];
  const Operands& operands = draft.operands[t];
  if (!OnHost(thunk.device)) return 0;
  double most = 0;
  for (const ResolvedRef& ref : operands.inputs)
    most = std::max(most, static_cast<double>(ref.elements));
  for (const ResolvedRef& ref : operands.outputs)
    most = std::max(most, static_cast<double>(ref.elements));
  if (thunk.kind == CheckedThunk::Kind::kKernel) {
    const int64_t grain = draft.program.variant->program.kernels(thunk.kernel).grain();
    return grain > 0 ? most * grain_ / static_cast<double>(grain) : most;
  }
  if (thunk.kind != CheckedThunk::Kind::kLibrary || operands.inputs.size() < 2) return most;
  const auto size = [](const ResolvedRef& ref) { return static_cast<double>(ref.elements); };
  const double products =
      std::sqrt(size(operands.inputs[0]) * size(operands.inputs[1]) * size(operands.outputs[0]));
  return most + products / kProductsPerElement;
}

absl::Status PlanThreads::Tile(PlanDraft& draft, bool by_samples) {
  if (by_samples) {
    KILN_RETURN_IF_ERROR(TileSamples(draft));
  } else {
    draft.tilings = TileBatch(draft.program, session_->threads(), draft.operands, draft.problem);
  }
  for (const BatchTiling& tiling : draft.tilings) {
    std::fill_n(draft.lanes.begin() + static_cast<ptrdiff_t>(tiling.begin),
                tiling.end - tiling.begin, tiling.lanes);
  }
  return absl::OkStatus();
}

// Each library operator that is cut is a tiling of its own. Whether it works on all threads is
// asked of one sample of the whole program, and of it, so that it does not depend on the batch:
// where not, each lane has samples of its own.
absl::Status PlanThreads::TileSamples(PlanDraft& draft) {
  const size_t thunks = draft.program.thunks.size();
  samples_.resize(thunks);
  double work = 0;
  for (size_t t = 0; t < thunks; ++t) {
    if (!draft.needed[t]) continue;
    absl::StatusOr<SampleCut> cut =
        CutIntoSamples(draft.program, draft.program.thunks[t], draft.operands[t]);
    if (!cut.ok()) return OfThunk(draft.program, t, cut.status());
    samples_[t] = *std::move(cut);
    TakeFirstSample(samples_[t], draft.operands[t]);
    if (samples_[t].samples > 0) work += Work(draft, t);
  }
  samples_share_ = work >= kSerialGrains * grain_;
  for (size_t t = 0; t < thunks; ++t) {
    const int64_t samples = samples_[t].samples;
    if (samples <= 1) continue;
    // The queue of a device has one caller.
    const bool alone = SampleShares(draft, t) || !OnHost(draft.program.thunks[t].device);
    const int64_t lanes = alone ? 1 : LanesFor(samples, session_->threads());
    draft.tilings.push_back({t, t + 1, samples, lanes});
    draft.problem.repeats.push_back({t, t + 1, lanes});
  }
  return absl::OkStatus();
}

bool PlanThreads::SampleShares(const PlanDraft& draft, size_t t) const {
  return samples_share_ && Work(draft, t) >= kAloneGrains * grain_;
}

// Lanes have a thread each, and small calls are over before another thread has its part.
const std::shared_ptr<library::Session>& PlanThreads::SessionOf(const PlanDraft& draft, size_t t) {
  const bool cut = !samples_.empty() && samples_[t].samples > 0;
  const bool shares =
      cut ? SampleShares(draft, t) : draft.lanes[t] == 1 && Work(draft, t) >= kAloneGrains * grain_;
  if (session_->threads() == 1 || shares) return session_;
  if (alone_ == nullptr) alone_ = session_->Serial();
  return alone_;
}

}  // namespace kiln
