// SPDX-License-Identifier: Apache-2.0
// Exact search for a packing of a part within a capacity, after the idea of MiniMalloc (Moffitt,
// 2023): depth first over canonical packings.
//
// A packing that cannot be pushed down has each interval at 0 or on top of one that it meets. It is
// canonical in the sequence of ascending offsets, ties by a static order (an interval's rank in
// it): then each interval lies exactly at its *level*, the highest end of those before it that it
// meets. So a node of the search places one interval at its level, not before the last place in the
// sequence, and levels rise:
//
//   a [0, 2) and b [0, 2) are placed at 0 and 4; c [3, 5) and e [1, 4) are left; all of 4 bytes
//   12 |          cccccc  The level of e is 8. That of c is 0, and 0 is before the last place, 4: c
//    8 |    eeeeeeeee     *waits*. It may yet lie on e, once that is placed, so at 12 or above.
//    4 | bbbbbb
//    0 | aaaaaa
//
// A node is cut where
//   section      the lowest level of what is left in a section, and what is left there, exceed the
//                capacity; an interval that waits counts from the lowest end of what it may yet lie
//                on
//   gap          an interval left out would have fitted below the one placed: it could move there,
//                so some other packing of the same peak has it there
//   twin         an interval lies above an equal one that comes later in the static order
//   dead end     all that is left waits
// What is left falls into subproblems where no interval crosses; each is searched alone, and when
// one has no packing the search returns to the node that made it, not to what its siblings did.
#ifndef KILN_EXEC_MEMORY_SEARCH_H_
#define KILN_EXEC_MEMORY_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "exec/memory/part.h"

namespace kiln {

// Thread-compatible. Deterministic: all that it does follows from the constructor's arguments.
class CanonicalSearch {
 public:
  enum class State { kOpen, kFits, kTooSmall };

  // `order` has each interval of `part` once. The sum of all sizes must be below 2^61.
  CanonicalSearch(const PlanPart& part, const std::vector<size_t>& order, int64_t capacity);

  // Goes on until decided, or until as many visits are made as `limit` in all.
  State Run(int64_t limit);

  State state() const { return state_; }
  // A node visits each interval of its subproblem once.
  int64_t visits() const { return visits_; }
  int64_t nodes() const { return nodes_; }
  // After kFits: of each interval.
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t peak() const;
  // After kTooSmall: above the capacity, and no packing of the part has a smaller peak.
  int64_t needed() const { return needed_; }

 private:
  using Id = uint32_t;  // of an item (an interval), or of a section
  static constexpr Id kNobody = ~Id{0};
  struct Item {
    int64_t size;
    Id first, last;  // sections
    Id rank;         // in the static order
    Id twin;         // the equal one before it in the static order, or kNobody
  };
  // A point of the sequence: (offset, rank).
  using Place = std::pair<int64_t, Id>;
  // Items left that meet each other, if only through others of them, and the sections they fill.
  struct Goal {
    size_t begin, end;  // of members_
    Id first, last;     // sections
    Place after;        // the place of the last one placed
    size_t parent;      // the frame that made it; for the whole part the first, its own
  };
  // A goal being searched, and how long the stacks were when that began.
  struct Frame {
    Goal goal;
    Place tried;        // the last item tried first
    int64_t gap;        // the lowest end of an item at its level
    int64_t most_left;  // bytes of the section with most of them
    size_t goals, members, placed;
  };
  struct Placed {
    Id item;
    size_t lifted;  // length of lifted_ before it
  };

  Place PlaceOf(Id item) const { return {levels_[item], items_[item].rank}; }
  void FindTwins(const std::vector<size_t>& order);
  void Step();
  void OpenGoal();
  Id Next(const Frame& frame);
  void Restore(const Frame& frame);
  void Put(Id item, const Goal& goal);
  bool Fits(Id item, const Goal& goal);
  std::pair<Id, Id> LiftWaiting(Id item, const Goal& goal);
  void Split(Id item, const Goal& goal);
  bool Exceeds(int64_t peak);

  std::vector<Item> items_;
  const int64_t capacity_;
  State state_ = State::kOpen;
  int64_t visits_ = 0, nodes_ = 0, needed_;
  std::vector<int64_t> levels_;   // per item; its offset once it is placed
  std::vector<int64_t> left_;     // per section: bytes of what is not placed
  std::vector<int64_t> offsets_;  // the result
  std::vector<bool> is_placed_;
  // Stacks: goals to search, frames being searched, members of goals, items placed, and levels that
  // they lifted, with the former ones.
  std::vector<Goal> goals_;
  std::vector<Frame> frames_;
  std::vector<Id> members_;
  std::vector<Placed> placed_;
  std::vector<std::pair<Id, int64_t>> lifted_;
  // Scratch of Fits: the least offset of an item; the least offset, and the least end, of what is
  // left in a section.
  std::vector<int64_t> least_offset_, section_offset_, section_end_;
};

}  // namespace kiln

#endif  // KILN_EXEC_MEMORY_SEARCH_H_
