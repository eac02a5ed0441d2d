// SPDX-License-Identifier: Apache-2.0
#include "exec/batch_tiling.h"

#include <algorithm>

#include "exec/library/post_ops.h"
#include "exec/support/caches.h"
#include "exec/support/device.h"
#include "exec/support/subdomains.h"

namespace kiln {
namespace {

// What a step may walk without anything leaving the caches before the next one reads it.
constexpr int64_t kKept = kL3ShareBytes;
// To start a step once more takes as long as to fetch so much.
constexpr int64_t kStart = int64_t{32} << 10;  // speed

// From the first coordinate of the first axis to beyond the last.
int64_t AllBytes(const ResolvedRef& ref) {
  return ref.shape[0] * ref.strides[0] * static_cast<int64_t>(SizeOf(ref.type));
}

// Parts along the first axis are parts of the buffer.
bool HasParts(const ResolvedRef& ref, int64_t parts, int64_t buffer_bytes) {
  if (ref.shape.empty() || ref.shape[0] != parts || ref.offset != 0 || ref.elements == 0)
    return false;
  if (AllBytes(ref) != buffer_bytes) return false;
  int64_t span = 1;
  for (size_t i = 1; i < ref.shape.size(); ++i) {
    if (ref.strides[i] < 0) return false;
    span += (ref.shape[i] - 1) * ref.strides[i];
  }
  return ref.strides[0] >= span;
}

void MarkLibrary(const CheckedThunk& thunk, const Operands& operands, Cut& cut) {
  if (!thunk.op->by_images || operands.inputs.empty() || operands.outputs.empty() ||
      operands.outputs[0].shape.empty())
    return;
  cut.parts = operands.outputs[0].shape[0];
  cut.images = true;
  cut.cut[0] = true;
  // Of the operands of post-ops those that are not broadcast along the images.
  const size_t count = library::CountOperands(thunk.post_ops);
  size_t operand = operands.inputs.size() - std::min(count, operands.inputs.size() - 1);
  for (; operand < operands.inputs.size(); ++operand) {
    const std::vector<int64_t>& shape = operands.inputs[operand].shape;
    cut.cut[operand] = !shape.empty() && shape[0] == cut.parts;
  }
}

void MarkKernel(const Kernel& kernel, const Operands& operands, Cut& cut) {
  if (operands.dims.empty() || CuttableDims(kernel) == 0) return;
  cut.parts = operands.dims[0];
  for (size_t i = 0; i < kernel.inputs.size(); ++i)
    cut.cut[i] = !kernel.inputs[i].dims.empty() && kernel.inputs[i].dims[0] == 0;
}

// `buffers`: of the program.
Cut CutOf(const CheckedProgram& program, const CheckedThunk& thunk, const Operands& operands,
          const std::vector<PlacementProblem::Buffer>& buffers) {
  const size_t inputs = operands.inputs.size();
  Cut cut;
  cut.cut.assign(inputs + operands.outputs.size(), false);
  std::fill(cut.cut.begin() + static_cast<ptrdiff_t>(inputs), cut.cut.end(), true);
  if (!OnHost(thunk.device)) return cut;  // the caches are the host's
  if (thunk.kind == CheckedThunk::Kind::kLibrary) MarkLibrary(thunk, operands, cut);
  if (thunk.kind == CheckedThunk::Kind::kKernel)
    MarkKernel(program.kernels[static_cast<size_t>(thunk.kernel)], operands, cut);
  const auto placed = [&](int32_t buffer) {
    return std::any_of(
        program.sub_ranges.begin(), program.sub_ranges.end(),
        [&](const CheckedSubRange& r) { return r.buffer == buffer || r.of == buffer; });
  };
  for (size_t i = 0; i < cut.cut.size() && cut.parts > 0; ++i) {
    const ResolvedRef& ref = i < inputs ? operands.inputs[i] : operands.outputs[i - inputs];
    if (ref.buffer < 0) continue;
    const CheckedBuffer& buffer = program.buffers[static_cast<size_t>(ref.buffer)];
    const int64_t bytes = buffers[static_cast<size_t>(ref.buffer)].bytes;
    const bool constant = buffer.kind == program::Buffer::CONSTANT;
    const bool fits = cut.cut[i]
                          ? !constant && !placed(ref.buffer) && HasParts(ref, cut.parts, bytes)
                          : constant || buffer.kind == program::Buffer::INPUT;
    if (!fits) cut.parts = 0;
    (cut.cut[i] ? cut.cut_bytes : cut.shared_bytes) += ref.bytes();
  }
  return cut;
}

// The steps [begin, end) in `parts` parts: bytes that are fetched less.
int64_t Gain(const Cut& step, int64_t parts) {
  const int64_t saved = step.cut_bytes > kKept ? step.cut_bytes : 0;
  return saved - (parts - 1) * (step.shared_bytes + kStart);
}

// The neighbours among [begin, end) that gain most together.
BatchTiling Best(const std::vector<Cut>& steps, size_t begin, size_t end, int64_t parts) {
  BatchTiling best{begin, begin};
  int64_t most = 0, sum = 0;
  size_t from = begin;
  for (size_t t = begin; t < end; ++t) {
    sum += Gain(steps[t], parts);
    if (sum > most) {
      most = sum;
      best = {from, t + 1};
    }
    if (sum < 0) {
      sum = 0;
      from = t + 1;
    }
  }
  return best;
}

// No more parts than fill the lanes and keep in the caches what lanes walk at once.
void ChooseParts(const std::vector<Cut>& steps, int64_t images, int64_t threads,
                 BatchTiling& tiling) {
  int64_t most = 0;
  for (size_t t = tiling.begin; t < tiling.end; ++t) most = std::max(most, steps[t].cut_bytes);
  const bool in_lanes = LanesFor(images, threads) > 1;
  const auto fits = [&](int64_t parts) {
    const int64_t lanes = LanesFor(parts, threads);
    return images % parts == 0 && most / parts * lanes <= kKept && (lanes > 1 || !in_lanes);
  };
  while (tiling.parts < images && !fits(tiling.parts)) ++tiling.parts;
  tiling.lanes = LanesFor(tiling.parts, threads);
}

}  // namespace

int64_t LanesFor(int64_t parts, int64_t threads) {
  const int64_t busy = (parts + threads - 1) / threads * threads;
  return busy - parts <= busy / 8 ? std::min(parts, threads) : 1;
}

std::vector<BatchTiling> ChooseBatchTilings(const std::vector<Cut>& steps, int threads) {
  std::vector<BatchTiling> tilings;
  for (size_t begin = 0; begin < steps.size();) {
    int64_t images = 0;  // of the steps from `begin` on
    size_t end = begin;
    for (; end < steps.size() && steps[end].parts > 0; ++end) {
      const Cut& step = steps[end];
      if (step.images && images == 0) images = step.parts;
      if (step.images ? step.parts != images : images != 0 && step.parts % images != 0) break;
    }
    if (images > 1) {
      // Kernels ahead of the first images may not fit them.
      for (size_t t = begin; t < end; ++t) begin = steps[t].parts % images == 0 ? begin : t + 1;
      BatchTiling tiling = Best(steps, begin, end, images);
      ChooseParts(steps, images, threads, tiling);
      if (tiling.end - tiling.begin > 1 && tiling.parts > 1) tilings.push_back(tiling);
    }
    begin = std::max(end, begin + 1);
  }
  return tilings;
}

namespace {

// The operand's first part alone. Returns the bytes from a part to the next.
int64_t TakePart(ResolvedRef& ref, int64_t parts) {
  const int64_t part = AllBytes(ref) / parts;
  ref.shape[0] /= parts;
  ref.elements /= parts;
  ref.end -= (parts - 1) * part;
  return part;
}

// Temporaries that only steps of the tiling touch.
std::vector<bool> BuffersWithin(const BatchTiling& tiling, const PlacementProblem& problem) {
  std::vector<bool> within(problem.buffers.size());
  const auto mark = [&](size_t t, bool value) {
    for (const auto* accesses : {&problem.steps[t].reads, &problem.steps[t].writes}) {
      for (const PlacementProblem::Access& a : *accesses) {
        const auto b = static_cast<size_t>(a.buffer);
        within[b] = value && problem.buffers[b].space == PlacementProblem::Space::kTemporary;
      }
    }
  };
  for (size_t t = tiling.begin; t < tiling.end; ++t) mark(t, true);
  for (size_t t = 0; t < problem.steps.size(); ++t) {
    if (t < tiling.begin || t >= tiling.end) mark(t, false);
  }
  return within;
}

// What lies within a tiling is its current part; of what lies outside all parts are touched.
void CutOperands(const Cut& cut, int64_t parts, const std::vector<bool>& within, Operands& operands,
                 PlacementProblem::Step& step) {
  const size_t inputs = operands.inputs.size();
  size_t read = 0;
  for (size_t i = 0; i < cut.cut.size(); ++i) {
    ResolvedRef& ref = i < inputs ? operands.inputs[i] : operands.outputs[i - inputs];
    if (ref.buffer < 0) continue;
    PlacementProblem::Access& access = i < inputs ? step.reads[read++] : step.writes[i - inputs];
    if (!cut.cut[i]) continue;
    const int64_t part = TakePart(ref, parts);
    if (within[static_cast<size_t>(ref.buffer)]) {
      access = AccessOf(ref);
    } else {
      ref.part_bytes = part;
    }
  }
}

}  // namespace

std::vector<BatchTiling> TileBatch(const CheckedProgram& program, int threads,
                                   std::vector<Operands>& operands, PlacementProblem& problem) {
  std::vector<Cut> cuts;
  for (size_t t = 0; t < operands.size(); ++t)
    cuts.push_back(CutOf(program, program.thunks[t], operands[t], problem.buffers));
  std::vector<BatchTiling> tilings = ChooseBatchTilings(cuts, threads);
  for (const BatchTiling& tiling : tilings) {
    problem.repeats.push_back({tiling.begin, tiling.end, tiling.lanes});
    const std::vector<bool> within = BuffersWithin(tiling, problem);
    for (size_t b = 0; b < within.size(); ++b)
      problem.buffers[b].bytes /= within[b] ? tiling.parts : 1;
    for (size_t t = tiling.begin; t < tiling.end; ++t) {
      if (program.thunks[t].kind == CheckedThunk::Kind::kKernel)
        operands[t].dims[0] /= tiling.parts;
      CutOperands(cuts[t], tiling.parts, within, operands[t], problem.steps[t]);
    }
  }
  return tilings;
}

}  // namespace kiln
