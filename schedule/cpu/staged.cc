// SPDX-License-Identifier: Apache-2.0
// Whatever the grammar can say: each reduction, and each map worth storing, is a loop nest of its
// own that stores all its values; so is each output.
//
// Where reductions go over dims before the innermost, and others over what those leave, the dims
// that no reduction over all takes may be collapsed. Group norm with channels last is such:
//
//   s0 : f32 [b, c] = reduce add over a (in0[a, b, c])    every channel c of every group b
//   s1 : f32 [b]    = reduce add over c (s0[b, c])        every group
//   out 0 [a, b, c] = sub(in0[a, b, c], s1[b])
//
// Here vectors run over all channels, however few a group has. What the first reductions leave is
// small, so that it costs nothing to store it and whatever is made of it.
#include "schedule/cpu/staged.h"

#include <algorithm>
#include <set>

#include "schedule/analysis.h"
#include "schedule/cpu/elementwise.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

Decision Accepts(const Kernel&) { return Decision::Yes(); }

// True if the reduction goes over all that its kernel iterates.
bool ReadsAll(const Kernel& kernel, const Stage& stage) {
  return IsReduction(stage) &&
         static_cast<int>(stage.dims.size() + stage.over.size()) == kernel.num_iterated();
}

// The dims that some reduction over all takes.
std::set<int32_t> ReducedFirst(const Kernel& kernel) {
  std::set<int32_t> reduced;
  for (const Stage& stage : kernel.stages)
    if (ReadsAll(kernel, stage)) reduced.insert(stage.over.begin(), stage.over.end());
  return reduced;
}

bool OverAny(const std::set<int32_t>& dims, const std::vector<int32_t>& of) {
  return std::any_of(of.begin(), of.end(), [&](int32_t dim) { return dims.count(dim) != 0; });
}

}  // namespace

Decision AcceptsStreams(const Kernel& kernel) {
  const std::set<int32_t> reduced = ReducedFirst(kernel);
  if (reduced.empty()) return Decision::No("no reduction goes over all dims");
  if (*reduced.rbegin() == kernel.innermost())
    return Decision::No("a reduction over all dims takes the innermost");
  for (const Stage& stage : kernel.stages) {
    if (!IsReduction(stage) || ReadsAll(kernel, stage)) continue;
    if (OverAny(reduced, stage.dims) || OverAny(reduced, stage.over))
      return Decision::No("a reduction is neither over all dims nor of what such a one leaves");
  }
  for (const KernelOutput& output : kernel.outputs) {
    const bool in_order = std::is_sorted(output.dims.begin(), output.dims.end());
    const bool part = !SpansAll(kernel, output.dims);
    if (output.layout != Layout::kDense || !in_order || (part && OverAny(reduced, output.dims)))
      return Decision::No("an output is not dense over all dims, or over those kept, in order");
  }
  return StagesReadInPlace(kernel);
}

namespace {

std::vector<bool> MapsToStore(const Kernel& kernel, bool streams) {
  std::vector<bool> kept =
      MapsToMaterialise(kernel, {.reindexed = !streams, .shared_cost = kWorthMaterialising});
  for (size_t i = 0; i < kept.size(); ++i) {
    // What rows or columns have one of is small.
    const Stage& stage = kernel.stages[i];
    if (!IsReduction(stage) && !SpansAll(kernel, stage.dims) && Cost(stage.expr) >= kLeastOfRow)
      kept[i] = true;
  }
  if (!streams) return kept;
  const std::set<int32_t> reduced = ReducedFirst(kernel);
  for (size_t i = 0; i < kept.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    if (!IsReduction(stage) && !OverAny(reduced, stage.dims)) kept[i] = true;
  }
  return kept;
}

struct Longest {
  int64_t inner = 0;  // greatest extent reduced by the rule of the innermost dim
  int64_t outer = 0;  // and by that of all others
};

Longest LongestReductions(const Kernel& kernel, const SizeClass& sizes) {
  Longest longest;
  for (const Stage& stage : kernel.stages) {
    for (const int32_t dim : stage.over) {
      int64_t& extent = dim == kernel.innermost() ? longest.inner : longest.outer;
      extent = std::max(extent, sizes.at_most[static_cast<size_t>(dim)]);
    }
  }
  return longest;
}

// True if the innermost dim is reduced along with others only, of elements of whole rows: then the
// rows of all outer dims are reduced as one, by vectors across them.
bool ReducesRowsFirst(const Kernel& kernel) {
  if (!ReadsWholeRows(kernel)) return false;
  const auto reads_inputs = [&](const ScalarExpr& expr) {
    return std::none_of(expr.nodes().begin(), expr.nodes().end(), [](const ExprNode& node) {
      return node.op == ScalarOp::kRead && node.source == ReadSource::kStage;
    });
  };
  return std::all_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
    if (stage.kind == Stage::Kind::kMap || stage.over.back() != kernel.innermost()) return true;
    return stage.over.size() > 1 && ReadsAll(kernel, stage) && reads_inputs(stage.expr);
  });
}

class Offers {
 public:
  Offers(const Kernel& kernel, const SizeClass& sizes, const Machine& machine)
      : kernel_(kernel), machine_(machine), longest_(LongestReductions(kernel, sizes)) {
    // Extents are 32-bit numbers, so that the unbounded class needs 3 and 7 levels.
    const auto levels = [](int64_t extent, int64_t block) {
      return LevelsFor(std::min<int64_t>(extent, INT32_MAX), block);
    };
    staged_.task = GrainFor(kernel, machine);
    staged_.step = LanesFor(kernel, machine, 2);
    staged_.outer_step = LanesFor(kernel, machine, kMostVectors);
    staged_.levels = levels(longest_.inner, kReduceBlock);
    staged_.outer_levels = levels(longest_.outer, kOuterReduceBlock);
    if (longest_.inner > 0) staged_.accumulators = AccumulatorsFor(longest_.inner);
    const bool streams = static_cast<bool>(AcceptsStreams(kernel));
    if (streams) staged_.collapsed = kernel.innermost() - *ReducedFirst(kernel).rbegin();
    staged_.stored = Members(MapsToStore(kernel, streams));
  }

  std::vector<Schedule> Run() && {
    AddInner();
    return std::move(offers_);
  }

 private:
  static constexpr int64_t kMostStrided = 8;  // speed: a row is that many loads of a vector

  // The ways to reduce the innermost dim.
  void AddInner() {
    AddOuter();
    if (longest_.inner == 0 || longest_.inner > kShortRow || !ReducesRowsFirst(kernel_)) return;
    Staged plain = staged_;
    staged_.inner_first = true;
    staged_.folded = kMostFolded;
    AddOuter();
    if (longest_.inner <= kMostStrided) {
      staged_.folded = 0;
      staged_.strided = longest_.inner;
      staged_.accumulators = kReduceLanes;
      staged_.step = machine_.vector_bytes / 4;
      AddOuter();
    }
    staged_ = plain;
  }

  // And others: tiles of sums in the nearest cache, or in registers.
  void AddOuter() {
    staged_.one_vector = false;
    staged_.outer_step = LanesFor(kernel_, machine_, kMostVectors);
    offers_.emplace_back(kStaged, staged_);
    if (longest_.outer == 0) return;
    staged_.one_vector = true;
    const int64_t together = LargestPass(kernel_, AsFlags(staged_.stored, kernel_.stages.size()));
    for (const int64_t vectors : {8, 4, 2, 1}) {  // compile time: candidates
      if (vectors > 1 && 2 * vectors * together > machine_.registers) continue;
      staged_.outer_step = LanesFor(kernel_, machine_, vectors);
      if (staged_.outer_step <= kMostLanes) offers_.emplace_back(kStaged, staged_);
    }
  }

  const Kernel& kernel_;
  const Machine& machine_;
  const Longest longest_;
  Staged staged_;
  std::vector<Schedule> offers_;
};

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes,
                                 const Machine& machine) {
  if (AcceptsElementwise(kernel)) return {};  // pointwise has the same loops
  return Offers(kernel, sizes, machine).Run();
}

}  // namespace

const Template kStaged = {"staged", "everything else: a loop nest per stage", Accepts, Candidates,
                          Make<Staged>};

}  // namespace kiln
