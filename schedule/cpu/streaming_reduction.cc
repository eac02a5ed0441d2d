// SPDX-License-Identifier: Apache-2.0
// "sweep": reductions over dims that lie before the innermost, and reductions of what those leave;
// with maps before, between and after. Group norm with channels last is such:
//
//   s0 : f32 [b, c] = reduce add over a (in0[a, b, c])    every channel c of every group b
//   s1 : f32 [b]    = reduce add over c (s0[b, c])        every group
//   out 0 [a, b, c] = sub(in0[a, b, c], s1[b])
//
// Each is a sweep over whole rows, in which the dims that no sweep reduces run as one ("flat"):
// here vectors run over all channels, however few a group has. What the first sweeps leave is
// small, so that it costs nothing to keep it and whatever is made of it. Loop nests are those of
// "general".
#include <algorithm>
#include <set>

#include "schedule/analysis.h"
#include "schedule/cpu/schedulers.h"
#include "schedule/cpu/staged.h"

namespace kiln {
namespace {

bool IsReduction(const Stage& stage) { return stage.kind == Stage::Kind::kReduce; }

// True if the reduction goes over all that its kernel iterates.
bool Sweeps(const Kernel& kernel, const Stage& stage) {
  return IsReduction(stage) &&
         static_cast<int>(stage.dims.size() + stage.over.size()) == kernel.num_iterated();
}

// The dims behind the last that a sweep reduces: those that run as one.
int64_t FlatDims(const Kernel& kernel) {
  int32_t last = -1;
  for (const Stage& stage : kernel.stages) {
    if (Sweeps(kernel, stage)) last = std::max(last, stage.over.back());
  }
  return kernel.innermost() - last;
}

// The dims that some sweep reduces.
std::set<int32_t> SweptDims(const Kernel& kernel) {
  std::set<int32_t> swept;
  for (const Stage& stage : kernel.stages) {
    if (Sweeps(kernel, stage)) swept.insert(stage.over.begin(), stage.over.end());
  }
  return swept;
}

bool OverAny(const std::set<int32_t>& dims, const std::vector<int32_t>& of) {
  return std::any_of(of.begin(), of.end(), [&](int32_t dim) { return dims.count(dim) != 0; });
}

Decision Accepts(const Kernel& kernel) {
  const std::set<int32_t> swept = SweptDims(kernel);
  if (swept.empty()) return Decision::No("no reduction goes over all dims");
  if (FlatDims(kernel) < 1) return Decision::No("a reduction over all dims takes the innermost");
  for (const Stage& stage : kernel.stages) {
    if (!IsReduction(stage) || Sweeps(kernel, stage)) continue;
    if (OverAny(swept, stage.dims) || OverAny(swept, stage.over))
      return Decision::No("a reduction is neither over all dims nor of what such a one leaves");
  }
  for (const KernelOutput& output : kernel.outputs) {
    const bool in_order = std::is_sorted(output.dims.begin(), output.dims.end());
    const bool part = !SpansAll(kernel, output.dims);
    if (output.layout != Layout::kDense || !in_order || (part && OverAny(swept, output.dims)))
      return Decision::No("an output is not dense over all dims, or over those kept, in order");
  }
  return StagesReadInPlace(kernel);
}

Schedule Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  Staged staged = kGeneralScheduler.choose(kernel, sizes, machine).As<Staged>();
  staged.collapsed = FlatDims(kernel);
  std::vector<bool> kept = MapsToKeep(kernel, {.shared_cost = 12});
  const std::set<int32_t> swept = SweptDims(kernel);
  for (size_t i = 0; i < kept.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    if (!IsReduction(stage) && !OverAny(swept, stage.dims)) kept[i] = true;
  }
  staged.stored = Members(kept);
  return {kStaged, std::move(staged)};
}

std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  return kGeneralScheduler.classes(kernel, known);
}

}  // namespace

const Scheduler kSweepScheduler = {
    .name = "sweep",
    .doc = "reductions over outer dims and reductions of what they leave, a sweep for each",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
