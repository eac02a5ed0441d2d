// SPDX-License-Identifier: Apache-2.0
#include "exec/copy_order.h"

#include <algorithm>
#include <utility>

#include "exec/support/device.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;
using Access = PlacementProblem::Access;
using Buffer = PlacementProblem::Buffer;

constexpr int64_t kSmallBytes = int64_t{1} << 20;  // speed: more memory is worth more than a launch

bool IsCopy(const PlanDraft& draft, size_t t) {
  const PlacementProblem::Step& step = draft.problem.steps[t];
  return draft.program.thunks[t].kind == CheckedThunk::Kind::kCopy && !step.view &&
         !step.reads.empty() && !step.writes.empty();
}
bool IsInput(const Buffer& from, const Buffer& to) {
  return from.space == Space::kInput && !from.on_device && to.on_device &&
         to.space == Space::kTemporary;
}
bool IsOutput(const Buffer& from, const Buffer& to) {
  return to.space == Space::kOutput && !to.on_device && from.on_device &&
         from.space == Space::kTemporary;
}

class Mover {
 public:
  Mover(const PlanDraft& draft, Placement& placement)
      : draft_(draft), problem_(draft.problem), placement_(placement) {}

  void Move() {
    std::vector<int32_t>& order = placement_.order;
    for (size_t i = 1; i < order.size(); ++i) {
      if (!Is(&IsInput, order[i])) continue;
      for (size_t k = i; k > 0 && MayPass(order[k], order[k - 1], &IsInput); --k)
        std::swap(order[k], order[k - 1]);
    }
    for (size_t i = order.size(); i-- > 0;) {
      if (!Is(&IsOutput, order[i])) continue;
      for (size_t k = i + 1; k < order.size() && MayPass(order[k - 1], order[k], &IsOutput); ++k)
        std::swap(order[k], order[k - 1]);
    }
  }

 private:
  using Kind = bool (*)(const Buffer& from, const Buffer& to);

  const PlacementProblem::Step& step(int32_t t) const {
    return problem_.steps[static_cast<size_t>(t)];
  }
  const Buffer& RootOf(const Access& access) const {
    const int32_t root = placement_.places[static_cast<size_t>(access.buffer)].root;
    return problem_.buffers[static_cast<size_t>(root)];
  }
  bool Is(Kind kind, int32_t t) const {
    return IsCopy(draft_, static_cast<size_t>(t)) &&
           kind(RootOf(step(t).reads[0]), RootOf(step(t).writes[0]));
  }
  // Bytes of the device's arena; empty: it lies elsewhere.
  std::pair<int64_t, int64_t> ArenaRange(const Access& access) const {
    const Placement::Place& place = placement_.places[static_cast<size_t>(access.buffer)];
    const Buffer& root = RootOf(access);
    if (!root.on_device || root.space != Space::kTemporary) return {0, 0};
    const int64_t at = placement_.arena_offset[static_cast<size_t>(place.root)] + place.offset;
    return {at + access.begin, at + access.end};
  }

  // Copies of one kind stay in order. One of the other kind is of other memory of the caller's, or
  // of the same: then the input is read before the output is written, as before.
  bool MayPass(int32_t copy, int32_t other, Kind kind) const {
    const CheckedThunk& thunk = draft_.program.thunks[static_cast<size_t>(other)];
    if (OnHost(thunk.device) || thunk.kind == CheckedThunk::Kind::kLibrary || Is(kind, other))
      return false;
    const bool is_port = Is(&IsInput, other) || Is(&IsOutput, other);
    const Access& own = kind == &IsInput ? step(copy).writes[0] : step(copy).reads[0];
    const auto [begin, end] = ArenaRange(own);
    for (const auto* accesses : {&step(other).reads, &step(other).writes}) {
      for (const Access& access : *accesses) {
        if (!RootOf(access).on_device && !is_port) return false;
        const auto [first, last] = ArenaRange(access);
        if (first < end && begin < last) return false;
      }
    }
    return true;
  }

  const PlanDraft& draft_;
  const PlacementProblem& problem_;
  Placement& placement_;
};

}  // namespace

void ReservePlacesOfCopies(PlanDraft& draft) {
  std::vector<Buffer>& buffers = draft.problem.buffers;
  for (size_t t = 0; t < draft.problem.steps.size(); ++t) {
    if (!IsCopy(draft, t)) continue;
    const PlacementProblem::Step& step = draft.problem.steps[t];
    Buffer &from = buffers[static_cast<size_t>(step.reads[0].buffer)],
           &to = buffers[static_cast<size_t>(step.writes[0].buffer)];
    if (IsInput(from, to)) to.early = to.bytes <= kSmallBytes;
    if (IsOutput(from, to)) from.late = from.bytes <= kSmallBytes;
  }
}

void OrderCopies(const PlanDraft& draft, Placement& placement) {
  if (!OnHost(draft.program.other)) Mover(draft, placement).Move();
}

}  // namespace kiln
