// SPDX-License-Identifier: Apache-2.0
#include "exec/vm/launch_state.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <new>

#include "exec/support/caches.h"
#include "exec/vm/large_dim.h"

namespace kiln::vm {
namespace {

constexpr int64_t kMaxTempBytes = int64_t{1} << 46;  // correctness
constexpr int64_t kNowhere = std::numeric_limits<int64_t>::min();
constexpr int64_t kFetchedBytes = kL3ShareBytes;
constexpr size_t kLeastRun = 32;  // speed: elements; shorter ones are worked out one by one
// Elements of a cell of a wide program: its temporaries stay in L1.
constexpr int64_t kGroupElements = 4096;  // speed

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Adds `scale` times the index to `to`.
void AddIndex(const IndexExpr& index, const int64_t* extents, int64_t scale, Linear& to) {
  to.offset += index.offset * scale;
  for (const IndexExpr::Term& term : index.terms) {
    if (term.extent) {
      to.offset += term.coef * extents[term.dim] * scale;
    } else {
      to.step[term.dim] += term.coef * scale;
    }
  }
}

// Extent and stride, in elements, of an operand's axis.
struct Place {
  int64_t extent, stride;
};

Place InputAxis(const Launch& launch, const BufferArg& buffer, size_t axis) {
  const size_t at = static_cast<size_t>(buffer.dimensions) - 1 - axis;
  if (launch.large) {
    const LargeDim& dim = reinterpret_cast<const LargeDim*>(buffer.dim)[at];
    return {dim.extent, dim.stride};
  }
  return {buffer.dim[at].extent, buffer.dim[at].stride};
}

// The axes of a stage in the temporary that holds it: dims of the prefix are fixed within a cell.
Place TempAxis(const Program& program, const Launch& launch, const Temp& temp, int32_t dim) {
  Place place = {dim < program.prefix ? 1 : launch.extents[dim], 0};
  if (dim < program.prefix) return place;
  place.stride = 1;
  for (size_t k = temp.dims.size(); k > 0 && temp.dims[k - 1] != dim; --k)
    place.stride *= launch.extents[temp.dims[k - 1]];
  return place;
}

bool BindTemps(const Program& program, Launch& launch) {
  for (size_t t = 0; t < program.temps.size(); ++t) {
    const Temp& temp = program.temps[t];
    TempState& state = launch.temps[t];
    state.elements = 1;
    for (const int32_t d : temp.dims) {
      state.linear.step[d] = TempAxis(program, launch, temp, d).stride;
      if (__builtin_mul_overflow(state.elements, launch.extents[d], &state.elements)) return false;
      if (state.elements > kMaxTempBytes) return false;
    }
    state.offset = launch.temp_bytes;
    launch.temp_bytes += (static_cast<size_t>(state.elements) * SizeOf(temp.type) + 127) / 64 *
                         64;  // room for a last vector
  }
  return launch.temp_bytes <= static_cast<size_t>(kMaxTempBytes);
}

AxisState BindAxis(const IndexExpr& index, int32_t load, Place place, const int64_t* extents) {
  AxisState axis;
  axis.extent = place.extent;
  axis.stride = place.stride;
  axis.load = load;
  axis.div = index.div;
  axis.mod = index.mod;
  AddIndex(index, extents, 1, axis.index);
  return axis;
}

// Bytes from the start of an operand of these dims to the end of its last element; 0: it has none,
// or goes backwards.
int64_t BytesTo(const Launch& launch, const BufferArg& buffer, const std::vector<int32_t>& dims,
                int64_t size) {
  int64_t elements = 1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t extent = launch.sizes[dims[axis]],
                  stride = InputAxis(launch, buffer, axis).stride;
    if (extent == 0 || stride < 0) return 0;
    elements += (extent - 1) * stride;
  }
  return elements * size;
}

const uint8_t* EndOf(const Program& program, const Read& read, void** inputs,
                     const Launch& launch) {
  const Kernel& kernel = program.kernel;
  const auto& buffer = *static_cast<const BufferArg*>(inputs[read.ref]);
  const uint8_t* const base = buffer.host;
  const int64_t bytes =
      BytesTo(launch, buffer, kernel.inputs[static_cast<size_t>(read.ref)].dims, read.size);
  for (size_t o = 0; o < kernel.outputs.size(); ++o) {
    const KernelOutput& output = kernel.outputs[o];
    const uint8_t* const to = launch.outputs[o]->host;
    const int64_t written =
        BytesTo(launch, *launch.outputs[o], output.dims, static_cast<int64_t>(SizeOf(output.type)));
    const bool overlaps = std::less<>()(to, base + bytes) && std::less<>()(base, to + written);
    if (to == base || overlaps) return nullptr;
  }
  return base + bytes;
}

// Whether the index, without its division, has 64 bits for all coordinates, and lies in [0, extent)
// unless that is -1.
bool LiesInside(const IndexExpr& index, const Program& program, const int64_t* sizes,
                int64_t extent) {
  int64_t low = index.offset, high = index.offset;
  for (const IndexExpr::Term& term : index.terms) {
    const bool coordinate = !term.extent;
    if (coordinate && term.dim >= program.num_iterated) return false;
    int64_t most = sizes[term.dim] - (coordinate ? 1 : 0);
    if (__builtin_mul_overflow(most, term.coef, &most)) return false;
    if (!coordinate || most < 0) {
      if (__builtin_add_overflow(low, most, &low)) return false;
    }
    if (!coordinate || most > 0) {
      if (__builtin_add_overflow(high, most, &high)) return false;
    }
  }
  return extent < 0 || (low >= 0 && high < extent);
}

// Whether all that the read may be asked for is there: a text may say anything. What is guarded, or
// not linear, is looked into element by element. `sizes` are not 0 where they are iterated.
bool MayRead(const Program& program, const Read& read, void** inputs, const Launch& launch) {
  size_t special = 0;
  for (size_t k = 0; k < read.linear.size(); ++k) {
    if (special < read.axes.size() && read.axes[special].axis == static_cast<int32_t>(k)) {
      const Axis& axis = read.axes[special++];
      if (axis.load == 0 && !axis.fixed && !LiesInside(axis.index, program, launch.sizes, -1))
        return false;
      continue;
    }
    int64_t extent = -1;
    if (!read.guarded && read.source == ReadSource::kInput) {
      extent = InputAxis(launch, *static_cast<const BufferArg*>(inputs[read.ref]), k).extent;
    } else if (!read.guarded) {
      extent = launch.sizes[program.temps[static_cast<size_t>(read.ref)].stage_dims[k]];
    }
    if (!LiesInside(read.linear[k], program, launch.sizes, extent)) return false;
  }
  return true;
}

// A guarded read checks every axis, so all of its axes are kept apart.
AxisState* BindRead(const Program& program, const Read& read, void** inputs, const Launch& launch,
                    AxisState* axes, ReadState& state) {
  state.axes = axes;
  state.only_linear = true;
  size_t special = 0;
  const std::vector<int32_t>* stage_dims = nullptr;
  if (read.source == ReadSource::kInput) {
    state.base = static_cast<const BufferArg*>(inputs[read.ref])->host;
    state.end = EndOf(program, read, inputs, launch);
  } else {
    state.temp_offset = launch.temps[read.ref].offset;
    stage_dims = &program.temps[static_cast<size_t>(read.ref)].stage_dims;
  }
  for (size_t k = 0; k < read.linear.size(); ++k) {
    const Place place =
        stage_dims == nullptr
            ? InputAxis(launch, *static_cast<const BufferArg*>(inputs[read.ref]), k)
            : TempAxis(program, launch, program.temps[static_cast<size_t>(read.ref)],
                       (*stage_dims)[k]);
    const bool is_special =
        special < read.axes.size() && read.axes[special].axis == static_cast<int32_t>(k);
    const bool fixed = stage_dims != nullptr &&
                       ((*stage_dims)[k] < program.prefix || (*stage_dims)[k] == program.group);
    if (is_special && read.axes[special].fixed) {
      const int64_t position = LoadedPosition(read.axes[special++].position, place.extent);
      if (place.extent > 0) {
        state.linear.offset += position * place.stride;
      } else {
        *axes++ = BindAxis(IndexExpr::Constant(-1), 0, place, launch.sizes);  // outside
      }
    } else if (is_special) {
      state.only_linear = false;
      *axes++ = BindAxis(read.axes[special].index, read.axes[special].load, place, launch.sizes);
      ++special;
    } else if (read.guarded && !fixed) {
      *axes++ = BindAxis(read.linear[k], 0, place, launch.sizes);
    } else {
      AddIndex(read.linear[k], launch.sizes, place.stride, state.linear);
    }
  }
  state.num_axes = static_cast<int32_t>(axes - state.axes);
  return axes;
}

size_t MaxAxes(const Program& program) {
  size_t axes = 0;
  for (const Read& read : program.reads) axes += read.linear.size();
  return axes;
}

// What the passes of a cell do, in all.
struct Work {
  double lines = 0;  // of the cache to be fetched
  double operations = 0;
};

// Gives one pass of a launch its patterns.
class PatternBinder {
 public:
  PatternBinder(const Program& program, const Pass& pass, void** inputs, Tile& tile, Launch& launch,
                uint8_t*& memory, Work& work)
      : program_(program),
        pass_(pass),
        inputs_(inputs),
        tile_(tile),
        launch_(launch),
        memory_(memory),
        work_(work) {
    n_ = static_cast<size_t>(std::min(tile.block, tile.length));
    const auto inner = static_cast<size_t>(tile.inner);
    run_ = inner >= kLeastRun && n_ % inner == 0 ? inner : n_;
  }

  bool Bind() {
    for (size_t r = pass_.reads_begin; r < pass_.reads_end; ++r) {
      const size_t window = program_.reads[r].size == 4 ? program_.ops->window : 0;
      if (!BindReadPattern(launch_.reads[r], window)) return false;
    }
    for (const Sink& sink : pass_.sinks) {
      if (sink.kind == Sink::Kind::kReduce || sink.kind == Sink::Kind::kPlace) continue;
      const bool temp = sink.kind == Sink::Kind::kTemp;
      if (!Make(temp ? launch_.temps[sink.ref].linear : launch_.stores[sink.ref].linear,
                temp ? launch_.temps[sink.ref].pattern : launch_.stores[sink.ref].pattern))
        return false;
    }
    FetchAhead();
    for (const Insn& insn : pass_.body) {
      if (insn.kind == Insn::Kind::kOp) work_.operations += Blocks();
      const int64_t parts = (n_ + kStripPart - 1) / kStripPart;
      if (insn.kind == Insn::Kind::kStrip)
        work_.operations += Blocks() * static_cast<double>(parts);
    }
    return true;
  }

 private:
  bool Make(const Linear& linear, Pattern& pattern) {
    if (!program_.wide) {
      pattern.step = pass_.vec < 0 ? 1 : linear.step[pass_.vec];
      return true;
    }
    if (LieEvenly(linear, pass_, tile_, launch_.extents, pattern.step)) return true;
    Start(linear);
    return Finish(0, pattern);
  }

  void Start(const Linear& linear) {
    std::fill(at_, at_ + run_, 0);
    AddSteps(linear, pass_, tile_, launch_.extents, run_, at_);
    step_ = StepOf(linear);
  }

  // From one run of positions to the next.
  int64_t StepOf(const Linear& linear) const {
    return run_ < n_ ? linear.step[DimAt(pass_, tile_.first)] : 0;
  }

  bool Finish(size_t window, Pattern& pattern) {
    memory_ += kPatternBytes;
    return MakePattern({at_, run_, step_, n_}, window, memory_ - kPatternBytes, pattern);
  }

  // Decides what is fetched ahead: operands that the caches do not hold. A program of several
  // passes fetches for the next cell, others for the next block.
  void FetchAhead() {
    if (pass_.vec < 0 || !program_.fetches) return;
    for (const Insn& insn : pass_.body) {
      const bool reads = insn.kind == Insn::Kind::kRead;
      const Read* read = reads ? &program_.reads[static_cast<size_t>(insn.ref)] : nullptr;
      if (!reads || !read->first || BytesOf(*read) < kFetchedBytes || HasNear(*read, insn.ref))
        continue;
      ReadState& state = launch_.reads[insn.ref];
      Fetch(state.linear, read->size, state);
    }
    for (const Sink& sink : pass_.sinks) {
      if (sink.kind != Sink::Kind::kOutput || program_.passes.size() == 1 || launch_.non_temporal)
        continue;
      StoreState& state = launch_.stores[sink.ref];
      int64_t bytes = sink.size;
      for (const int32_t d : program_.kernel.outputs[static_cast<size_t>(sink.ref)].dims)
        bytes *= launch_.sizes[d];
      if (bytes >= kFetchedBytes) Fetch(state.linear, sink.size, state);
    }
  }

  // Whether another read of the pass fetches what this one reads, or nearly that.
  bool HasNear(const Read& read, int32_t r) const {
    const Linear& mine = launch_.reads[r].linear;
    for (size_t other = pass_.reads_begin; other < pass_.reads_end; ++other) {
      const ReadState& state = launch_.reads[other];
      if (program_.reads[other].ref != read.ref || state.covered == 0) continue;
      const bool same = std::equal(mine.step, mine.step + kMaxDims, state.linear.step);
      if (same && std::abs(mine.offset - state.linear.offset) * read.size < state.covered)
        return true;
    }
    return false;
  }

  template <typename State>
  void Fetch(const Linear& linear, int64_t size, State& state) {
    const int64_t per_block =
        std::abs(tile_.block / tile_.inner * linear.step[DimAt(pass_, tile_.first)] * size);
    const int32_t group = program_.group, last = group < 0 ? program_.prefix - 1 : group;
    if (program_.passes.size() == 1) {
      state.ahead = tile_.block / tile_.inner * linear.step[DimAt(pass_, tile_.first)] * size;
    } else if (last >= 0) {
      state.ahead = linear.step[last] * size * (group < 0 ? 1 : launch_.extents[group]);
    }
    if (state.ahead == 0 || per_block > 2 * pass_.block * size)
      return;  // far apart, or here already
    state.covered = per_block;
    const int64_t lines = state.covered / kLine;
    work_.lines += static_cast<double>(lines) * Blocks();
  }

  // Blocks of the pass in a cell.
  double Blocks() const {
    const int64_t along = (tile_.length + tile_.block - 1) / tile_.block;
    auto blocks = static_cast<double>(along);
    for (int32_t k = 0; k < tile_.first; ++k)
      blocks *= static_cast<double>(launch_.extents[DimAt(pass_, k)]);
    if (pass_.shape == Pass::Shape::kOuter)
      blocks *= static_cast<double>(launch_.extents[pass_.over]);
    return blocks;
  }

  int64_t BytesOf(const Read& read) const {
    const BufferArg& buffer = *static_cast<const BufferArg*>(inputs_[read.ref]);
    int64_t bytes = read.size;
    for (size_t axis = 0; axis < read.linear.size(); ++axis) {
      const Place place = InputAxis(launch_, buffer, axis);
      bytes = std::max(bytes, place.extent * std::abs(place.stride) * read.size);
    }
    return bytes;
  }

  // Whether the axis has the same values in each block: it varies with inner dims only.
  bool Invariant(const AxisState& axis) const {
    for (int32_t d = 0; d < program_.num_iterated; ++d) {
      if (axis.index.step[d] == 0) continue;
      bool inner = false;
      for (int32_t k = tile_.first + 1; k <= static_cast<int32_t>(pass_.rows.size()); ++k)
        inner = inner || DimAt(pass_, k) == d;
      if (!inner) return false;
    }
    return true;
  }

  bool BindReadPattern(ReadState& state, size_t window) {
    if (!program_.wide) {
      state.pattern.step = pass_.vec < 0 ? 0 : state.linear.step[pass_.vec];
      state.patterned = state.num_axes == 0;
      return true;
    }
    if (state.num_axes == 0 &&
        LieEvenly(state.linear, pass_, tile_, launch_.extents, state.pattern.step)) {
      state.patterned = true;
      return true;
    }
    if (state.num_axes == 0 && window > 0 &&
        LieTransposed(state.linear, pass_, tile_, launch_.extents, state.pattern.step)) {
      state.pattern.columns = tile_.inner;
      state.patterned = true;
      return true;
    }
    Start(state.linear);
    for (int32_t a = 0; a < state.num_axes; ++a) {
      AxisState& axis = state.axes[a];
      axis.invariant = axis.load == 0 && Invariant(axis);
      const bool linear = axis.load == 0 && axis.div == 1 && axis.mod == 0;
      if (!axis.invariant && !linear) return true;  // positions are worked out block by block
      AddAxis(axis);
    }
    state.patterned = true;
    return Finish(window, state.pattern);
  }

  void AddAxis(AxisState& axis) {
    std::fill(values_, values_ + run_, axis.invariant ? axis.index.offset : 0);
    AddSteps(axis.index, pass_, tile_, launch_.extents, run_, values_);
    for (size_t i = 0; i < run_; ++i) {
      const int64_t value = axis.invariant ? axis.At(values_[i]) : values_[i];
      axis.low = std::min(axis.low, value);
      axis.high = std::max(axis.high, value);
      if (axis.invariant && (value < 0 || value >= axis.extent)) {
        at_[i] = kNowhere;
      } else if (at_[i] != kNowhere) {
        at_[i] += value * axis.stride;
      }
    }
    if (axis.invariant) return;
    const int64_t step = StepOf(axis.index);
    const int64_t more = static_cast<int64_t>(n_ / run_ - 1) * step;
    axis.low += std::min<int64_t>(more, 0);
    axis.high += std::max<int64_t>(more, 0);
    step_ += step * axis.stride;
  }

  const Program& program_;
  const Pass& pass_;
  void** const inputs_;
  Tile& tile_;
  Launch& launch_;
  uint8_t*& memory_;
  Work& work_;
  size_t n_ = 0, run_ = 0;  // elements of a block, and of the runs that it consists of
  int64_t step_ = 0;        // from one run to the next
  int64_t at_[kMostWideBlock], values_[kMostWideBlock];
};

size_t PatternBytes(const Program& program) {
  if (!program.wide) return 0;
  return (program.reads.size() + program.temps.size() + program.kernel.outputs.size()) *
         kPatternBytes;
}

Units UnitsOf(const Pass& pass, const Tile& tile, const int64_t* extents) {
  Units units;
  for (int32_t k = 0; k < tile.first; ++k) units.rows *= extents[DimAt(pass, k)];
  units.results = units.rows;
  switch (pass.shape) {
    case Pass::Shape::kMap:
      units.vec_chunk = std::max(kMapChunk / tile.block, int64_t{1}) * tile.block;
      break;
    case Pass::Shape::kLanes:
      units.vec_chunk = kReduceBlock;
      if (!tile.Spans(pass)) break;
      units.vec_chunk = kReduceBlock / tile.block * tile.block;
      units.results = units.rows * tile.length / extents[pass.vec];
      break;
    case Pass::Shape::kSequence:
      units.vec_chunk = kOuterReduceBlock;
      break;
    case Pass::Shape::kOuter:
      units.vec_chunk = tile.block;
      units.over_chunks = CeilDiv(extents[pass.over], kOuterReduceBlock);
      units.results *= tile.length;
      break;
  }
  units.vec_chunks = CeilDiv(tile.length, units.vec_chunk);
  if (pass.shape == Pass::Shape::kOuter) {
    units.parts = units.over_chunks;
  } else if (pass.shape != Pass::Shape::kMap && !tile.Spans(pass)) {
    units.parts = units.vec_chunks;
  }
  return units;
}

}  // namespace

size_t LaunchBytes(const Program& program) {
  return program.reads.size() * sizeof(ReadState) + MaxAxes(program) * sizeof(AxisState) +
         program.temps.size() * sizeof(TempState) +
         program.kernel.outputs.size() * sizeof(StoreState) +
         program.passes.size() * (sizeof(Tile) + sizeof(Units)) +
         2 * program.kernel.dims.size() * sizeof(int64_t) + PatternBytes(program);
}

bool BindLaunch(const Program& program, void** argv, bool large, int64_t group_extent, void* memory,
                Launch& launch) {
  const Kernel& kernel = program.kernel;
  launch.program = &program;
  launch.large = large;
  launch.context = *static_cast<LaunchContext**>(argv[0]);
  void** inputs = argv + 1;
  void** dims = inputs + kernel.inputs.size();
  launch.params = dims + kernel.dims.size();
  launch.outputs = reinterpret_cast<BufferArg**>(launch.params + kernel.params.size());
  const size_t num_reads = program.reads.size(), num_axes = MaxAxes(program),
               num_temps = program.temps.size();
  launch.reads = static_cast<ReadState*>(memory);
  auto* axes = reinterpret_cast<AxisState*>(launch.reads + num_reads);
  launch.temps = reinterpret_cast<TempState*>(axes + num_axes);
  launch.stores = reinterpret_cast<StoreState*>(launch.temps + num_temps);
  launch.tiles = reinterpret_cast<Tile*>(launch.stores + kernel.outputs.size());
  launch.units = reinterpret_cast<Units*>(launch.tiles + program.passes.size());
  launch.sizes = reinterpret_cast<int64_t*>(launch.units + program.passes.size());
  launch.extents = launch.sizes + kernel.dims.size();
  for (size_t d = 0; d < kernel.dims.size(); ++d)
    launch.sizes[d] = ExtentArgument(kernel, argv, d, large);
  std::copy_n(launch.sizes, kernel.dims.size(), launch.extents);
  if (program.group >= 0) launch.extents[program.group] = group_extent;
  for (size_t i = 0; i < num_reads; ++i) new (&launch.reads[i]) ReadState;
  for (size_t i = 0; i < num_temps; ++i) new (&launch.temps[i]) TempState;
  if (!BindTemps(program, launch)) return false;
  const bool runs = std::all_of(launch.sizes, launch.sizes + program.num_iterated,
                                [](int64_t extent) { return extent > 0; });
  for (size_t i = 0; i < num_reads; ++i) {
    if (runs && !MayRead(program, program.reads[i], inputs, launch)) return false;
    axes = BindRead(program, program.reads[i], inputs, launch, axes, launch.reads[i]);
    launch.apart =
        launch.apart && (launch.reads[i].base == nullptr || launch.reads[i].end != nullptr);
  }
  launch.non_temporal = launch.context->non_temporal && launch.apart;
  for (size_t o = 0; o < kernel.outputs.size(); ++o) {
    Linear& store = (new (&launch.stores[o]) StoreState)->linear;
    const std::vector<int32_t>& out_dims = kernel.outputs[o].dims;
    for (size_t k = 0; k < out_dims.size(); ++k)
      if (kernel.dims[static_cast<size_t>(out_dims[k])].iterated)
        store.step[out_dims[k]] = InputAxis(launch, *launch.outputs[o], k).stride;
  }
  auto* patterns = reinterpret_cast<uint8_t*>(launch.extents + kernel.dims.size());
  Work work;
  for (size_t p = 0; p < program.passes.size(); ++p) {
    const Pass& pass = program.passes[p];
    Tile& tile = *new (&launch.tiles[p]) Tile(TileOf(pass, launch.extents, program.wide));
    new (&launch.units[p]) Units(UnitsOf(pass, tile, launch.extents));
    if (!PatternBinder(program, pass, inputs, tile, launch, patterns, work).Bind()) return false;
  }
  if (work.lines > 0)
    launch.lines = static_cast<int64_t>(work.lines / std::max(work.operations, 1.0)) + 1;
  return true;
}

int64_t GroupExtent(const Program& wide, const int64_t* extents) {
  for (int32_t d = 0; d < wide.num_iterated; ++d) {
    if (extents[d] == 0) return 0;
  }
  const Pass* heaviest = nullptr;
  double most = 0, elements = 1;  // of a pass, to one coordinate of the group
  for (const Pass& pass : wide.passes) {
    double own = pass.vec < 0 ? 1 : static_cast<double>(extents[pass.vec]);
    for (const int32_t d : pass.rows) own *= static_cast<double>(extents[d]);
    if (pass.shape == Pass::Shape::kOuter) own *= static_cast<double>(extents[pass.over]);
    if (own * static_cast<double>(pass.operations + 1) > most) {
      most = own * static_cast<double>(pass.operations + 1);
      heaviest = &pass;
    }
    elements = std::max(elements, own);
  }
  const Tile tile = TileOf(*heaviest, extents, /*wide=*/true);
  if (!tile.Spans(*heaviest)) return 0;
  if (wide.group < 0) return 1;
  const int64_t all = extents[wide.group];
  const double each = elements / static_cast<double>(all);
  if (each >= static_cast<double>(kGroupElements)) return 1;
  const auto group = static_cast<int64_t>(static_cast<double>(kGroupElements) / each);
  const int64_t block = DimAt(*heaviest, tile.first) == wide.group ? tile.block / tile.inner : 1;
  return std::min(all, std::max(block, group / block * block));
}

}  // namespace kiln::vm
