// SPDX-License-Identifier: Apache-2.0
// Products of few rows: so few that the matrix takes as long to arrive from memory as the sums take
// to compute. Here both happen at once: while a panel of the matrix is multiplied, the next piece
// is fetched, in as many streams as the processor follows. Small images in convolutions are such
// rows, indirectly: for every tap of the window a row lies elsewhere (M. Dukhan, "The Indirect
// Convolution Algorithm", 2019).
//
// The matrix is a constant and packed once: [group][panel of 32 columns][segment][term][32]. The
// sum of an element runs over the segments and their terms in order, with fused multiply-adds, from
// the bias or 0: the same bits for any number of threads.
#ifndef KILN_EXEC_LIBRARY_FEW_ROWS_H_
#define KILN_EXEC_LIBRARY_FEW_ROWS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kiln/exec/library/library.h"

namespace kiln::library {

// y[group][row][column] = bias[column] + sum over segment and term of
//     x[segment][row][term] * w[group][segment][term][column].
struct FewRowsForm {
  int64_t rows = 0, groups = 1, segments = 1, terms = 0, columns = 0;
  // Of the matrix as it lies, in elements.
  int64_t w_group = 0, w_segment = 0, w_term = 0, w_column = 0;
  // Of the result; columns are dense.
  int64_t y_group = 0, y_row = 0;
};

class FewRows {
 public:
  // kUnimplemented, with the reason, where another way is as fast or the processor lacks what it
  // takes. `matrix` is a constant of `elements` elements, in which the form's strides stay.
  static absl::StatusOr<FewRows> Make(const FewRowsForm& form, const void* matrix, int64_t elements,
                                      const std::shared_ptr<Session>& session);

  const FewRowsForm& form() const { return form_; }
  int64_t packed_bytes() const;
  // rows[segment * form.rows + row] points to `terms` elements; bias may be null.
  void Run(const float* const* rows, const float* bias, float* y, LaunchContext* context) const;

 private:
  FewRows(const FewRowsForm& form, int threads) : form_(form), threads_(threads) {}
  void RunPanel(int64_t group, int64_t panel, bool last, const float* const* rows,
                const float* bias, float* y) const;

  FewRowsForm form_;
  int threads_;
  std::shared_ptr<const void> packed_;
};

// matmul and conv as such products.
absl::StatusOr<std::unique_ptr<Primitive>> MakeFewRowsMatmul(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeFewRowsConv(const Request& request,
                                                           const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_FEW_ROWS_H_
