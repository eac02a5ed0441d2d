// SPDX-License-Identifier: Apache-2.0
// Memory that a caller has bound, as ranges of addresses: what overlaps what.
#ifndef KILN_EXEC_BINDING_H_
#define KILN_EXEC_BINDING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace kiln {

// Whether the executor can work on the tensor where it is: dense and aligned.
bool UsableAsIs(const Tensor& tensor);
// Whether the two are one view: in the same place, of the same shape and strides.
bool SameMemory(const Tensor& a, const Tensor& b);

struct MemoryRange {
  uintptr_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

// The addresses that elements of a view lie at, gaps included.
MemoryRange RangeOf(const Tensor& tensor);
// Nothing overlaps an empty range.
bool Overlap(const MemoryRange& a, const MemoryRange& b);
inline bool Overlap(const Tensor& a, const Tensor& b) { return Overlap(RangeOf(a), RangeOf(b)); }

// Ranges by address, each of a port. Once its memory has grown it allocates nothing; a search takes
// logarithmic time.
class BoundMemory {
 public:
  struct Entry {
    MemoryRange range;
    size_t port = 0;
  };

  void Clear() { entries_.clear(); }
  void Add(const MemoryRange& range, size_t port) {
    if (!range.empty()) entries_.push_back({range, port});
  }
  // Sorts. Two ports that overlap, if any do; then the rest is of no use.
  std::optional<std::pair<size_t, size_t>> SortApart();
  // Sorts, and joins what overlaps; ports have no meaning any more.
  void SortJoined();

  // The first entry that ends after `address`; from there on, those that begin before the end of a
  // range overlap it. Sorted, and apart from each other.
  std::vector<Entry>::const_iterator From(uintptr_t address) const;
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }
  bool Overlaps(const MemoryRange& range) const {
    const auto it = From(range.begin);
    return it != end() && Overlap(it->range, range);
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace kiln

#endif  // KILN_EXEC_BINDING_H_
