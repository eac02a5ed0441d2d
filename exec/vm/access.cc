// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/vm/access.h"

#include <algorithm>
#include <cstring>

namespace kiln::vm {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// One read of n elements.
class Reader {
 public:
  Reader(const Read& read, const ReadState& state, int32_t vec, size_t n, const Worker& worker,
         const Frame& frame)
      : read_(read), state_(state), vec_(vec), n_(n), worker_(worker), frame_(frame) {
    num_dims_ = worker.launch->program->num_iterated;
    const uint8_t* start = state.base != nullptr || read.source == ReadSource::kInput
                               ? state.base
                               : worker.temps + state.temp_offset;
    base_ = start + At(state.linear, worker.coordinate, num_dims_) * read.size;
    step_ = Step(state.linear);
  }

  // Returns where the elements lie: in the operand, or in `own`, where they are then copied.
  uint8_t* Into(uint8_t* own) {
    if (state_.num_axes == 0) {
      // Operations on whole vectors must stay inside the operand.
      if (step_ == 1 && n_ % kVectorElements == 0 && !read_.copy)
        return const_cast<uint8_t*>(base_);
      GatherStrided(read_.size, own, base_, step_, n_);
    } else if (state_.only_linear) {
      GuardedRange(own);
    } else {
      Positions(own);
    }
    return own;
  }

 private:
  int64_t Step(const Linear& linear) const { return vec_ < 0 ? 0 : linear.step[vec_]; }

  // All axes are linear but may be outside: along the vector dim the inside is one range.
  void GuardedRange(uint8_t* own) {
    int64_t begin = 0, end = static_cast<int64_t>(n_), step = step_, at = 0;
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
    GatherStrided(read_.size, own + begin * read_.size, base_ + (at + begin * step) * read_.size,
                  step, static_cast<size_t>(end - begin));
    std::memset(own + end * read_.size, 0, (n_ - static_cast<size_t>(end)) * read_.size);
  }

  // Works out the position of each element; axis by axis while all are inside, else element by
  // element.
  void Positions(uint8_t* own) {
    int64_t* at = frame_.positions;
    std::fill(at, at + n_, 0);
    bool outside = false;
    for (int32_t k = 0; k < state_.num_axes; ++k) outside = AddAxis(state_.axes[k], at) || outside;
    if (outside) {
      Checked(own);
      return;
    }
    Gather(own, at);
  }

  int64_t Value(const AxisState& axis, const int64_t* loaded, int64_t first, int64_t by,
                size_t i) const {
    if (loaded != nullptr) {
      const int64_t position = loaded[i] < 0 ? loaded[i] + axis.extent : loaded[i];
      return std::clamp<int64_t>(position, 0, std::max<int64_t>(axis.extent - 1, 0));
    }
    int64_t value = first + by * static_cast<int64_t>(i);
    if (axis.div > 1) value = FloorDiv(value, axis.div);
    if (axis.mod > 0) value -= FloorDiv(value, axis.mod) * axis.mod;
    return value;
  }

  // Adds the axis to every position; true if some value lies outside the axis.
  bool AddAxis(const AxisState& axis, int64_t* at) const {
    const auto* loaded =
        axis.load == 0 ? nullptr : reinterpret_cast<const int64_t*>(frame_.regs[axis.load]);
    const int64_t first = At(axis.index, worker_.coordinate, num_dims_), by = Step(axis.index);
    bool outside = axis.extent == 0;
    for (size_t i = 0; i < n_; ++i) {
      const int64_t value = Value(axis, loaded, first, by, i);
      outside = outside || value < 0 || value >= axis.extent;
      at[i] += value * axis.stride;
    }
    return outside;
  }

  void Gather(uint8_t* own, const int64_t* at) const {
    for (size_t i = 0; i < n_; ++i) {
      const uint8_t* from = base_ + (at[i] + step_ * static_cast<int64_t>(i)) * read_.size;
      std::memcpy(own + i * read_.size, from, read_.size);
    }
  }

  // Element by element: 0 where some axis is outside.
  void Checked(uint8_t* own) const {
    for (size_t i = 0; i < n_; ++i) {
      int64_t at = step_ * static_cast<int64_t>(i);
      bool inside = true;
      for (int32_t k = 0; k < state_.num_axes; ++k) {
        const AxisState& axis = state_.axes[k];
        const auto* loaded =
            axis.load == 0 ? nullptr : reinterpret_cast<const int64_t*>(frame_.regs[axis.load]);
        const int64_t value =
            Value(axis, loaded, At(axis.index, worker_.coordinate, num_dims_), Step(axis.index), i);
        inside = inside && value >= 0 && value < axis.extent;
        at += value * axis.stride;
      }
      if (inside) {
        std::memcpy(own + i * read_.size, base_ + at * read_.size, read_.size);
      } else {
        std::memset(own + i * read_.size, 0, read_.size);
      }
    }
  }

  const Read& read_;
  const ReadState& state_;
  const int32_t vec_;
  const size_t n_;
  const Worker& worker_;
  const Frame& frame_;
  int32_t num_dims_;
  const uint8_t* base_;
  int64_t step_;
};

void Coordinate(const Insn& insn, int32_t vec, size_t n, const Worker& worker, uint8_t* dst) {
  auto* out = reinterpret_cast<int64_t*>(dst);
  const int64_t first = worker.coordinate[insn.ref], by = insn.ref == vec ? 1 : 0;
  for (size_t i = 0; i < n; ++i) out[i] = first + by * static_cast<int64_t>(i);
}

}  // namespace

void RunList(const std::vector<Insn>& list, int32_t vec, size_t n, size_t fill,
             const Worker& worker, const Pass& pass, Frame& frame) {
  const Launch& launch = *worker.launch;
  uint8_t** regs = frame.regs;
  for (const Insn& insn : list) {
    uint8_t* dst = regs[insn.dst];
    switch (insn.kind) {
      case Insn::Kind::kOp:
        insn.fn({dst, regs[insn.a],
                 insn.table != nullptr ? static_cast<const void*>(insn.table) : regs[insn.b],
                 regs[insn.c], n, insn.imm});
        break;
      case Insn::Kind::kRead: {
        uint8_t* own = frame.storage + pass.reg_offset[static_cast<size_t>(insn.dst)];
        regs[insn.dst] = Reader(launch.program->reads[static_cast<size_t>(insn.ref)],
                                launch.reads[insn.ref], vec, n, worker, frame)
                             .Into(own);
        break;
      }
      case Insn::Kind::kCoordinate:
        Coordinate(insn, vec, n, worker, dst);
        break;
      case Insn::Kind::kParam:
        std::memcpy(dst, launch.params[insn.ref], insn.size);
        break;
      case Insn::Kind::kConst:
        std::memcpy(dst, &insn.imm, insn.size);
        break;
      case Insn::Kind::kExtent:
        std::memcpy(dst, &launch.extents[insn.ref], sizeof(int64_t));
        break;
      case Insn::Kind::kFill:
        FillElements(insn.size, dst, regs[insn.a], fill);
        break;
    }
  }
}

}  // namespace kiln::vm
