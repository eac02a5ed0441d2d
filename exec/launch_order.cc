// SPDX-License-Identifier: Apache-2.0
#include "exec/launch_order.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace kiln {
namespace {

using Access = PlacementProblem::Access;
using Step = PlacementProblem::Step;

// ---- Dependences

class Dependences {
 public:
  explicit Dependences(const PlacementProblem& problem)
      : p_(problem), after_(problem.steps.size()) {}

  std::vector<std::vector<int32_t>> Find() && {
    FindSpaces();
    uses_.resize(p_.buffers.size());
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      const Step& step = p_.steps[t];
      for (const Access& read : step.reads) Note(t, read, /*write=*/false);
      if (IsAlias(t)) continue;
      for (const Access& write : step.writes) Note(t, write, /*write=*/true);
    }
    for (const std::vector<Use>& uses : uses_) AddConflicts(uses);
    AddReadersOfViews();
    for (const PlacementProblem::Repeat& repeat : p_.repeats) {
      for (size_t t = repeat.begin; t + 1 < repeat.end; ++t) Add(ToStep(t), ToStep(t + 1));
    }
    for (std::vector<int32_t>& after : after_) {
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
    }
    return std::move(after_);
  }

 private:
  // Bytes of `space`, a buffer whose memory others are views or parts of.
  struct Use {
    int32_t step = 0;
    int64_t begin = 0, end = 0;
    bool write = false;
  };
  struct Alias {
    int32_t of = 0;
    int64_t offset = 0;
  };

  bool IsAlias(size_t t) const {
    const Step& step = p_.steps[t];
    return step.view && view_step_[static_cast<size_t>(step.writes[0].buffer)] == ToStep(t);
  }
  static int32_t ToStep(size_t t) { return static_cast<int32_t>(t); }

  // Views of all of a new buffer are memory of what they see, whatever becomes of them; parts that
  // are copied into a buffer have bytes of their own.
  void FindSpaces() {
    alias_.resize(p_.buffers.size());
    view_step_.assign(p_.buffers.size(), -1);
    std::vector<bool> touched(p_.buffers.size());
    for (const PlacementProblem::Fixed& fixed : p_.fixed) {
      alias_[static_cast<size_t>(fixed.buffer)] = {fixed.of, fixed.offset};
      touched[static_cast<size_t>(fixed.buffer)] = touched[static_cast<size_t>(fixed.of)] = true;
    }
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      const Step& step = p_.steps[t];
      if (step.view) {
        const Access& to = step.writes[0];
        const auto b = static_cast<size_t>(to.buffer);
        const bool whole = to.begin == 0 && to.end == p_.buffers[b].bytes;
        if (whole && !touched[b] && to.buffer != step.reads[0].buffer) {
          alias_[b] = {step.reads[0].buffer, step.reads[0].begin};
          view_step_[b] = ToStep(t);
        }
      }
      for (const auto* accesses : {&step.reads, &step.writes}) {
        for (const Access& access : *accesses) touched[static_cast<size_t>(access.buffer)] = true;
      }
    }
  }

  void Note(size_t t, const Access& access, bool write) {
    if (access.begin == access.end) return;
    int32_t space = access.buffer;
    int64_t offset = 0;
    for (size_t hops = 0; hops < p_.buffers.size(); ++hops) {
      const std::optional<Alias>& alias = alias_[static_cast<size_t>(space)];
      if (!alias) break;
      offset += alias->offset;
      space = alias->of;
    }
    uses_[static_cast<size_t>(space)].push_back(
        {ToStep(t), offset + access.begin, offset + access.end, write});
  }

  void AddConflicts(const std::vector<Use>& uses) {
    for (const Use& write : uses) {
      if (!write.write) continue;
      for (const Use& other : uses) {
        const bool meet = std::max(write.begin, other.begin) < std::min(write.end, other.end);
        if (meet) Add(std::min(write.step, other.step), std::max(write.step, other.step));
      }
    }
  }

  void AddReadersOfViews() {
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      for (const auto* accesses : {&p_.steps[t].reads, &p_.steps[t].writes}) {
        for (const Access& access : *accesses) {
          const int32_t view = view_step_[static_cast<size_t>(access.buffer)];
          if (view >= 0) Add(view, ToStep(t));
        }
      }
    }
  }

  void Add(int32_t first, int32_t second) {
    if (first < second) after_[static_cast<size_t>(first)].push_back(second);
  }

  const PlacementProblem& p_;
  std::vector<std::optional<Alias>> alias_;  // per buffer
  std::vector<int32_t> view_step_;           // per buffer: the step that makes it a view; -1
  std::vector<std::vector<Use>> uses_;       // per buffer
  std::vector<std::vector<int32_t>> after_;
};

// ---- Schedules

// What schedules work on: steps, the memory that each touches, and what must come before what.
struct Work {
  struct Touched {
    int32_t block = 0;
    int64_t bytes = 0;
  };
  std::vector<std::vector<int32_t>> before, after;
  std::vector<std::vector<Touched>> touched;   // per step
  std::vector<std::vector<int32_t>> touchers;  // per block
  std::vector<int64_t> scratch;
  std::vector<int32_t> section;  // per step: sections follow each other
  int32_t sections = 0;
};

int64_t Aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

Work WorkOf(const PlacementProblem& p, std::span<const int32_t> roots) {
  const size_t n = p.steps.size();
  Work work;
  work.after = StepsAfter(p);
  work.before.resize(n);
  work.touched.resize(n);
  work.touchers.resize(p.buffers.size());
  work.section.assign(n, 0);
  std::vector<bool> starts(n + 1), inside(n);
  for (const PlacementProblem::Repeat& repeat : p.repeats) {
    for (size_t t = repeat.begin; t < repeat.end; ++t) starts[t] = inside[t] = true;
    starts[repeat.end] = true;
  }
  for (size_t t = 0; t < n; ++t) {
    if (t > 0 && starts[t]) ++work.sections;
    work.section[t] = work.sections;
    work.scratch.push_back(Aligned(p.steps[t].scratch));
    for (const int32_t next : work.after[t])
      work.before[static_cast<size_t>(next)].push_back(static_cast<int32_t>(t));
    std::vector<int32_t> blocks;
    for (const auto* accesses : {&p.steps[t].reads, &p.steps[t].writes}) {
      for (const Access& access : *accesses)
        blocks.push_back(roots[static_cast<size_t>(access.buffer)]);
    }
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    for (const int32_t block : blocks) {
      if (block < 0) continue;
      const auto b = static_cast<size_t>(block);
      work.touched[t].push_back({block, Aligned(p.buffers[b].bytes)});
      work.touchers[b].push_back(static_cast<int32_t>(t));
    }
  }
  ++work.sections;
  return work;
}

// The same, backwards in time.
Work Reversed(const Work& work) {
  Work made = work;
  std::swap(made.before, made.after);
  for (int32_t& section : made.section) section = work.sections - 1 - section;
  return made;
}

// Takes, of the steps that may run, the one that adds least to what is alive.
class ListSchedule {
 public:
  explicit ListSchedule(const Work& work, bool backwards)
      : w_(work), backwards_(backwards), waits_(work.before.size()), key_(work.before.size()) {
    for (size_t t = 0; t < waits_.size(); ++t) waits_[t] = work.before[t].size();
    for (const std::vector<int32_t>& touchers : work.touchers) left_.push_back(touchers.size());
    live_.resize(left_.size());
    ready_.resize(static_cast<size_t>(work.sections));
  }

  LaunchOrder Run() {
    for (size_t t = 0; t < waits_.size(); ++t) {
      if (waits_[t] == 0) Insert(static_cast<int32_t>(t));
    }
    LaunchOrder order;
    for (std::set<Key>& ready : ready_) {
      while (!ready.empty()) {
        const int32_t t = ready.begin()->step;
        ready.erase(ready.begin());
        order.push_back(t);
        Take(static_cast<size_t>(t));
      }
    }
    if (backwards_) std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  struct Key {
    int64_t adds = 0, during = 0;  // bytes: once it is done, and while it runs
    int32_t place = 0;             // of equals the one that comes first in the given order
    int32_t step = 0;
    bool operator<(const Key& o) const {
      return std::tie(adds, during, place) < std::tie(o.adds, o.during, o.place);
    }
  };

  Key KeyOf(int32_t t) const {
    Key key{0, w_.scratch[static_cast<size_t>(t)], backwards_ ? -t : t, t};
    for (const Work::Touched& touched : w_.touched[static_cast<size_t>(t)]) {
      const auto b = static_cast<size_t>(touched.block);
      if (!live_[b]) {
        key.adds += touched.bytes;
        key.during += touched.bytes;
      }
      if (left_[b] == 1) key.adds -= touched.bytes;
    }
    return key;
  }

  std::set<Key>& ReadyOf(int32_t t) {
    return ready_[static_cast<size_t>(w_.section[static_cast<size_t>(t)])];
  }
  void Insert(int32_t t) {
    key_[static_cast<size_t>(t)] = KeyOf(t);
    ReadyOf(t).insert(*key_[static_cast<size_t>(t)]);
  }

  void Take(size_t t) {
    key_[t].reset();
    for (const Work::Touched& touched : w_.touched[t]) {
      const auto b = static_cast<size_t>(touched.block);
      const bool fresh = !live_[b];
      live_[b] = true;
      // What others add changes when a block comes alive, and when one of them is the last.
      if (--left_[b] > 1 && !fresh) continue;
      for (const int32_t other : w_.touchers[b]) {
        if (!key_[static_cast<size_t>(other)]) continue;
        ReadyOf(other).erase(*key_[static_cast<size_t>(other)]);
        Insert(other);
      }
    }
    for (const int32_t next : w_.after[t]) {
      if (--waits_[static_cast<size_t>(next)] == 0) Insert(next);
    }
  }

  const Work& w_;
  const bool backwards_;
  std::vector<size_t> waits_;            // per step: for how many others
  std::vector<std::optional<Key>> key_;  // per step that is ready
  std::vector<std::set<Key>> ready_;     // per section
  std::vector<size_t> left_;             // per block: steps that will touch it
  std::vector<bool> live_;               // per block
};

// Each step as late as another needs it; of those that a step needs, the one first whose own needs
// stand highest above what it leaves.
class AsNeeded {
 public:
  explicit AsNeeded(const Work& work) : w_(work), done_(work.before.size()) {
    for (size_t t = 0; t < done_.size(); ++t) {
      std::vector<int32_t> needs = w_.before[t];
      std::sort(needs.begin(), needs.end(), [&](int32_t a, int32_t b) {
        const int64_t above_a = Above(a), above_b = Above(b);
        return above_a != above_b ? above_a > above_b : a < b;
      });
      int64_t held = 0, most = 0;
      for (const int32_t need : needs) {
        most = std::max(most, held + peak_[static_cast<size_t>(need)]);
        held += leaves_[static_cast<size_t>(need)];
      }
      int64_t makes = 0;
      for (const Work::Touched& touched : w_.touched[t]) {
        if (w_.touchers[static_cast<size_t>(touched.block)].front() == static_cast<int32_t>(t))
          makes += touched.bytes;
      }
      peak_.push_back(std::max(most, held + makes + w_.scratch[t]));
      leaves_.push_back(makes);
      needs_.push_back(std::move(needs));
    }
  }

  LaunchOrder Run() {
    size_t first = 0;  // of the section
    for (size_t t = 0; t < done_.size(); ++t) {
      if (w_.after[t].empty()) Emit(static_cast<int32_t>(t));
      if (t + 1 < done_.size() && w_.section[t + 1] == w_.section[t]) continue;
      for (; first <= t; ++first) Emit(static_cast<int32_t>(first));  // for later sections
    }
    return std::move(order_);
  }

 private:
  int64_t Above(int32_t t) const {
    return peak_[static_cast<size_t>(t)] - leaves_[static_cast<size_t>(t)];
  }

  // What the step needs, then the step. Chains are long: no recursion.
  void Emit(int32_t target) {
    std::vector<std::pair<int32_t, size_t>> stack = {{target, 0}};
    while (!stack.empty()) {
      auto& [t, at] = stack.back();
      const auto i = static_cast<size_t>(t);
      if (done_[i]) {
        stack.pop_back();
      } else if (at < needs_[i].size()) {
        const int32_t need = needs_[i][at++];
        if (!done_[static_cast<size_t>(need)]) stack.emplace_back(need, 0);
      } else {
        done_[i] = true;
        order_.push_back(t);
        stack.pop_back();
      }
    }
  }

  const Work& w_;
  std::vector<bool> done_;
  std::vector<int64_t> peak_, leaves_;       // bytes, per step, as if nothing was shared
  std::vector<std::vector<int32_t>> needs_;  // per step, in the order in which they are made
  LaunchOrder order_;
};

}  // namespace

std::vector<std::vector<int32_t>> StepsAfter(const PlacementProblem& problem) {
  return Dependences(problem).Find();
}

std::vector<LaunchOrder> OrdersToTry(const PlacementProblem& problem,
                                     std::span<const int32_t> roots) {
  const Work work = WorkOf(problem, roots);
  return {ListSchedule(work, /*backwards=*/false).Run(),
          ListSchedule(Reversed(work), /*backwards=*/true).Run(), AsNeeded(work).Run()};
}

PlacementProblem InOrder(const PlacementProblem& problem, const LaunchOrder& order) {
  PlacementProblem made = problem;
  for (size_t i = 0; i < order.size(); ++i)
    made.steps[i] = problem.steps[static_cast<size_t>(order[i])];
  return made;
}

}  // namespace kiln
