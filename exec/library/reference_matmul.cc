// SPDX-License-Identifier: Apache-2.0
#include "exec/library/reference_matmul.h"

#include <utility>

#include "exec/library/loops.h"

namespace kiln::library {
namespace {

template <typename E>
void Row(const MatmulForm& f, const typename E::Storage* a, const typename E::Storage* b,
         typename E::Storage* c) {
  using Sum = Wrapping<typename E::Compute>;
  for (int64_t n = 0; n < f.n; ++n) {
    Sum sum = 0;
    for (int64_t k = 0; k < f.k; ++k) {
      sum += static_cast<Sum>(E::Load(a[k * f.a_k])) *
             static_cast<Sum>(E::Load(b[k * f.b_k + n * f.b_n]));
    }
    c[n * f.c_n] = E::Store(static_cast<typename E::Compute>(sum));
  }
}

class ReferenceMatmul final : public Primitive {
 public:
  ReferenceMatmul(DType type, MatmulForm form)
      : type_(type), form_(std::move(form)), rows_(form_.m) {
    for (const MatmulForm::Batch& batch : form_.batch) rows_ *= batch.extent;
  }

  absl::Status Run(const Arguments& arguments) const override {
    ForElement(type_, [&]<typename E>() {
      const auto* a = static_cast<const typename E::Storage*>(arguments.inputs[0]);
      const auto* b = static_cast<const typename E::Storage*>(arguments.inputs[1]);
      auto* c = static_cast<typename E::Storage*>(arguments.outputs[0]);
      ParallelRanges(arguments.context, rows_, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          int64_t rest = row / form_.m, at_a = row % form_.m * form_.a_m, at_b = 0,
                  at_c = row % form_.m * form_.c_m;
          for (size_t i = form_.batch.size(); i-- > 0; rest /= form_.batch[i].extent) {
            const int64_t at = rest % form_.batch[i].extent;
            at_a += at * form_.batch[i].a;
            at_b += at * form_.batch[i].b;
            at_c += at * form_.batch[i].c;
          }
          Row<E>(form_, a + at_a, b + at_b, c + at_c);
        }
      });
    });
    return absl::OkStatus();
  }

 private:
  DType type_;
  MatmulForm form_;
  int64_t rows_;  // of all batches
};

}  // namespace

std::unique_ptr<Primitive> MakeReferenceMatmul(DType type, MatmulForm form) {
  return std::make_unique<ReferenceMatmul>(type, std::move(form));
}

}  // namespace kiln::library
