// SPDX-License-Identifier: Apache-2.0
// schedule/cpu/row_column_parts.h says what the halves are, schedule/cpu/row_and_column.cc decides,
// this does.
#include "halide_gen/cpu/nests.h"
#include "schedule/analysis.h"
#include "schedule/cpu/row_column_parts.h"

namespace kiln {
namespace {

// `params` for some stages of the kernel.
Params ParamsOf(const std::vector<size_t>& stages, const std::vector<bool>& kept, Params params) {
  std::erase_if(params.values, [](const auto& value) { return value.first.starts_with("keep"); });
  std::vector<bool> own;
  for (const size_t stage : stages) own.push_back(kept[stage]);
  SetKept(params, own);
  return params;
}

void Append(std::vector<OutputNest> more, const Half& half, std::vector<OutputNest>& nests) {
  for (OutputNest& nest : more) {
    for (size_t& output : nest.outputs) output = half.outputs[output];
    nests.push_back(std::move(nest));
  }
}

}  // namespace

std::vector<OutputNest> CrossNests(const Kernel& kernel, const Params& params,
                                   const Operands& operands) {
  const Halves halves = HalvesOf(kernel);
  const std::vector<bool> kept = GetKept(params, kernel.stages.size());
  const std::vector<bool> none(kernel.stages.size(), false);
  std::vector<OutputNest> nests;
  Append(RowNests(halves.rows.kernel, ParamsOf(halves.rows.stages, kept, params), operands),
         halves.rows, nests);
  const bool together = params.Get("together", 0) > 0;
  const Halide::Func rows = nests.front().func;
  Append(GeneralNests(halves.columns.kernel, ParamsOf(halves.columns.stages, none, params),
                      operands, together ? &rows : nullptr),
         halves.columns, nests);
  return nests;
}

}  // namespace kiln
