// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/run.h"

#include <algorithm>
#include <cstring>

#include "exec/vm/access.h"

namespace kiln::vm {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

size_t AccumulatorBytes(const Pass& pass) {
  const bool block = pass.shape == Pass::Shape::kOuter || pass.sums;
  return (block ? static_cast<size_t>(pass.block) : kReduceLanes) * 8;
}

const Tile& TileIn(const Launch& launch, const Pass& pass) {
  return launch.tiles[&pass - launch.program->passes.data()];
}

class UnitRunner {
 public:
  UnitRunner(const Pass& pass, const Units& units, uint8_t* const* partials, Worker& worker,
             Frame& frame)
      : pass_(pass),
        units_(units),
        partials_(partials),
        worker_(worker),
        launch_(*worker.launch),
        tile_(TileIn(launch_, pass)),
        frame_(frame) {}

  void Run(int64_t begin, int64_t end) {
    int64_t row = -1;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t vec_chunk = unit % units_.vec_chunks;
      const int64_t over_chunk = unit / units_.vec_chunks % units_.over_chunks;
      const int64_t unit_row = unit / units_.vec_chunks / units_.over_chunks;
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
    for (int32_t k = tile_.first - 1; k >= 0; --k) {
      const int32_t d = DimAt(pass_, k);
      Enter(d, row % launch_.extents[d]);
      row /= launch_.extents[d];
    }
    if (pass_.vec >= 0) EnterTile(0);
    const int64_t fill = std::min(pass_.block, tile_.length);
    RunList(pass_.row, 1, static_cast<size_t>(fill), worker_, pass_, frame_);
  }

  void Enter(int32_t dim, int64_t at) {
    worker_.coordinate[dim] = dim == launch_.program->group ? worker_.group_first + at : at;
  }

  // To the block that starts at element `at` of the tile.
  void EnterTile(int64_t at) {
    const auto last = static_cast<int32_t>(pass_.rows.size());
    Enter(DimAt(pass_, tile_.first), at / tile_.inner);
    for (int32_t k = tile_.first + 1; k <= last; ++k) Enter(DimAt(pass_, k), 0);
  }

  uint8_t* Accumulator(size_t sink) const {
    return frame_.accumulators + sink * AccumulatorBytes(pass_);
  }

  // Elements of the block at `at`. Where it would be written to its place but for its last
  // elements, which are no whole vector, these are a block of their own.
  size_t BlockAt(int64_t at, int64_t end) const {
    const auto n = static_cast<size_t>(std::min(tile_.block, end - at));
    const size_t whole = n / kVectorElements * kVectorElements;
    const bool cut = pass_.shape == Pass::Shape::kMap && tile_.inner == 1 &&
                     n >= 2 * static_cast<size_t>(kBlock) &&
                     std::any_of(pass_.sinks.begin(), pass_.sinks.end(),
                                 [this](const Sink& sink) { return Direct(sink); });
    return cut ? whole : n;
  }

  // A chunk of the tile: a map, or one block of a reduction along the vector dim, or such
  // reductions of whole rows.
  void VectorUnit(int64_t row, int64_t chunk) {
    const int64_t begin = chunk * units_.vec_chunk,
                  end = std::min(tile_.length, begin + units_.vec_chunk);
    const bool whole_rows = pass_.shape == Pass::Shape::kLanes && tile_.Spans(pass_);
    const bool reduces = pass_.shape != Pass::Shape::kMap && !whole_rows;
    const size_t lanes = pass_.shape == Pass::Shape::kLanes ? kReduceLanes : 1;
    if (reduces) StartAccumulators(lanes);
    for (int64_t at = begin; at < end;) {
      const size_t n = BlockAt(at, end);
      if (pass_.vec >= 0) EnterTile(at);
      Block(n);
      if (whole_rows) ReduceRows(row * tile_.length + at, n);
      for (size_t s = 0; s < pass_.sinks.size() && reduces; ++s) {
        const Sink& sink = pass_.sinks[s];
        if (sink.kind != Sink::Kind::kReduce) continue;
        const OpArgs args = {Accumulator(s), frame_.regs[sink.reg], nullptr, nullptr, n, 0};
        (lanes == 1 ? sink.fns.sequence : sink.fns.lanes)(args);
      }
      at += static_cast<int64_t>(n);
    }
    if (!reduces) return;
    for (size_t s = 0; s < pass_.sinks.size(); ++s) {
      const Sink& sink = pass_.sinks[s];
      if (sink.kind != Sink::Kind::kReduce) continue;
      if (lanes > 1) sink.fns.fold({Accumulator(s), nullptr, nullptr, nullptr, 0, 0});
      std::memcpy(Result(s, row * units_.vec_chunks + chunk), Accumulator(s), sink.size);
    }
  }

  // Reduces the rows of a block of n elements, the first of which is element `at` of the pass.
  void ReduceRows(int64_t at, size_t n) {
    const int64_t width = launch_.extents[pass_.vec];
    for (size_t s = 0; s < pass_.sinks.size(); ++s) {
      const Sink& sink = pass_.sinks[s];
      if (sink.kind != Sink::Kind::kReduce) continue;
      sink.fns.rows({Result(s, at / width), frame_.regs[sink.reg], &sink.identity, nullptr, n,
                     static_cast<uint64_t>(width)});
    }
  }

  // A block of the vector dim, for one block of a reduction along another dim.
  void OuterUnit(int64_t row, int64_t vec_chunk, int64_t over_chunk) {
    const int64_t at = vec_chunk * tile_.block;
    const auto n = static_cast<size_t>(std::min(tile_.block, tile_.length - at));
    const int64_t begin = over_chunk * kOuterReduceBlock;
    const int64_t end = std::min(launch_.extents[pass_.over], begin + kOuterReduceBlock);
    EnterTile(at);
    StartAccumulators(n);
    for (int64_t x = begin; x < end; ++x) {
      worker_.coordinate[pass_.over] = x;
      RunList(pass_.each, 1, n, worker_, pass_, frame_);
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
      std::memcpy(Result(s, over_chunk * units_.results + row * tile_.length + at), Accumulator(s),
                  n * sink.size);
    }
  }

  void StartAccumulators(size_t n) {
    for (size_t s = 0; s < pass_.sinks.size(); ++s) {
      const Sink& sink = pass_.sinks[s];
      if (sink.kind == Sink::Kind::kReduce)
        launch_.program->ops->fill(sink.size, Accumulator(s), &sink.identity, n);
    }
  }

  // Where a reduction leaves result `index`: with one part to each result, in the temporary.
  uint8_t* Result(size_t s, int64_t index) const {
    const Sink& sink = pass_.sinks[s];
    uint8_t* base =
        units_.parts > 1 ? partials_[s] : worker_.temps + launch_.temps[sink.ref].offset;
    return base + index * sink.size;
  }

  // Runs what depends on the place in the row alone, unless it is there from the block before.
  void Inner(size_t n) {
    const int64_t at = worker_.coordinate[pass_.vec];
    if (frame_.inner_launch == &launch_ && frame_.inner_at == at && frame_.inner_n == n) return;
    RunList(pass_.inner, n, n, worker_, pass_, frame_);
    frame_.inner_launch = &launch_;
    frame_.inner_at = at;
    frame_.inner_n = n;
  }

  struct Target {
    uint8_t* base;
    const Pattern* pattern;
    uint8_t* start(size_t size) const { return base + pattern->start * static_cast<int64_t>(size); }
  };

  // Runs the body on n elements from the current coordinates and stores what is to be stored.
  void Block(size_t n) {
    if (!pass_.inner.empty()) Inner(n);
    PlaceResults(n);
    for (const Sink& sink : pass_.sinks) {
      if (sink.kind != Sink::Kind::kOutput || launch_.stores[sink.ref].covered == 0) continue;
      const StoreState& state = launch_.stores[sink.ref];
      frame_.fetches->Add(TargetOf(sink).start(sink.size) + state.ahead, state.covered,
                          /*written=*/true);
    }
    RunList(pass_.body, n, n, worker_, pass_, frame_);
    for (const Sink& sink : pass_.sinks) {
      if (sink.kind == Sink::Kind::kSum) AddToOutput(sink, n);
      if (!sink.IsStored()) continue;
      const Target target = TargetOf(sink);
      const uint8_t* reg = frame_.regs[sink.reg];
      if (reg != target.start(sink.size)) Store(sink, target, reg, n);
    }
  }

  // Adds a block to the elements of an output, which is dense, that places say: a row at once where
  // they are the same for the block.
  void AddToOutput(const Sink& sum, size_t n) {
    uint8_t* const base = TargetOf(sum).start(sum.size);
    const int64_t step = TargetOf(sum).pattern->step;
    bool varies = step != 1;
    for (const Sink& place : pass_.sinks) varies = varies || place.varies;
    const size_t run = varies ? 1 : n;
    for (size_t i = 0; i < n; i += run) {
      const int64_t at = static_cast<int64_t>(i) * step + PlaceOf(sum, i);
      Add(sum, base + at * sum.size, frame_.regs[sum.reg] + i * sum.size, run);
    }
  }

  // What the loaded axes add to where element i of a block goes, in elements.
  int64_t PlaceOf(const Sink& sum, size_t i) const {
    const std::vector<int32_t>& dims =
        launch_.program->kernel.outputs[static_cast<size_t>(sum.ref)].dims;
    int64_t at = 0, stride = 1;
    const Sink* place = &sum - 1;
    for (auto axis = static_cast<int32_t>(dims.size()) - 1; axis >= 0; --axis) {
      const int64_t extent = launch_.sizes[dims[static_cast<size_t>(axis)]];
      if (place >= pass_.sinks.data() && place->kind == Sink::Kind::kPlace && place->ref == axis) {
        const auto* loaded = reinterpret_cast<const int64_t*>(frame_.regs[place->reg]);
        at += LoadedPosition(loaded[place->varies ? i : 0], extent) * stride;
        --place;
      }
      stride *= extent;
    }
    return at;
  }

  // Instructions go on up to whole vectors, past the elements that are to be added.
  void Add(const Sink& sum, uint8_t* to, const uint8_t* from, size_t n) const {
    uint8_t* const sums = Accumulator(static_cast<size_t>(&sum - pass_.sinks.data()));
    std::memcpy(sums, to, n * sum.size);
    if (n == 1) from = static_cast<uint8_t*>(std::memcpy(sums + kLine * 2, from, sum.size));
    sum.fns.combine({sums, sums, from, nullptr, n, 0});
    std::memcpy(to, sums, n * sum.size);
  }

  bool Direct(const Sink& sink) const { return launch_.apart ? sink.direct_apart : sink.direct; }

  // Lets the registers of direct results of a block lie in their places, where these have room for
  // its last vector.
  void PlaceResults(size_t n) {
    const bool whole = n % kVectorElements == 0;
    frame_.non_temporal = launch_.non_temporal;
    for (const Sink& sink : pass_.sinks) {
      if (!Direct(sink)) continue;
      const Target target = TargetOf(sink);
      const bool in_place = target.pattern->dense() && (whole || HasRoom(sink, n));
      frame_.regs[sink.reg] =
          in_place ? target.start(sink.size)
                   : frame_.storage + pass_.reg_offset[static_cast<size_t>(sink.reg)];
      if (sink.kind == Sink::Kind::kOutput)
        frame_.non_temporal = frame_.non_temporal && in_place && AtLine(frame_.regs[sink.reg]);
    }
  }

  static bool AtLine(const uint8_t* at) { return reinterpret_cast<uintptr_t>(at) % kLine == 0; }

  void Store(const Sink& sink, const Target& target, const uint8_t* reg, size_t n) const {
    const OpTable& ops = *launch_.program->ops;
    uint8_t* const start = target.start(sink.size);
    const size_t bytes = n * sink.size;
    if (launch_.non_temporal && sink.kind == Sink::Kind::kOutput && target.pattern->dense() &&
        AtLine(start) && bytes % kLine == 0)
      return ops.store_lines(start, reg, bytes);
    ops.scatter(sink.size, target.base, *target.pattern, reg, n);
  }

  // Whether the last vector of a block may go past its elements: at the end of a temporary.
  bool HasRoom(const Sink& sink, size_t n) const {
    if (sink.kind != Sink::Kind::kTemp || tile_.first != 0 || pass_.vec < 0 ||
        pass_.shape == Pass::Shape::kOuter)
      return false;
    const int64_t at = (worker_.coordinate[DimAt(pass_, 0)] -
                        (DimAt(pass_, 0) == launch_.program->group ? worker_.group_first : 0)) *
                       tile_.inner;
    return at + static_cast<int64_t>(n) == tile_.length;
  }

  Target TargetOf(const Sink& sink) const {
    if (sink.kind == Sink::Kind::kTemp) {
      const TempState& temp = launch_.temps[sink.ref];
      return {worker_.temps + temp.offset + TempAt(temp.linear, worker_) * sink.size,
              &temp.pattern};
    }
    const StoreState& store = launch_.stores[sink.ref];
    const int64_t at = At(store.linear, worker_.coordinate, launch_.program->num_iterated);
    return {launch_.outputs[sink.ref]->host + at * sink.size, &store.pattern};
  }

  const Pass& pass_;
  const Units& units_;
  uint8_t* const* partials_;
  Worker& worker_;
  const Launch& launch_;
  const Tile& tile_;
  Frame& frame_;
};

// Reduces n consecutive values to one by the rule, in place.
void ReduceRow(const OpTable& ops, const Pass& pass, const Sink& sink, uint8_t* data, int64_t n) {
  alignas(64) uint8_t acc[kReduceLanes * 8 + 64];
  const bool lanes = pass.shape == Pass::Shape::kLanes;
  const int64_t block = lanes ? kReduceBlock : kOuterReduceBlock;
  while (n > 1) {
    const int64_t blocks = CeilDiv(n, block);
    for (int64_t k = 0; k < blocks; ++k) {
      const auto count = static_cast<size_t>(std::min(block, n - k * block));
      ops.fill(sink.size, acc, &sink.identity, lanes ? kReduceLanes : 1);
      const OpArgs args = {acc, data + k * block * sink.size, nullptr, nullptr, count, 0};
      (lanes ? sink.fns.lanes : sink.fns.sequence)(args);
      if (lanes) sink.fns.fold(args);
      std::memcpy(data + k * sink.size, acc, sink.size);
    }
    n = blocks;
  }
}

// The same for n rows of `width` values, element by element.
void ReduceColumns(const OpTable& ops, const Sink& sink, uint8_t* data, int64_t n, int64_t width) {
  const int64_t row_bytes = width * sink.size;
  alignas(64) uint8_t acc[kBlock * 8 + 64];
  alignas(64) uint8_t part[kBlock * 8 + 64];
  while (n > 1) {
    const int64_t blocks = CeilDiv(n, kOuterReduceBlock);
    for (int64_t k = 0; k < blocks; ++k) {
      const int64_t end = std::min(n, (k + 1) * kOuterReduceBlock);
      for (int64_t at = 0; at < width; at += kBlock) {
        const auto count = static_cast<size_t>(std::min(kBlock, width - at));
        ops.fill(sink.size, acc, &sink.identity, count);
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

size_t FrameBytes(const Pass& pass) {
  return RoundUp(pass.frame_bytes) +
         RoundUp((pass.num_slots + pass.reg_offset.size()) * sizeof(uint8_t*)) +
         2 * static_cast<size_t>(pass.block) * sizeof(int64_t) +
         RoundUp(pass.num_steps * sizeof(Step)) + pass.num_slots * kSlotBytes +
         pass.sinks.size() * AccumulatorBytes(pass);
}

void StartFrame(const Pass& pass, Worker& worker, void* memory, Frame& frame) {
  frame.storage = static_cast<uint8_t*>(memory);
  frame.fetches = &worker.fetches;
  frame.accumulators = frame.storage + RoundUp(pass.frame_bytes);
  frame.positions =
      reinterpret_cast<int64_t*>(frame.accumulators + pass.sinks.size() * AccumulatorBytes(pass));
  auto* const slots = reinterpret_cast<uint8_t*>(frame.positions + 2 * pass.block);
  frame.steps = reinterpret_cast<Step*>(slots + pass.num_slots * kSlotBytes);
  frame.regs = reinterpret_cast<uint8_t**>(frame.steps + pass.num_steps) + pass.num_slots;
  for (size_t k = 0; k < pass.num_slots; ++k)
    frame.regs[-static_cast<ptrdiff_t>(k + 1)] = slots + k * kSlotBytes;
  for (size_t r = 0; r < pass.reg_offset.size(); ++r)
    frame.regs[r] = frame.storage + pass.reg_offset[r];
  Step* step = frame.steps;
  for (const Strip& strip : pass.strips) {
    for (const StripStep& s : strip.steps) *step++ = {s.fn, frame.regs[s.x], frame.regs[s.y]};
  }
  const int64_t fill = std::min(pass.block, TileIn(*worker.launch, pass).length);
  RunList(pass.once, 1, static_cast<size_t>(fill), worker, pass, frame);
}

void RunUnits(const Pass& pass, const Units& units, int64_t begin, int64_t end,
              uint8_t* const* partials, Worker& worker, Frame& frame) {
  UnitRunner(pass, units, partials, worker, frame).Run(begin, end);
}

void FinishPass(const Pass& pass, const Units& units, uint8_t* const* partials,
                const Worker& worker) {
  if (pass.over < 0 || units.parts == 1) return;
  const OpTable& ops = *worker.launch->program->ops;
  for (size_t s = 0; s < pass.sinks.size(); ++s) {
    const Sink& sink = pass.sinks[s];
    if (sink.kind != Sink::Kind::kReduce) continue;
    uint8_t* out = worker.temps + worker.launch->temps[sink.ref].offset;
    if (units.parts == 0) {
      ops.fill(sink.size, out, &sink.empty, static_cast<size_t>(units.results));
    } else if (pass.shape == Pass::Shape::kOuter) {
      ReduceColumns(ops, sink, partials[s], units.parts, units.results);
      std::memcpy(out, partials[s], static_cast<size_t>(units.results) * sink.size);
    } else {
      for (int64_t r = 0; r < units.results; ++r) {
        uint8_t* row = partials[s] + r * units.parts * sink.size;
        ReduceRow(ops, pass, sink, row, units.parts);
        std::memcpy(out + r * sink.size, row, sink.size);
      }
    }
  }
}

}  // namespace kiln::vm
