// SPDX-License-Identifier: Apache-2.0
#include "exec/plan_verifier.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/tag_map.h"

namespace kiln {
namespace {

using Space = PlacementProblem::Space;
using Access = PlacementProblem::Access;
using Step = PlacementProblem::Step;
using Repeat = PlacementProblem::Repeat;

constexpr int32_t kArena = -1, kPorts = -2,
                  kDeviceArena = -3;  // other spaces are constants, by their number

template <typename... T>
absl::Status Wrong(const T&... text) {
  return absl::InternalError(absl::StrCat("memory plan: ", text...));
}

// Bytes of memory.
struct ByteExtent {
  int32_t space = kArena;
  int64_t begin = 0, end = 0;
};

bool Meet(const ByteExtent& a, const ByteExtent& b) {
  return a.space == b.space && std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

class Verifier {
 public:
  Verifier(const PlacementProblem& problem, const Placement& placement,
           std::span<const int64_t> addresses)
      : p_(problem), placed_(placement), addresses_(addresses.begin(), addresses.end()) {}

  absl::Status Verify() {
    KILN_RETURN_IF_ERROR(CheckSizes());
    KILN_RETURN_IF_ERROR(FindOwners());
    KILN_RETURN_IF_ERROR(CheckOrder());
    TakeOrder();
    FindRepeats();
    KILN_RETURN_IF_ERROR(FillInputs());
    for (size_t t = 0; t < p_.steps.size();) {
      const Repeat* const repeat = repeat_[t];
      if (repeat == nullptr) {
        KILN_RETURN_IF_ERROR(Walk(t++, 0, /*again=*/false));
        continue;
      }
      KILN_RETURN_IF_ERROR(CheckLanes(*repeat));
      for (const bool again : {false, true}) {
        for (t = repeat->begin; t < repeat->end; ++t) {
          for (int64_t lane = 0; lane < repeat->lanes; ++lane)
            KILN_RETURN_IF_ERROR(Walk(t, lane, again || lane > 0));
        }
      }
    }
    return CheckOutputs();
  }

 private:
  // A buffer of the program with bytes of its own; others are ranges of one
  // (PlacementProblem::Fixed).
  struct Owned {
    int32_t owner = 0;
    int64_t offset = 0;
  };

  const PlacementProblem::Buffer& buffer(int32_t b) const {
    return p_.buffers[static_cast<size_t>(b)];
  }

  absl::Status CheckSizes() {
    const size_t buffers = p_.buffers.size(), steps = p_.steps.size();
    const bool fits = placed_.places.size() == buffers && placed_.arena_offset.size() == buffers &&
                      placed_.arena_step.size() == buffers && placed_.copies.size() == steps &&
                      placed_.scratch_offset.size() == steps &&
                      placed_.scratch_step.size() == steps && placed_.order.size() == steps &&
                      (addresses_.empty() || addresses_.size() == buffers);
    if (!fits) return Wrong("it is not one of this program");
    if (!addresses_.empty()) return absl::OkStatus();
    int64_t next = 0;
    for (const PlacementProblem::Buffer& b : p_.buffers) {
      addresses_.push_back(next);
      next += b.space == Space::kInput || b.space == Space::kOutput ? b.bytes : 0;
    }
    return absl::OkStatus();
  }

  absl::Status FindOwners() {
    for (size_t b = 0; b < p_.buffers.size(); ++b) owned_.push_back({static_cast<int32_t>(b), 0});
    std::vector<std::optional<Owned>> parts(p_.buffers.size());
    for (const PlacementProblem::Fixed& fixed : p_.fixed)
      parts[static_cast<size_t>(fixed.buffer)] = {fixed.of, fixed.offset};
    for (Owned& owned : owned_) {
      for (size_t hops = 0; parts[static_cast<size_t>(owned.owner)]; ++hops) {
        if (hops > p_.fixed.size()) return Wrong("buffers are parts of each other");
        const Owned& up = *parts[static_cast<size_t>(owned.owner)];
        owned = {up.owner, owned.offset + up.offset};
      }
    }
    return absl::OkStatus();
  }

  // It has each step once, repeats where they were, and of two steps that touch the same bytes of
  // the program, one of them writing, the earlier one first.
  absl::Status CheckOrder() {
    std::vector<int32_t> sorted = placed_.order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<int32_t>(i)) return Wrong("its order has not each step once");
      position_.push_back(0);
    }
    for (size_t i = 0; i < sorted.size(); ++i) position_[static_cast<size_t>(placed_.order[i])] = i;
    for (const Repeat& repeat : p_.repeats) {
      for (size_t t = 0; t < p_.steps.size(); ++t) {
        const bool inside = t >= repeat.begin && t < repeat.end;
        const size_t at = position_[t];
        if (inside ? at != t : (t < repeat.begin) != (at < repeat.begin))
          return Wrong("step ", t, " runs at ", at, ", across repeated steps");
      }
    }
    std::vector<std::vector<Touch>> touches(p_.buffers.size());  // per owner
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      for (const auto* accesses : {&p_.steps[t].reads, &p_.steps[t].writes}) {
        for (const Access& access : *accesses) {
          const Owned& owned = owned_[static_cast<size_t>(access.buffer)];
          touches[static_cast<size_t>(owned.owner)].push_back({t, owned.offset + access.begin,
                                                               owned.offset + access.end,
                                                               accesses == &p_.steps[t].writes});
        }
      }
    }
    for (const std::vector<Touch>& of_owner : touches) KILN_RETURN_IF_ERROR(CheckTouches(of_owner));
    return absl::OkStatus();
  }

  // Bytes of an owner.
  struct Touch {
    size_t step = 0;
    int64_t begin = 0, end = 0;
    bool write = false;
  };

  absl::Status CheckTouches(const std::vector<Touch>& touches) const {
    for (const Touch& write : touches) {
      if (!write.write) continue;
      for (const Touch& other : touches) {
        const bool meet = std::max(write.begin, other.begin) < std::min(write.end, other.end);
        const bool kept =
            (write.step < other.step) == (position_[write.step] < position_[other.step]);
        if (meet && !kept)
          return Wrong("steps ", std::min(write.step, other.step), " and ",
                       std::max(write.step, other.step), " run in the wrong order");
      }
    }
    return absl::OkStatus();
  }

  // From here on steps are by the order in which they run.
  void TakeOrder() {
    const PlacementProblem given = p_;
    const Placement by_number = placed_;
    for (size_t i = 0; i < given.steps.size(); ++i) {
      const auto t = static_cast<size_t>(placed_.order[i]);
      p_.steps[i] = given.steps[t];
      placed_.copies[i] = by_number.copies[t];
      placed_.scratch_offset[i] = by_number.scratch_offset[t];
      placed_.scratch_step[i] = by_number.scratch_step[t];
    }
  }
  int32_t NumberOf(size_t t) const { return placed_.order[t]; }

  // Which repeat a step is in, and which one is all that touches an owner.
  void FindRepeats() {
    repeat_.resize(p_.steps.size());
    for (const Repeat& repeat : p_.repeats)
      std::fill(repeat_.begin() + static_cast<ptrdiff_t>(repeat.begin),
                repeat_.begin() + static_cast<ptrdiff_t>(repeat.end), &repeat);
    within_.resize(p_.buffers.size());
    std::vector<bool> touched(p_.buffers.size());
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      for (const auto* accesses : {&p_.steps[t].reads, &p_.steps[t].writes}) {
        for (const Access& access : *accesses) {
          const auto owner = static_cast<size_t>(owned_[static_cast<size_t>(access.buffer)].owner);
          const bool other = touched[owner] && within_[owner] != repeat_[t];
          const bool temporary = p_.buffers[owner].space == Space::kTemporary;
          within_[owner] = other || !temporary ? nullptr : repeat_[t];
          touched[owner] = true;
        }
      }
    }
    contents_.resize(p_.buffers.size());
    for (size_t b = 0; b < p_.buffers.size(); ++b)
      contents_[b].resize(within_[b] == nullptr ? 1 : static_cast<size_t>(within_[b]->lanes));
  }

  // Bytes of a buffer in the state in which nothing shares memory.
  struct Content {
    TagMap* map = nullptr;
    int64_t begin = 0;
  };
  Content ContentOf(const Access& access, int64_t lane) {
    const Owned& owned = owned_[static_cast<size_t>(access.buffer)];
    std::vector<TagMap>& lanes = contents_[static_cast<size_t>(owned.owner)];
    return {&lanes[lanes.size() == 1 ? 0 : static_cast<size_t>(lane)], owned.offset + access.begin};
  }

  // Where the plan and the caller have put the bytes of an access.
  absl::StatusOr<ByteExtent> Locate(const Access& access, int64_t lane) const {
    const int32_t b = access.buffer;
    const Placement::Place& place = placed_.places[static_cast<size_t>(b)];
    if (place.root < 0 || static_cast<size_t>(place.root) >= p_.buffers.size())
      return Wrong("buffer ", b, " lies in buffer ", place.root, ", which does not exist");
    if (access.begin == access.end) return ByteExtent{};
    const auto root = static_cast<size_t>(place.root);
    if (access.begin < 0 || access.end > buffer(b).bytes || place.offset < 0 ||
        place.offset > p_.buffers[root].bytes - buffer(b).bytes)
      return Wrong("buffer ", b, " does not fit into buffer ", root);
    int64_t base = place.offset;
    ByteExtent extent;
    switch (p_.buffers[root].space) {
      case Space::kTemporary: {
        const int64_t offset = placed_.arena_offset[root], step = placed_.arena_step[root];
        const Repeat* const within =
            within_[static_cast<size_t>(owned_[static_cast<size_t>(b)].owner)];
        if ((step != 0) != (within != nullptr && within->lanes > 1))
          return Wrong("buffer ", b, ": ", step, " bytes from a lane to the next");
        if (offset < 0 || offset % kArenaAlignment != 0 || step % kArenaAlignment != 0)
          return Wrong("buffer ", root, " lies at ", offset, " of the arena");
        base += offset + lane * step;
        const bool on_device = p_.buffers[root].on_device;
        if (on_device != buffer(b).on_device)
          return Wrong("buffer ", b, " lies in buffer ", root, " on another device");
        if (on_device) extent.space = kDeviceArena;
        const MemoryPlan& arena = on_device ? placed_.device_memory : placed_.memory;
        if (base + buffer(b).bytes > arena.peak)
          return Wrong("buffer ", b, " ends beyond the arena");
        break;
      }
      case Space::kInput:
      case Space::kOutput:
        extent.space = kPorts;
        base += addresses_[root];
        break;
      case Space::kConstant:
        extent.space = place.root;
        break;
    }
    extent.begin = base + access.begin;
    extent.end = base + access.end;
    return extent;
  }

  absl::StatusOr<std::vector<ByteExtent>> LocateAll(const std::vector<Access>& accesses,
                                                    int64_t lane) {
    std::vector<ByteExtent> extents;
    for (const Access& access : accesses) {
      KILN_ASSIGN_OR_RETURN(extents.emplace_back(), Locate(access, lane));
    }
    return extents;
  }

  absl::Status FillInputs() {
    // Inputs may share memory: what they hold is told by its address.
    const int64_t caller = next_id_++;
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      const Space space = p_.buffers[b].space;
      const int64_t bytes = p_.buffers[b].bytes;
      if (space != Space::kInput && space != Space::kConstant) continue;
      TagMap::Tag tag = {caller, addresses_[b]};
      if (space == Space::kConstant) tag = {next_id_++, 0};
      contents_[b][0].Set(0, bytes, tag);
      if (space == Space::kInput) memory_[kPorts].Set(tag.byte, tag.byte + bytes, tag);
      if (space == Space::kConstant) memory_[static_cast<int32_t>(b)].Set(0, bytes, tag);
    }
    return absl::OkStatus();
  }

  std::string Who(int64_t id) const {
    const auto writer = writers_.find(id);
    if (writer == writers_.end()) return id == 0 ? "nothing" : "what was there before the run";
    return absl::StrCat("what step ", NumberOf(writer->second), " wrote");
  }

  // The bytes of an access are the same in both states. `whole`: and something wrote all of them.
  absl::Status Compare(const Content& content, const Access& access, const ByteExtent& extent,
                       bool whole) {
    const int64_t size = access.end - access.begin;
    const TagMap& memory = memory_[extent.space];
    for (int64_t at = 0; at < size;) {
      const TagMap::Piece want = content.map->PieceAt(content.begin + at, content.begin + size);
      const int64_t end = want.end - content.begin;
      if (want.tag.id == 0) {
        if (whole)
          return Wrong("buffer ", access.buffer, ", byte ", access.begin + at,
                       ": read before anything wrote it");
        at = end;
        continue;
      }
      const TagMap::Piece got = memory.PieceAt(extent.begin + at, extent.begin + end);
      if (got.tag != want.tag) {
        return Wrong("buffer ", access.buffer, ", byte ", access.begin + at, ": holds ",
                     Who(got.tag.id), " (byte ", got.tag.byte, "), not ", Who(want.tag.id),
                     " (byte ", want.tag.byte, ")");
      }
      at = got.end - extent.begin;
    }
    return absl::OkStatus();
  }

  static bool InPlace(const Step& step, size_t read, size_t write, const ByteExtent& from,
                      const ByteExtent& to) {
    const std::pair<int32_t, int32_t> pair(read, write);
    return std::find(step.in_place.begin(), step.in_place.end(), pair) != step.in_place.end() &&
           step.reads[read].dense && step.writes[write].dense &&
           step.reads[read].item == step.writes[write].item && from.begin == to.begin &&
           from.end == to.end;
  }

  // Operands with gaps may interleave in a buffer, as parts of a concat along its last axis do.
  bool Interleave(const Access& a, const Access& b) const {
    return !a.dense && !b.dense &&
           owned_[static_cast<size_t>(a.buffer)].owner ==
               owned_[static_cast<size_t>(b.buffer)].owner;
  }

  absl::Status CheckOperands(const Step& step, const std::vector<ByteExtent>& reads,
                             const std::vector<ByteExtent>& writes, const ByteExtent& scratch) {
    for (size_t w = 0; w < writes.size(); ++w) {
      const Access& write = step.writes[w];
      const Placement::Place& place = placed_.places[static_cast<size_t>(write.buffer)];
      const Space space = buffer(place.root).space;
      if (write.begin < write.end && (space == Space::kInput || space == Space::kConstant))
        return Wrong("writes buffer ", write.buffer, ", which lies in an input or constant");
      int overwritten = 0;
      for (size_t r = 0; r < reads.size(); ++r) {
        if (!Meet(reads[r], writes[w]) || Interleave(step.reads[r], write)) continue;
        if (!InPlace(step, r, w, reads[r], writes[w]) || ++overwritten > 1)
          return Wrong("reads buffer ", step.reads[r].buffer, " where it writes buffer ",
                       write.buffer);
      }
      for (size_t other = 0; other < w; ++other) {
        if (Meet(writes[other], writes[w]) && !Interleave(step.writes[other], write))
          return Wrong("writes buffers ", step.writes[other].buffer, " and ", write.buffer,
                       " in one place");
      }
    }
    for (const auto* extents : {&reads, &writes}) {
      for (const ByteExtent& extent : *extents) {
        if (Meet(extent, scratch)) return Wrong("its scratch lies in one of its operands");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ByteExtent> Scratch(size_t t, int64_t lane) const {
    const int64_t bytes = p_.steps[t].scratch;
    if (bytes == 0) return ByteExtent{};
    const int64_t offset = placed_.scratch_offset[t], step = placed_.scratch_step[t];
    const ByteExtent made{kArena, offset + lane * step, offset + lane * step + bytes};
    const bool lanes = repeat_[t] != nullptr && repeat_[t]->lanes > 1;
    if (offset < 0 || offset % kArenaAlignment != 0 || step % kArenaAlignment != 0 ||
        (step != 0) != lanes || made.end > placed_.memory.peak)
      return Wrong("its scratch lies at ", offset, " of the arena");
    return made;
  }

  // A view is its source's memory; one that is copied is a launch.
  absl::Status WalkView(size_t t) {
    const Access &from = p_.steps[t].reads[0], &to = p_.steps[t].writes[0];
    if (to.begin == to.end) return absl::OkStatus();
    const Access source = {from.buffer, from.begin, from.begin + to.end - to.begin, true, 1};
    KILN_ASSIGN_OR_RETURN(const ByteExtent there, Locate(source, 0));
    KILN_ASSIGN_OR_RETURN(const ByteExtent here, Locate(to, 0));
    const Content old = ContentOf(source, 0), made = ContentOf(to, 0);
    if (placed_.copies[t]) {
      KILN_RETURN_IF_ERROR(Compare(old, source, there, /*whole=*/true));
      KILN_RETURN_IF_ERROR(CheckOperands(p_.steps[t], {there}, {here}, {}));
      CopyTags(memory_[there.space], there.begin, memory_[here.space], here.begin,
               there.end - there.begin);
    } else if (there.space != here.space || there.begin != here.begin) {
      return Wrong("buffer ", to.buffer, ", a view of buffer ", from.buffer, ", lies elsewhere");
    }
    CopyTags(*old.map, old.begin, *made.map, made.begin, there.end - there.begin);
    return absl::OkStatus();
  }

  static void CopyTags(const TagMap& from, int64_t begin, TagMap& to, int64_t at, int64_t size) {
    std::vector<TagMap::Piece> pieces;
    for (int64_t i = begin; i < begin + size; i = pieces.back().end)
      pieces.push_back(from.PieceAt(i, begin + size));
    for (const TagMap::Piece& piece : pieces) {
      const int64_t end = at + (piece.end - begin);
      to.Set(at, end, piece.tag);
      size -= end - at;
      begin = piece.end;
      at = end;
    }
  }

  // `again`: part of what the step writes outside its repeat is there already.
  absl::Status Walk(size_t t, int64_t lane, bool again) {
    const Step& step = p_.steps[t];
    const absl::Status status = step.view ? WalkView(t) : WalkLaunch(t, step, lane, again);
    if (status.ok()) return status;
    return absl::Status(status.code(), absl::StrCat(status.message(), " (step ", NumberOf(t), ")"));
  }

  absl::Status WalkLaunch(size_t t, const Step& step, int64_t lane, bool again) {
    KILN_ASSIGN_OR_RETURN(const std::vector<ByteExtent> reads, LocateAll(step.reads, lane));
    KILN_ASSIGN_OR_RETURN(const std::vector<ByteExtent> writes, LocateAll(step.writes, lane));
    KILN_ASSIGN_OR_RETURN(const ByteExtent scratch, Scratch(t, lane));
    for (size_t i = 0; i < reads.size(); ++i) {
      const Access& read = step.reads[i];
      KILN_RETURN_IF_ERROR(Compare(ContentOf(read, lane), read, reads[i], read.dense));
    }
    KILN_RETURN_IF_ERROR(CheckOperands(step, reads, writes, scratch));
    memory_[kArena].Set(scratch.begin, scratch.end, {NewWrite(t), 0});
    for (size_t i = 0; i < writes.size(); ++i) {
      const Access& write = step.writes[i];
      const Content content = ContentOf(write, lane);
      const int32_t owner = owned_[static_cast<size_t>(write.buffer)].owner;
      if (again && within_[static_cast<size_t>(owner)] == nullptr) {
        // Another part of it: the earlier ones are still there.
        KILN_RETURN_IF_ERROR(Compare(content, write, writes[i], /*whole=*/false));
        continue;
      }
      // What lies in the gaps stays, and is still there.
      if (!write.dense && repeat_[t] == nullptr)
        KILN_RETURN_IF_ERROR(Compare(content, write, writes[i], /*whole=*/false));
      const TagMap::Tag tag = {NewWrite(t), 0};
      content.map->Set(content.begin, content.begin + write.end - write.begin, tag);
      memory_[writes[i].space].Set(writes[i].begin, writes[i].end, tag);
    }
    return absl::OkStatus();
  }

  int64_t NewWrite(size_t t) {
    writers_[next_id_] = t;
    return next_id_++;
  }

  // Lanes are at different steps at a time: what each has of its own lies apart from the others'.
  absl::Status CheckLanes(const Repeat& repeat) {
    if (repeat.lanes == 1) return absl::OkStatus();
    int64_t low = placed_.memory.peak, high = 0, distance = 0;
    const auto add = [&](int64_t begin, int64_t end, int64_t step) {
      if (step == 0 || begin == end) return true;
      low = std::min(low, begin);
      high = std::max(high, end);
      const bool same = distance == 0 || distance == step;
      distance = step;
      return same;
    };
    bool same = true;
    for (size_t t = repeat.begin; t < repeat.end; ++t) {
      const Step& step = p_.steps[t];
      for (const auto* accesses : {&step.reads, &step.writes}) {
        KILN_ASSIGN_OR_RETURN(const std::vector<ByteExtent> extents, LocateAll(*accesses, 0));
        for (size_t i = 0; i < extents.size(); ++i) {
          const int32_t root = placed_.places[static_cast<size_t>((*accesses)[i].buffer)].root;
          if (extents[i].space == kArena)
            same &= add(extents[i].begin, extents[i].end,
                        placed_.arena_step[static_cast<size_t>(root)]);
        }
      }
      KILN_ASSIGN_OR_RETURN(const ByteExtent scratch, Scratch(t, 0));
      same &= add(scratch.begin, scratch.end, placed_.scratch_step[t]);
    }
    if (!same || (distance != 0 && high - low > distance))
      return Wrong("the lanes of steps ", repeat.begin, " to ", repeat.end - 1, " share memory");
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() {
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].space != Space::kOutput) continue;
      const Access all = {static_cast<int32_t>(b), 0, p_.buffers[b].bytes, true, 1};
      KILN_ASSIGN_OR_RETURN(const ByteExtent extent, Locate(all, 0));
      const absl::Status status = Compare(ContentOf(all, 0), all, extent, /*whole=*/false);
      if (!status.ok())
        return absl::Status(status.code(), absl::StrCat(status.message(), " (at the end)"));
    }
    return absl::OkStatus();
  }

  PlacementProblem p_;
  Placement placed_;
  std::vector<size_t> position_;               // per step of the problem
  std::vector<int64_t> addresses_;             // per buffer
  std::vector<Owned> owned_;                   // per buffer
  std::vector<const Repeat*> repeat_;          // per step; null: not repeated
  std::vector<const Repeat*> within_;          // per owner; null: lives beside repeats
  std::vector<std::vector<TagMap>> contents_;  // per owner and lane
  std::map<int32_t, TagMap> memory_;           // by space
  std::map<int64_t, size_t> writers_;          // steps, by what they wrote
  int64_t next_id_ = 1;
};

}  // namespace

absl::Status VerifyPlacement(const PlacementProblem& problem, const Placement& placement,
                             std::span<const int64_t> addresses) {
  return Verifier(problem, placement, addresses).Verify();
}

}  // namespace kiln
