// SPDX-License-Identifier: Apache-2.0
#include "exec/library/skinny_gemm.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/gemm_block.h"
#include "exec/library/loops.h"
#include "exec/library/packed_gemm.h"
#include "exec/library/post_op_rows.h"
#include "exec/library/post_ops.h"
#include "exec/library/shapes.h"
#include "exec/support/caches.h"

namespace kiln::library {
namespace {

// Measured on x86-64-v4: with more rows, or a matrix that the second-level cache holds, what is
// fetched is no longer what one waits for.
constexpr int64_t kMostRows = 64;  // speed
constexpr int64_t kLeastBytes = kL2Bytes / 2;

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

// The product, shared by panels among the threads: each reads its part of the matrix once.
class SkinnyGemm {
 public:
  static absl::StatusOr<SkinnyGemm> Make(PanelForm form, int64_t rows, const Operand& matrix,
                                         const std::shared_ptr<Session>& session) {
    if (rows < 2 || rows > kMostRows)
      return absl::UnimplementedError(absl::StrCat(rows, " rows; it pays from 2 to ", kMostRows));
    const int64_t elements = Elements(matrix), bytes = elements * int64_t{sizeof(float)};
    if (bytes < kLeastBytes || form.terms < kPanel || form.columns < kPanel) {
      return absl::UnimplementedError(absl::StrCat("the matrix has ", bytes,
                                                   " bytes; it pays from ", kLeastBytes,
                                                   " in rows and columns of ", kPanel));
    }
    KILN_ASSIGN_OR_RETURN(PackedGemm product,
                          PackedGemm::Make(std::move(form), matrix.constant, elements, session));
    return SkinnyGemm(std::move(product), rows, session->threads());
  }

  const PanelForm& form() const { return product_.form(); }
  int64_t rows() const { return rows_; }
  int64_t segments() const { return static_cast<int64_t>(form().segments.size()); }
  int64_t packed_bytes() const { return product_.packed_bytes(); }

  void Run(const PanelRows& rows, LaunchContext* context) const {
    const int64_t all = product_.panels();
    ParallelRanges(context, threads_, [&](int64_t first, int64_t last) {
      const int64_t end = all * last / threads_;
      for (int64_t i = all * first / threads_; i < end; ++i) product_.Run(i, rows, i + 1 == end);
    });
  }

 private:
  SkinnyGemm(PackedGemm product, int64_t rows, int threads)
      : product_(std::move(product)), rows_(rows), threads_(threads) {}

  PackedGemm product_;
  int64_t rows_;
  int threads_;
};

absl::StatusOr<PanelForm> FormOf(const MatmulForm& m) {
  PanelForm f{.terms = m.k, .columns = m.n, .w_term = m.b_k, .w_column = m.b_n};
  if (m.batch.size() > 1 || (m.batch.size() == 1 && m.batch[0].a != 0))
    return absl::UnimplementedError("several products");
  if (m.batch.size() == 1) {
    f.groups = m.batch[0].extent;
    f.w_group = m.batch[0].b;
  }
  if (m.a_k != 1 || m.c_n != 1) return absl::UnimplementedError("rows are not dense");
  return f;
}

class SkinnyGemmMatmul final : public Primitive {
 public:
  SkinnyGemmMatmul(SkinnyGemm product, const MatmulForm& m)
      : product_(std::move(product)),
        a_(m.m, m.k, m.a_m, 1),
        c_step_(m.c_m),
        c_group_(m.batch.empty() ? 0 : m.batch[0].c) {}
  int64_t scratch_bytes() const override { return a_.scratch_bytes(); }
  int64_t packed_bytes() const override { return product_.packed_bytes(); }

  absl::Status Run(const Arguments& arguments) const override {
    const float* const a = a_.Get(static_cast<const float*>(arguments.inputs[0]), arguments.scratch,
                                  arguments.context);
    auto* const c = static_cast<float*>(arguments.outputs[0]);
    const float* x[kMostRows];
    float* y[kMostRows];
    for (int64_t r = 0; r < product_.rows(); ++r) {
      x[r] = a + r * a_.step();
      y[r] = c + r * c_step_;
    }
    product_.Run({product_.rows(), x, y, c_group_}, arguments.context);
    return absl::OkStatus();
  }

 private:
  const SkinnyGemm product_;
  const RowsApart a_;
  const int64_t c_step_, c_group_;
};

// Channels innermost: every output point is a row, every tap of the window a segment.
class SkinnyGemmConv final : public Primitive {
 public:
  SkinnyGemmConv(SkinnyGemm product, const ConvForm& form, bool has_bias)
      : product_(std::move(product)),
        axes_(Widen(form.axes)),
        has_bias_(has_bias),
        inputs_(form.batch * axes_[0].in * axes_[1].in * axes_[2].in, form.in_channels,
                form.in_channels, axes_[2].stride) {}

  int64_t scratch_bytes() const override {
    return inputs_.scratch_bytes() +
           product_.segments() * product_.rows() * int64_t{sizeof(const float*)};
  }
  int64_t packed_bytes() const override { return product_.packed_bytes(); }

  absl::Status Run(const Arguments& arguments) const override {
    const PanelForm& f = product_.form();
    auto* const memory = static_cast<uint8_t*>(arguments.scratch);
    auto* const x = reinterpret_cast<const float**>(memory + inputs_.scratch_bytes());
    PointRows(
        inputs_.Get(static_cast<const float*>(arguments.inputs[0]), memory, arguments.context), x);
    float* y[kMostRows];
    for (int64_t r = 0; r < product_.rows(); ++r)
      y[r] = static_cast<float*>(arguments.outputs[0]) + r * f.columns;
    const auto* const bias = has_bias_ ? static_cast<const float*>(arguments.inputs[2]) : nullptr;
    product_.Run({product_.rows(), x, y, 0, bias}, arguments.context);
    return absl::OkStatus();
  }

 private:
  void PointRows(const float* x, const float** rows) const {
    const int64_t count = product_.rows();
    const auto& [d, h, w] = axes_;
    const int64_t outputs = d.out * h.out * w.out;
    for (int64_t tap = 0; tap < product_.segments(); ++tap) {
      for (int64_t row = 0; row < count; ++row) {
        const int64_t o = row % outputs;
        const int64_t z = Meets(d, false, o / (h.out * w.out), tap / (h.kernel * w.kernel));
        const int64_t y = Meets(h, false, o / w.out % h.out, tap / w.kernel % h.kernel);
        const int64_t column = Meets(w, false, o % w.out, tap % w.kernel);
        const int64_t point = ((row / outputs * d.in + z) * h.in + y) * w.in + column;
        const bool inside = z >= 0 && y >= 0 && column >= 0;
        rows[tap * count + row] = inside ? x + point * inputs_.step() : nullptr;
      }
    }
  }

  const SkinnyGemm product_;
  const ThreeAxes axes_;
  const bool has_bias_;
  const RowsApart inputs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeSkinnyGemmMatmul(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  KILN_RETURN_IF_ERROR(TakesPostOps(request));
  const Operand& b = request.inputs[1];
  if (!IsWholeConstant(b)) return absl::UnimplementedError("the matrix is no dense constant");
  KILN_ASSIGN_OR_RETURN(const MatmulForm matmul, NormalizeMatmul(request));
  KILN_ASSIGN_OR_RETURN(PanelForm form, FormOf(matmul));
  KILN_ASSIGN_OR_RETURN(SkinnyGemm product,
                        SkinnyGemm::Make(std::move(form), matmul.m, b, session));
  return WithPostOpLoops(std::make_unique<SkinnyGemmMatmul>(std::move(product), matmul), request);
}

absl::StatusOr<std::unique_ptr<Primitive>> MakeSkinnyGemmConv(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  KILN_RETURN_IF_ERROR(TakesPostOps(request));
  const Request conv = WithoutPostOps(request);
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(conv, /*transposed=*/false));
  const Operand& w = conv.inputs[1];
  KILN_RETURN_IF_ERROR(TakesOneGroup(conv, form));
  int64_t rows = form.batch, taps = 1;
  for (const WindowAxis& axis : form.axes) {
    rows *= axis.out;
    taps *= axis.kernel;
  }
  PanelForm f{.terms = form.in_channels,
              .columns = form.out_channels,
              .segments = std::vector<int64_t>(static_cast<size_t>(taps)),
              .w_term = taps,
              .w_column = form.in_channels * taps};
  std::iota(f.segments.begin(), f.segments.end(), 0);
  KILN_ASSIGN_OR_RETURN(SkinnyGemm product, SkinnyGemm::Make(std::move(f), rows, w, session));
  const bool has_bias = HasBias(conv);
  return WithPostOpLoops(std::make_unique<SkinnyGemmConv>(std::move(product), form, has_bias),
                         request);
}

}  // namespace kiln::library
