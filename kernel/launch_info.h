// SPDX-License-Identifier: Apache-2.0
// What the executor and the validator need to know of compiled code: at which extents its loops
// change their course, and what may be written over what.
//
// A schedule says it (schedule/schedule.h); an entry of the cache keeps it next to the code, so
// that whoever only runs code knows no schedules. Text form, of `kiln cache show`:
//   step=32 columns=64 task=32768 row_step=32 in_place=0:0
#ifndef KILN_KERNEL_LAUNCH_INFO_H_
#define KILN_KERNEL_LAUNCH_INFO_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

struct LaunchInfo {
  int64_t step = 16;     // elements of a step along the innermost dim
  int64_t columns = 16;  // of a step across rows that are reduced along another dim
  int64_t task = 1;      // elements of work in a task, about
  // Elements of a row that a step of its loop takes, of which the last step masks those beyond the
  // row; 1 if steps do not end with rows.
  int64_t row_step = 1;
  std::vector<std::pair<int32_t, int32_t>> in_place = {};  // (input, output)

  std::string ToString() const;
  // kInvalidArgument names the word that is wrong.
  static absl::StatusOr<LaunchInfo> Parse(absl::string_view text);
  friend bool operator==(const LaunchInfo&, const LaunchInfo&) = default;
};

// Pairs as "0:0,1:0", and back; false for any other text.
std::string FormatPairs(const std::vector<std::pair<int32_t, int32_t>>& pairs);
bool ParsePairs(absl::string_view text, std::vector<std::pair<int32_t, int32_t>>& pairs);

}  // namespace kiln

#endif  // KILN_KERNEL_LAUNCH_INFO_H_
