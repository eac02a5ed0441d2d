// SPDX-License-Identifier: Apache-2.0
#include "exec/strided_copy.h"

#include <cstring>

namespace kiln {

StridedCopy::StridedCopy(const std::vector<int64_t>& shape, const std::vector<int64_t>& from,
                         const std::vector<int64_t>& to, size_t item)
    : run_(item) {
  const auto size = static_cast<int64_t>(item);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) {
      run_ = 0;
      axes_.clear();
      return;
    }
    if (shape[i] == 1) continue;
    const Axis inner{shape[i], from[i] * size, to[i] * size};
    if (!axes_.empty()) {
      Axis& outer = axes_.back();
      if (outer.from == inner.extent * inner.from && outer.to == inner.extent * inner.to) {
        outer = {outer.extent * inner.extent, inner.from, inner.to};
        continue;
      }
    }
    axes_.push_back(inner);
  }
  if (!axes_.empty() && axes_.back().from == size && axes_.back().to == size) {
    run_ = item * static_cast<size_t>(axes_.back().extent);
    axes_.pop_back();
  }
}

void StridedCopy::Run(const void* from, void* to) const {
  if (run_ > 0) Walk(0, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to));
}

void StridedCopy::Walk(size_t axis, const uint8_t* from, uint8_t* to) const {
  if (axis == axes_.size()) {
    std::memmove(to, from, run_);
    return;
  }
  const Axis& a = axes_[axis];
  const bool innermost = axis + 1 == axes_.size();
  for (int64_t i = 0; i < a.extent; ++i, from += a.from, to += a.to) {
    // Single elements of the usual sizes, without the call of a general memmove.
    if (innermost && run_ == 4) {
      std::memcpy(to, from, 4);
    } else if (innermost && run_ == 8) {
      std::memcpy(to, from, 8);
    } else {
      Walk(axis + 1, from, to);
    }
  }
}

}  // namespace kiln
