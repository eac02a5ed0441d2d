// SPDX-License-Identifier: Apache-2.0
// Files of intervals to plan, one a line, as the memory planner's `kiln plan` reads and writes
// them:
//
//   id,lower,upper,size          the head: these columns in any order; also "offset", which is not
//   conv1,0,3,4096               read
//   relu1,2,5,4096               half-open: relu1 lives in the steps 2, 3 and 4
//
// An id is any text without commas, other than those before it. Lines may end in CR LF; empty ones
// count for nothing.
#ifndef KILN_TOOLS_INTERVAL_FILE_H_
#define KILN_TOOLS_INTERVAL_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/memory/interval.h"

namespace kiln {

inline constexpr size_t kMostIntervals = size_t{1} << 17;
inline constexpr size_t kMostLineBytes = 4096;

struct IntervalFile {
  std::vector<std::string> ids;
  std::vector<Interval> intervals;
};

// kInvalidArgument names the line, what stands there and what should; kResourceExhausted where
// there are more intervals, or bytes in a line, than above.
absl::StatusOr<IntervalFile> ParseIntervals(absl::string_view text);

// kUnavailable where the file cannot be read, or as ParseIntervals; the path comes first. Pipes and
// links may be read too.
absl::StatusOr<IntervalFile> ReadIntervals(const std::string& path);

// The same with the column "offset".
std::string PrintIntervals(const IntervalFile& file, const std::vector<int64_t>& offsets);

}  // namespace kiln

#endif  // KILN_TOOLS_INTERVAL_FILE_H_
