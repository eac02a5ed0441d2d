// SPDX-License-Identifier: Apache-2.0
#include "exec/library/conv_1x1.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/conv_1x1_block.h"
#include "exec/library/loops.h"
#include "exec/library/post_ops.h"
#include "exec/library/row_epilogue.h"
#include "exec/library/shapes.h"
#include "exec/support/caches.h"

namespace kiln::library {
namespace {

// Blocks of rows that go through a panel before the next: a hundred rows, which the second-level
// cache holds beside the panel.
constexpr int64_t kGroup = 8;  // speed
// More than second-level caches hold.
constexpr int64_t kFarElements = 2 * kL2Bytes / int64_t{sizeof(float)};

int64_t PaddedColumns(int64_t columns) { return DivideUp(columns, kPointColumns) * kPointColumns; }

struct PointForm {
  int64_t rows, terms, columns;
};

// [panel][term][column of the panel], zeros beyond the last.
void Pack(const PointForm& f, const float* filters, float* packed) {
  for (int64_t first = 0; first < f.columns; first += kMostPointColumns) {
    const int64_t columns = std::min(kMostPointColumns, f.columns - first);
    const int64_t width = PaddedColumns(columns);
    for (int64_t t = 0; t < f.terms; ++t) {
      for (int64_t c = 0; c < width; ++c)
        *packed++ = c < columns ? filters[(first + c) * f.terms + t] : 0.0F;
    }
  }
}

class Conv1X1 final : public Primitive {
 public:
  Conv1X1(const PointForm& form, std::shared_ptr<const void> matrix, bool has_bias,
          RowEpilogue finish)
      : form_(form),
        matrix_(std::move(matrix)),
        has_bias_(has_bias),
        finish_(std::move(finish)),
        blocks_(DivideUp(form.rows, kPointRows)),
        far_(form.rows * form.columns >= kFarElements) {}

  int64_t packed_bytes() const override {
    return form_.terms * PaddedColumns(form_.columns) * int64_t{sizeof(float)};
  }

  absl::Status Run(const Arguments& a) const override {
    ParallelRanges(a.context, blocks_, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; b += kGroup) RunGroup(a, b, std::min(b + kGroup, end));
    });
    return absl::OkStatus();
  }

 private:
  int64_t FirstRow(int64_t block) const { return form_.rows * block / blocks_; }

  void RunGroup(const Arguments& a, int64_t begin, int64_t end) const {
    const auto* const x = static_cast<const float*>(a.inputs[0]);
    const auto* const bias = has_bias_ ? static_cast<const float*>(a.inputs[2]) : nullptr;
    auto* const y = static_cast<float*>(a.outputs[0]);
    const auto* panel = static_cast<const float*>(matrix_.get());
    for (int64_t first = 0; first < form_.columns; first += kMostPointColumns) {
      const int64_t columns = std::min(kMostPointColumns, form_.columns - first);
      for (int64_t b = begin; b < end; ++b) {
        const int64_t row = FirstRow(b);
        FindConv1X1Block(FirstRow(b + 1) - row, columns)({.x = x + row * form_.terms,
                                                          .x_step = form_.terms,
                                                          .terms = form_.terms,
                                                          .panel = panel,
                                                          .bias = bias ? bias + first : nullptr,
                                                          .y = y + row * form_.columns + first,
                                                          .y_step = form_.columns,
                                                          .columns = columns,
                                                          .low = finish_.low(),
                                                          .high = finish_.high(),
                                                          .far = far_});
      }
      panel += form_.terms * PaddedColumns(columns);
    }
    finish_.Run(a, FirstRow(begin), FirstRow(end) - FirstRow(begin));
  }

  const PointForm form_;
  const std::shared_ptr<const void> matrix_;
  const bool has_bias_;
  const RowEpilogue finish_;
  const int64_t blocks_;
  const bool far_;
};

absl::Status Takes(const Request& conv, const ConvForm& form) {
  KILN_RETURN_IF_ERROR(TakesOneGroup(conv, form));
  for (const WindowAxis& axis : form.axes) {
    if (axis.kernel != 1 || axis.stride != 1 || axis.pad_begin != 0 || axis.in != axis.out)
      return absl::UnimplementedError("windows are not points side by side");
  }
  // Of rows a multiple of 4 KiB apart the first-level cache keeps a few only.
  constexpr int64_t kAlias = 1024;  // correctness
  if (form.in_channels % kAlias == 0)
    return absl::UnimplementedError("rows lie a multiple of 4 KiB apart");
  if (FindConv1X1Block(1, 1) == nullptr) return absl::UnimplementedError("needs AVX-512");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeConv1X1(const Request& request,
                                                       const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  const Request conv = WithoutPostOps(request);
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(conv, /*transposed=*/false));
  KILN_RETURN_IF_ERROR(Takes(conv, form));
  KILN_ASSIGN_OR_RETURN(RowEpilogue finish, RowEpilogue::Make(request));
  PointForm point{form.batch, form.in_channels, form.out_channels};
  for (const WindowAxis& axis : form.axes) point.rows *= axis.out;
  if (DivideUp(point.rows, kPointRows) < session->threads())
    return absl::UnimplementedError("fewer blocks of rows than threads");
  const auto* const filters = static_cast<const float*>(conv.inputs[1].constant);
  const int64_t bytes = point.terms * point.columns * int64_t{sizeof(float)};
  const int64_t packed_bytes = point.terms * PaddedColumns(point.columns) * int64_t{sizeof(float)};
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const void> matrix,
                        session->Packed(filters, static_cast<size_t>(bytes),
                                        absl::StrCat("points in panels of ", kMostPointColumns,
                                                     ": ", point.terms, " x ", point.columns),
                                        static_cast<size_t>(packed_bytes), [&](void* packed) {
                                          Pack(point, filters, static_cast<float*>(packed));
                                        }));
  const bool has_bias = HasBias(conv);
  return std::make_unique<Conv1X1>(point, std::move(matrix), has_bias, std::move(finish));
}

}  // namespace kiln::library
