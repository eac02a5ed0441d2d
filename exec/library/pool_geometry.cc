// SPDX-License-Identifier: Apache-2.0
#include "exec/library/pool_geometry.h"

#include <algorithm>

namespace kiln::library {
namespace {

std::vector<Taps> TapsOfAxis(const WindowAxis& axis) {
  std::vector<Taps> taps(static_cast<size_t>(axis.out));
  const auto ceil_div = [](int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; };
  for (int64_t o = 0; o < axis.out; ++o) {
    Taps& t = taps[static_cast<size_t>(o)];
    t.start = o * axis.stride - axis.pad_begin;
    t.first = std::min(axis.kernel, ceil_div(-t.start, axis.dilation));
    t.last = std::clamp(ceil_div(axis.in - t.start, axis.dilation), t.first, axis.kernel);
    t.counted = std::clamp<int64_t>(ceil_div(axis.in + axis.pad_end - t.start, axis.dilation), 0,
                                    axis.kernel);
  }
  return taps;
}

}  // namespace

PoolGeometry GeometryOf(const PoolForm& form, const Operand& x, const Operand& y) {
  PoolGeometry geometry;
  const ThreeAxes axes = Widen(form.axes);
  const size_t missing = axes.size() - form.axes.size();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i >= missing) {
      geometry.in_stride[i] = x.strides[2 + i - missing];
      geometry.out_stride[i] = y.strides[2 + i - missing];
    }
    geometry.step[i] = geometry.in_stride[i] * axes[i].dilation;
    geometry.taps[i] = TapsOfAxis(axes[i]);
  }
  return geometry;
}

}  // namespace kiln::library
