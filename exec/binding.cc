// SPDX-License-Identifier: Apache-2.0
#include "exec/binding.h"

#include <algorithm>

namespace kiln {

bool UsableAsIs(const Tensor& tensor) {
  return tensor.is_dense() &&
         reinterpret_cast<uintptr_t>(tensor.data()) % SizeOf(tensor.dtype()) == 0;
}

bool SameMemory(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides();
}

MemoryRange RangeOf(const Tensor& tensor) {
  auto low = reinterpret_cast<uintptr_t>(tensor.data()), high = low;
  if (tensor.num_elements() == 0) return {low, low};
  for (int i = 0; i < tensor.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    const int64_t step = (tensor.shape()[axis] - 1) * tensor.strides()[axis] *
                         static_cast<int64_t>(SizeOf(tensor.dtype()));
    (step < 0 ? low : high) += static_cast<uintptr_t>(step);
  }
  return {low, high + SizeOf(tensor.dtype())};
}

bool Overlap(const MemoryRange& a, const MemoryRange& b) {
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

std::optional<std::pair<size_t, size_t>> BoundMemory::SortApart() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.range.begin < b.range.begin; });
  for (size_t i = 1; i < entries_.size(); ++i) {
    const Entry &a = entries_[i - 1], &b = entries_[i];
    if (a.range.end > b.range.begin) return std::minmax(a.port, b.port);
  }
  return std::nullopt;
}

void BoundMemory::SortJoined() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.range.begin < b.range.begin; });
  size_t kept = 0;
  for (const Entry& entry : entries_) {
    if (kept > 0 && entry.range.begin < entries_[kept - 1].range.end) {
      entries_[kept - 1].range.end = std::max(entries_[kept - 1].range.end, entry.range.end);
    } else {
      entries_[kept++] = entry;
    }
  }
  entries_.resize(kept);
}

std::vector<BoundMemory::Entry>::const_iterator BoundMemory::From(uintptr_t address) const {
  return std::partition_point(entries_.begin(), entries_.end(),
                              [&](const Entry& entry) { return entry.range.end <= address; });
}

}  // namespace kiln
