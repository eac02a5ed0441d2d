// SPDX-License-Identifier: Apache-2.0
#include "exec/placement.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;
using Access = PlacementProblem::Access;
using Step = PlacementProblem::Step;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

template <typename... T>
absl::Status Invalid(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

class Placer {
 public:
  Placer(const PlacementProblem& problem, bool separate)
      : p_(problem), separate_(separate), n_(problem.buffers.size()), nodes_(n_) {
    for (size_t i = 0; i < n_; ++i) nodes_[i].parent = static_cast<int32_t>(i);
  }

  absl::StatusOr<Placement> Place() {
    made_.copies.assign(p_.steps.size(), false);
    granted_.resize(p_.steps.size());
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      for (const Access& a : p_.steps[t].reads) Touch(a.buffer, static_cast<int64_t>(t));
      for (const Access& a : p_.steps[t].writes) Touch(a.buffer, static_cast<int64_t>(t));
    }
    for (const PlacementProblem::Fixed& fixed : p_.fixed) KILN_RETURN_IF_ERROR(AddFixed(fixed));
    for (const PlacementProblem::Repeat& repeat : p_.repeats) Extend(repeat);
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      if (p_.steps[t].view) {
        KILN_RETURN_IF_ERROR(AddView(t));
      } else if (!separate_) {
        AddInPlace(t);
      }
    }
    KILN_RETURN_IF_ERROR(CheckAccesses());
    KILN_RETURN_IF_ERROR(PlanArena());
    return std::move(made_);
  }

 private:
  // A tree per class; first, last are those of the class at its root.
  struct Node {
    int32_t parent = 0;
    int64_t offset = 0;  // in the parent
    int64_t first = kNever, last = -1;
  };

  Node& node(int32_t b) { return nodes_[static_cast<size_t>(b)]; }
  Space space(int32_t b) const { return p_.buffers[static_cast<size_t>(b)].space; }
  bool OnOneDevice(int32_t a, int32_t b) const {
    return p_.buffers[static_cast<size_t>(a)].device == p_.buffers[static_cast<size_t>(b)].device;
  }
  int64_t bytes(int32_t b) const { return p_.buffers[static_cast<size_t>(b)].bytes; }

  void Touch(int32_t b, int64_t t) {
    node(b).first = std::min(node(b).first, t);
    node(b).last = std::max(node(b).last, t);
  }

  // Over all of the repeated steps, where one of them and a step outside touch the buffer or, of a
  // whole that is read here, a part that was written there.
  void Extend(const PlacementProblem::Repeat& repeat) {
    const auto begin = static_cast<int64_t>(repeat.begin),
               last = static_cast<int64_t>(repeat.end) - 1;
    for (size_t b = 0; b < n_; ++b) {
      Node& n = nodes_[b];
      if (!IsRoot(static_cast<int32_t>(b))) continue;
      const bool outside =
          n.first < begin || n.last > last || p_.buffers[b].space != Space::kTemporary;
      if (!outside || n.first > last || n.last < begin) continue;
      n.first = std::min(n.first, begin);
      n.last = std::max(n.last, last);
    }
  }

  // The root of b's class and b's offset in it. Halves the path, so that long chains of views stay
  // cheap.
  Placement::Place Find(int32_t b) {
    int64_t offset = 0;
    while (node(b).parent != b) {
      Node& n = node(b);
      const Node& up = node(n.parent);
      if (up.parent != n.parent) {
        n.offset += up.offset;
        n.parent = up.parent;
      }
      offset += n.offset;
      b = n.parent;
    }
    return {b, offset};
  }

  bool IsRoot(int32_t b) { return node(b).parent == b; }

  // The class of root `child` joins that of `parent`.
  void Link(int32_t child, int32_t parent, int64_t offset) {
    node(child).parent = parent;
    node(child).offset = offset;
    Node& root = node(Find(parent).root);
    root.first = std::min(root.first, node(child).first);
    root.last = std::max(root.last, node(child).last);
  }

  absl::Status AddFixed(const PlacementProblem::Fixed& f) {
    const bool fits =
        f.offset >= 0 && f.offset <= bytes(f.of) && bytes(f.buffer) <= bytes(f.of) - f.offset;
    if (space(f.buffer) != Space::kTemporary || !IsRoot(f.buffer) || Find(f.of).root == f.buffer ||
        !OnOneDevice(f.buffer, f.of) || !fits) {
      return Invalid("buffer ", f.buffer, " (", bytes(f.buffer), " bytes) cannot lie at byte ",
                     f.offset, " of buffer ", f.of, " (", bytes(f.of), " bytes)");
    }
    Link(f.buffer, f.of, f.offset);
    return absl::OkStatus();
  }

  absl::Status AddView(size_t t) {
    const Access &from = p_.steps[t].reads[0], &to = p_.steps[t].writes[0];
    if (bytes(to.buffer) > bytes(from.buffer) - from.begin) {
      return Invalid("step ", t, ": the view needs ", bytes(to.buffer), " bytes; buffer ",
                     from.buffer, " has ", bytes(from.buffer) - from.begin);
    }
    const Placement::Place source = Find(from.buffer);
    const bool fresh = IsRoot(to.buffer) && node(to.buffer).first == static_cast<int64_t>(t) &&
                       source.root != to.buffer && OnOneDevice(from.buffer, to.buffer);
    if (fresh && space(to.buffer) == Space::kTemporary) {
      Link(to.buffer, from.buffer, from.begin);
    } else if (fresh && space(to.buffer) == Space::kOutput &&
               space(source.root) == Space::kTemporary && source.offset + from.begin == 0 &&
               bytes(source.root) <= bytes(to.buffer)) {
      Link(source.root, to.buffer, 0);
    } else if (bytes(to.buffer) > 0) {
      made_.copies[t] = true;
    }
    return absl::OkStatus();
  }

  bool TouchedByOthers(const Step& step, int32_t root, int32_t read) {
    for (size_t i = 0; i < step.reads.size(); ++i) {
      if (static_cast<int32_t>(i) != read && Find(step.reads[i].buffer).root == root) return true;
    }
    return std::any_of(step.writes.begin(), step.writes.end(),
                       [&](const Access& a) { return Find(a.buffer).root == root; });
  }

  void AddInPlace(size_t t) {
    const Step& step = p_.steps[t];
    for (const auto& [read, write] : step.in_place) {
      const Access &from = step.reads[static_cast<size_t>(read)],
                   &to = step.writes[static_cast<size_t>(write)];
      const bool alike = from.dense && to.dense && from.item == to.item && to.begin == 0 &&
                         to.end > 0 && from.end - from.begin == to.end;
      const Placement::Place source = Find(from.buffer), target = Find(to.buffer);
      const auto now = static_cast<int64_t>(t);
      if (!alike || !OnOneDevice(from.buffer, to.buffer) || node(source.root).last != now ||
          node(target.root).first != now || TouchedByOthers(step, source.root, read)) {
        continue;
      }
      if (space(source.root) != Space::kTemporary) continue;
      if (IsRoot(to.buffer) && space(to.buffer) == Space::kTemporary) {
        if (bytes(to.buffer) > bytes(from.buffer) - from.begin) continue;
        Link(to.buffer, from.buffer, from.begin);
      } else if (space(target.root) == Space::kOutput || space(target.root) == Space::kTemporary) {
        if (source.offset + from.begin != 0 || bytes(source.root) > bytes(to.buffer)) continue;
        Link(source.root, to.buffer, 0);
      } else {
        continue;
      }
      granted_[t].emplace_back(read, write);
    }
  }

  struct Range {
    int32_t root;
    int64_t begin, end;
  };
  Range RangeOf(const Access& a) {
    const Placement::Place place = Find(a.buffer);
    return {place.root, place.offset + a.begin, place.offset + a.end};
  }

  bool Clash(const Access& a, const Access& b) {
    const Range x = RangeOf(a), y = RangeOf(b);
    // Two strided operands may interleave, as parts of a concat along its last axis do.
    return (a.dense || b.dense) && x.root == y.root && x.begin < y.end && y.begin < x.end;
  }

  absl::Status CheckStep(size_t t) {
    const Step& step = p_.steps[t];
    for (size_t w = 0; w < step.writes.size(); ++w) {
      const Access& write = step.writes[w];
      const Space target = space(Find(write.buffer).root);
      if (target == Space::kInput || target == Space::kConstant) {
        return Invalid("step ", t, ": writes buffer ", write.buffer,
                       ", which lies in an input or constant");
      }
      for (size_t r = 0; r < step.reads.size(); ++r) {
        const std::pair<int32_t, int32_t> pair(r, w);
        const bool granted =
            std::find(granted_[t].begin(), granted_[t].end(), pair) != granted_[t].end();
        if (!granted && Clash(step.reads[r], write)) {
          return Invalid("step ", t, ": reads buffer ", step.reads[r].buffer,
                         " where it writes buffer ", write.buffer);
        }
      }
      for (size_t other = 0; other < w; ++other) {
        if (Clash(step.writes[other], write)) {
          return Invalid("step ", t, ": writes buffers ", step.writes[other].buffer, " and ",
                         write.buffer, " in the same place");
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAccesses() {
    std::vector<bool> written(n_, false);
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      const Step& step = p_.steps[t];
      for (const Access& read : step.reads) {
        const int32_t root = Find(read.buffer).root;
        const bool made_here = space(root) == Space::kTemporary || space(root) == Space::kOutput;
        if (made_here && !written[static_cast<size_t>(root)] && read.end > read.begin) {
          return Invalid("step ", t, ": reads buffer ", read.buffer, " before anything wrote it");
        }
      }
      if (!step.view || made_.copies[t]) KILN_RETURN_IF_ERROR(CheckStep(t));
      for (const Access& write : step.writes)
        written[static_cast<size_t>(Find(write.buffer).root)] = true;
    }
    for (size_t b = 0; b < n_; ++b) {
      const int32_t root = Find(static_cast<int32_t>(b)).root;
      if (p_.buffers[b].space == Space::kOutput && p_.buffers[b].bytes > 0 &&
          !written[static_cast<size_t>(root)]) {
        return Invalid("nothing writes buffer ", b, ", an output");
      }
    }
    return absl::OkStatus();
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
    absl::StatusOr<MemoryPlan> Plan(bool separate) const {
      KILN_ASSIGN_OR_RETURN(MemoryPlan plan,
                            separate ? Apart() : PlanMemory(intervals, kArenaAlignment));
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

  // Of a life within a repeat with lanes: the repeat's; else the last one.
  Area& AreaOf(std::vector<Area>& areas, const Interval& life) {
    for (size_t r = 0; r < p_.repeats.size(); ++r) {
      const PlacementProblem::Repeat& repeat = p_.repeats[r];
      if (repeat.lanes > 1 && life.lower >= static_cast<int64_t>(repeat.begin) &&
          life.upper <= static_cast<int64_t>(repeat.end))
        return areas[r];
    }
    return areas.back();
  }

  absl::Status PlanArena() {
    made_.arena_offset.assign(n_, -1);
    made_.arena_step.assign(n_, 0);
    made_.scratch_offset.assign(p_.steps.size(), -1);
    made_.scratch_step.assign(p_.steps.size(), 0);
    std::vector<Area> areas(p_.repeats.size() + 1);
    for (size_t b = 0; b < n_; ++b) {
      made_.places.push_back(Find(static_cast<int32_t>(b)));
      const Node& n = nodes_[b];
      if (n.parent != static_cast<int32_t>(b) || p_.buffers[b].space != Space::kTemporary ||
          n.last < 0)
        continue;
      const Interval life = {n.first, n.last + 1, p_.buffers[b].bytes};
      AreaOf(areas, life).Add(life, made_.arena_offset[b], made_.arena_step[b]);
    }
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      if (p_.steps[t].scratch == 0) continue;
      const Interval life = {static_cast<int64_t>(t), static_cast<int64_t>(t) + 1,
                             p_.steps[t].scratch};
      AreaOf(areas, life).Add(life, made_.scratch_offset[t], made_.scratch_step[t]);
    }
    return PlanAreas(areas);
  }

  // Lanes are at different steps at a time: to the rest of the arena they are one interval.
  absl::Status PlanAreas(std::vector<Area>& areas) {
    std::vector<int64_t> begins(areas.size(), 0), steps(areas.size(), 0);
    for (size_t r = 0; r < p_.repeats.size(); ++r) {
      const PlacementProblem::Repeat& repeat = p_.repeats[r];
      if (areas[r].intervals.empty()) continue;
      KILN_ASSIGN_OR_RETURN(const MemoryPlan lane, areas[r].Plan(separate_));
      const std::optional<int64_t> all = CheckedMul(lane.peak, repeat.lanes);
      if (!all)
        return absl::ResourceExhaustedError("the lanes of a batch tiling need too much memory");
      steps[r] = lane.peak;
      areas.back().intervals.push_back(
          {static_cast<int64_t>(repeat.begin), static_cast<int64_t>(repeat.end), *all});
      areas.back().offsets.push_back(&begins[r]);
    }
    KILN_ASSIGN_OR_RETURN(made_.memory, areas.back().Plan(separate_));
    for (size_t r = 0; r < p_.repeats.size(); ++r) {
      for (int64_t* offset : areas[r].offsets) *offset += begins[r];
      for (int64_t* step : areas[r].steps) *step = steps[r];
    }
    return absl::OkStatus();
  }

  const PlacementProblem& p_;
  const bool separate_;
  const size_t n_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> granted_;  // per step
  Placement made_;
};

}  // namespace

absl::StatusOr<Placement> PlaceBuffers(const PlacementProblem& problem, bool separate) {
  return Placer(problem, separate).Place();
}

}  // namespace kiln
