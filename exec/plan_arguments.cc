// SPDX-License-Identifier: Apache-2.0
#include "exec/plan_arguments.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>
#include <variant>

namespace kiln {
namespace {

using Space = PlacementProblem::Space;

constexpr size_t kBufferWords = sizeof(BufferArg) / sizeof(uint64_t);
static_assert(sizeof(BufferArg) % sizeof(uint64_t) == 0 && alignof(BufferArg) <= sizeof(uint64_t));

// halide_type_code_t and bits.
std::pair<uint8_t, uint8_t> TypeCode(DType type) {
  const auto bits = static_cast<uint8_t>(8 * SizeOf(type));
  if (type == DType::kBF16) return {4, bits};
  if (IsFloat(type)) return {2, bits};
  return {IsSigned(type) ? 0 : 1, bits};
}

// What does not fit belongs to dims of which a piece has one coordinate.
int32_t Clamped(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

}  // namespace

PlanArguments::PlanArguments(const CheckedProgram& program, const PlacementProblem& problem,
                             const Placement& placement,
                             const std::vector<std::shared_ptr<void>>& uploads,
                             ArgumentBlock& block)
    : program_(program),
      problem_(problem),
      placement_(placement),
      uploads_(uploads),
      block_(block) {
  block_.patches.resize(2 + program.inputs.size() + program.outputs.size());
}

void PlanArguments::Fill(PlanLaunch& launch, const Operands& operands, size_t step,
                         const Lane& lane) {
  if (auto* kernel = std::get_if<KernelLaunch>(&launch)) {
    FillKernel(*kernel, operands, lane);
  } else if (auto* library = std::get_if<LibraryLaunch>(&launch)) {
    FillLibrary(*library, operands, step, lane);
  } else if (auto* copy = std::get_if<CopyLaunch>(&launch)) {
    copy->from = block_.Add(2);
    copy->to = copy->from + 1;
    Point(copy->from, operands.inputs[0], lane);
    Point(copy->to, operands.outputs[0], lane);
  } else if (auto* dims = std::get_if<DimsLaunch>(&launch)) {
    dims->to = block_.Add(1);
    Point(dims->to, operands.outputs[0], lane);
  }
}

void PlanArguments::FillCopy(CopyLaunch& launch, const PlacementProblem::Access& from,
                             const PlacementProblem::Access& to) {
  launch.from = block_.Add(2);
  launch.to = launch.from + 1;
  Point(launch.from, from.buffer, from.begin, 0);
  Point(launch.to, to.buffer, to.begin, 0);
}

// The vectors of the launch have their final size before any address in them is taken.
void PlanArguments::FillKernel(KernelLaunch& launch, const Operands& operands, const Lane& lane) {
  std::vector<const ResolvedRef*> refs;
  for (const ResolvedRef& ref : operands.inputs) refs.push_back(&ref);
  for (const ResolvedRef& ref : operands.outputs) refs.push_back(&ref);
  size_t axes = 0;
  for (const ResolvedRef* ref : refs) axes += ref->shape.size();
  launch.dims.resize(axes);
  if (launch.large) launch.large_dims.resize(axes);
  launch.operands = refs.size();
  launch.buffers = block_.Add(refs.size() * kBufferWords);
  size_t at = 0;
  for (size_t i = 0; i < refs.size(); ++i) {
    const ResolvedRef& ref = *refs[i];
    BufferArg buffer;
    std::tie(buffer.type_code, buffer.type_bits) = TypeCode(ref.type);
    buffer.dimensions = static_cast<int32_t>(ref.shape.size());
    buffer.dim = launch.large ? reinterpret_cast<BufferDim*>(launch.large_dims.data() + at)
                              : launch.dims.data() + at;
    for (size_t axis = ref.shape.size(); axis-- > 0; ++at) {  // innermost first
      launch.dims[at] = {0, Clamped(ref.shape[axis]), Clamped(ref.strides[axis]), 0};
      if (launch.large) launch.large_dims[at] = {ref.shape[axis], ref.strides[axis]};
    }
    const Word word = launch.buffers + i * kBufferWords;
    std::memcpy(&block_.words[word], &buffer, sizeof buffer);
    Point(word + offsetof(BufferArg, host) / sizeof(uint64_t), ref, lane);
  }
  for (const int64_t extent : operands.dims) launch.extents.push_back(Clamped(extent));
  if (launch.large) launch.large_extents = operands.dims;
  FillArgv(launch);
}

void PlanArguments::FillArgv(KernelLaunch& launch) {
  const size_t dims = launch.extents.size();
  launch.argv = block_.Add(1 + launch.operands + dims + launch.params.size());
  Word word = launch.argv + 1;
  const auto add_buffers = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      block_.links.push_back({word++, launch.buffers + i * kBufferWords});
  };
  add_buffers(0, launch.inputs);
  for (size_t d = 0; d < dims; ++d) {
    block_.Set(word++, launch.large ? static_cast<const void*>(&launch.large_extents[d])
                                    : &launch.extents[d]);
  }
  for (const uint64_t& param : launch.params) block_.Set(word++, &param);
  add_buffers(launch.inputs, launch.operands);
}

void PlanArguments::FillLibrary(LibraryLaunch& launch, const Operands& operands, size_t step,
                                const Lane& lane) {
  launch.inputs = block_.Add(operands.inputs.size());
  launch.outputs = block_.Add(operands.outputs.size());
  launch.scratch = block_.Add(1);
  for (size_t i = 0; i < operands.inputs.size(); ++i) {
    if (operands.inputs[i].buffer >= 0) Point(launch.inputs + i, operands.inputs[i], lane);
  }
  for (size_t i = 0; i < operands.outputs.size(); ++i)
    Point(launch.outputs + i, operands.outputs[i], lane);
  const int64_t scratch = placement_.scratch_offset[step];
  if (scratch < 0) return;
  const int64_t lane_step = placement_.scratch_step[step];
  block_.patches[0].push_back({launch.scratch, scratch + lane.number * lane_step});
}

void PlanArguments::Point(Word word, const ResolvedRef& ref, const Lane& lane) {
  Point(word, ref.buffer, ref.offset + lane.first * ref.part_bytes, lane.number);
  if (ref.part_bytes != 0) lane.moving->push_back({word, ref.part_bytes});
}

// Empty operands of a launch get an address that they never use.
void PlanArguments::Point(Word word, int32_t buffer, int64_t offset, int64_t lane) {
  const Placement::Place& place = placement_.places[static_cast<size_t>(buffer)];
  const auto root = static_cast<size_t>(place.root);
  const auto index = static_cast<size_t>(program_.buffers[root].index);
  offset += place.offset;
  switch (problem_.buffers[root].space) {
    case Space::kInput:
      block_.patches[1 + index].push_back({word, offset});
      break;
    case Space::kOutput:
      block_.patches[1 + program_.inputs.size() + index].push_back({word, offset});
      break;
    case Space::kConstant: {
      const void* const data = problem_.buffers[root].on_device
                                   ? uploads_[index].get()
                                   : program_.variant->constants[index].data();
      block_.Set(word, static_cast<const uint8_t*>(data) + offset);
      break;
    }
    case Space::kTemporary:
      offset += placement_.arena_offset[root] + lane * placement_.arena_step[root];
      (problem_.buffers[root].on_device ? block_.patches.back() : block_.patches[0])
          .push_back({word, offset});
      break;
  }
}

}  // namespace kiln
