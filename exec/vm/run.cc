// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/vm/run.h"

#include <algorithm>
#include <cstring>

#include "kiln/exec/vm/access.h"

namespace kiln::vm {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr size_t kAccumulatorBytes = static_cast<size_t>(kBlock) * 8;

size_t RoundUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

class UnitRunner {
 public:
  UnitRunner(const Pass& pass, const Units& units, uint8_t* const* partials, Worker& worker,
             Frame& frame)
      : pass_(pass),
        units_(units),
        partials_(partials),
        worker_(worker),
        launch_(*worker.launch),
        frame_(frame) {}

  void Run(int64_t begin, int64_t end) {
    int64_t row = -1;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t over_chunk = unit % units_.over_chunks;
      const int64_t vec_chunk = unit / units_.over_chunks % units_.vec_chunks;
      const int64_t unit_row = unit / units_.over_chunks / units_.vec_chunks;
      if (unit_row != row) EnterRow(row = unit_row);
      if (pass_.shape == Pass::Shape::kOuter) {
        OuterUnit(row, vec_chunk, over_chunk);
      } else {
        VectorUnit(row, vec_chunk);
      }
    }
  }

 private:
  void EnterRow(int64_t row) {
    for (size_t k = pass_.rows.size(); k > 0; --k) {
      const int32_t d = pass_.rows[k - 1];
      worker_.coordinate[d] = row % launch_.extents[d];
      row /= launch_.extents[d];
    }
    const int64_t fill = pass_.vec < 0 ? 1 : std::min(kBlock, launch_.extents[pass_.vec]);
    RunList(pass_.row, pass_.vec, 1, static_cast<size_t>(fill), worker_, pass_, frame_);
  }

  uint8_t* Accumulator(size_t sink) const { return frame_.accumulators + sink * kAccumulatorBytes; }

  // A chunk along the vector dim: a map, or one block of a reduction along it.
  void VectorUnit(int64_t row, int64_t chunk) {
    const int64_t extent = pass_.vec < 0 ? 1 : launch_.extents[pass_.vec];
    const int64_t begin = chunk * units_.vec_chunk,
                  end = std::min(extent, begin + units_.vec_chunk);
    const bool reduces = pass_.shape != Pass::Shape::kMap;
    const size_t lanes = pass_.shape == Pass::Shape::kLanes ? kReduceLanes : 1;
    if (reduces) StartAccumulators(lanes);
    for (int64_t at = begin; at < end; at += kBlock) {
      const auto n = static_cast<size_t>(std::min(kBlock, end - at));
      if (pass_.vec >= 0) worker_.coordinate[pass_.vec] = at;
      Block(n);
      for (size_t s = 0; s < pass_.sinks.size(); ++s) {
        const Sink& sink = pass_.sinks[s];
        if (sink.kind != Sink::Kind::kReduce) continue;
        const OpArgs args = {Accumulator(s), frame_.regs[sink.reg], nullptr, nullptr, n, 0};
        (lanes == 1 ? sink.fns.sequence : sink.fns.lanes)(args);
      }
    }
    if (!reduces) return;
    for (size_t s = 0; s < pass_.sinks.size(); ++s) {
      const Sink& sink = pass_.sinks[s];
      if (sink.kind != Sink::Kind::kReduce) continue;
      if (lanes > 1) sink.fns.fold({Accumulator(s), nullptr, nullptr, nullptr, 0, 0});
      std::memcpy(Result(s, row * units_.vec_chunks + chunk), Accumulator(s), sink.size);
    }
  }

  // A block of the vector dim, for one block of a reduction along another dim.
  void OuterUnit(int64_t row, int64_t vec_chunk, int64_t over_chunk) {
    const int64_t vec_extent = launch_.extents[pass_.vec];
    const int64_t at = vec_chunk * kBlock;
    const auto n = static_cast<size_t>(std::min(kBlock, vec_extent - at));
    const int64_t begin = over_chunk * kOuterReduceBlock;
    const int64_t end = std::min(launch_.extents[pass_.over], begin + kOuterReduceBlock);
    worker_.coordinate[pass_.vec] = at;
    StartAccumulators(n);
    for (int64_t x = begin; x < end; ++x) {
      worker_.coordinate[pass_.over] = x;
      Block(n);
      for (size_t s = 0; s < pass_.sinks.size(); ++s) {
        const Sink& sink = pass_.sinks[s];
        if (sink.kind != Sink::Kind::kReduce) continue;
        sink.fns.combine({Accumulator(s), Accumulator(s), frame_.regs[sink.reg], nullptr, n, 0});
      }
    }
    for (size_t s = 0; s < pass_.sinks.size(); ++s) {
      const Sink& sink = pass_.sinks[s];
      if (sink.kind != Sink::Kind::kReduce) continue;
      std::memcpy(Result(s, over_chunk * units_.results + row * vec_extent + at), Accumulator(s),
                  n * sink.size);
    }
  }

  void StartAccumulators(size_t n) {
    for (size_t s = 0; s < pass_.sinks.size(); ++s) {
      const Sink& sink = pass_.sinks[s];
      if (sink.kind == Sink::Kind::kReduce)
        FillElements(sink.size, Accumulator(s), &sink.identity, n);
    }
  }

  // Where a reduction leaves result `index`: with one part to each result, in the temporary.
  uint8_t* Result(size_t s, int64_t index) const {
    const Sink& sink = pass_.sinks[s];
    uint8_t* base =
        units_.parts > 1 ? partials_[s] : worker_.temps + launch_.temps[sink.ref].offset;
    return base + index * sink.size;
  }

  // Runs the body on n elements from the current coordinates and stores what is to be stored.
  void Block(size_t n) {
    const bool whole = n % kVectorElements == 0;
    for (const Sink& sink : pass_.sinks) {
      if (!sink.direct) continue;
      const Target target = TargetOf(sink);
      frame_.regs[sink.reg] =
          whole && target.stride == 1
              ? target.data
              : frame_.storage + pass_.reg_offset[static_cast<size_t>(sink.reg)];
    }
    RunList(pass_.body, pass_.vec, n, n, worker_, pass_, frame_);
    for (const Sink& sink : pass_.sinks) {
      if (sink.kind == Sink::Kind::kReduce) continue;
      const Target target = TargetOf(sink);
      const uint8_t* reg = frame_.regs[sink.reg];
      if (reg != target.data) ScatterStrided(sink.size, target.data, target.stride, reg, n);
    }
  }

  struct Target {
    uint8_t* data;
    int64_t stride;
  };

  Target TargetOf(const Sink& sink) const {
    const bool temp = sink.kind == Sink::Kind::kTemp;
    const Linear& linear = temp ? launch_.temps[sink.ref].linear : launch_.stores[sink.ref];
    uint8_t* base =
        temp ? worker_.temps + launch_.temps[sink.ref].offset : launch_.outputs[sink.ref]->host;
    const int64_t at = At(linear, worker_.coordinate, launch_.program->num_iterated);
    return {base + at * sink.size, pass_.vec < 0 ? 1 : linear.step[pass_.vec]};
  }

  const Pass& pass_;
  const Units& units_;
  uint8_t* const* partials_;
  Worker& worker_;
  const Launch& launch_;
  Frame& frame_;
};

// Reduces n consecutive values to one by the rule, in place.
void ReduceRow(const Pass& pass, const Sink& sink, uint8_t* data, int64_t n) {
  alignas(64) uint8_t acc[kReduceLanes * 8 + 64];
  const bool lanes = pass.shape == Pass::Shape::kLanes;
  const int64_t block = lanes ? kReduceBlock : kOuterReduceBlock;
  while (n > 1) {
    const int64_t blocks = CeilDiv(n, block);
    for (int64_t k = 0; k < blocks; ++k) {
      const auto count = static_cast<size_t>(std::min(block, n - k * block));
      FillElements(sink.size, acc, &sink.identity, lanes ? kReduceLanes : 1);
      const OpArgs args = {acc, data + k * block * sink.size, nullptr, nullptr, count, 0};
      (lanes ? sink.fns.lanes : sink.fns.sequence)(args);
      if (lanes) sink.fns.fold(args);
      std::memcpy(data + k * sink.size, acc, sink.size);
    }
    n = blocks;
  }
}

// The same for n rows of `width` values, element by element.
void ReduceColumns(const Sink& sink, uint8_t* data, int64_t n, int64_t width) {
  const int64_t row_bytes = width * sink.size;
  alignas(64) uint8_t acc[kAccumulatorBytes + 64];
  alignas(64) uint8_t part[kAccumulatorBytes + 64];
  while (n > 1) {
    const int64_t blocks = CeilDiv(n, kOuterReduceBlock);
    for (int64_t k = 0; k < blocks; ++k) {
      const int64_t end = std::min(n, (k + 1) * kOuterReduceBlock);
      for (int64_t at = 0; at < width; at += kBlock) {
        const auto count = static_cast<size_t>(std::min(kBlock, width - at));
        FillElements(sink.size, acc, &sink.identity, count);
        for (int64_t j = k * kOuterReduceBlock; j < end; ++j) {
          std::memcpy(part, data + j * row_bytes + at * sink.size, count * sink.size);
          sink.fns.combine({acc, acc, part, nullptr, count, 0});
        }
        std::memcpy(data + k * row_bytes + at * sink.size, acc, count * sink.size);
      }
    }
    n = blocks;
  }
}

}  // namespace

Units UnitsOf(const Pass& pass, const int64_t* extents) {
  Units units;
  for (const int32_t d : pass.rows) units.rows *= extents[d];
  units.results = units.rows;
  const int64_t vec = pass.vec < 0 ? 1 : extents[pass.vec];
  switch (pass.shape) {
    case Pass::Shape::kMap:
      units.vec_chunk = kMapChunk;
      break;
    case Pass::Shape::kLanes:
      units.vec_chunk = kReduceBlock;
      break;
    case Pass::Shape::kSequence:
      units.vec_chunk = kOuterReduceBlock;
      break;
    case Pass::Shape::kOuter:
      units.vec_chunk = kBlock;
      units.over_chunks = CeilDiv(extents[pass.over], kOuterReduceBlock);
      units.results *= vec;
      break;
  }
  units.vec_chunks = CeilDiv(vec, units.vec_chunk);
  if (pass.shape == Pass::Shape::kOuter) {
    units.parts = units.over_chunks;
  } else if (pass.shape != Pass::Shape::kMap) {
    units.parts = units.vec_chunks;
  }
  return units;
}

size_t FrameBytes(const Pass& pass) {
  return RoundUp(pass.frame_bytes) + RoundUp(pass.reg_offset.size() * sizeof(uint8_t*)) +
         static_cast<size_t>(kBlock) * sizeof(int64_t) + pass.sinks.size() * kAccumulatorBytes;
}

void StartFrame(const Pass& pass, Worker& worker, void* memory, Frame& frame) {
  frame.storage = static_cast<uint8_t*>(memory);
  frame.accumulators = frame.storage + RoundUp(pass.frame_bytes);
  frame.positions =
      reinterpret_cast<int64_t*>(frame.accumulators + pass.sinks.size() * kAccumulatorBytes);
  frame.regs = reinterpret_cast<uint8_t**>(frame.positions + kBlock);
  for (size_t r = 0; r < pass.reg_offset.size(); ++r)
    frame.regs[r] = frame.storage + pass.reg_offset[r];
  const int64_t fill = pass.vec < 0 ? 1 : std::min(kBlock, worker.launch->extents[pass.vec]);
  RunList(pass.once, pass.vec, 1, static_cast<size_t>(fill), worker, pass, frame);
}

void RunUnits(const Pass& pass, const Units& units, int64_t begin, int64_t end,
              uint8_t* const* partials, Worker& worker, Frame& frame) {
  UnitRunner(pass, units, partials, worker, frame).Run(begin, end);
}

void FinishPass(const Pass& pass, const Units& units, uint8_t* const* partials,
                const Worker& worker) {
  if (pass.over < 0 || units.parts == 1) return;
  for (size_t s = 0; s < pass.sinks.size(); ++s) {
    const Sink& sink = pass.sinks[s];
    if (sink.kind != Sink::Kind::kReduce) continue;
    uint8_t* out = worker.temps + worker.launch->temps[sink.ref].offset;
    if (units.parts == 0) {
      FillElements(sink.size, out, &sink.empty, static_cast<size_t>(units.results));
    } else if (pass.shape == Pass::Shape::kOuter) {
      ReduceColumns(sink, partials[s], units.parts, units.results);
      std::memcpy(out, partials[s], static_cast<size_t>(units.results) * sink.size);
    } else {
      for (int64_t r = 0; r < units.results; ++r) {
        uint8_t* row = partials[s] + r * units.parts * sink.size;
        ReduceRow(pass, sink, row, units.parts);
        std::memcpy(out + r * sink.size, row, sink.size);
      }
    }
  }
}

}  // namespace kiln::vm
