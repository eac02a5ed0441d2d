// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/random_placement.h"

#include <algorithm>
#include <functional>

namespace kiln {
namespace {

using Space = PlacementProblem::Space;
using Step = PlacementProblem::Step;
using Mask = RandomPlacement::Mask;

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  RandomPlacement Make() {
    for (int64_t i = 0; i <= Below(3); ++i) known_.push_back(Add(Space::kInput, Size()));
    if (Below(3) == 0) known_.push_back(Add(Space::kConstant, Size()));
    for (int64_t i = 0; i < 4 + Below(12); ++i) {
      switch (Below(11)) {
        case 0:
        case 1:
          View(Add(Space::kTemporary, 0));
          break;
        case 2:
          Parts();
          break;
        case 3:
          Columns();
          break;
        case 4:
          if (made_.problem.repeats.size() < 2) Round();
          break;
        case 5:
          Join(/*steps=*/Below(2) == 0);
          break;
        default:
          Launch();
      }
    }
    for (int64_t i = 0; i < 1 + Below(3); ++i) View(Add(Space::kOutput, 0));
    return std::move(made_);
  }

 private:
  int64_t Below(int64_t high) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(high));
  }
  // Few sizes, so that buffers fit into each other.
  int64_t Size() { return kItem * (int64_t{4} << Below(4)); }
  int64_t Bytes(int32_t b) const { return made_.problem.buffers[static_cast<size_t>(b)].bytes; }

  int32_t Add(Space space, int64_t bytes) {
    made_.problem.buffers.push_back({space, bytes});
    return static_cast<int32_t>(made_.problem.buffers.size()) - 1;
  }
  // The newest ones more often.
  int32_t Any() {
    const auto size = static_cast<int64_t>(known_.size());
    return known_[static_cast<size_t>(size - 1 -
                                      Below(Below(3) == 0 ? size : std::min<int64_t>(4, size)))];
  }

  Step& Begin() {
    made_.masks.emplace_back();
    return made_.problem.steps.emplace_back();
  }
  void Read(int32_t b, Mask mask = {}) {
    made_.problem.steps.back().reads.push_back(AccessOf(b, mask));
    made_.masks.back().reads.push_back(mask);
  }
  void Write(int32_t b, Mask mask = {}) {
    made_.problem.steps.back().writes.push_back(AccessOf(b, mask));
    made_.masks.back().writes.push_back(mask);
  }
  PlacementProblem::Access AccessOf(int32_t b, const Mask& mask) const {
    const int64_t bytes = Bytes(b);
    if (mask.row == 0) return {b, 0, bytes, true, kItem};
    const int64_t last = bytes / kItem / mask.row * mask.row - mask.row + mask.from + mask.count;
    return {b, mask.from * kItem, last * kItem, mask.count == mask.row, kItem};
  }
  // Pairs of operands of one size, mostly.
  void AllowInPlace() {
    Step& step = made_.problem.steps.back();
    for (size_t r = 0; r < step.reads.size(); ++r) {
      for (size_t w = 0; w < step.writes.size(); ++w) {
        const auto &from = step.reads[r], &to = step.writes[w];
        if (from.dense && to.dense && from.end - from.begin == to.end - to.begin && Below(5) > 0)
          step.in_place.emplace_back(r, w);
      }
    }
  }

  void Launch() {
    Begin();
    for (int64_t i = 0; i <= Below(3); ++i) {
      const int32_t b = Any();
      Read(b, Below(4) == 0 ? Mask{4, Below(2), 2} : Mask{});
    }
    const int64_t like = Bytes(made_.problem.steps.back().reads[0].buffer);
    std::vector<int32_t> written;
    for (int64_t i = 0; i <= Below(5) / 4; ++i) {
      const Space space = Below(5) == 0 ? Space::kOutput : Space::kTemporary;
      written.push_back(Add(space, Below(4) > 0 ? like : Size()));
      Write(written.back());
    }
    AllowInPlace();
    if (Below(6) == 0) made_.problem.steps.back().scratch = 64 * (1 + Below(3));
    known_.insert(known_.end(), written.begin(), written.end());
  }

  void View(int32_t to) {
    const int32_t from = Any();
    const int64_t items = Bytes(from) / kItem, begin = items < 8 ? 0 : Below(2) * (items / 2);
    made_.problem.buffers[static_cast<size_t>(to)].bytes = (items - begin) * kItem;
    Step& step = Begin();
    Read(from);
    Write(to);
    step.view = true;
    step.reads[0].begin = begin * kItem;
    known_.push_back(to);
  }

  // A whole whose halves are buffers of their own.
  void Parts() {
    const int64_t half = Size();
    const int32_t whole = Add(Below(4) == 0 ? Space::kOutput : Space::kTemporary, 2 * half);
    for (int64_t i = 0; i < 2; ++i) {
      const int32_t part = Add(Space::kTemporary, half);
      made_.problem.fixed.push_back({part, whole, i * half});
      Begin();
      Read(Any());
      Write(part);
      AllowInPlace();
      known_.push_back(part);
    }
    known_.push_back(whole);
  }

  // A concat: copies into parts of a whole, one after the other, of what is there or of what a step
  // before each makes, as the steps of a recurrent network do.
  void Join(bool steps) {
    std::vector<int32_t> parts;
    int64_t all = 0;
    const auto whole =
        static_cast<size_t>(Add(Below(4) == 0 ? Space::kOutput : Space::kTemporary, /*bytes=*/0));
    const size_t before = made_.problem.steps.size();
    for (int64_t i = 0; i < 2 + Below(3); ++i) {
      if (steps) Launch();
      parts.push_back(steps && Below(6) > 0 ? known_.back() : Any());
      Begin();
      Read(parts.back());
      const int64_t bytes = Bytes(parts.back());
      Write(static_cast<int32_t>(whole));
      Step& step = made_.problem.steps.back();
      step.view = true;
      step.writes[0] = {static_cast<int32_t>(whole), all, all + bytes, true, kItem};
      all += bytes;
    }
    made_.problem.buffers[whole].bytes = all;
    // Of a whole that others write, too, parts are copied.
    if (Below(8) == 0) {
      Begin();
      Read(parts[0]);
      Write(static_cast<int32_t>(whole));
      const int64_t end = std::min(Bytes(parts[0]), all);
      made_.problem.steps.back().writes[0] = {static_cast<int32_t>(whole), 0, end, true, kItem};
    }
    if (made_.problem.steps.size() > before) known_.push_back(static_cast<int32_t>(whole));
  }

  // A whole whose columns are written one step after the other.
  void Columns() {
    const int32_t whole = Add(Below(4) == 0 ? Space::kOutput : Space::kTemporary, 2 * Size());
    for (int64_t i = 0; i < 2; ++i) {
      Begin();
      Read(Any());
      Write(whole, {4, 2 * i, 2});
    }
    known_.push_back(whole);
  }

  // Steps that run part by part. What they hand on within the round is one part large.
  void Round() {
    const int64_t parts = int64_t{2} << Below(2), part = Size(), all = part * parts;
    std::vector<int32_t> outside, within;
    for (const int32_t b : known_) {
      if (Bytes(b) == all) outside.push_back(b);
    }
    if (outside.empty()) return;
    const size_t begin = made_.problem.steps.size();
    std::vector<int32_t> made;
    for (int64_t i = 0; i < 2 + Below(3); ++i) {
      Begin();
      for (int64_t k = 0; k <= Below(2); ++k) {
        const std::vector<int32_t>& from = within.empty() || Below(3) == 0 ? outside : within;
        Read(from[static_cast<size_t>(Below(static_cast<int64_t>(from.size())))]);
      }
      const bool last = i > 0 && Below(2) == 0;
      const int32_t to =
          Add(last && Below(2) == 0 ? Space::kOutput : Space::kTemporary, last ? all : part);
      Write(to);
      AllowInPlace();
      if (Below(4) == 0) made_.problem.steps.back().scratch = 64;
      (last ? made : within).push_back(to);
      if (last) outside.push_back(to);
    }
    made_.problem.repeats.push_back({begin, made_.problem.steps.size(), 1 + Below(parts)});
    made_.parts.push_back(parts);
    // All of what the round leaves is read after it: else it would be of the round alone.
    if (!made.empty()) {
      Begin();
      for (const int32_t b : made) Read(b);
      known_.push_back(Add(Space::kTemporary, Size()));
      Write(known_.back());
    }
    known_.insert(known_.end(), made.begin(), made.end());
  }

  std::mt19937_64 random_;
  RandomPlacement made_;
  std::vector<int32_t> known_;  // buffers that have been written
};

uint32_t Mix(uint32_t a, uint32_t b) {
  uint64_t x = (uint64_t{a} << 32 | b) * 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  return static_cast<uint32_t>((x * 0xBF58476D1CE4E5B9u) >> 32);
}

// Where a buffer begins, for a lane.
using Locate = std::function<uint32_t*(int32_t buffer, int64_t lane)>;

struct Operand {
  uint32_t* base = nullptr;
  std::vector<int64_t> items;
};

class Executor {
 public:
  Executor(const RandomPlacement& program, Locate locate)
      : program_(program), p_(program.problem), locate_(std::move(locate)) {}

  // Part `part` of step t; -1: all of it.
  void Run(size_t t, int64_t lane, size_t repeat, int64_t part, uint32_t* scratch) {
    const Step& step = p_.steps[t];
    std::vector<Operand> reads, writes;
    for (size_t i = 0; i < step.reads.size(); ++i)
      reads.push_back(OperandOf(step.reads[i], program_.masks[t].reads[i], lane, repeat, part));
    for (size_t i = 0; i < step.writes.size(); ++i)
      writes.push_back(OperandOf(step.writes[i], program_.masks[t].writes[i], lane, repeat, part));
    size_t most = 0;
    for (const Operand& write : writes) most = std::max(most, write.items.size());
    std::vector<uint32_t> made(writes.size());
    for (size_t j = 0; j < most; ++j) {
      for (int64_t i = 0; i < step.scratch / kItem && scratch != nullptr; ++i)
        scratch[i] = Mix(0xDEAD, static_cast<uint32_t>(i));
      for (size_t w = 0; w < writes.size(); ++w) {
        made[w] = Mix(static_cast<uint32_t>(t * 8 + w), static_cast<uint32_t>(j));
        for (size_t r = 0; r < reads.size(); ++r)
          made[w] = Mix(made[w], ValueAt(step, static_cast<int32_t>(r), reads[r], j));
      }
      for (size_t w = 0; w < writes.size(); ++w) {
        if (j < writes[w].items.size()) writes[w].base[writes[w].items[j]] = made[w];
      }
    }
  }

  void CopyView(size_t t) {
    const Step& step = p_.steps[t];
    const auto &from = step.reads[0], &to = step.writes[0];
    const uint32_t* const source = locate_(from.buffer, 0) + from.begin / kItem;
    uint32_t* const made = locate_(to.buffer, 0) + to.begin / kItem;
    for (int64_t i = 0; i < (to.end - to.begin) / kItem; ++i) made[i] = source[i];
  }

 private:
  Operand OperandOf(const PlacementProblem::Access& access, const Mask& mask, int64_t lane,
                    size_t repeat, int64_t part) {
    Operand made{locate_(access.buffer, lane), {}};
    for (int64_t i = access.begin / kItem; i < access.end / kItem; ++i) {
      if (mask.row == 0 || (i % mask.row >= mask.from && i % mask.row < mask.from + mask.count))
        made.items.push_back(i);
    }
    if (part < 0 || WithinRepeat(access.buffer, repeat)) return made;
    const size_t size = made.items.size() / static_cast<size_t>(program_.parts[repeat]);
    const auto first = made.items.begin() + static_cast<ptrdiff_t>(size) * part;
    made.items = std::vector<int64_t>(first, first + static_cast<ptrdiff_t>(size));
    return made;
  }

  // In rounds, what is touched by them alone is a part.
  bool WithinRepeat(int32_t buffer, size_t repeat) const {
    if (p_.buffers[static_cast<size_t>(buffer)].space != Space::kTemporary) return false;
    const PlacementProblem::Repeat& r = p_.repeats[repeat];
    for (size_t t = 0; t < p_.steps.size(); ++t) {
      if (t >= r.begin && t < r.end) continue;
      for (const auto* accesses : {&p_.steps[t].reads, &p_.steps[t].writes}) {
        for (const PlacementProblem::Access& access : *accesses) {
          if (access.buffer == buffer) return false;
        }
      }
    }
    return true;
  }

  // What may be overwritten in place is read item by item, all else whole and again for each item.
  static uint32_t ValueAt(const Step& step, int32_t read, const Operand& operand, size_t j) {
    const bool paired = std::any_of(step.in_place.begin(), step.in_place.end(),
                                    [&](const auto& pair) { return pair.first == read; });
    if (paired) return j < operand.items.size() ? operand.base[operand.items[j]] : 0;
    uint32_t all = 0;
    for (const int64_t item : operand.items) all = Mix(all, operand.base[item]);
    return all;
  }

  const RandomPlacement& program_;
  const PlacementProblem& p_;
  const Locate locate_;
};

uint32_t InputItem(size_t buffer, int64_t item) {
  return Mix(static_cast<uint32_t>(buffer + 1000), static_cast<uint32_t>(item));
}

size_t RepeatAt(const PlacementProblem& p, size_t t) {
  for (size_t r = 0; r < p.repeats.size(); ++r) {
    if (t == p.repeats[r].begin) return r;
  }
  return p.repeats.size();
}

// Each lane takes the next step of its parts when its turn comes.
void RunLanes(const RandomPlacement& program, size_t repeat, std::mt19937_64& random,
              const std::function<void(size_t t, int64_t lane, int64_t part)>& run) {
  const PlacementProblem::Repeat& r = program.problem.repeats[repeat];
  struct Lane {
    int64_t part, end;
    size_t t;
  };
  std::vector<Lane> lanes;
  const auto first = [&](int64_t lane) { return program.parts[repeat] * lane / r.lanes; };
  for (int64_t lane = 0; lane < r.lanes; ++lane)
    lanes.push_back({first(lane), first(lane + 1), r.begin});
  for (;;) {
    std::vector<int64_t> ready;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].part < lanes[i].end) ready.push_back(static_cast<int64_t>(i));
    }
    if (ready.empty()) return;
    const int64_t lane = ready[random() % ready.size()];
    Lane& l = lanes[static_cast<size_t>(lane)];
    run(l.t, lane, l.part);
    if (++l.t == r.end) {
      l.t = r.begin;
      ++l.part;
    }
  }
}

std::vector<uint32_t> Outputs(const PlacementProblem& p, const Locate& locate) {
  std::vector<uint32_t> all;
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].space != Space::kOutput) continue;
    const uint32_t* const data = locate(static_cast<int32_t>(b), 0);
    all.insert(all.end(), data, data + p.buffers[b].bytes / kItem);
  }
  return all;
}

}  // namespace

std::vector<int32_t> RandomPlacement::BuffersOf(Space space) const {
  std::vector<int32_t> found;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    if (problem.buffers[b].space == space) found.push_back(static_cast<int32_t>(b));
  }
  return found;
}

RandomPlacement MakeRandomPlacement(uint64_t seed) { return Maker(seed).Make(); }

std::vector<uint32_t> RunApart(const RandomPlacement& program) {
  const PlacementProblem& p = program.problem;
  std::vector<std::vector<uint32_t>> memory;
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    std::vector<uint32_t>& made = memory.emplace_back(p.buffers[b].bytes / kItem);
    if (p.buffers[b].space != Space::kInput && p.buffers[b].space != Space::kConstant) continue;
    for (size_t i = 0; i < made.size(); ++i) made[i] = InputItem(b, static_cast<int64_t>(i));
  }
  const Locate locate = [&](int32_t b, int64_t) {
    for (const PlacementProblem::Fixed& fixed : p.fixed) {
      if (fixed.buffer == b)
        return memory[static_cast<size_t>(fixed.of)].data() + fixed.offset / kItem;
    }
    return memory[static_cast<size_t>(b)].data();
  };
  Executor executor(program, locate);
  for (size_t t = 0; t < p.steps.size();) {
    const size_t repeat = RepeatAt(p, t);
    if (repeat == p.repeats.size()) {
      if (p.steps[t].view) {
        executor.CopyView(t);
      } else {
        executor.Run(t, 0, 0, -1, nullptr);
      }
      ++t;
      continue;
    }
    for (int64_t part = 0; part < program.parts[repeat]; ++part) {
      for (t = p.repeats[repeat].begin; t < p.repeats[repeat].end; ++t)
        executor.Run(t, 0, repeat, part, nullptr);
    }
  }
  return Outputs(p, locate);
}

std::vector<uint32_t> RunPlaced(const RandomPlacement& program, const Placement& placement,
                                const std::vector<int64_t>& addresses, uint64_t seed) {
  const PlacementProblem& p = program.problem;
  std::mt19937_64 random(seed);
  std::vector<uint32_t> arena(static_cast<size_t>(placement.memory.peak / kItem));
  for (uint32_t& item : arena) item = static_cast<uint32_t>(random());
  int64_t end = 0;
  for (size_t b = 0; b < p.buffers.size(); ++b)
    end = std::max(end, addresses[b] + p.buffers[b].bytes);
  std::vector<uint32_t> ports(static_cast<size_t>(end / kItem), 0xF00D);
  std::vector<std::vector<uint32_t>> constants(p.buffers.size());
  for (size_t b = p.buffers.size(); b-- > 0;) {
    const Space space = p.buffers[b].space;
    const int64_t items = p.buffers[b].bytes / kItem;
    if (space == Space::kConstant) constants[b].resize(static_cast<size_t>(items));
    for (int64_t i = 0; i < items; ++i) {
      const auto at = static_cast<size_t>(i);
      if (space == Space::kConstant) constants[b][at] = InputItem(b, i);
      if (space == Space::kInput)
        ports[static_cast<size_t>(addresses[b] / kItem) + at] = InputItem(b, i);
    }
  }
  const Locate locate = [&](int32_t b, int64_t lane) {
    const Placement::Place& place = placement.places[static_cast<size_t>(b)];
    const auto root = static_cast<size_t>(place.root);
    const int64_t offset = place.offset / kItem;
    switch (p.buffers[root].space) {
      case Space::kTemporary:
        return arena.data() + offset +
               (placement.arena_offset[root] + lane * placement.arena_step[root]) / kItem;
      case Space::kConstant:
        return constants[root].data() + offset;
      default:
        return ports.data() + addresses[root] / kItem + offset;
    }
  };
  const auto scratch = [&](size_t t, int64_t lane) -> uint32_t* {
    if (p.steps[t].scratch == 0) return nullptr;
    return arena.data() + (placement.scratch_offset[t] + lane * placement.scratch_step[t]) / kItem;
  };
  Executor executor(program, locate);
  for (size_t i = 0; i < p.steps.size();) {
    const size_t repeat = RepeatAt(p, i);
    if (repeat < p.repeats.size()) {
      RunLanes(program, repeat, random, [&](size_t s, int64_t lane, int64_t part) {
        executor.Run(s, lane, repeat, part, scratch(s, lane));
      });
      i = p.repeats[repeat].end;
      continue;
    }
    const auto t = static_cast<size_t>(placement.order[i++]);
    if (!p.steps[t].view) executor.Run(t, 0, 0, -1, scratch(t, 0));
    if (placement.copies[t]) executor.CopyView(t);
  }
  return Outputs(p, locate);
}

std::vector<int64_t> ApartAddresses(const PlacementProblem& problem) {
  std::vector<int64_t> addresses;
  int64_t next = 0;
  for (const PlacementProblem::Buffer& buffer : problem.buffers) {
    addresses.push_back(next);
    next += buffer.bytes;
  }
  return addresses;
}

}  // namespace kiln
