// SPDX-License-Identifier: Apache-2.0
#include "exec/library/dot_conv.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/dot_block.h"
#include "exec/library/loops.h"
#include "exec/library/post_ops.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

constexpr int64_t kMostSegments = 64;  // correctness: whose pointers lie on the stack
constexpr int64_t kTaskOutputs = 64;   // speed

class DotConv final : public Primitive {
 public:
  DotConv(const ConvForm& form, std::shared_ptr<const void> filters, bool has_bias)
      : form_(form), axes_(Widen(form.axes)), filters_(std::move(filters)), has_bias_(has_bias) {
    const WindowAxis& w = axes_[2];
    first_inner_ = std::min(w.out, DivideUp(w.pad_begin, w.stride));
    const int64_t room = w.in + w.pad_begin - w.kernel;
    end_inner_ = std::clamp(room < 0 ? 0 : room / w.stride + 1, first_inner_, w.out);
  }

  int64_t packed_bytes() const override {
    return form_.out_channels * Segments() * Terms() * int64_t{sizeof(float)};
  }

  absl::Status Run(const Arguments& a) const override {
    const int64_t blocks = DivideUp(axes_[2].out, kTaskOutputs);
    const int64_t lines = form_.batch * axes_[0].out * axes_[1].out;
    ParallelRanges(a.context, lines * blocks, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % blocks * kTaskOutputs;
        RunLine(a, task / blocks, first, std::min(first + kTaskOutputs, axes_[2].out));
      }
    });
    return absl::OkStatus();
  }

 private:
  int64_t Segments() const { return axes_[0].kernel * axes_[1].kernel; }
  int64_t Terms() const { return axes_[2].kernel * form_.in_channels; }

  // Outputs [begin, end) of a line: those whose window crosses an edge one by one.
  void RunLine(const Arguments& a, int64_t line, int64_t begin, int64_t end) const {
    const float* rows[kMostSegments];
    PointRows(static_cast<const float*>(a.inputs[0]), line, rows);
    const int64_t first = std::clamp(first_inner_, begin, end);
    const int64_t last = std::clamp(end_inner_, first, end);
    for (int64_t o = begin; o < first; ++o) RunOutputs(a, line, rows, o, 1);
    if (first < last) RunOutputs(a, line, rows, first, last - first);
    for (int64_t o = last; o < end; ++o) RunOutputs(a, line, rows, o, 1);
  }

  // rows[tap]: where the row of the image begins that the line meets through the tap of the outer
  // axes; null beyond the image.
  void PointRows(const float* x, int64_t line, const float** rows) const {
    const auto& [d, h, w] = axes_;
    const int64_t image = line / (d.out * h.out);
    for (int64_t i = 0; i < d.kernel; ++i) {
      const int64_t z = Meets(d, false, line / h.out % d.out, i);
      for (int64_t j = 0; j < h.kernel; ++j) {
        const int64_t y = Meets(h, false, line % h.out, j);
        const int64_t row = (image * d.in + z) * h.in + y;
        rows[i * h.kernel + j] = z < 0 || y < 0 ? nullptr : x + row * w.in * form_.in_channels;
      }
    }
  }

  // Whose windows have the same taps inside the image.
  void RunOutputs(const Arguments& a, int64_t line, const float* const* rows, int64_t o,
                  int64_t count) const {
    const WindowAxis& w = axes_[2];
    const int64_t from = o * w.stride - w.pad_begin;
    const int64_t begin = std::clamp<int64_t>(-from, 0, w.kernel);
    const int64_t end = std::clamp<int64_t>(w.in - from, begin, w.kernel);
    const float* x[kMostSegments];
    for (int64_t s = 0; s < Segments(); ++s)
      x[s] = rows[s] == nullptr ? nullptr : rows[s] + (from + begin) * form_.in_channels;
    auto* const y = static_cast<float*>(a.outputs[0]) + (line * w.out + o) * form_.out_channels;
    run_({.x = x,
          .x_step = w.stride * form_.in_channels,
          .w = static_cast<const float*>(filters_.get()) + begin * form_.in_channels,
          .w_filter = Segments() * Terms(),
          .w_segment = Terms(),
          .segments = Segments(),
          .terms = (end - begin) * form_.in_channels,
          .count = count,
          .filters = form_.out_channels,
          .bias = has_bias_ ? static_cast<const float*>(a.inputs[2]) : nullptr,
          .y = y});
  }

  const ConvForm form_;
  const ThreeAxes axes_;
  const std::shared_ptr<const void> filters_;  // [channel][tap][channel of the input]
  const bool has_bias_;
  int64_t first_inner_ = 0, end_inner_ = 0;  // outputs whose windows cross no edge
  const DotsFn run_ = FindDots();
};

// In products of full registers, measured on x86-64-v4: a dot product costs six more to add up and
// store; oneDNN takes one for each term and up to sixteen channels. What is won must be a fifth.
bool Pays(const ConvForm& form) {
  constexpr int64_t kLanes = 16, kFold = 6;  // speed
  const auto [d, h, w] = Widen(form.axes);
  const int64_t segments = d.kernel * h.kernel, terms = w.kernel * form.in_channels;
  const int64_t dots = form.out_channels * (segments * DivideUp(terms, kLanes) + kFold);
  return dots * 5 < segments * terms * DivideUp(form.out_channels, kLanes) * 4;
}

absl::Status Takes(const Request& conv, const ConvForm& form) {
  KILN_RETURN_IF_ERROR(TakesOneGroup(conv, form));
  const auto [d, h, last] = Widen(form.axes);
  if (last.dilation != 1 && last.kernel > 1)
    return absl::UnimplementedError("the taps along the last axis are apart");
  if (d.kernel * h.kernel > kMostSegments) return absl::UnimplementedError("too many taps");
  if (!Pays(form)) {
    return absl::UnimplementedError(
        absl::StrCat("registers across ", form.out_channels, " channels are full enough"));
  }
  if (FindDots() == nullptr) return absl::UnimplementedError("needs AVX-512");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeDotConv(const Request& request,
                                                       const std::shared_ptr<Session>& session) {
  KILN_RETURN_IF_ERROR(TakesF32(request));
  const Request conv = WithoutPostOps(request);
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(conv, /*transposed=*/false));
  KILN_RETURN_IF_ERROR(Takes(conv, form));
  int64_t taps = 1;
  for (const WindowAxis& axis : form.axes) taps *= axis.kernel;
  const size_t bytes =
      static_cast<size_t>(form.out_channels * form.in_channels * taps) * sizeof(float);
  const auto* const from = static_cast<const float*>(conv.inputs[1].constant);
  KILN_ASSIGN_OR_RETURN(
      std::shared_ptr<const void> filters,
      session->Packed(from, bytes, absl::StrCat("taps first: ", form.in_channels, " x ", taps),
                      bytes, [&](void* packed) {
                        auto* to = static_cast<float*>(packed);
                        for (int64_t m = 0; m < form.out_channels; ++m) {
                          for (int64_t t = 0; t < taps; ++t) {
                            for (int64_t c = 0; c < form.in_channels; ++c)
                              *to++ = from[(m * form.in_channels + c) * taps + t];
                          }
                        }
                      }));
  const bool has_bias = HasBias(conv);
  return WithPostOpLoops(std::make_unique<DotConv>(form, std::move(filters), has_bias), request);
}

}  // namespace kiln::library
