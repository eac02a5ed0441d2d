// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/integer_ops.h"
#include "exec/library/loops.h"
#include "exec/library/pair_product.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

constexpr int64_t kAlign = 64;  // correctness

int64_t RoundUp(int64_t n, int64_t to) { return DivideUp(n, to) * to; }

// Matrices of one operand among the products of a batch, which are numbered with the last axis
// innermost: where one begins, where its zero points do, and which a product takes.
class Stack {
 public:
  // `data` and `zero`: steps of the operand and of its zero points along an axis of the batch.
  void Add(int64_t extent, int64_t data, int64_t zero) {
    axes_.push_back({extent, data != 0 || zero != 0 ? extent : 1, data, zero});
    count_ *= axes_.back().own;
  }
  int64_t count() const { return count_; }
  int64_t DataOf(int64_t matrix) const { return Walk(matrix, &Axis::data); }
  int64_t ZeroOf(int64_t matrix) const { return Walk(matrix, &Axis::zero); }
  int64_t MatrixOf(int64_t product) const {
    int64_t matrix = 0, step = 1;
    for (size_t i = axes_.size(); i-- > 0; product /= axes_[i].extent) {
      if (axes_[i].own > 1) matrix += product % axes_[i].extent * step;
      step *= axes_[i].own;
    }
    return matrix;
  }

 private:
  struct Axis {
    int64_t extent, own, data, zero;
  };
  int64_t Walk(int64_t matrix, int64_t Axis::*step) const {
    int64_t at = 0;
    for (size_t i = axes_.size(); i-- > 0; matrix /= axes_[i].own)
      at += matrix % axes_[i].own * (axes_[i].*step);
    return at;
  }

  std::vector<Axis> axes_;
  int64_t count_ = 1;
};

PairForm FormOf(const MatmulForm& m) {
  PairForm f{.offsets = {0},
             .pairs = DivideUp(m.k, 2),
             .columns = m.n,
             .w_column = m.b_n,
             .zero_column = m.operands_n[1]};
  for (int64_t k = 0; k < 2 * f.pairs; ++k) f.terms.push_back(k < m.k ? k * m.b_k : -1);
  return f;
}

class PairMatmul final : public Primitive {
 public:
  static absl::StatusOr<std::unique_ptr<Primitive>> Make(const PairLoops& loops,
                                                         const Request& request, MatmulForm form,
                                                         const std::shared_ptr<Session>& session) {
    auto made = std::make_unique<PairMatmul>(loops, request, std::move(form));
    std::vector<int64_t> starts, zero_starts;
    for (int64_t i = 0; i < made->b_.count(); ++i) {
      starts.push_back(made->b_.DataOf(i));
      zero_starts.push_back(made->b_.ZeroOf(i));
    }
    const bool has_zeros = request.inputs.size() > 3 && request.inputs[3].present;
    KILN_ASSIGN_OR_RETURN(made->matrices_,
                          PairMatrices::Make(made->product_, request.inputs[1],
                                             has_zeros ? &request.inputs[3] : nullptr,
                                             std::move(starts), std::move(zero_starts), session));
    return made;
  }

  PairMatmul(const PairLoops& loops, const Request& request, MatmulForm form)
      : form_(std::move(form)),
        a_type_(request.inputs[0].type),
        inputs_(request.inputs.size()),
        product_(loops, FormOf(form_)) {
    for (const MatmulForm::Batch& batch : form_.batch) {
      const bool sums = form_.k > 0;  // else strides mean nothing, and one matrix is all
      a_.Add(batch.extent, sums ? batch.a : 0, sums ? batch.operands[0] : 0);
      b_.Add(batch.extent, sums ? batch.b : 0, sums ? batch.operands[1] : 0);
      c_.Add(batch.extent, batch.c, 0);
    }
  }

  int64_t packed_bytes() const override { return matrices_.packed_bytes(); }
  int64_t scratch_bytes() const override {
    return RoundUp(a_.count() * form_.m * RowTerms() * int64_t{sizeof(int16_t)}, kAlign) +
           matrices_.scratch_bytes();
  }
  std::string description() const override { return product_.loops().name; }

  absl::Status Run(const Arguments& arguments) const override {
    auto* const rows = static_cast<int16_t*>(arguments.scratch);
    WidenRows(arguments, rows);
    const int64_t rows_bytes = scratch_bytes() - matrices_.scratch_bytes();
    const int16_t* const packed =
        matrices_.Get(product_, arguments.inputs[1], inputs_ > 3 ? arguments.inputs[3] : nullptr,
                      static_cast<uint8_t*>(arguments.scratch) + rows_bytes, arguments.context);
    // Chunks of rows meet all panels, one by one.
    const int64_t panels = product_.panels(), chunks = DivideUp(form_.m, PairProduct::kMostRows);
    ParallelRanges(arguments.context, c_.count() * chunks * panels,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       RunUnit(rows, packed, i / panels / chunks, i / panels % chunks, i % panels,
                               static_cast<int32_t*>(arguments.outputs[0]));
                     }
                   });
    return absl::OkStatus();
  }

 private:
  int64_t RowTerms() const { return 2 * product_.form().pairs; }

  void WidenRows(const Arguments& arguments, int16_t* to) const {
    const Bytes a(arguments.inputs[0], a_type_);
    const Bytes zeros(inputs_ > 2 ? arguments.inputs[2] : nullptr, a_type_);
    ParallelRanges(arguments.context, a_.count() * form_.m, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t matrix = row / form_.m, m = row % form_.m;
        const int zero = zeros[a_.ZeroOf(matrix) + m * form_.operands_m[0]];
        int16_t* const terms = to + row * RowTerms();
        Widen(product_.loops(), a + (a_.DataOf(matrix) + m * form_.a_m), form_.a_k, form_.k, zero,
              terms);
        std::fill(terms + form_.k, terms + RowTerms(), int16_t{0});
      }
    });
  }

  void RunUnit(const int16_t* a, const int16_t* b, int64_t product, int64_t chunk, int64_t panel,
               int32_t* c) const {
    const int64_t first = chunk * PairProduct::kMostRows;
    const int64_t count = std::min(PairProduct::kMostRows, form_.m - first);
    const int16_t* rows[PairProduct::kMostRows];
    int32_t* sums[PairProduct::kMostRows];
    a += (a_.MatrixOf(product) * form_.m + first) * RowTerms();
    c += c_.DataOf(product) + first * form_.c_m + product_.first_column(panel) * form_.c_n;
    for (int64_t r = 0; r < count; ++r) {
      rows[r] = a + r * RowTerms();
      sums[r] = c + r * form_.c_m;
    }
    product_.Run(b + b_.MatrixOf(product) * product_.panels() * product_.panel_elements(), panel,
                 product_.columns(panel), rows, count, sums, form_.c_n);
  }

  const MatmulForm form_;
  const DType a_type_;
  const size_t inputs_;  // that a run is given
  const PairProduct product_;
  Stack a_, b_, c_;
  PairMatrices matrices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakePairMatmulWith(
    const PairLoops& loops, const Request& request, const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(const Request plain, AsMatmul(request));
  KILN_ASSIGN_OR_RETURN(MatmulForm form, NormalizeMatmul(plain));
  return PairMatmul::Make(loops, request, std::move(form), session);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakePairMatmul(const Request& request,
                                                          const std::shared_ptr<Session>& session) {
  return MakePairMatmulWith(AllPairLoops()[0], request, session);
}

}  // namespace kiln::library
