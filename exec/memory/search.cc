// SPDX-License-Identifier: Apache-2.0
#include "exec/memory/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace kiln {
namespace {

constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();  // correctness

}  // namespace

CanonicalSearch::CanonicalSearch(const PlanPart& part, const std::vector<size_t>& order,
                                 int64_t capacity)
    : capacity_(capacity),
      needed_(kInfinite),
      levels_(part.size(), 0),
      left_(part.section_bytes),
      offsets_(part.size(), 0),
      is_placed_(part.size(), false),
      least_offset_(part.size(), 0),
      section_offset_(left_.size(), 0),
      section_end_(left_.size(), 0) {
  for (size_t i = 0; i < part.size(); ++i) {
    items_.push_back(
        {part.intervals[i].size, part.sections[i].first, part.sections[i].last, 0, kNobody});
    members_.push_back(static_cast<Id>(i));
  }
  FindTwins(order);
  if (Exceeds(part.lower_bound)) {
    state_ = State::kTooSmall;
    return;
  }
  const Place start(-1, 0);  // before all
  goals_.push_back({0, members_.size(), 0, static_cast<Id>(left_.size() - 1), start, 0});
  OpenGoal();
}

void CanonicalSearch::FindTwins(const std::vector<size_t>& order) {
  std::map<std::tuple<Id, Id, int64_t>, Id> latest;  // of equal ones
  for (size_t rank = 0; rank < order.size(); ++rank) {
    Item& item = items_[order[rank]];
    item.rank = static_cast<Id>(rank);
    const auto self = static_cast<Id>(order[rank]);
    const auto [at, fresh] = latest.try_emplace({item.first, item.last, item.size}, self);
    if (!fresh) item.twin = std::exchange(at->second, self);
  }
}

CanonicalSearch::State CanonicalSearch::Run(int64_t limit) {
  while (state_ == State::kOpen && visits_ < limit) Step();
  return state_;
}

int64_t CanonicalSearch::peak() const {
  int64_t peak = 0;
  for (size_t i = 0; i < items_.size(); ++i) peak = std::max(peak, offsets_[i] + items_[i].size);
  return peak;
}

// Tries the next item of the innermost frame, or leaves the frame.
void CanonicalSearch::Step() {
  Frame& frame = frames_.back();
  Restore(frame);
  const Goal goal = frame.goal;
  const Id item = Next(frame);
  if (item == kNobody) {
    if (frames_.size() == 1) {
      state_ = State::kTooSmall;
    } else {
      frames_.resize(goal.parent + 1);
    }
    return;
  }
  frame.tried = PlaceOf(item);
  ++nodes_;
  visits_ += static_cast<int64_t>(goal.end - goal.begin);
  Put(item, goal);
  if (!Fits(item, goal)) return;
  Split(item, goal);
  OpenGoal();
}

// Opens a frame for the goal on top.
void CanonicalSearch::OpenGoal() {
  if (goals_.empty()) {
    offsets_ = levels_;
    state_ = State::kFits;
    return;
  }
  const Goal goal = goals_.back();
  goals_.pop_back();
  int64_t gap = kInfinite;
  for (size_t m = goal.begin; m < goal.end; ++m)
    gap = std::min(gap, levels_[members_[m]] + items_[members_[m]].size);
  const int64_t most_left =
      *std::max_element(left_.begin() + goal.first, left_.begin() + goal.last + 1);
  frames_.push_back(
      {goal, goal.after, gap, most_left, goals_.size(), members_.size(), placed_.size()});
}

// What may come next in the sequence after `frame.tried`: the lowest, or kNobody.
CanonicalSearch::Id CanonicalSearch::Next(const Frame& frame) {
  Place next(frame.gap, 0);  // what lies there or above leaves a gap that some item fills
  Id item = kNobody;
  for (size_t m = frame.goal.begin; m < frame.goal.end; ++m) {
    const Id i = members_[m];
    if (levels_[i] > next.first) continue;
    const Place place = PlaceOf(i);
    if (place <= frame.tried || place >= next) continue;
    if (items_[i].twin != kNobody && !is_placed_[items_[i].twin]) continue;
    next = place;
    item = i;
  }
  // All that is left would lie there or above.
  return item != kNobody && Exceeds(next.first + frame.most_left) ? kNobody : item;
}

void CanonicalSearch::Restore(const Frame& frame) {
  for (; placed_.size() > frame.placed; placed_.pop_back()) {
    const auto [i, lifted] = placed_.back();
    for (; lifted_.size() > lifted; lifted_.pop_back())
      levels_[lifted_.back().first] = lifted_.back().second;
    for (Id t = items_[i].first; t <= items_[i].last; ++t) left_[t] += items_[i].size;
    is_placed_[i] = false;
  }
  goals_.resize(frame.goals);
  members_.resize(frame.members);
}

// Places the item at its level and lifts what meets it.
void CanonicalSearch::Put(Id item, const Goal& goal) {
  const Item& it = items_[item];
  const int64_t top = levels_[item] + it.size;
  placed_.push_back({item, lifted_.size()});
  is_placed_[item] = true;
  for (Id t = it.first; t <= it.last; ++t) left_[t] -= it.size;
  for (size_t m = goal.begin; m < goal.end; ++m) {
    const Id i = members_[m];
    const bool meet = items_[i].first <= it.last && it.first <= items_[i].last;
    if (i == item || !meet || levels_[i] >= top) continue;
    lifted_.emplace_back(i, levels_[i]);
    levels_[i] = top;
  }
}

// Whether a packing of this peak is too large. Keeps the least that was.
bool CanonicalSearch::Exceeds(int64_t peak) {
  if (peak <= capacity_) return false;
  needed_ = std::min(needed_, peak);
  return true;
}

// Whether the sections of the goal may still be filled now that `item` is placed.
bool CanonicalSearch::Fits(Id item, const Goal& goal) {
  const int64_t top = levels_[item] + items_[item].size;
  for (Id t = items_[item].first; t <= items_[item].last; ++t) {
    if (Exceeds(top + left_[t])) return false;
  }
  const auto [first, last] = LiftWaiting(item, goal);
  std::fill(section_offset_.begin() + first, section_offset_.begin() + last + 1, kInfinite);
  for (size_t m = goal.begin; m < goal.end; ++m) {
    const Id i = members_[m];
    if (i == item || items_[i].first > last || items_[i].last < first) continue;
    if (Exceeds(least_offset_[i] + items_[i].size)) return false;
    const Id end = std::min(items_[i].last, last);
    for (Id t = std::max(items_[i].first, first); t <= end; ++t)
      section_offset_[t] = std::min(section_offset_[t], least_offset_[i]);
  }
  for (Id t = first; t <= last; ++t) {
    if (left_[t] > 0 && Exceeds(section_offset_[t] + left_[t])) return false;
  }
  return true;
}

// The least offset of each item left: its level, but for those that wait the least end of what may
// come to lie below them. Gives the sections where any is not what it was for the goal.
std::pair<CanonicalSearch::Id, CanonicalSearch::Id> CanonicalSearch::LiftWaiting(Id item,
                                                                                 const Goal& goal) {
  const Place after = PlaceOf(item);
  bool waiting = false;
  for (size_t m = goal.begin; m < goal.end; ++m) {
    const Id i = members_[m];
    least_offset_[i] = std::max(levels_[i], after.first);
    waiting |= levels_[i] <= after.first && PlaceOf(i) < after;
  }
  if (!waiting) {
    std::pair changed(items_[item].first, items_[item].last);
    for (size_t k = placed_.back().lifted; k < lifted_.size(); ++k) {
      changed.first = std::min(changed.first, items_[lifted_[k].first].first);
      changed.second = std::max(changed.second, items_[lifted_[k].first].last);
    }
    return changed;
  }
  std::fill(section_end_.begin() + goal.first, section_end_.begin() + goal.last + 1, kInfinite);
  for (size_t m = goal.begin; m < goal.end; ++m) {
    const Id i = members_[m];
    if (i == item) continue;
    for (Id t = items_[i].first; t <= items_[i].last; ++t)
      section_end_[t] = std::min(section_end_[t], least_offset_[i] + items_[i].size);
  }
  for (size_t m = goal.begin; m < goal.end; ++m) {
    const Id i = members_[m];
    if (i == item || after <= PlaceOf(i)) continue;
    least_offset_[i] = *std::min_element(section_end_.begin() + items_[i].first,
                                         section_end_.begin() + items_[i].last + 1);
  }
  return {goal.first, goal.last};
}

// Makes goals of what is left of one: runs of items, ascending in their first section, such that no
// item reaches from one run into the next.
void CanonicalSearch::Split(Id item, const Goal& goal) {
  const Place after = PlaceOf(item);
  const size_t parent = frames_.size() - 1;
  bool open = false;
  for (size_t m = goal.begin; m < goal.end; ++m) {
    const Id i = members_[m];
    if (i == item) continue;
    if (!open || items_[i].first > goals_.back().last) {
      goals_.push_back(
          {members_.size(), members_.size(), items_[i].first, items_[i].last, after, parent});
      open = true;
    }
    members_.push_back(i);
    goals_.back().last = std::max(goals_.back().last, items_[i].last);
    goals_.back().end = members_.size();
  }
}

}  // namespace kiln
