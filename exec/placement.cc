// SPDX-License-Identifier: Apache-2.0
#include "exec/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"
#include "exec/alias_classes.h"
#include "exec/launch_order.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;
using Access = PlacementProblem::Access;

constexpr int64_t kTooMuch = std::numeric_limits<int64_t>::max();

int64_t Plus(int64_t a, int64_t b) { return CheckedAdd(a, b).value_or(kTooMuch); }

// The most aligned bytes that are alive at one step.
int64_t MostAlive(const std::vector<Interval>& intervals) {
  return MostBytesAlive(intervals, kArenaAlignment).value_or(kTooMuch);
}

// What is placed together: what a lane has of its own, or all the rest of the arena.
struct Area {
  std::vector<Interval> intervals;
  std::vector<int64_t*> offsets, steps;  // to fill in
  void Add(const Interval& interval, int64_t& offset, int64_t& step) {
    intervals.push_back(interval);
    offsets.push_back(&offset);
    steps.push_back(&step);
  }
  absl::StatusOr<MemoryPlan> Plan(bool separate, const PlanMemoryFn& planner) const {
    KILN_ASSIGN_OR_RETURN(MemoryPlan plan, separate ? Apart()
                                           : planner != nullptr
                                               ? planner(intervals, kArenaAlignment)
                                               : PlanMemory(intervals, kArenaAlignment));
    KILN_RETURN_IF_ERROR(VerifyPlan(intervals, plan, kArenaAlignment));
    for (size_t i = 0; i < offsets.size(); ++i) *offsets[i] = plan.offsets[i];
    return plan;
  }
  // The plan in which no two share memory.
  absl::StatusOr<MemoryPlan> Apart() const {
    KILN_ASSIGN_OR_RETURN(MemoryPlan plan, PlanMemory({}, kArenaAlignment));
    for (const Interval& interval : intervals) {
      plan.offsets.push_back(plan.peak);
      const std::optional<int64_t> size = CheckedRoundUp(interval.size, kArenaAlignment);
      const std::optional<int64_t> end =
          size ? CheckedAdd(plan.peak, *size + kArenaAlignment) : std::nullopt;
      if (!end) return absl::ResourceExhaustedError("separate buffers need too much memory");
      plan.peak = plan.sum = *end;
    }
    plan.lower_bound = plan.peak;
    return plan;
  }
};

// The arena of classes whose lives are in steps of the problem.
class Arena {
 public:
  Arena(const PlacementProblem& problem, AliasClasses classes)
      : p_(problem), areas_(problem.repeats.size() + 1) {
    made_.places = std::move(classes.places);
    made_.copies = std::move(classes.copies);
    made_.arena_offset.assign(p_.buffers.size(), -1);
    made_.arena_step.assign(p_.buffers.size(), 0);
    made_.scratch_offset.assign(p_.steps.size(), -1);
    made_.scratch_step.assign(p_.steps.size(), 0);
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      AliasClasses::Life& own = classes.lives[static_cast<size_t>(made_.places[b].root)];
      if (p_.buffers[b].early) own.first = std::min<int64_t>(own.first, 0);
      if (p_.buffers[b].late) own.last = static_cast<int64_t>(p_.steps.size()) - 1;
    }
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      const AliasClasses::Life& own = classes.lives[b];
      if (made_.places[b].root != static_cast<int32_t>(b) ||
          p_.buffers[b].space != Space::kTemporary || own.last < 0)
        continue;
      const Interval life = {own.first, own.last + 1, p_.buffers[b].bytes};
      Area& area = p_.buffers[b].on_device ? device_ : AreaOf(life);
      area.Add(life, made_.arena_offset[b], made_.arena_step[b]);
    }
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      if (p_.steps[t].scratch == 0) continue;
      const auto now = static_cast<int64_t>(t);
      const Interval life = {now, now + 1, p_.steps[t].scratch};
      AreaOf(life).Add(life, made_.scratch_offset[t], made_.scratch_step[t]);
    }
  }

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Lanes are at different steps at a time, each perhaps at the one that needs most: to the rest of
  // the arena they are one interval.
  int64_t LowerBound() const {
    std::vector<Interval> all = areas_.back().intervals;
    for (size_t r = 0; r < p_.repeats.size(); ++r) {
      const int64_t lane = MostAlive(areas_[r].intervals);
      if (lane > 0) all.push_back(LanesOf(r, lane));
    }
    return Plus(MostAlive(all), MostAlive(device_.intervals));
  }

  absl::StatusOr<Placement> Plan(bool separate, const PlanMemoryFn& planner) && {
    const int64_t bound = LowerBound();
    bool lanes = false, made = false;
    if (!device_.intervals.empty()) {
      KILN_ASSIGN_OR_RETURN(made_.device_memory, device_.Plan(separate, planner));
      made = made_.device_memory.made;
    }
    int64_t own_sums = 0;  // of lanes, beyond their peaks
    std::vector<int64_t> begins(areas_.size(), 0), steps(areas_.size(), 0);
    for (size_t r = 0; r < p_.repeats.size(); ++r) {
      if (areas_[r].intervals.empty()) continue;
      KILN_ASSIGN_OR_RETURN(const MemoryPlan lane, areas_[r].Plan(separate, planner));
      const Interval all = LanesOf(r, lane.peak);
      const std::optional<int64_t> sums = CheckedMul(lane.sum - lane.peak, p_.repeats[r].lanes);
      if (all.size == kTooMuch || !sums)
        return absl::ResourceExhaustedError("the lanes of a batch tiling need too much memory");
      lanes = true;
      made = made || lane.made;
      steps[r] = lane.peak;
      own_sums = Plus(own_sums, *sums);
      areas_.back().intervals.push_back(all);
      areas_.back().offsets.push_back(&begins[r]);
    }
    KILN_ASSIGN_OR_RETURN(made_.memory, areas_.back().Plan(separate, planner));
    for (size_t r = 0; r < p_.repeats.size(); ++r) {
      for (int64_t* offset : areas_[r].offsets) *offset += begins[r];
      for (int64_t* step : areas_[r].steps) *step = steps[r];
    }
    made_.memory.sum = Plus(made_.memory.sum, own_sums);
    made_.memory.made = made_.memory.made || made;
    if (separate || !lanes) return std::move(made_);
    made_.memory.lower_bound = made_.memory.best_bound = bound;
    made_.memory.optimal = made_.memory.peak == bound;
    return std::move(made_);
  }

 private:
  // Of a life within a repeat with lanes: the repeat's; else the last one.
  Area& AreaOf(const Interval& life) {
    for (size_t r = 0; r < p_.repeats.size(); ++r) {
      const PlacementProblem::Repeat& repeat = p_.repeats[r];
      if (repeat.lanes > 1 && life.lower >= static_cast<int64_t>(repeat.begin) &&
          life.upper <= static_cast<int64_t>(repeat.end))
        return areas_[r];
    }
    return areas_.back();
  }

  Interval LanesOf(size_t r, int64_t lane) const {
    const PlacementProblem::Repeat& repeat = p_.repeats[r];
    return {static_cast<int64_t>(repeat.begin), static_cast<int64_t>(repeat.end),
            CheckedMul(lane, repeat.lanes).value_or(kTooMuch)};
  }

  const PlacementProblem& p_;
  std::vector<Area> areas_;  // per repeat, then of the rest; they point into made_
  Area device_;              // of what is on a device; no repeat has any
  Placement made_;
};

// Chooses the order of the steps and their ways, by the bound of live bytes.
class Search {
 public:
  explicit Search(const PlacementProblem& problem, const PlanMemoryFn& planner = nullptr)
      : p_(problem),
        planner_(planner),
        second_(problem.steps.size(), false),
        order_(problem.steps.size()) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  // All in the given order, the second way.
  absl::StatusOr<Placement> Separate() {
    second_.assign(second_.size(), true);
    return Finish(/*separate=*/true);
  }

  absl::StatusOr<Placement> Best(bool reorder) {
    KILN_RETURN_IF_ERROR(ChooseWays());
    if (reorder) KILN_RETURN_IF_ERROR(ChooseOrder());
    if (reorder) KILN_RETURN_IF_ERROR(TakeFirstWays());
    return Finish(/*separate=*/false);
  }

 private:
  static std::vector<bool> Permuted(const std::vector<bool>& flags, const LaunchOrder& order) {
    std::vector<bool> made;
    for (const int32_t t : order) made.push_back(flags[static_cast<size_t>(t)]);
    return made;
  }

  absl::StatusOr<int64_t> BoundOf(const std::vector<bool>& second) const {
    KILN_ASSIGN_OR_RETURN(AliasClasses classes, FormClasses(p_, second));
    return Arena(p_, std::move(classes)).LowerBound();
  }

  // The first way, unless the second needs less memory; then choice by choice.
  absl::Status ChooseWays() {
    KILN_ASSIGN_OR_RETURN(AliasClasses classes, FormClasses(p_, second_));
    std::map<int64_t, std::vector<size_t>> steps;  // by key
    for (const AliasClasses::Choice& choice : classes.choices)
      steps[choice.key].push_back(choice.step);
    bound_ = Arena(p_, std::move(classes)).LowerBound();
    if (steps.empty()) return absl::OkStatus();
    const std::vector<bool> all(second_.size(), true);
    KILN_ASSIGN_OR_RETURN(const int64_t other, BoundOf(all));
    for (const auto& [key, of_key] : steps) {
      if (bound_ <= other) return absl::OkStatus();
      std::vector<bool> changed = second_;
      for (const size_t t : of_key) changed[t] = true;
      KILN_ASSIGN_OR_RETURN(const int64_t bound, BoundOf(changed));
      if (bound >= bound_) continue;
      second_ = std::move(changed);
      bound_ = bound;
    }
    if (bound_ <= other) return absl::OkStatus();
    second_ = all;
    bound_ = other;
    return absl::OkStatus();
  }

  // In another order than the given one the first ways may need no more memory, all together.
  absl::Status TakeFirstWays() {
    if (std::none_of(second_.begin(), second_.end(), [](bool second) { return second; }))
      return absl::OkStatus();
    Search other(p_);
    KILN_ASSIGN_OR_RETURN(other.bound_, other.BoundOf(other.second_));
    KILN_RETURN_IF_ERROR(other.ChooseOrder());
    if (other.bound_ > bound_) return absl::OkStatus();
    second_ = std::move(other.second_);
    order_ = std::move(other.order_);
    bound_ = other.bound_;
    return absl::OkStatus();
  }

  // What is alive at some step whatever the order, as long as the classes are these.
  int64_t LeastOf(const AliasClasses& classes) const {
    int64_t least = 0;
    for (const PlacementProblem::Step& step : p_.steps) {
      std::vector<int32_t> roots;
      for (const auto* accesses : {&step.reads, &step.writes}) {
        for (const Access& access : *accesses)
          roots.push_back(classes.places[static_cast<size_t>(access.buffer)].root);
      }
      std::sort(roots.begin(), roots.end());
      roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
      std::vector<Interval> together = {{0, 1, step.scratch}};
      for (const int32_t root : roots) {
        const PlacementProblem::Buffer& buffer = p_.buffers[static_cast<size_t>(root)];
        if (buffer.space == Space::kTemporary) together.push_back({0, 1, buffer.bytes});
      }
      least = std::max(least, MostAlive(together));
    }
    return least;
  }

  absl::Status ChooseOrder() {
    KILN_ASSIGN_OR_RETURN(const AliasClasses classes, FormClasses(p_, second_));
    if (bound_ <= LeastOf(classes)) return absl::OkStatus();
    std::vector<int32_t> roots;
    for (const Placement::Place& place : classes.places) {
      const Space space = p_.buffers[static_cast<size_t>(place.root)].space;
      roots.push_back(space == Space::kTemporary ? place.root : -1);
    }
    for (LaunchOrder& order : OrdersToTry(p_, roots)) {
      const PlacementProblem ordered = InOrder(p_, order);
      // What two steps may share can depend on their order.
      absl::StatusOr<AliasClasses> others = FormClasses(ordered, Permuted(second_, order));
      if (!others.ok()) continue;
      const int64_t bound = Arena(ordered, *std::move(others)).LowerBound();
      if (bound >= bound_) continue;
      bound_ = bound;
      order_ = std::move(order);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Placement> Finish(bool separate) {
    const PlacementProblem ordered = InOrder(p_, order_);
    KILN_ASSIGN_OR_RETURN(AliasClasses classes,
                          FormClasses(ordered, Permuted(second_, order_), !separate));
    KILN_ASSIGN_OR_RETURN(const Placement made,
                          Arena(ordered, std::move(classes)).Plan(separate, planner_));
    Placement placed = made;
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto t = static_cast<size_t>(order_[i]);
      placed.copies[t] = made.copies[i];
      placed.scratch_offset[t] = made.scratch_offset[i];
      placed.scratch_step[t] = made.scratch_step[i];
    }
    placed.order = std::move(order_);
    return placed;
  }

  const PlacementProblem& p_;
  const PlanMemoryFn planner_;
  std::vector<bool> second_;  // per step, in the given order
  LaunchOrder order_;
  int64_t bound_ = 0;
};

}  // namespace

absl::StatusOr<Placement> PlaceBuffers(const PlacementProblem& problem, bool separate,
                                       const PlanMemoryFn& plan) {
  return separate ? Search(problem).Separate() : Search(problem, plan).Best(/*reorder=*/true);
}

absl::StatusOr<Placement> PlaceInOrder(const PlacementProblem& problem) {
  return Search(problem).Best(/*reorder=*/false);
}

}  // namespace kiln
