// SPDX-License-Identifier: Apache-2.0
// A schedule as plain numbers: what a scheduler chose, code generation was asked for, and whoever
// validates or runs the code needs to know of it.
#ifndef KILN_KERNEL_PARAMS_H_
#define KILN_KERNEL_PARAMS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// A chosen schedule. `values` are named integers, sorted by name; printed as "row lanes=16 levels=1
// rows=8 inplace=0:0".
struct Params {
  std::string scheduler;
  std::vector<std::pair<std::string, int64_t>> values;
  std::vector<std::pair<int32_t, int32_t>>
      in_place;  // (input, output): the output may be written over this input

  // The value named `name`, or `otherwise`.
  int64_t Get(absl::string_view name, int64_t otherwise) const;
  // Elements of a row that a step of its loop takes, of which the last step masks those beyond the
  // row; 1 if steps do not end with rows.
  int64_t RowStep() const;
  std::string ToString() const;
  static absl::StatusOr<Params> Parse(absl::string_view text);
  friend bool operator==(const Params&, const Params&) = default;
};

}  // namespace kiln

#endif  // KILN_KERNEL_PARAMS_H_
