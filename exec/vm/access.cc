// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/access.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kiln::vm {
namespace {

constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min();

// One read of n elements.
class Reader {
 public:
  Reader(const Read& read, const ReadState& state, const Pass& pass, size_t n, const Worker& worker,
         Frame& frame)
      : read_(read),
        state_(state),
        pass_(pass),
        n_(n),
        worker_(worker),
        frame_(frame),
        ops_(*worker.launch->program->ops) {
    num_dims_ = worker.launch->program->num_iterated;
    if (read.source == ReadSource::kInput) {
      base_ = state.base + At(state.linear, worker.coordinate, num_dims_) * read.size;
    } else {
      base_ = worker.temps + state.temp_offset + TempAt(state.linear, worker) * read.size;
    }
  }

  // Returns where the elements lie: in the operand, or in `own`, where they are then copied.
  uint8_t* Into(uint8_t* own) {
    if (int64_t at = 0; state_.patterned && StartsInside(at)) {
      const Pattern& pattern = state_.pattern;
      const uint8_t* base = base_ + at * read_.size;
      if (state_.covered > 0)
        frame_.fetches->Add(base + state_.ahead, state_.covered, /*written=*/false);
      // Operations on whole vectors must stay inside the operand.
      const uint8_t* const start = base + pattern.start * read_.size;
      if (pattern.dense() && !read_.copy && MayReadVectors(start))
        return const_cast<uint8_t*>(start);
      ops_.gather(read_.size, own, base, pattern, n_);
    } else if (state_.only_linear && !worker_.launch->program->wide) {
      GuardedRange(own);
    } else {
      Positions(own);
    }
    return own;
  }

 private:
  // Whether whole vectors from `start` on stay inside the operand. Temporaries have room for them.
  bool MayReadVectors(const uint8_t* start) const {
    if (n_ % kVectorElements == 0 || read_.source == ReadSource::kStage) return true;
    const size_t whole = (n_ + kVectorElements - 1) / kVectorElements * kVectorElements;
    return state_.end != nullptr && state_.end - start >= static_cast<int64_t>(whole * read_.size);
  }

  int64_t Step(const Linear& linear) const { return pass_.vec < 0 ? 0 : linear.step[pass_.vec]; }

  // Adds to `at` what the axes that the pattern has only in part add to the start of the block;
  // false if some element may be outside one of them.
  bool StartsInside(int64_t& at) const {
    for (int32_t k = 0; k < state_.num_axes; ++k) {
      const AxisState& axis = state_.axes[k];
      if (axis.invariant) continue;
      const int64_t first = At(axis.index, worker_.coordinate, num_dims_);
      if (first + axis.low < 0 || first + axis.high >= axis.extent) return false;
      at += first * axis.stride;
    }
    return true;
  }

  // All axes are linear but may be outside: along the vector dim the inside is one range.
  void GuardedRange(uint8_t* own) {
    int64_t begin = 0, end = static_cast<int64_t>(n_), step = Step(state_.linear), at = 0;
    for (int32_t k = 0; k < state_.num_axes; ++k) {
      const AxisState& axis = state_.axes[k];
      const int64_t first = At(axis.index, worker_.coordinate, num_dims_), by = Step(axis.index);
      at += first * axis.stride;
      step += by * axis.stride;
      if (by > 0) {
        begin = std::max(begin, -FloorDiv(first, by));
        end = std::min(end, FloorDiv(axis.extent - 1 - first, by) + 1);
      } else if (by < 0) {
        begin = std::max(begin, -FloorDiv(axis.extent - 1 - first, -by) + 0);
        end = std::min(end, FloorDiv(first, -by) + 1);
      } else if (first < 0 || first >= axis.extent) {
        end = 0;
      }
    }
    if (begin >= end) {
      std::memset(own, 0, n_ * read_.size);
      return;
    }
    std::memset(own, 0, static_cast<size_t>(begin) * read_.size);
    ops_.gather_strided(read_.size, own + begin * read_.size,
                        base_ + (at + begin * step) * read_.size, step,
                        static_cast<size_t>(end - begin));
    std::memset(own + end * read_.size, 0, (n_ - static_cast<size_t>(end)) * read_.size);
  }

  // Works out the position of each element, axis by axis; kNowhere: it is outside one of them.
  void Positions(uint8_t* own) {
    int64_t* at = frame_.positions;
    std::fill(at, at + n_, 0);
    Advance(state_.linear, at);
    for (int32_t k = 0; k < state_.num_axes; ++k) AddAxis(state_.axes[k], at);
    for (size_t i = 0; i < n_; ++i) {
      uint8_t* to = own + i * read_.size;
      if (at[i] == kNowhere) {
        std::memset(to, 0, read_.size);
      } else {
        std::memcpy(to, base_ + at[i] * read_.size, read_.size);
      }
    }
  }

  // Adds what the steps add to the start of the block.
  void Advance(const Linear& linear, int64_t* at) const {
    const Launch& launch = *worker_.launch;
    const Tile& tile = launch.tiles[&pass_ - launch.program->passes.data()];
    AddSteps(linear, pass_, tile, launch.extents, n_, at);
  }

  void AddAxis(const AxisState& axis, int64_t* at) const {
    const int64_t* loaded = nullptr;
    int64_t* values = frame_.positions + pass_.block;
    if (axis.load != 0) {
      loaded = reinterpret_cast<const int64_t*>(frame_.regs[axis.load]);
    } else {
      std::fill(values, values + n_, At(axis.index, worker_.coordinate, num_dims_));
      Advance(axis.index, values);
    }
    for (size_t i = 0; i < n_; ++i) {
      int64_t value;
      if (loaded != nullptr) {
        value = LoadedPosition(loaded[i], axis.extent);
      } else {
        value = axis.At(values[i]);
      }
      const bool outside = value < 0 || value >= axis.extent || at[i] == kNowhere;
      at[i] = outside ? kNowhere : at[i] + value * axis.stride;
    }
  }

  const Read& read_;
  const ReadState& state_;
  const Pass& pass_;
  const size_t n_;
  const Worker& worker_;
  Frame& frame_;
  const OpTable& ops_;
  int32_t num_dims_;
  const uint8_t* base_;
};

void Coordinate(const Insn& insn, const Pass& pass, const Tile& tile, size_t n,
                const Worker& worker, uint8_t* dst) {
  auto* out = reinterpret_cast<int64_t*>(dst);
  Linear index;
  index.step[insn.ref] = 1;
  std::fill(out, out + n, worker.coordinate[insn.ref]);
  AddSteps(index, pass, tile, worker.launch->extents, n, out);
}

void RunStrip(const Strip& strip, size_t n, const Launch& launch, Frame& frame) {
  Step* const steps = frame.steps + strip.first;
  for (const size_t s : strip.moving) {
    const StripStep& step = strip.steps[s];
    steps[s].x = frame.regs[step.x];
    steps[s].y = frame.regs[step.y];
    if (step.past.wide != nullptr) steps[s].fn = frame.non_temporal ? step.past : step.fn;
  }
  if (launch.lines == 0) return launch.program->ops->run_strip(steps, 0, n);
  for (size_t at = 0; at < n; at += kStripPart) {
    frame.fetches->Some(launch.lines);
    launch.program->ops->run_strip(steps, at, std::min(n, at + kStripPart));
  }
}

}  // namespace

void RunList(const std::vector<Insn>& list, size_t n, size_t fill, const Worker& worker,
             const Pass& pass, Frame& frame) {
  const Launch& launch = *worker.launch;
  uint8_t** regs = frame.regs;
  const int64_t lines = launch.lines;
  for (const Insn& insn : list) {
    uint8_t* dst = regs[insn.dst];
    switch (insn.kind) {
      case Insn::Kind::kOp:
        frame.fetches->Some(lines);
        insn.fn({dst, regs[insn.a], regs[insn.b], regs[insn.c], n, insn.imm});
        break;
      case Insn::Kind::kStrip:
        RunStrip(pass.strips[static_cast<size_t>(insn.ref)], n, launch, frame);
        break;
      case Insn::Kind::kRead: {
        uint8_t* own = frame.storage + pass.reg_offset[static_cast<size_t>(insn.dst)];
        regs[insn.dst] = Reader(launch.program->reads[static_cast<size_t>(insn.ref)],
                                launch.reads[insn.ref], pass, n, worker, frame)
                             .Into(own);
        break;
      }
      case Insn::Kind::kCoordinate:
        Coordinate(insn, pass, launch.tiles[&pass - launch.program->passes.data()], n, worker, dst);
        break;
      case Insn::Kind::kParam:
        std::memcpy(dst, launch.params[insn.ref], insn.size);
        break;
      case Insn::Kind::kConst:
        std::memcpy(dst, &insn.imm, insn.size);
        break;
      case Insn::Kind::kExtent:
        std::memcpy(dst, &launch.sizes[insn.ref], sizeof(int64_t));
        break;
      case Insn::Kind::kFill:
        launch.program->ops->fill(insn.size, dst, regs[insn.a], fill);
        break;
    }
  }
}

}  // namespace kiln::vm
