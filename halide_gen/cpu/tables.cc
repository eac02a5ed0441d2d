// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/tables.h"

#include <algorithm>
#include <string>
#include <vector>

#include "halide_gen/cpu/nests.h"
#include "schedule/analysis.h"
#include "schedule/schedule.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::Var;

// The table of input `i`: over `period` steps of `width` elements each, and `lanes` steps more.
Func TableOf(const Kernel& kernel, const Operands& operands, size_t i, int32_t first, int32_t last,
             const Expr& elements, const Expr& more) {
  const std::vector<int32_t>& dims = kernel.inputs[i].dims;
  const int64_t divisor = DivisorOf(kernel, i);
  const bool whole_rows = divisor == 0 && dims.back() > last;
  Halide::Region ranges;  // innermost first
  std::vector<int32_t> run;
  for (int32_t d = first; d <= last; ++d) run.push_back(d);
  if (whole_rows) run.push_back(dims.back());
  for (auto d = run.rbegin(); d != run.rend(); ++d)
    ranges.emplace_back(0, operands.extents[static_cast<size_t>(*d)]);
  const RDom r(ranges, "table"), again(0, more, "again");
  std::vector<Expr> coordinates(kernel.dims.size());
  for (size_t k = 0; k < run.size(); ++k)
    coordinates[static_cast<size_t>(run[run.size() - 1 - k])] = r[static_cast<int>(k)];
  const Var t("pstep");
  if (divisor != 0)
    coordinates[static_cast<size_t>(dims.back())] =
        coordinates[static_cast<size_t>(last)] / static_cast<int32_t>(divisor);
  Halide::ImageParam image = operands.inputs[i];
  Func table("table" + std::to_string(i));
  table(t) = Halide::undef(image.type());
  table(RowMajor(operands, run, coordinates)) = image(RowMajor(operands, dims, coordinates));
  table(elements + again) = table(again);
  table.compute_root().bound(t, 0, elements + more);
  return table;
}

}  // namespace

void UseTables(const Kernel& kernel, const std::vector<int64_t>& expanded, const Operands& operands,
               int32_t last, int lanes, ExprEmitter& emitter, int32_t whole_from) {
  const std::vector<bool> expands = AsFlags(expanded, kernel.inputs.size());
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const std::vector<int32_t>& dims = kernel.inputs[i].dims;
    if (!expands[i]) continue;
    const int32_t first = std::min(*std::min_element(dims.begin(), dims.end()), whole_from);
    Expr period = 1;
    for (int32_t d = first; d <= last; ++d)
      period = period * operands.extents[static_cast<size_t>(d)];
    const bool whole_rows = dims.back() > last && DivisorOf(kernel, i) == 0;
    const Expr width = whole_rows ? operands.extents[static_cast<size_t>(dims.back())] : 1;
    emitter.Repeat(i, TableOf(kernel, operands, i, first, last, period * width, width * lanes),
                   period);
  }
}

}  // namespace kiln
