// SPDX-License-Identifier: Apache-2.0
#include "exec/library/deconv_product.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/library/library.h"
#include "exec/library/loops.h"
#include "exec/library/pool_rows.h"
#include "exec/library/shapes.h"

namespace kiln::library {
namespace {

// Measured on x86-64-v4: up to here products win, from 1.3 to 3 times.
constexpr int64_t kMostPoints = 64;  // speed

class DeconvProduct final : public Primitive {
 public:
  DeconvProduct(const ConvForm& form, std::unique_ptr<Primitive> product)
      : product_(std::move(product)),
        batch_(form.batch),
        channels_(form.out_channels),
        axes_(Widen(form.axes)) {}

  int64_t scratch_bytes() const override { return PartialBytes() + product_->scratch_bytes(); }
  int64_t packed_bytes() const override { return product_->packed_bytes(); }
  std::string description() const override { return product_->description(); }

  std::unique_ptr<CallState> NewState() const override { return product_->NewState(); }

  absl::Status Run(const Arguments& arguments) const override {
    auto* const scratch = static_cast<uint8_t*>(arguments.scratch);
    void* partial = scratch;
    const Arguments product = {arguments.inputs, &partial, scratch + PartialBytes(),
                               arguments.context, arguments.state};
    if (absl::Status status = product_->Run(product); !status.ok()) return status;
    const auto* sums = static_cast<const float*>(partial);
    auto* y = static_cast<float*>(arguments.outputs[0]);
    ParallelRanges(arguments.context, batch_ * Outputs(), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) Sum(sums, at, y + at * channels_);
    });
    return absl::OkStatus();
  }

 private:
  int64_t Points() const { return axes_[0].in * axes_[1].in * axes_[2].in; }
  int64_t Outputs() const { return axes_[0].out * axes_[1].out * axes_[2].out; }
  int64_t PartialBytes() const {
    const int64_t taps = axes_[0].kernel * axes_[1].kernel * axes_[2].kernel;
    const int64_t bytes = taps * batch_ * Points() * channels_ * int64_t{sizeof(float)};
    return (bytes + 63) / 64 * 64;
  }

  void Sum(const float* partial, int64_t at, float* y) const {
    const auto& [d, h, w] = axes_;
    const int64_t image = at / Outputs(), o = at % Outputs();
    std::fill(y, y + channels_, 0.0F);
    for (int64_t i = 0; i < d.kernel; ++i) {
      const int64_t z = Meets(d, true, o / (h.out * w.out), i);
      for (int64_t j = 0; z >= 0 && j < h.kernel; ++j) {
        const int64_t row = Meets(h, true, o / w.out % h.out, j);
        for (int64_t k = 0; row >= 0 && k < w.kernel; ++k) {
          const int64_t column = Meets(w, true, o % w.out, k);
          if (column < 0) continue;
          const int64_t tap = (i * h.kernel + j) * w.kernel + k;
          const int64_t point = (z * h.in + row) * w.in + column;
          rows_.add(y, partial + ((tap * batch_ + image) * Points() + point) * channels_,
                    channels_);
        }
      }
    }
  }

  const std::unique_ptr<Primitive> product_;
  const int64_t batch_, channels_;
  const ThreeAxes axes_;
  const PoolRows& rows_ = GetPoolRows();
};

// [taps, points, M] = x [1, points, C] * w [taps, C, M], the weights as they lie.
Request ProductOf(const Request& request, const ConvForm& form, int64_t points) {
  const Operand &x = request.inputs[0], &w = request.inputs[1];
  const int64_t in = form.in_channels, out = form.out_channels;
  int64_t taps = 1;
  for (const WindowAxis& axis : form.axes) taps *= axis.kernel;
  Request product;
  product.inputs = {{true, DType::kF32, {1, points, in}, {points * in, in, 1}, x.constant},
                    {true, DType::kF32, {taps, in, out}, {1, out * taps, taps}, w.constant}};
  product.outputs = {{true, DType::kF32, {taps, points, out}, {points * out, out, 1}, nullptr}};
  return product;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Primitive>> MakeDeconvProduct(
    const Request& request, const std::shared_ptr<Session>& session) {
  KILN_ASSIGN_OR_RETURN(const ConvForm form, NormalizeConv(request, /*transposed=*/true));
  KILN_RETURN_IF_ERROR(TakesF32(request));
  KILN_RETURN_IF_ERROR(TakesOneGroup(request, form));
  if (HasBias(request)) return absl::UnimplementedError("adds no bias");
  int64_t points = form.batch;
  for (const WindowAxis& axis : form.axes) points *= axis.in;
  if (points > kMostPoints || points == 0 || form.in_channels == 0) {
    return absl::UnimplementedError(
        absl::StrCat("the input has ", points, " points; it pays from 1 to ", kMostPoints));
  }
  KILN_ASSIGN_OR_RETURN(auto product,
                        Make(*Find("matmul"), ProductOf(request, form, points), session));
  return std::make_unique<DeconvProduct>(form, std::move(product));
}

}  // namespace kiln::library
