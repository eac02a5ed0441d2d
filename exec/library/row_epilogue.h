// SPDX-License-Identifier: Apache-2.0
// What follows the sums of our own convolutions: bounds while they are in registers, then the other
// post-ops row by row while the rows lie in the first caches.
#ifndef KILN_EXEC_LIBRARY_ROW_EPILOGUE_H_
#define KILN_EXEC_LIBRARY_ROW_EPILOGUE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/library/post_op_rows.h"
#include "exec/library/primitive.h"

namespace kiln::library {

class RowEpilogue {
 public:
  // kUnimplemented where a post-op has no loop over rows, or an operand lies neither as the output
  // does nor is a vector over the channels. The output lies channels last.
  static absl::StatusOr<RowEpilogue> Make(const Request& request);

  // Of the sums, before Run; infinite if there are none.
  float low() const { return low_; }
  float high() const { return high_; }

  // The rest, for rows [row, row + rows) of the output.
  void Run(const Arguments& arguments, int64_t row, int64_t rows) const;

 private:
  struct Step {
    PostOpRow loop = nullptr;
    float numbers[2] = {};
    size_t input = 0;
    enum class Operand { kNone, kRows, kVector } operand = Operand::kNone;
  };
  int64_t columns_ = 0;
  float low_ = -std::numeric_limits<float>::infinity();
  float high_ = std::numeric_limits<float>::infinity();
  std::vector<Step> steps_;
};

// Runs `primitive`, then the finish over all rows of its output.
std::unique_ptr<Primitive> WithRowEpilogue(std::unique_ptr<Primitive> primitive, RowEpilogue finish,
                                           int64_t rows);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_ROW_EPILOGUE_H_
