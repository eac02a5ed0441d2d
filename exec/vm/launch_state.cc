// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/vm/launch_state.h"

#include <new>

namespace kiln::vm {
namespace {

constexpr int64_t kMaxTempBytes = int64_t{1} << 46;

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

Place InputAxis(const BufferArg& buffer, size_t axis) {
  const BufferDim& dim = buffer.dim[static_cast<size_t>(buffer.dimensions) - 1 - axis];
  return {dim.extent, dim.stride};
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

// A guarded read checks every axis, so all of its axes are kept apart.
AxisState* BindRead(const Program& program, const Read& read, void** inputs, const Launch& launch,
                    AxisState* axes, ReadState& state) {
  state.axes = axes;
  state.only_linear = read.axes.empty();
  size_t special = 0;
  const std::vector<int32_t>* stage_dims = nullptr;
  if (read.source == ReadSource::kInput) {
    state.base = static_cast<const BufferArg*>(inputs[read.ref])->host;
  } else {
    state.temp_offset = launch.temps[read.ref].offset;
    stage_dims = &program.temps[static_cast<size_t>(read.ref)].stage_dims;
  }
  for (size_t k = 0; k < read.linear.size(); ++k) {
    const Place place =
        stage_dims == nullptr
            ? InputAxis(*static_cast<const BufferArg*>(inputs[read.ref]), k)
            : TempAxis(program, launch, program.temps[static_cast<size_t>(read.ref)],
                       (*stage_dims)[k]);
    const bool is_special =
        special < read.axes.size() && read.axes[special].axis == static_cast<int32_t>(k);
    const bool fixed = stage_dims != nullptr && (*stage_dims)[k] < program.prefix;
    if (is_special) {
      *axes++ = BindAxis(read.axes[special].index, read.axes[special].load, place, launch.extents);
      ++special;
    } else if (read.guarded && !fixed) {
      *axes++ = BindAxis(read.linear[k], 0, place, launch.extents);
    } else {
      AddIndex(read.linear[k], launch.extents, place.stride, state.linear);
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

}  // namespace

size_t LaunchBytes(const Program& program) {
  return program.reads.size() * sizeof(ReadState) + MaxAxes(program) * sizeof(AxisState) +
         program.temps.size() * sizeof(TempState) + program.kernel.outputs.size() * sizeof(Linear) +
         program.kernel.dims.size() * sizeof(int64_t);
}

bool BindLaunch(const Program& program, void** argv, void* memory, Launch& launch) {
  const Kernel& kernel = program.kernel;
  launch.program = &program;
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
  launch.stores = reinterpret_cast<Linear*>(launch.temps + num_temps);
  launch.extents = reinterpret_cast<int64_t*>(launch.stores + kernel.outputs.size());
  for (size_t d = 0; d < kernel.dims.size(); ++d)
    launch.extents[d] = *static_cast<const int32_t*>(dims[d]);
  for (size_t i = 0; i < num_reads; ++i) new (&launch.reads[i]) ReadState;
  for (size_t i = 0; i < num_temps; ++i) new (&launch.temps[i]) TempState;
  if (!BindTemps(program, launch)) return false;
  for (size_t i = 0; i < num_reads; ++i)
    axes = BindRead(program, program.reads[i], inputs, launch, axes, launch.reads[i]);
  for (size_t o = 0; o < kernel.outputs.size(); ++o) {
    Linear& store = *new (&launch.stores[o]) Linear;
    const std::vector<int32_t>& out_dims = kernel.outputs[o].dims;
    for (size_t k = 0; k < out_dims.size(); ++k)
      store.step[out_dims[k]] = InputAxis(*launch.outputs[o], k).stride;
  }
  return true;
}

}  // namespace kiln::vm
