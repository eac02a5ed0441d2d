// SPDX-License-Identifier: Apache-2.0
#include "trace/slice_of.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kiln::tracing {
namespace {

struct Places {
  int64_t first = 0, count = 0;
};

// Of one axis: bounds count from the end where they are negative, and are moved into the axis.
Places PlacesOf(const Slice& slice, int64_t extent) {
  const bool forwards = slice.step > 0;
  const int64_t lowest_end = forwards ? 0 : -1, highest = forwards ? extent : extent - 1;
  // No overflow: an extent is at least 0.
  const auto counted = [&](int64_t bound) { return bound < 0 ? bound + extent : bound; };
  const int64_t begin = std::min(std::max<int64_t>(counted(slice.begin.number()), 0), highest);
  const int64_t end = std::min(std::max(counted(slice.end.number()), lowest_end), highest);
  const int64_t span = forwards ? end - begin : begin - end;
  const uint64_t step = forwards ? static_cast<uint64_t>(slice.step)
                                 : uint64_t{0} - static_cast<uint64_t>(slice.step);
  const int64_t count =
      span <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / step) + 1;
  return {begin, count};
}

}  // namespace

std::optional<Tensor> SliceOf(const Tensor& whole, std::initializer_list<Index> places) {
  // speed: to copy so many elements takes less than to write an operation down and run it.
  constexpr int64_t kFew = 1024;
  if (whole.device() != Device() || static_cast<int>(places.size()) > whole.rank())
    return std::nullopt;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
  for (size_t axis = 0; axis < whole.shape().size(); ++axis) {
    const int64_t extent = whole.shape()[axis], stride = whole.strides()[axis];
    const Index index = axis < places.size() ? places.begin()[axis] : Index(Slice{});
    if (index.range.step == 0) return std::nullopt;
    if (index.drops) {
      const int64_t place = index.range.begin.number();
      if (place >= extent || place < -extent) return std::nullopt;
      offset += (place < 0 ? place + extent : place) * stride;
      continue;
    }
    const Places found = PlacesOf(index.range, extent);
    if (found.count > 0) offset += found.first * stride;
    shape.push_back(found.count);
    // The step between two places is one within the whole.
    strides.push_back(found.count > 1 ? index.range.step * stride : 1);
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    return Tensor::Allocate(whole.dtype(), std::move(shape));
  char* const data = static_cast<char*>(whole.data());
  Tensor view = Tensor::View(data + offset * static_cast<int64_t>(SizeOf(whole.dtype())),
                             whole.dtype(), std::move(shape), std::move(strides), whole.owner());
  if (view.is_dense()) return view;
  if (view.num_elements() <= kFew) return view.Clone();
  return std::nullopt;
}

}  // namespace kiln::tracing
