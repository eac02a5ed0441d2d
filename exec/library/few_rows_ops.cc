// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/library/few_rows.h"
#include "kiln/exec/library/post_op_rows.h"
#include "kiln/exec/library/post_ops.h"
#include "kiln/exec/library/shapes.h"

namespace kiln::library {
namespace {

// How many elements lie between the first and the last; 0 if an axis goes backwards.
int64_t Span(const Operand& operand) {
  int64_t span = 1;
  for (size_t i = 0; i < operand.shape.size(); ++i) {
    if (operand.strides[i] < 0) return 0;
    span += (operand.shape[i] - 1) * operand.strides[i];
  }
  return span;
}

int64_t Elements(const Operand& operand) {
  int64_t count = 1;
  for (const int64_t extent : operand.shape) count *= extent;
  return count;
}

// Dense in some order of its axes.
bool IsWholeConstant(const Operand& operand) {
  return operand.constant != nullptr && Span(operand) == Elements(operand);
}

// Post-ops that follow as loops must not take longer than what is won.
absl::Status TakesPostOps(const Request& request) {
  for (const PostOp& op : request.post_ops) {
    if (FindPostOpRow(op.name) == nullptr)
      return absl::UnimplementedError(absl::StrCat("no loop of rows for post-op ", op.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<FewRowsForm> FormOf(const MatmulForm& m) {
  FewRowsForm f{.rows = m.m, .terms = m.k, .columns = m.n};
  if (m.batch.size() > 1 || (m.batch.size() == 1 && m.batch[0].a != 0))
    return absl::UnimplementedError("several products");
  if (m.batch.size() == 1) {
    f.groups = m.batch[0].extent;
    f.w_group = m.batch[0].b;
    f.y_group = m.batch[0].c;
  }
  if (m.a_k != 1 || m.c_n != 1) return absl::UnimplementedError("rows are not dense");
  f.w_term = m.b_k;
  f.w_column = m.b_n;
  f.y_row = m.c_m;
  return f;
}

class FewRowsMatmul final : public Primitive {
 public:
  FewRowsMatmul(FewRows product, int64_t step) : product_(std::move(product)), step_(step) {}
  int64_t scratch_bytes() const override {
    return product_.form().rows * int64_t{sizeof(const float*)};
  }
  int64_t packed_bytes() const override { return product_.packed_bytes(); }

  absl::Status Run(const Arguments& arguments) override {
    const auto* const a = static_cast<const float*>(arguments.inputs[0]);
    auto* const rows = static_cast<const float**>(arguments.scratch);
    for (int64_t r = 0; r < product_.form().rows; ++r) rows[r] = a + r * step_;
    product_.Run(rows, nullptr, static_cast<float*>(arguments.outputs[0]), arguments.context);
    return absl::OkStatus();
  }

 private:
  const FewRows product_;
  const int64_t step_;  // from row to row
};

// Channels innermost: every output point is a row, every tap of the window a segment.
class FewRowsConv final : public Primitive {
 public:
  FewRowsConv(FewRows product, const ConvForm& form, bool has_bias)
      : product_(std::move(product)), axes_(Widen(form.axes)), has_bias_(has_bias) {}

  int64_t scratch_bytes() const override {
    const FewRowsForm& f = product_.form();
    return f.terms * int64_t{sizeof(float)} + f.segments * f.rows * int64_t{sizeof(const float*)} +
           kAlign;
  }
  int64_t packed_bytes() const override { return product_.packed_bytes(); }

  absl::Status Run(const Arguments& arguments) override {
    const FewRowsForm& f = product_.form();
    auto* const rows = static_cast<const float**>(arguments.scratch);
    // What lies beyond the image.
    float* const zeros = reinterpret_cast<float*>(rows + f.segments * f.rows);
    std::fill(zeros, zeros + f.terms, 0.0F);
    PointRows(static_cast<const float*>(arguments.inputs[0]), zeros, rows);
    const auto* const bias = has_bias_ ? static_cast<const float*>(arguments.inputs[2]) : nullptr;
    product_.Run(rows, bias, static_cast<float*>(arguments.outputs[0]), arguments.context);
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kAlign = 64;

  void PointRows(const float* x, const float* zeros, const float** rows) const {
    const FewRowsForm& f = product_.form();
    const auto& [d, h, w] = axes_;
    const int64_t outputs = d.out * h.out * w.out;
    for (int64_t tap = 0; tap < f.segments; ++tap) {
      for (int64_t row = 0; row < f.rows; ++row) {
        const int64_t o = row % outputs;
        const int64_t z = Meets(d, false, o / (h.out * w.out), tap / (h.kernel * w.kernel));
        const int64_t y = Meets(h, false, o / w.out % h.out, tap / w.kernel % h.kernel);
        const int64_t column = Meets(w, false, o % w.out, tap % w.kernel);
        const int64_t point = ((row / outputs * d.in + z) * h.in + y) * w.in + column;
        const bool inside = z >= 0 && y >= 0 && column >= 0;
        rows[tap * f.rows + row] = inside ? x + point * f.terms : zeros;
      }
    }
  }

  const FewRows product_;
  const ThreeAxes axes_;
  const bool has_bias_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeFewRowsMatmul(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  KILN_RETURN_IF_ERROR(TakesPostOps(request));
  const Operand& b = request.inputs[1];
  if (!IsWholeConstant(b)) return absl::UnimplementedError("the matrix is no dense constant");
  KILN_ASSIGN_OR_RETURN(const MatmulForm matmul, NormalizeMatmul(request));
  KILN_ASSIGN_OR_RETURN(const FewRowsForm form, FormOf(matmul));
  KILN_ASSIGN_OR_RETURN(FewRows product, FewRows::Make(form, b.constant, Elements(b), session));
  return WithPostOpLoops(std::make_unique<FewRowsMatmul>(std::move(product), matmul.a_m), request);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeFewRowsConv(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  KILN_RETURN_IF_ERROR(TakesPostOps(request));
  const Request conv = WithoutPostOps(request);
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(conv, /*transposed=*/false));
  const Operand &x = conv.inputs[0], &w = conv.inputs[1];
  if (form.groups != 1) return absl::UnimplementedError("several groups");
  if (w.constant == nullptr || !IsDense(w))
    return absl::UnimplementedError("the weights are no dense constant");
  if (!IsChannelsLast(x) || !IsChannelsLast(conv.outputs[0]))
    return absl::UnimplementedError("channels are not innermost");
  FewRowsForm f{.rows = form.batch, .terms = form.in_channels, .columns = form.out_channels};
  for (const WindowAxis& axis : form.axes) {
    f.rows *= axis.out;
    f.segments *= axis.kernel;
  }
  f.w_segment = 1;
  f.w_term = f.segments;
  f.w_column = f.terms * f.segments;
  f.y_row = f.columns;
  KILN_ASSIGN_OR_RETURN(FewRows product, FewRows::Make(f, w.constant, Elements(w), session));
  const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2].present;
  return WithPostOpLoops(std::make_unique<FewRowsConv>(std::move(product), form, has_bias),
                         request);
}

}  // namespace kiln::library
