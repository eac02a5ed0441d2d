// SPDX-License-Identifier: Apache-2.0
#include "exec/library/reference_conv.h"

#include <array>
#include <optional>

#include "exec/library/loops.h"

namespace kiln::library {
namespace {

using Steps = std::array<int64_t, 5>;  // batch, channel, three spatial

Steps StepsOf(const Operand& operand) {
  Steps steps{operand.strides[0], operand.strides[1], 0, 0, 0};
  const size_t spatial = operand.strides.size() - 2;
  for (size_t i = 0; i < spatial; ++i) steps[5 - spatial + i] = operand.strides[2 + i];
  return steps;
}

class ReferenceConv final : public Primitive {
 public:
  ReferenceConv(const Request& request, const ConvForm& form, bool transposed)
      : transposed_(transposed),
        type_(request.inputs[0].type),
        form_(form),
        axes_(Widen(form.axes)) {
    x_ = StepsOf(request.inputs[0]);
    w_ = StepsOf(request.inputs[1]);
    y_ = StepsOf(request.outputs[0]);
    if (HasBias(request)) bias_ = request.inputs[2].strides[0];
  }

  absl::Status Run(const Arguments& arguments) const override {
    ForElement(type_, [&]<typename E>() {
      const int64_t planes = form_.batch * form_.groups * form_.out_channels;
      ParallelRanges(arguments.context, planes, [&](int64_t begin, int64_t end) {
        for (int64_t plane = begin; plane < end; ++plane) Plane<E>(arguments, plane);
      });
    });
    return absl::OkStatus();
  }

 private:
  template <typename E>
  void Plane(const Arguments& arguments, int64_t plane) const {
    const int64_t channels = form_.groups * form_.out_channels;
    const int64_t n = plane / channels, c = plane % channels;
    const auto* bias =
        static_cast<const typename E::Storage*>(bias_ ? arguments.inputs[2] : nullptr);
    auto* y = static_cast<typename E::Storage*>(arguments.outputs[0]) + n * y_[0] + c * y_[1];
    using Sum = Wrapping<typename E::Compute>;
    const Sum start = bias_ ? static_cast<Sum>(E::Load(bias[c * *bias_])) : Sum{0};
    std::array<int64_t, 3> o{};
    for (o[0] = 0; o[0] < axes_[0].out; ++o[0]) {
      for (o[1] = 0; o[1] < axes_[1].out; ++o[1]) {
        for (o[2] = 0; o[2] < axes_[2].out; ++o[2]) {
          const Sum sum = start + Window<E, Sum>(arguments, n, c, o);
          y[o[0] * y_[2] + o[1] * y_[3] + o[2] * y_[4]] =
              E::Store(static_cast<typename E::Compute>(sum));
        }
      }
    }
  }

  template <typename E, typename Sum>
  Sum Window(const Arguments& arguments, int64_t n, int64_t c,
             const std::array<int64_t, 3>& o) const {
    const auto* x = static_cast<const typename E::Storage*>(arguments.inputs[0]);
    const auto* w = static_cast<const typename E::Storage*>(arguments.inputs[1]);
    const int64_t group = c / form_.out_channels;
    Sum sum = 0;
    for (int64_t channel = 0; channel < form_.in_channels; ++channel) {
      const int64_t x_channel = group * form_.in_channels + channel;
      const auto* from = x + n * x_[0] + x_channel * x_[1];
      const auto* weights = transposed_ ? w + x_channel * w_[0] + c % form_.out_channels * w_[1]
                                        : w + c * w_[0] + channel * w_[1];
      std::array<int64_t, 3> k{};
      for (k[0] = 0; k[0] < axes_[0].kernel; ++k[0]) {
        for (k[1] = 0; k[1] < axes_[1].kernel; ++k[1]) {
          for (k[2] = 0; k[2] < axes_[2].kernel; ++k[2]) {
            int64_t at = 0, tap = 0;
            bool inside = true;
            for (size_t i = 0; i < 3; ++i) {
              const int64_t in = Meets(axes_[i], transposed_, o[i], k[i]);
              inside &= in >= 0;
              at += in * x_[2 + i];
              tap += k[i] * w_[2 + i];
            }
            if (inside)
              sum += static_cast<Sum>(E::Load(from[at])) * static_cast<Sum>(E::Load(weights[tap]));
          }
        }
      }
    }
    return sum;
  }

  bool transposed_;
  DType type_;
  ConvForm form_;
  const ThreeAxes axes_;
  Steps x_{}, w_{}, y_{};
  std::optional<int64_t> bias_;  // stride
};

}  // namespace

std::unique_ptr<Primitive> MakeReferenceConv(const Request& request, const ConvForm& form,
                                             bool transposed) {
  return std::make_unique<ReferenceConv>(request, form, transposed);
}

}  // namespace kiln::library
