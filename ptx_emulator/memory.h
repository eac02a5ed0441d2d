// SPDX-License-Identifier: Apache-2.0
// The memory of one device: allocations with gaps between them, and for each byte whether anybody
// wrote it, and which thread of the running launch read or wrote it last.
//
// Invariants: an address is never given out twice, so a stale pointer is told from a wrong one. An
// allocation begins at a multiple of 256, so 32-byte sectors never cross one. Stamps of an earlier
// launch are smaller than those of the running one: nothing is cleared between launches.
//
//   Memory memory(0x7000000000, 1 << 30);
//   const uint64_t p = memory.Allocate(100);   // 0: out of memory
//   memory.Find(p + 96, 4)->bytes;             // null for p + 97: it would end outside
//
// Not thread-safe.
#ifndef KILN_PTX_EMULATOR_MEMORY_H_
#define KILN_PTX_EMULATOR_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ptx_emulator/clocks.h"

namespace kiln::ptx {

// Generic addresses of shared and local memory lie in windows far from all global addresses; an
// address within shared or local memory is an offset.
inline constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << 56;
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;

struct Allocation {
  uint64_t base = 0, size = 0;
  std::unique_ptr<uint8_t[]> bytes;
  std::vector<uint8_t> written;          // 1 for each byte that has a value
  std::vector<uint32_t> writer, reader;  // stamps, per granule; empty until a launch needs them
  std::vector<uint32_t> loaded, stored;  // the launch that last touched each sector
  uint64_t load_begin = 0, load_end = 0, store_begin = 0, store_end = 0;  // of launch `touched`
  uint64_t touched = 0;
  AccessLog log;  // accesses by streams

  bool AllWritten(uint64_t offset, uint64_t count) const;
  void MarkWritten(uint64_t offset, uint64_t count);
};

class Memory {
 public:
  Memory(uint64_t base, uint64_t capacity) : base_(base), next_(base), capacity_(capacity) {}

  // 0 when the capacity, or the host's memory, does not suffice.
  uint64_t Allocate(uint64_t bytes);
  // False: `address` is not the start of an allocation.
  bool Free(uint64_t address);
  // The allocation that holds all of [address, address + bytes), or null. Valid until Free.
  Allocation* Find(uint64_t address, uint64_t bytes) {
    if (last_ != nullptr && address - last_->base < last_->size &&
        bytes <= last_->size - (address - last_->base)) {
      return last_;
    }
    return Search(address, bytes);
  }
  // True: the address lay in an allocation that is freed by now.
  bool WasFreed(uint64_t address) const;

  std::map<uint64_t, Allocation>& allocations() { return allocations_; }
  uint64_t base() const { return base_; }
  uint64_t end() const { return next_; }
  uint64_t used() const { return used_; }
  uint64_t capacity() const { return capacity_; }

  // Stamps of a launch of `blocks` blocks with `threads` threads each. Thread t of all of them has
  // the stamp writer_base + 1 + t, block b has reader_base + 2 + b; reader_base + 1 is "several".
  void BeginLaunch(uint64_t blocks, uint64_t threads);
  uint64_t launch() const { return launch_; }
  uint32_t writer_base() const { return writer_base_; }
  uint32_t reader_base() const { return reader_base_; }

 private:
  Allocation* Search(uint64_t address, uint64_t bytes);

  uint64_t base_, next_, capacity_, used_ = 0;
  std::map<uint64_t, Allocation> allocations_;  // by base
  std::map<uint64_t, uint64_t> freed_;          // base -> size
  Allocation* last_ = nullptr;
  uint64_t launch_ = 0;
  uint32_t writer_base_ = 0, reader_base_ = 0;
  uint64_t writers_ = 0, readers_ = 0;  // stamps of the running launch
};

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_MEMORY_H_
