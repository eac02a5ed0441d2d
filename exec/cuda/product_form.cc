// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/product_form.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/shapes.h"

namespace kiln::cuda {
namespace {

using library::MatmulForm;

// A matrix of rows x columns elements with these strides, as columns or as its transpose.
std::optional<ProductForm::Matrix> MatrixOf(int64_t rows, int64_t columns, int64_t row_stride,
                                            int64_t column_stride) {
  const auto in_columns = [](int64_t in_column, int64_t count, int64_t stride, int64_t step) {
    return (stride == 1 || in_column == 1) && (count == 1 || step >= in_column);
  };
  const auto ld = [](int64_t in_column, int64_t count, int64_t step) {
    return count == 1 ? in_column : step;
  };
  if (in_columns(rows, columns, row_stride, column_stride))
    return ProductForm::Matrix{rows, columns, ld(rows, columns, column_stride), 0, false};
  if (in_columns(columns, rows, column_stride, row_stride))
    return ProductForm::Matrix{columns, rows, ld(columns, rows, row_stride), 0, true};
  return std::nullopt;
}

// Whether operand k of post-ops is a vector over the columns, the same for all batches.
bool IsBias(const MatmulForm& form, size_t k) {
  const bool same = std::all_of(form.batch.begin(), form.batch.end(),
                                [&](const auto& batch) { return batch.operands[k] == 0; });
  return same && (form.m == 1 || form.operands_m[k] == 0) &&
         (form.n == 1 || form.operands_n[k] == 1);
}

absl::Status SetPostOps(const library::Request& request, const MatmulForm& form,
                        ProductForm& made) {
  size_t operand = 0;
  for (const library::PostOp& op : request.post_ops) {
    if (made.relu || made.gelu)
      return absl::UnimplementedError(absl::StrCat("\"", op.name, "\" after an activation"));
    if (op.name == "relu") {
      made.relu = true;
    } else if (op.name == "gelu_tanh") {
      made.gelu = true;
    } else if (op.name == "add" && made.bias < 0 && IsBias(form, operand)) {
      made.bias = static_cast<int>(2 + operand++);
    } else if (op.name == "add" && made.addend < 0) {
      made.addend = static_cast<int>(2 + operand++);
    } else {
      return absl::UnimplementedError(absl::StrCat("no post-op \"", op.name, "\" here"));
    }
  }
  return absl::OkStatus();
}

// The batch of most products becomes the library's.
void SetBatches(const MatmulForm& form, ProductForm& made) {
  const size_t addend = static_cast<size_t>(made.addend) - 2;
  const auto of_addend = [&](const MatmulForm::Batch& batch) {
    return made.addend >= 0 ? batch.operands[addend] : batch.c;
  };
  const auto largest =
      std::max_element(form.batch.begin(), form.batch.end(),
                       [](const auto& x, const auto& y) { return x.extent < y.extent; });
  for (auto batch = form.batch.begin(); batch != form.batch.end(); ++batch) {
    if (batch != largest) {
      made.loops.push_back({batch->extent, batch->b, batch->a, of_addend(*batch), batch->c});
      continue;
    }
    made.batch = batch->extent;
    made.a.step = batch->b;
    made.b.step = batch->a;
    made.c.step = of_addend(*batch);
    made.d.step = batch->c;
  }
}

std::string Text(const ProductForm::Matrix& m) {
  return absl::StrCat(m.rows, "x", m.columns, m.transposed ? "'" : "", " ld ", m.ld, " step ",
                      m.step, "; ");
}

}  // namespace

std::string ProductForm::Text() const {
  return absl::StrCat(Name(type), " ", cuda::Text(a), cuda::Text(b), cuda::Text(c), cuda::Text(d),
                      "batch ", batch, bias >= 0 ? " bias" : "", addend >= 0 ? " addend" : "",
                      relu ? " relu" : "", gelu ? " gelu" : "");
}

absl::StatusOr<ProductForm> ProductFormOf(const library::Request& request) {
  KILN_ASSIGN_OR_RETURN(const MatmulForm form, library::NormalizeMatmul(request));
  ProductForm made;
  made.type = request.inputs[0].type;
  if (!IsFloat(made.type))
    return absl::UnimplementedError(absl::StrCat("products of type ", Name(made.type)));
  if (form.k == 0) return absl::UnimplementedError("sums over nothing");
  KILN_RETURN_IF_ERROR(SetPostOps(request, form, made));
  const auto a = MatrixOf(form.n, form.k, form.b_n, form.b_k);
  const auto b = MatrixOf(form.k, form.m, form.a_k, form.a_m);
  const auto d = MatrixOf(form.n, form.m, form.c_n, form.c_m);
  auto c = d;
  if (made.addend >= 0) {
    const auto k = static_cast<size_t>(made.addend) - 2;
    c = MatrixOf(form.n, form.m, form.operands_n[k], form.operands_m[k]);
  }
  if (!a || !b || !c || !d || c->transposed || d->transposed)
    return absl::UnimplementedError("strides in which neither rows nor columns are dense");
  made.a = *a;
  made.b = *b;
  made.c = *c;
  made.d = *d;
  SetBatches(form, made);
  return made;
}

}  // namespace kiln::cuda
