// SPDX-License-Identifier: Apache-2.0
// Products of rows with a matrix of bytes less their zero points, packed into panels of pairs
// (pair_block.h). What a matmul and a convolution have in common.
//
// Example, a convolution with 3 x 3 taps of 64 channels to 100: 3 segments, the rows of a window,
// of 3 * 64 terms; 7 panels of 16 columns. Where a segment has an odd number of terms, or a tap an
// odd number of channels, terms of zero are added, in the rows too.
#ifndef KILN_EXEC_LIBRARY_PAIR_PRODUCT_H_
#define KILN_EXEC_LIBRARY_PAIR_PRODUCT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "exec/library/pair_block.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// u8 or i8, as an operand has them; absent: zeros.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const void* data, DType type) : data_(data), is_signed_(type == DType::kI8) {}
  int operator[](int64_t i) const {
    if (data_ == nullptr) return 0;
    return is_signed_ ? static_cast<const int8_t*>(data_)[i]
                      : static_cast<const uint8_t*>(data_)[i];
  }
  Bytes operator+(int64_t i) const {
    Bytes moved = *this;
    if (data_ != nullptr) moved.data_ = static_cast<const uint8_t*>(data_) + i;
    return moved;
  }
  const void* data() const { return data_; }
  bool is_signed() const { return is_signed_; }

 private:
  const void* data_ = nullptr;
  bool is_signed_ = false;
};

// What `pack` makes of the weights w less their zero points, in `bytes` bytes, once for a Model;
// null unless both are constant. `layout` tells what it makes of operands with such strides.
absl::StatusOr<std::shared_ptr<const void>> PackedOnce(const Operand& w, const Operand* zeros,
                                                       const std::string& layout, int64_t bytes,
                                                       const std::shared_ptr<Session>& session,
                                                       absl::FunctionRef<void(void* to)> pack);

// n bytes, `step` apart, less `zero`.
void Widen(const PairLoops& loops, const Bytes& from, int64_t step, int64_t n, int zero,
           int16_t* to);

struct PairForm {
  std::vector<int64_t> offsets = {};  // of segments in a row
  int64_t pairs = 0;                  // of a segment
  int64_t columns = 0;
  // Of each term, two for each pair, the place in the matrix for column 0; -1: zero.
  std::vector<int64_t> terms = {};
  int64_t w_column = 0;     // from column to column
  int64_t zero_column = 0;  // likewise of zero points

  int64_t segments() const { return static_cast<int64_t>(offsets.size()); }
};

class PairProduct {
 public:
  static constexpr int64_t kMostRows = 48;  // speed: of Run; they stay in the second-level cache

  PairProduct(const PairLoops& loops, PairForm form) : loops_(&loops), form_(std::move(form)) {}

  const PairForm& form() const { return form_; }
  const PairLoops& loops() const { return *loops_; }
  int64_t panels() const { return (form_.columns + loops_->columns - 1) / loops_->columns; }
  int64_t panel_elements() const { return form_.segments() * form_.pairs * 2 * loops_->columns; }
  int64_t matrix_bytes() const { return panels() * panel_elements() * int64_t{sizeof(int16_t)}; }

  // One panel of the matrix w, whose columns have the given zero points.
  void Pack(const Bytes& w, const Bytes& zeros, int64_t panel, int16_t* to) const;

  int64_t first_column(int64_t panel) const { return panel * loops_->columns; }
  // Columns of a panel; the last may have fewer.
  int64_t columns(int64_t panel) const {
    return std::min(loops_->columns, form_.columns - first_column(panel));
  }

  // y[r][c * y_step] = the sums of rows[r] for the first `columns` columns c of a panel, where
  // `packed` is the matrix; `count` rows, at most kMostRows. Those beyond the matrix are zeros.
  void Run(const int16_t* packed, int64_t panel, int64_t columns, const int16_t* const* rows,
           int64_t count, int32_t* const* y, int64_t y_step) const;

 private:
  const PairLoops* loops_;
  PairForm form_;
};

// Matrices of one operand, packed: once if it is constant, else by Get, in scratch.
class PairMatrices {
 public:
  // Matrix i begins at starts[i] of the operand w, and its zero points at zero_starts[i].
  static absl::StatusOr<PairMatrices> Make(const PairProduct& product, const Operand& w,
                                           const Operand* zeros, std::vector<int64_t> starts,
                                           std::vector<int64_t> zero_starts,
                                           const std::shared_ptr<Session>& session);
  int64_t packed_bytes() const { return packed_ != nullptr ? bytes_ : 0; }
  int64_t scratch_bytes() const { return packed_ != nullptr ? 0 : bytes_; }
  const int16_t* Get(const PairProduct& product, const void* w, const void* zeros, void* scratch,
                     LaunchContext* context) const;

 private:
  void PackAll(const PairProduct& product, const void* w, const void* zeros, int16_t* to,
               LaunchContext* context) const;

  DType type_ = DType::kU8;
  std::vector<int64_t> starts_, zero_starts_;
  int64_t bytes_ = 0;
  std::shared_ptr<const void> packed_;
};

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_PAIR_PRODUCT_H_
