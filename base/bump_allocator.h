// SPDX-License-Identifier: Apache-2.0
// Memory for many blocks that live about as long as each other: the weights of a model.
//
//   BumpAllocator allocator;
//   std::shared_ptr<void> block = allocator.Take(bytes);   // not initialised; null: no memory
//
// Blocks lie one after the other in pieces of huge pages: page by page, touching new memory costs
// more than computing what is written there. The first blocks, as long as they are less than a huge
// page together, are memory of their own. A piece is freed with its last block. Not thread-safe.
#ifndef KILN_BASE_BUMP_ALLOCATOR_H_
#define KILN_BASE_BUMP_ALLOCATOR_H_

#include <cstddef>
#include <memory>

namespace kiln {

class BumpAllocator {
 public:
  // Aligned as tensors are, to 64 bytes.
  std::shared_ptr<void> Take(size_t bytes);

 private:
  std::shared_ptr<void> piece_;
  char* next_ = nullptr;
  size_t left_ = 0;
  size_t taken_ = 0;  // all blocks; beyond a huge page it does not count
};

}  // namespace kiln

#endif  // KILN_BASE_BUMP_ALLOCATOR_H_
