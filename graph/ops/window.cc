// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/window.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln::ops {

absl::StatusOr<Window> WindowOf(const Node& node, std::vector<int64_t> kernel) {
  const size_t rank = kernel.size();
  const auto or_all = [&](const char* name, size_t size, int64_t value) {
    std::vector<int64_t> given = IntsAttr(node, name);
    return given.empty() ? std::vector<int64_t>(size, value) : given;
  };
  Window w;
  w.kernel = std::move(kernel);
  w.stride = or_all("strides", rank, 1);
  w.dilation = or_all("dilations", rank, 1);
  const std::vector<int64_t> pads = or_all("pads", 2 * rank, 0);
  if (w.stride.size() != rank || w.dilation.size() != rank || pads.size() != 2 * rank) {
    return absl::InvalidArgumentError(absl::StrCat("the window has ", rank, " axes, strides has ",
                                                   w.stride.size(), " entries, dilations ",
                                                   w.dilation.size(), ", pads ", pads.size()));
  }
  constexpr int64_t kMost = int64_t{1} << 31;
  for (size_t i = 0; i < rank; ++i) {
    const bool positive = w.kernel[i] >= 1 && w.stride[i] >= 1 && w.dilation[i] >= 1;
    const bool small = w.kernel[i] <= kMost && w.stride[i] <= kMost && w.dilation[i] <= kMost;
    const bool padded =
        pads[i] >= 0 && pads[rank + i] >= 0 && pads[i] <= kMost && pads[rank + i] <= kMost;
    if (!positive || !small || !padded) {
      return absl::InvalidArgumentError(absl::StrCat(
          "axis ", i, " of the window has kernel ", w.kernel[i], ", stride ", w.stride[i],
          ", dilation ", w.dilation[i], ", pads ", pads[i], " and ", pads[rank + i]));
    }
  }
  w.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  w.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  return w;
}

int64_t PaddedTaps(const Window& w, const std::vector<int64_t>& in,
                   const std::vector<int64_t>& at) {
  int64_t taps = 1;
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t places = in[i] + w.before[i] + w.after[i] - at[i] * w.stride[i];
    const int64_t inside = places <= 0 ? 0 : (places - 1) / w.dilation[i] + 1;
    taps *= std::min(inside, w.kernel[i]);
  }
  return taps;
}

Shape ConvPlaces(const Window& w, const Shape& x) {
  Shape places;
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t span = w.dilation[i] * (w.kernel[i] - 1) + 1;
    places.push_back((x[2 + i] + (w.before[i] + w.after[i] - span)).FloorDiv(w.stride[i]) + 1);
  }
  return places;
}

Shape PoolPlaces(const Window& w, const Shape& x, bool up) {
  Shape places;
  for (size_t i = 0; i < w.rank(); ++i) {
    const int64_t span = w.dilation[i] * (w.kernel[i] - 1) + 1;
    const Dim room = x[2 + i] + (w.before[i] + w.after[i] - span);
    Dim extent = (room + (up ? w.stride[i] - 1 : 0)).FloorDiv(w.stride[i]) + 1;
    if (up && w.stride[i] > 1)
      extent = Dim::Min(extent, (x[2 + i] + (w.before[i] + w.stride[i] - 1)).FloorDiv(w.stride[i]));
    places.push_back(std::move(extent));
  }
  return places;
}

bool Next(std::vector<int64_t>& at, const std::vector<int64_t>& extents) {
  for (size_t i = at.size(); i-- > 0;) {
    if (++at[i] < extents[i]) return true;
    at[i] = 0;
  }
  return false;
}

int64_t Count(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

}  // namespace kiln::ops
