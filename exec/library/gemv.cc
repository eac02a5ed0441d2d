// SPDX-License-Identifier: Apache-2.0
#include "exec/library/gemv.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/gemv_rows.h"
#include "exec/library/loops.h"
#include "exec/library/post_ops.h"
#include "exec/library/shapes.h"
#include "exec/support/caches.h"

namespace kiln::library {
namespace {

// Which operand is the matrix, and how it lies.
struct GemvForm {
  bool matrix_is_a;
  bool across;  // neighbouring sums are neighbours in memory
  int64_t stride, terms, sums;
};

absl::StatusOr<GemvForm> Normalize(const MatmulForm& f) {
  if (!f.batch.empty() || (f.m != 1 && f.n != 1))
    return absl::UnimplementedError("neither operand is one vector");
  const bool matrix_is_a = f.n == 1 && f.m != 1;
  const int64_t sums = matrix_is_a ? f.m : f.n;
  const int64_t of_sum = matrix_is_a ? f.a_m : f.b_n, of_term = matrix_is_a ? f.a_k : f.b_k;
  const int64_t vector = matrix_is_a ? f.b_k : f.a_k, result = matrix_is_a ? f.c_m : f.c_n;
  if ((vector != 1 && f.k > 1) || (result != 1 && sums > 1))
    return absl::UnimplementedError("a vector is not dense");
  if (of_sum == 1 && (of_term >= sums || f.k == 1))
    return GemvForm{matrix_is_a, true, of_term, f.k, sums};
  if (of_term == 1 && (of_sum >= f.k || sums == 1))
    return GemvForm{matrix_is_a, false, of_sum, f.k, sums};
  return absl::UnimplementedError("no axis of the matrix is dense");
}

class Gemv final : public Primitive {
 public:
  Gemv(const GemvForm& form, int threads, bool backwards)
      : form_(form), threads_(threads), backwards_(backwards) {}

  int64_t scratch_bytes() const override {
    return shares_ > 1 ? shares_ * form_.sums * int64_t{sizeof(float)} : 0;
  }

  absl::Status Run(const Arguments& arguments) const override {
    const auto* matrix = static_cast<const float*>(arguments.inputs[form_.matrix_is_a ? 0 : 1]);
    const auto* vector = static_cast<const float*>(arguments.inputs[form_.matrix_is_a ? 1 : 0]);
    auto* y = static_cast<float*>(arguments.outputs[0]);
    auto* partial = static_cast<float*>(arguments.scratch);
    // One part a thread: short rows read slowly. Whole cache lines of the result: no two threads
    // write one.
    const int64_t lines = (form_.sums + kLine - 1) / kLine;
    ParallelRanges(arguments.context, threads_, [&](int64_t first, int64_t last) {
      const int64_t begin = lines * first / threads_ * kLine;
      const int64_t end = std::min(lines * last / threads_ * kLine, form_.sums);
      const GemvPart part = {matrix + begin * (form_.across ? 1 : form_.stride),
                             vector,
                             form_.stride,
                             form_.terms,
                             end - begin,
                             y + begin,
                             shares_ > 1 ? partial + shares_ * begin : nullptr,
                             shares_,
                             backwards_,
                             form_.terms * form_.sums >= kFarElements};
      (form_.across ? rows_.across : rows_.along)(part);
    });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kLine = 16;  // correctness
  // More than caches keep from one product to the next.
  static constexpr int64_t kFarElements = kL3Bytes / int64_t{sizeof(float)};
  const GemvForm form_;
  const int threads_;
  const bool backwards_;
  const int64_t shares_ = form_.across ? Shares(form_.terms, form_.sums) : 1;
  const GemvRows& rows_ = GetGemvRows();
};

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeGemv(const Request& request,
                                                    const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(const MatmulForm matmul, NormalizeMatmul(request));
  KILN_RETURN_IF_ERROR(TakesF32(request));
  KILN_ASSIGN_OR_RETURN(const GemvForm form, Normalize(matmul));
  const void* const matrix = request.inputs[form.matrix_is_a ? 0 : 1].constant;
  const bool backwards = matrix != nullptr && session->AddReader(matrix) % 2 == 1;
  return WithPostOpLoops(std::make_unique<Gemv>(form, session->threads(), backwards), request);
}

}  // namespace kiln::library
