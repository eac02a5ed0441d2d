// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/warp_rows.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "schedule/analysis.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

constexpr int64_t kMostKept = 2;        // speed: operands that are kept whole
constexpr int64_t kMostOfThread = 128;  // speed: registers, for elements of them
constexpr int64_t kMostUnkept = 64;     // compile time: elements of a thread, if none is kept
constexpr int64_t kRowsOfBlock = 8;     // speed: 128 threads, or 256

Decision Accepts(const Kernel& kernel) {
  const Decision rows = AcceptsRows(kernel);
  return rows ? StagesReadInPlace(kernel) : rows;
}

// The passes over a row in which a map or an input is read: one for each reduction, and one for the
// outputs.
class Passes {
 public:
  explicit Passes(const Kernel& kernel)
      : kernel_(kernel), of_stage_(kernel.stages.size()), of_input_(kernel.inputs.size()) {}

  // With the maps in `kept` computed once.
  void Count(const std::vector<bool>& kept) {
    kept_ = kept;
    for (std::set<int>& passes : of_stage_) passes.clear();
    for (std::set<int>& passes : of_input_) passes.clear();
    computed_.assign(kernel_.stages.size(), false);
    int pass = 0;
    for (const Stage& stage : kernel_.stages)
      if (IsReduction(stage)) Read(stage.expr, pass++);
    for (const KernelOutput& output : kernel_.outputs) Read(output.expr, pass);
  }
  size_t OfStage(size_t stage) const { return of_stage_[stage].size(); }
  size_t OfInput(size_t input) const { return of_input_[input].size(); }

 private:
  void Read(const ScalarExpr& expr, int pass) {
    for (const ExprNode& node : expr.nodes()) {
      if (node.op != ScalarOp::kRead) continue;
      const auto ref = static_cast<size_t>(node.ref);
      if (node.source == ReadSource::kInput) {
        of_input_[ref].insert(pass);
      } else if (!IsReduction(kernel_.stages[ref]) && of_stage_[ref].insert(pass).second) {
        if (!kept_[ref] || !computed_[ref]) Read(kernel_.stages[ref].expr, pass);
        computed_[ref] = true;
      }
    }
  }

  const Kernel& kernel_;
  std::vector<bool> kept_, computed_;
  std::vector<std::set<int>> of_stage_, of_input_;
};

// Maps of several passes that cost more than a register, then inputs that are still read again: at
// most `most`.
void Keep(const Kernel& kernel, int64_t most, WarpRows& rows) {
  Passes passes(kernel);
  std::vector<bool> kept(kernel.stages.size(), false);
  passes.Count(kept);
  for (size_t i = kernel.stages.size(); i-- > 0;) {
    const Stage& stage = kernel.stages[i];
    if (IsReduction(stage) || !SpansAll(kernel, stage.dims) || passes.OfStage(i) < 2) continue;
    if (std::count(kept.begin(), kept.end(), true) == most) break;
    kept[i] = true;
    passes.Count(kept);
  }
  rows.stored = Members(kept);
  for (size_t k = 0; k < kernel.inputs.size(); ++k) {
    if (SpansAll(kernel, kernel.inputs[k].dims) && passes.OfInput(k) > 1 &&
        static_cast<int64_t>(rows.stored.size() + rows.inputs.size()) < most)
      rows.inputs.push_back(static_cast<int64_t>(k));
  }
}

std::vector<Schedule> Candidates(const Kernel& kernel, const SizeClass& sizes, const Machine&) {
  const int64_t length = sizes.at_most[static_cast<size_t>(kernel.innermost())];
  std::vector<Schedule> candidates;
  for (const int64_t threads : {kWarp / 2, kWarp}) {
    WarpRows rows;
    rows.threads = threads;
    rows.rows = kRowsOfBlock;
    rows.levels = length <= kReduceBlock ? 1 : 2;
    if (length <= kReduceBlock * kReduceBlock) candidates.emplace_back(kWarpRows, rows);
    rows.steps = 1;
    const int64_t of_step = kReduceLanes / threads;
    while (rows.steps * of_step <= kMostOfThread && kReduceLanes * rows.steps < length)
      rows.steps *= 2;
    const int64_t most = std::min(kMostKept, kMostOfThread / (rows.steps * of_step));
    if (most == 0) continue;
    Keep(kernel, most, rows);
    const bool keeps = !rows.stored.empty() || !rows.inputs.empty();
    if (!keeps && rows.steps * of_step > kMostUnkept) continue;
    if (rows.steps * of_step > kMostUnkept) rows.rows = kBlockThreads / threads;
    candidates.emplace_back(kWarpRows, rows);
  }
  return candidates;
}

}  // namespace

absl::Status WarpRows::CheckFor(const Kernel& kernel) const {
  const auto wrong = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("warp_rows: ", what));
  };
  if (threads != kWarp / 2 && threads != kWarp) return wrong("threads are 16 or 32");
  if (threads * rows > kThreadsRange.most) return wrong("a block has more than 1024 threads");
  if (steps == 0 && (!stored.empty() || !inputs.empty()))
    return wrong("rows of any length are kept in no registers");
  for (const int64_t stage : stored) {
    if (stage >= static_cast<int64_t>(kernel.stages.size()) ||
        IsReduction(kernel.stages[static_cast<size_t>(stage)]) ||
        !SpansAll(kernel, kernel.stages[static_cast<size_t>(stage)].dims))
      return wrong("what is stored are maps over all dims");
  }
  for (const int64_t input : inputs) {
    if (input >= static_cast<int64_t>(kernel.inputs.size()) ||
        !SpansAll(kernel, kernel.inputs[static_cast<size_t>(input)].dims))
      return wrong("inputs that are kept are over all dims");
  }
  return absl::OkStatus();
}

const Template kWarpRows = {"warp_rows", "reductions over the innermost dim, a row in a warp",
                            Accepts, Candidates, Make<WarpRows>};

}  // namespace kiln
