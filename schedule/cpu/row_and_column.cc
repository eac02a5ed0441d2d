// SPDX-License-Identifier: Apache-2.0
// "cross": rows, and reductions down the same rows that none of them needs; layer norm backward is
// such (schedule/cpu/row_column_parts.h).
//
// Rows are what "row" makes of them, in blocks of as many as a reduction over an outer dim combines
// in order. Each block is reduced right after its rows ("together"), while what it reads is in the
// cache. What is left of the blocks is reduced as in "general". Short rows are made in other ways,
// apart from the reductions.
#include <algorithm>

#include "schedule/analysis.h"
#include "schedule/cpu/row_column_parts.h"
#include "schedule/cpu/schedulers.h"

namespace kiln {
namespace {

bool IsReduction(const Stage& stage) { return stage.kind == Stage::Kind::kReduce; }

// No if `columns` has reductions but those over the outer dim of what is there before any.
Decision ReducesOnlyDown(const Kernel& columns) {
  std::vector<bool> reduced;  // stages that need a reduction
  for (const Stage& stage : columns.stages) {
    const bool after = std::any_of(
        stage.expr.nodes().begin(), stage.expr.nodes().end(), [&](const ExprNode& node) {
          return node.op == ScalarOp::kRead && node.source == ReadSource::kStage &&
                 reduced[static_cast<size_t>(node.ref)];
        });
    if (IsReduction(stage) && (after || stage.over != std::vector<int32_t>{0}))
      return Decision::No("what is no row needs other reductions than over the outer dim");
    reduced.push_back(after || IsReduction(stage));
  }
  return Decision::Yes();
}

Decision Accepts(const Kernel& kernel) {
  if (kernel.num_iterated() != 2) return Decision::No("it is not over two dims");
  if (const Decision in_place = StagesReadInPlace(kernel); !in_place) return in_place;
  const Halves halves = HalvesOf(kernel);
  if (halves.rows.outputs.empty()) return Decision::No("no output is over all dims");
  if (halves.columns.outputs.empty()) return Decision::No("all outputs are over all dims");
  for (const KernelOutput& output : halves.columns.kernel.outputs) {
    if (output.dims != std::vector<int32_t>{1} || output.layout != Layout::kDense)
      return Decision::No("an output is neither over all dims nor dense over the innermost");
  }
  if (const Decision rows = kRowScheduler.accepts(halves.rows.kernel); !rows) return rows;
  return ReducesOnlyDown(halves.columns.kernel);
}

Params Choose(const Kernel& kernel, const SizeClass& sizes, const Machine& machine) {
  const Halves halves = HalvesOf(kernel);
  const bool several = sizes.at_most[0] <= kOuterReduceBlock;
  Params params = RowParams(halves.rows.kernel, sizes, machine, several);
  const Params columns = kGeneralScheduler.choose(halves.columns.kernel, sizes, machine);
  const std::vector<bool> kept_rows = GetKept(params, halves.rows.stages.size());
  params.scheduler = "cross";
  params.in_place.clear();  // reductions read the inputs when rows are written
  std::erase_if(params.values, [](const auto& value) { return value.first.starts_with("keep"); });
  const int64_t outer_lanes = LanesForRow(columns.Get("outer_lanes", 8), sizes.at_most[1]);
  params.values.emplace_back("outer_lanes", outer_lanes);
  if (sizes.at_most[1] <= outer_lanes) params.values.emplace_back("outer_vectors", 1);
  params.values.emplace_back("outer_levels", columns.Get("outer_levels", 1));
  const bool along = params.Get("across", 0) == 0 && params.Get("unroll", 0) == 0;
  if (along && !several) params.values.emplace_back("together", 1);
  std::vector<bool> kept(kernel.stages.size(), false);
  for (size_t i = 0; i < kept_rows.size(); ++i) kept[halves.rows.stages[i]] = kept_rows[i];
  SetKept(params, kept);
  return params;
}

std::vector<SizeClass> Classes(const Kernel& kernel, const SizeClass& known) {
  return kRowScheduler.classes(kernel, WidestReduced(kernel, known));
}

}  // namespace

const Scheduler kCrossScheduler = {
    .name = "cross",
    .doc = "rows with reductions, and reductions down the same rows",
    .accepts = Accepts,
    .choose = Choose,
    .classes = Classes,
};

}  // namespace kiln
