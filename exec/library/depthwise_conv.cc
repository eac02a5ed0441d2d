// SPDX-License-Identifier: Apache-2.0
#include "exec/library/depthwise_conv.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/depthwise_block.h"
#include "exec/library/loops.h"
#include "exec/library/post_ops.h"
#include "exec/library/row_epilogue.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

constexpr int64_t kMostSegments = 16;                // correctness
constexpr int64_t kMostKernel = 8, kMostStride = 2;  // correctness
constexpr int64_t kMostPoints = (kMostDepthwise - 1) * kMostStride + kMostKernel;

int64_t Padded(int64_t channels) { return DivideUp(channels, kDepthwiseLanes) * kDepthwiseLanes; }

// [tap][channel], and then the zeros that lie beyond the image.
void Pack(const float* filters, int64_t channels, int64_t taps, float* packed) {
  std::fill(packed, packed + (taps + 1) * Padded(channels), 0.0F);
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t c = 0; c < channels; ++c) packed[t * Padded(channels) + c] = filters[c * taps + t];
  }
}

class DepthwiseConv final : public Primitive {
 public:
  DepthwiseConv(const ConvForm& form, std::shared_ptr<const void> filters, bool has_bias,
                RowEpilogue finish)
      : batch_(form.batch),
        channels_(form.groups),
        axes_(Widen(form.axes)),
        filters_(std::move(filters)),
        has_bias_(has_bias),
        finish_(std::move(finish)),
        blocks_(DivideUp(axes_[2].out, kMostDepthwise)) {}

  int64_t packed_bytes() const override {
    return (Taps() + 1) * Padded(channels_) * int64_t{sizeof(float)};
  }

  absl::Status Run(const Arguments& a) const override {
    const int64_t lines = batch_ * axes_[1].out;
    ParallelRanges(a.context, lines * blocks_, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) RunBlock(a, task / blocks_, task % blocks_);
    });
    return absl::OkStatus();
  }

 private:
  int64_t Taps() const { return axes_[1].kernel * axes_[2].kernel; }

  // A block of outputs of a line.
  void RunBlock(const Arguments& a, int64_t line, int64_t block) const {
    const auto& [depth, h, w] = axes_;
    const int64_t begin = w.out * block / blocks_, end = w.out * (block + 1) / blocks_;
    const int64_t row = line * w.out + begin;
    const auto* const filters = static_cast<const float*>(filters_.get());
    const float* x[kMostSegments * kMostPoints];
    int64_t segments = 0;
    const int64_t top = Inside(h, line % h.out, segments);
    const int64_t first_line = line / h.out * h.in + line % h.out * h.stride - h.pad_begin + top;
    PointTo(static_cast<const float*>(a.inputs[0]) + first_line * w.in * channels_, segments, begin,
            end, x);
    FindDepthwiseBlock(end - begin, w.kernel, w.stride)(
        {.x = x,
         .segments = segments,
         .w = filters + top * w.kernel * Padded(channels_),
         .bias = has_bias_ ? static_cast<const float*>(a.inputs[2]) : nullptr,
         .channels = channels_,
         .y = static_cast<float*>(a.outputs[0]) + row * channels_,
         .low = finish_.low(),
         .high = finish_.high()});
    finish_.Run(a, row, end - begin);
  }

  // The points that outputs [begin, end) meet on each of the lines from `from` on.
  void PointTo(const float* from, int64_t segments, int64_t begin, int64_t end,
               const float** x) const {
    const WindowAxis& w = axes_[2];
    const float* const zeros =
        static_cast<const float*>(filters_.get()) + Taps() * Padded(channels_);
    const int64_t points = (end - begin - 1) * w.stride + w.kernel;
    for (int64_t s = 0; s < segments; ++s) {
      for (int64_t i = 0; i < points; ++i) {
        const int64_t at = begin * w.stride - w.pad_begin + i;
        *x++ = at < 0 || at >= w.in ? zeros : from + (s * w.in + at) * channels_;
      }
    }
  }

  // The first tap of the window at output `o` that lies inside the image, and how many do.
  static int64_t Inside(const WindowAxis& axis, int64_t o, int64_t& taps) {
    const int64_t from = o * axis.stride - axis.pad_begin;
    const int64_t begin = std::clamp<int64_t>(-from, 0, axis.kernel);
    taps = std::clamp<int64_t>(axis.in - from, begin, axis.kernel) - begin;
    return begin;
  }

  const int64_t batch_, channels_;
  const ThreeAxes axes_;
  const std::shared_ptr<const void> filters_;
  const bool has_bias_;
  const RowEpilogue finish_;
  const int64_t blocks_;  // of a line
};

absl::Status Takes(const Request& conv, const ConvForm& form) {
  if (form.groups == 1 || form.in_channels != 1 || form.out_channels != 1)
    return absl::UnimplementedError("not a group for each channel");
  KILN_RETURN_IF_ERROR(TakesRows(conv));
  const auto [depth, lines, line] = Widen(form.axes);
  if (!IsUnitAxis(depth)) return absl::UnimplementedError("three axes");
  if (lines.dilation != 1 || line.dilation != 1 || lines.kernel > kMostSegments ||
      FindDepthwiseBlock(1, line.kernel, line.stride) == nullptr) {
    return absl::UnimplementedError(absl::StrCat("no loop for windows of ", lines.kernel, " x ",
                                                 line.kernel, " and strides of ", line.stride));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeDepthwiseConv(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  const Request conv = WithoutPostOps(request);
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(conv, /*transposed=*/false));
  KILN_RETURN_IF_ERROR(Takes(conv, form));
  KILN_ASSIGN_OR_RETURN(RowEpilogue finish, RowEpilogue::Make(request));
  int64_t taps = 1;
  for (const WindowAxis& axis : form.axes) taps *= axis.kernel;
  const auto* const filters = static_cast<const float*>(conv.inputs[1].constant);
  if (!std::all_of(filters, filters + form.groups * taps, [](float w) { return std::isfinite(w); }))
    return absl::UnimplementedError("a weight is not finite: zeros beyond the image would matter");
  KILN_ASSIGN_OR_RETURN(
      std::shared_ptr<const void> packed,
      session->Packed(
          filters, static_cast<size_t>(form.groups * taps) * sizeof(float),
          absl::StrCat("depthwise, ", taps, " taps of ", form.groups),
          static_cast<size_t>((taps + 1) * Padded(form.groups)) * sizeof(float),
          [&](void* to) { Pack(filters, form.groups, taps, static_cast<float*>(to)); }));
  const bool has_bias = HasBias(conv);
  return std::make_unique<DepthwiseConv>(form, std::move(packed), has_bias, std::move(finish));
}

}  // namespace kiln::library
