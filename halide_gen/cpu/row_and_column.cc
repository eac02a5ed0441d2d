// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/row_column_parts.h says what the halves are, schedule/cpu/row_and_column.cc decides,
// this does.
#include "halide_gen/cpu/nests.h"
#include "schedule/analysis.h"
#include "schedule/cpu/row_column_parts.h"

namespace kiln {
namespace {

void Append(std::vector<OutputNest> more, const Half& half, std::vector<OutputNest>& nests) {
  for (OutputNest& nest : more) {
    for (size_t& output : nest.outputs) output = half.outputs[output];
    nests.push_back(std::move(nest));
  }
}

}  // namespace

std::vector<OutputNest> BuildRowAndColumn(const Kernel& kernel, const Schedule& schedule,
                                          const Operands& operands) {
  const auto& both = schedule.As<RowAndColumn>();
  const Halves halves = HalvesOf(kernel);
  std::vector<OutputNest> nests;
  std::vector<OutputNest> rows =
      both.fused ? RowNests(halves.rows.kernel, both.rows.As<RowReduction>(), true, operands)
                 : BuildNests(halves.rows.kernel, both.rows, operands);
  Append(std::move(rows), halves.rows, nests);
  const LaunchInfo of_rows = both.rows.Info();
  Staged columns;
  columns.step = of_rows.step;
  columns.task = of_rows.task;
  columns.outer_step = both.outer_step;
  columns.outer_levels = both.outer_levels;
  columns.one_vector = both.one_vector;
  const Halide::Func first = nests.front().func;
  Append(StagedNests(halves.columns.kernel, columns, operands, both.fused ? &first : nullptr),
         halves.columns, nests);
  return nests;
}

}  // namespace kiln
