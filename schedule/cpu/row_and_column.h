// SPDX-License-Identifier: Apache-2.0
// Rows, and reductions down the same rows that none of them needs; layer norm backward is such
// (row_column_parts.h). With `fused`, each block of rows is reduced right after it was made, while
// it is in the cache.
//
// Example: `row_and_column outer_step=32 fused=1 rows=(row_reduction step=32 task=8192)`
#ifndef KILN_SCHEDULE_CPU_ROW_AND_COLUMN_H_
#define KILN_SCHEDULE_CPU_ROW_AND_COLUMN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/cpu/limits.h"
#include "schedule/schedule.h"

namespace kiln {

struct RowAndColumn : FieldsOf<RowAndColumn> {
  int64_t outer_step = 16;   // elements of a tile of sums
  bool one_vector = false;   // a tile is one vector
  int64_t outer_levels = 1;  // of the tree over rows
  bool fused = false;        // blocks of rows and of sums take turns
  Schedule rows;             // the schedule of the rows, of the part that makes them

  void Visit(FieldVisitor& fields) override {
    fields.Int("outer_step", outer_step, kStepRange);
    fields.Flag("one_vector", one_vector);
    fields.Bound("outer_levels", outer_levels, {1, 7});
    fields.Flag("fused", fused);
    fields.Part("rows", rows);
  }
  absl::Status CheckFor(const Kernel& kernel) const override;
  LoopSummary Loops(const Kernel& kernel) const override;
  LaunchInfo Info() const override {
    return [this] {
      LaunchInfo info = rows.Info();
      info.columns = std::max(info.columns, outer_step);
      return info;
    }();
  }
};
extern const Template kRowAndColumn;

Decision AcceptsRowAndColumn(const Kernel& kernel);

}  // namespace kiln

#endif  // KILN_SCHEDULE_CPU_ROW_AND_COLUMN_H_
