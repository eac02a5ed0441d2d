// SPDX-License-Identifier: Apache-2.0
#include "tools/flag_values.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace kiln {

absl::StatusOr<double> ParseTime(const std::string& flag, const std::string& text) {
  if (text.empty()) return 0.0;
  absl::string_view rest = text;
  const double unit = absl::ConsumeSuffix(&rest, "ms") ? 1 : 1000;
  if (unit == 1000) absl::ConsumeSuffix(&rest, "s");
  double value = 0;
  if (absl::SimpleAtod(rest, &value) && value > 0 && std::isfinite(value)) return value * unit;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " \"", text, "\": expected a time above 0 such as 5s or 200ms"));
}

}  // namespace kiln
