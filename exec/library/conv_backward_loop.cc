// SPDX-License-Identifier: Apache-2.0
#include "exec/library/conv_backward_loop.h"

#include <algorithm>
#include <array>

#include "exec/library/loops.h"

namespace kiln::library {
namespace {

using Steps = std::array<int64_t, 5>;  // the first two axes, three spatial

Steps StepsOf(const Operand& operand) {
  Steps steps{operand.strides[0], operand.strides[1], 0, 0, 0};
  const size_t spatial = operand.strides.size() - 2;
  for (size_t i = 0; i < spatial; ++i) steps[5 - spatial + i] = operand.strides[2 + i];
  return steps;
}

// Output coordinates [first, last) at which tap k lies inside the input, which begins at `start`.
struct Reach {
  int64_t first, last, start;
};

Reach ReachOf(const WindowAxis& axis, int64_t k) {
  const int64_t start = k * axis.dilation - axis.pad_begin;
  const auto up = [&](int64_t n) { return n <= 0 ? 0 : (n - 1) / axis.stride + 1; };
  const int64_t first = std::min(axis.out, up(-start));
  return {first, std::clamp(up(axis.in - start), first, axis.out), start};
}

class ConvBackwardLoop final : public Primitive {
 public:
  ConvBackwardLoop(const Request& conv, const ConvForm& form)
      : type_(conv.inputs[0].type),
        form_(form),
        axes_(Widen(form.axes)),
        x_(StepsOf(conv.inputs[0])),
        w_(StepsOf(conv.inputs[1])),
        g_(StepsOf(conv.outputs[0])) {}

  absl::Status Run(const Arguments& arguments) const override {
    const int64_t filters = form_.groups * form_.out_channels;
    ForElement(type_, [&]<typename E>() {
      ParallelRanges(arguments.context, filters * form_.in_channels,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i)
                         Filter<E>(arguments, i / form_.in_channels, i % form_.in_channels);
                     });
    });
    return absl::OkStatus();
  }

 private:
  // The taps between input channel `c` of its group and output channel `m`.
  template <typename E>
  void Filter(const Arguments& arguments, int64_t m, int64_t c) const {
    using Storage = typename E::Storage;
    const int64_t channel = m / form_.out_channels * form_.in_channels + c;
    const auto* x = static_cast<const Storage*>(arguments.inputs[0]) + channel * x_[1];
    const auto* g = static_cast<const Storage*>(arguments.inputs[1]) + m * g_[1];
    auto* w = static_cast<Storage*>(arguments.outputs[0]) + m * w_[0] + c * w_[1];
    for (int64_t i = 0; i < axes_[0].kernel; ++i) {
      for (int64_t j = 0; j < axes_[1].kernel; ++j) {
        for (int64_t k = 0; k < axes_[2].kernel; ++k) {
          const std::array<Reach, 3> at = {ReachOf(axes_[0], i), ReachOf(axes_[1], j),
                                           ReachOf(axes_[2], k)};
          typename E::Compute sum = 0;
          for (int64_t n = 0; n < form_.batch; ++n)
            sum = Add<E>(x + n * x_[0], g + n * g_[0], at, sum);
          w[i * w_[2] + j * w_[3] + k * w_[4]] = E::Store(sum);
        }
      }
    }
  }

  // The sum, and the products of one image.
  template <typename E>
  typename E::Compute Add(const typename E::Storage* x, const typename E::Storage* g,
                          const std::array<Reach, 3>& at, typename E::Compute sum) const {
    const auto from = [&](size_t axis, int64_t o) {
      return (o * axes_[axis].stride + at[axis].start) * x_[axis + 2];
    };
    for (int64_t d = at[0].first; d < at[0].last; ++d) {
      for (int64_t h = at[1].first; h < at[1].last; ++h) {
        const auto* row = x + from(0, d) + from(1, h);
        const auto* of = g + d * g_[2] + h * g_[3];
        for (int64_t w = at[2].first; w < at[2].last; ++w)
          sum += E::Load(row[from(2, w)]) * E::Load(of[w * g_[4]]);
      }
    }
    return sum;
  }

  const DType type_;
  const ConvForm form_;
  const ThreeAxes axes_;
  const Steps x_, w_, g_;
};

}  // namespace

std::unique_ptr<Primitive> MakeConvBackwardLoop(const Request& conv, const ConvForm& form) {
  return std::make_unique<ConvBackwardLoop>(conv, form);
}

}  // namespace kiln::library
