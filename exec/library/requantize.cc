// SPDX-License-Identifier: Apache-2.0
#include "exec/library/requantize.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace kiln::library {
namespace {

// The scales of x, w and y, the zero point, the bias.
constexpr std::array<size_t, 5> kInputs = {1, 4, 6, 7, 8};  // correctness

}  // namespace

absl::StatusOr<Requantizer> Requantizer::Make(const Request& request, int64_t terms,
                                              RequantizeFn run) {
  const Operand& y = request.outputs[0];
  Requantizer made;
  made.channels_ = y.shape.size() > 1 ? y.shape[1] : 0;
  made.terms_ = terms;
  made.has_bias_ = request.inputs.size() > 8 && request.inputs[8].present;
  made.is_signed_ = y.type == DType::kI8;
  made.run_ = run;
  for (size_t i = 0; i < kInputs.size(); ++i) {
    if (i == 4 && !made.has_bias_) continue;
    const Operand& input = request.inputs[kInputs[i]];
    const DType type = i < 3 ? DType::kF32 : i == 3 ? y.type : DType::kI32;
    const bool one = input.shape.empty() || (input.shape.size() == 1 && input.shape[0] == 1);
    const bool fits = one || (input.shape.size() == 1 && input.shape[0] == made.channels_);
    if (input.type != type || !fits) {
      return absl::InvalidArgumentError(absl::StrCat("input ", kInputs[i], " must be ", Name(type),
                                                     ", one or one for each of ", made.channels_,
                                                     " channels"));
    }
    made.steps_[i] = one ? 0 : input.strides[0];
  }
  if (y.type != DType::kU8 && y.type != DType::kI8)
    return absl::InvalidArgumentError(
        absl::StrCat("result of type ", Name(y.type), "; gives u8 and i8"));
  return made;
}

int64_t Requantizer::scratch_bytes() const {
  const int64_t each = 3 * sizeof(double) + 2 * sizeof(int32_t) + sizeof(float);
  return (channels_ + RequantizeChannels::kMore) * each;
}

RequantizeChannels Requantizer::Fill(const Arguments& arguments, void* scratch) const {
  constexpr double kMostSum = 2147483647;  // correctness: of what i32 holds
  const int64_t padded = channels_ + RequantizeChannels::kMore;
  auto* const scales = static_cast<double*>(scratch);
  auto* const whole = reinterpret_cast<int32_t*>(scales + 3 * padded);
  auto* const factor = reinterpret_cast<float*>(whole + 2 * padded);
  const auto scale = [&](size_t i, int64_t c) {
    return double{static_cast<const float*>(arguments.inputs[kInputs[i]])[c * steps_[i]]};
  };
  const auto* const bias =
      has_bias_ ? static_cast<const int32_t*>(arguments.inputs[kInputs[4]]) : nullptr;
  const void* const zero = arguments.inputs[kInputs[3]];
  for (int64_t c = 0; c < padded; ++c) {
    const int64_t of = c < channels_ ? c : 0;  // those beyond are not looked at
    for (size_t i = 0; i < 3; ++i) scales[static_cast<int64_t>(i) * padded + c] = scale(i, of);
    whole[c] = bias == nullptr ? 0 : bias[of * steps_[4]];
    whole[padded + c] = is_signed_ ? static_cast<const int8_t*>(zero)[of * steps_[3]]
                                   : static_cast<const uint8_t*>(zero)[of * steps_[3]];
    const double most =
        static_cast<double>(terms_) * (255.0 * 255) + std::abs(static_cast<double>(whole[c]));
    factor[c] = most < kMostSum ? static_cast<float>(scale(0, of) * scale(1, of) / scale(2, of))
                                : std::numeric_limits<float>::quiet_NaN();
  }
  return {.x_scale = scales,
          .w_scale = scales + padded,
          .y_scale = scales + 2 * padded,
          .bias = whole,
          .zero = whole + padded,
          .factor = factor,
          .is_signed = is_signed_};
}

}  // namespace kiln::library
