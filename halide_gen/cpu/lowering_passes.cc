// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/lowering_passes.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/cpu/aligned_stores.h"
#include "halide_gen/cpu/forwarded_loads.h"
#include "halide_gen/cpu/loop_invariants.h"
#include "halide_gen/cpu/mask_shuffles.h"
#include "halide_gen/cpu/narrow_stores.h"
#include "halide_gen/cpu/prefetch.h"
#include "halide_gen/cpu/register_transpose.h"
#include "halide_gen/cpu/remainder_loops.h"
#include "halide_gen/cpu/slow_paths.h"
#include "halide_gen/cpu/strided_loads.h"
#include "halide_gen/cpu/uniform_branches.h"
#include "halide_gen/cpu/unmasked_loops.h"
#include "halide_gen/cpu/unswitch_masks.h"

namespace kiln {
namespace {

using Halide::Internal::IRMutator;
using Halide::Internal::Stmt;

// Whether reductions are over other dims than the innermost only.
bool KeepsInnermost(const Kernel& kernel) {
  return std::none_of(kernel.stages.begin(), kernel.stages.end(), [&](const Stage& stage) {
    return stage.kind == Stage::Kind::kReduce && stage.over.back() == kernel.innermost();
  });
}

// Inputs with an element for each point of the iteration space; others stay in the cache, and so
// do rows that are reduced along the other dims right after they have been read ("cross"). Down a
// column the processor follows the lines by itself, and does not ask for those behind its end.
std::set<std::string> StreamedInputs(const LoweringInput& in) {
  std::set<std::string> names;
  if (in.schedule.Is(kRowAndColumn) ||
      (in.schedule.Is(kOuterReduction) && KeepsInnermost(in.kernel)))
    return names;
  for (size_t i = 0; i < in.kernel.inputs.size(); ++i) {
    if (in.kernel.inputs[i].dims.size() >= static_cast<size_t>(in.kernel.num_iterated()))
      names.insert(in.operands.inputs[i].name());
  }
  return names;
}

std::set<std::string> OutputBuffers(const std::vector<OutputNest>& nests) {
  std::set<std::string> names;
  for (const OutputNest& nest : nests) {
    for (const Halide::OutputImageParam& buffer : nest.func.output_buffers())
      names.insert(buffer.name());
  }
  return names;
}

// Lanes that LLVM takes well in one piece: a few registers, which hide what each waits for, of
// packed blocks; one of conditions where there are no registers for masks.
int MostLanesOfStores(const LoweringInput& in) {
  constexpr int kPackedLanes = 64;  // speed
  if (in.schedule.Is(kPackedBlocks)) return kPackedLanes;
  return HasMaskRegisters(in.lanes) ? static_cast<int>(kMostLanes) : in.lanes;
}

template <typename Pass>
std::unique_ptr<IRMutator> Plain(const LoweringInput&) {
  return std::make_unique<Pass>();
}

constexpr LoweringPass kPasses[] = {
    {"opaque_loads", "loads of scalars, hidden from bounds inference, are loads again", true,
     nullptr, Plain<OpaqueLoads>},
    {"prefetch", "loops that read or write memory wait for lines", false, nullptr,
     [](const LoweringInput& in) -> std::unique_ptr<IRMutator> {
       return std::make_unique<Prefetching>(StreamedInputs(in), OutputBuffers(in.nests));
     }},
    {"uniform_branches", "both arms of a select that all lanes decide alike are gathered", false,
     nullptr, Plain<UniformBranches>},
    {"loop_invariants", "LLVM leaves loads and divisions that a loop does not change inside it",
     false, nullptr, Plain<LoopInvariants>},
    {"register_transpose", "LLVM takes thrice the shuffles to transpose a tile", false, nullptr,
     Plain<RegisterTranspose>},
    {"forwarded_loads", "a load across two stored vectors is not forwarded", false, nullptr,
     Plain<ForwardedLoads>},
    {"unswitch_masks", "on AVX2 all tiles of a row pay for the mask of its last", false, nullptr,
     [](const LoweringInput& in) -> std::unique_ptr<IRMutator> {
       return std::make_unique<UnswitchMasks>(!HasMaskRegisters(in.lanes));
     }},
    // Nests of rows and columns lack registers as it is: branches between loads cost them 3 %.
    {"unmasked_loops", "all steps of a loop pay for the mask of its last", false,
     [](const Schedule& schedule) { return !schedule.Is(kRowAndColumn); }, Plain<UnmaskedLoops>},
    {"strided_loads", "masked loads with a stride are made lane by lane", false, nullptr,
     Plain<StridedLoads>},
    {"narrow_stores", "LLVM splits vectors of three registers, and conditions on AVX2, badly",
     false, nullptr,
     [](const LoweringInput& in) -> std::unique_ptr<IRMutator> {
       return std::make_unique<NarrowStores>(MostLanesOfStores(in), in.schedule.Is(kPackedBlocks));
     }},
    {"remainder_loops", "the tail of a row is as much code as its steps, which compiling pays for",
     false, nullptr,
     [](const LoweringInput& in) -> std::unique_ptr<IRMutator> {
       return std::make_unique<RemainderLoops>(in.lanes);
     }},
    {"slow_paths", "what few operands take is computed for all", false, nullptr, Plain<SlowPaths>},
    // What sums are added to is read right after it was cleared.
    {"aligned_stores", "no store may bypass the caches (non_temporal.h)", false,
     [](const Schedule& schedule) { return !schedule.Is(kScatter); },
     [](const LoweringInput& in) -> std::unique_ptr<IRMutator> {
       return std::make_unique<AlignedStores>(in.kernel, in.schedule, in.operands, in.nests);
     }},
    {"mask_shuffles", "LLVM repeats two or four bits of a mask wrongly", true, nullptr,
     Plain<MaskShuffles>},
};

// Runs a pass and writes what it leaves.
class Traced : public IRMutator {
 public:
  // `title` begins the line before the statement: "// after prefetch".
  Traced(std::string title, std::unique_ptr<IRMutator> pass, std::string* trace)
      : title_(std::move(title)), pass_(std::move(pass)), trace_(trace) {}
  using IRMutator::mutate;
  Stmt mutate(const Stmt& stmt) override {
    if (pass_ == nullptr) {
      absl::StrAppend(trace_, title_, "\n", Text(stmt));
      return stmt;
    }
    Stmt after = pass_->mutate(stmt);
    const std::string text = Text(after);
    absl::StrAppend(trace_, title_, text == Text(stmt) ? ": no change\n" : "\n" + text);
    return after;
  }

 private:
  static std::string Text(const Stmt& stmt) {
    std::ostringstream text;
    text << stmt;
    return std::move(text).str();
  }

  const std::string title_;
  const std::unique_ptr<IRMutator> pass_;
  std::string* const trace_;
};

}  // namespace

std::span<const LoweringPass> AllLoweringPasses() { return kPasses; }

void AddLoweringPasses(const LoweringInput& input, const std::vector<std::string>& without,
                       std::string* trace, Halide::Pipeline& pipeline) {
  if (trace != nullptr)
    pipeline.add_custom_lowering_pass(new Traced("// before the first", nullptr, trace));
  for (const LoweringPass& pass : AllLoweringPasses()) {
    if (pass.suits != nullptr && !pass.suits(input.schedule)) continue;
    if (!pass.needed && std::find(without.begin(), without.end(), pass.name) != without.end())
      continue;
    std::unique_ptr<IRMutator> made = pass.make(input);
    if (trace != nullptr) {
      made = std::make_unique<Traced>(
          absl::StrCat("// after ", pass.name, pass.needed ? " (needed)" : ""), std::move(made),
          trace);
    }
    pipeline.add_custom_lowering_pass(made.release());
  }
}

}  // namespace kiln
