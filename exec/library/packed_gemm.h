// SPDX-License-Identifier: Apache-2.0
// Rows times a constant matrix, whose columns are packed in panels. The rows are found through
// pointers: in a convolution every tap of the window is a segment of the sum, for which a row lies
// elsewhere in the image (M. Dukhan, "The Indirect Convolution Algorithm", 2019), and nothing is
// copied together first. While a panel is multiplied, the next piece of the matrix is fetched, in
// as many streams as the processor follows.
//
// The matrix is packed once: [group][panel of 32 columns][segment][term][32]. The sum of an element
// runs over the segments and their terms in order, with fused multiply-adds, from the bias or 0:
// the same bits however rows and panels are shared among threads.
#ifndef KILN_EXEC_LIBRARY_PACKED_GEMM_H_
#define KILN_EXEC_LIBRARY_PACKED_GEMM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// Where the matrix's elements lie, counted in elements:
//   w(group, segment, term, column) = matrix[group * w_group + segments[segment] + term * w_term +
//                                            column * w_column]
struct PanelForm {
  int64_t groups = 1, terms = 0, columns = 0;
  std::vector<int64_t> segments = {0};
  int64_t w_group = 0, w_term = 0, w_column = 0;
};

// Rows that are multiplied together.
struct PanelRows {
  static constexpr int64_t kMost = 256;  // correctness
  int64_t count = 0;                     // in [1, kMost]
  const float* const* x = nullptr;       // x[segment * count + row]: `terms` elements; null: zeros
  float* const* y = nullptr;             // y[row]: the results of group 0, `columns` of them
  int64_t y_group = 0;                   // from a group's results to the next one's
  const float* bias = nullptr;           // of `columns` elements; null: none
};

class PackedGemm {
 public:
  // `matrix` is a constant of `elements` elements, in which the form stays. kUnimplemented where
  // the processor lacks AVX-512.
  static absl::StatusOr<PackedGemm> Make(PanelForm form, const void* matrix, int64_t elements,
                                         const std::shared_ptr<Session>& session);

  const PanelForm& form() const { return form_; }
  int64_t packed_bytes() const;
  int64_t panels() const;  // of all groups

  // y[row] = bias + sum over segment and term of x[segment][row][term] * w[..., column], for the
  // columns of the panel. Rows of zeros are left out, so that even infinite weights do not matter.
  // `last`: nothing follows that would read the next panel.
  void Run(int64_t panel, const PanelRows& rows, bool last) const;

 private:
  explicit PackedGemm(PanelForm form) : form_(std::move(form)) {}
  void Sum(const float* panel, const PanelRows& rows, bool last, float* sums) const;

  PanelForm form_;
  std::shared_ptr<const void> packed_;
};

// Rows that lie a multiple of 4 KiB apart share few sets of the first-level cache, and a block of
// them does not fit: such rows are copied to where they lie otherwise.
class RowsApart {
 public:
  // `count` rows of `terms` elements, `step` apart, of which a block takes every `stride`-th.
  RowsApart(int64_t count, int64_t terms, int64_t step, int64_t stride);
  int64_t step() const { return own_step_; }  // from row to row of what Get() returns
  int64_t scratch_bytes() const;
  const float* Get(const float* rows, void* scratch, LaunchContext* context) const;

 private:
  int64_t count_, terms_, step_, own_step_;
};

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_PACKED_GEMM_H_
