// SPDX-License-Identifier: Apache-2.0
// Loads and stores: addresses, spaces, and global, local and parameter memory.
#include <algorithm>
#include <cstring>

#include "ptx_emulator/block.h"

namespace kiln::ptx {
namespace {

constexpr uint64_t kSectorBytes = 32;

// The sectors of one request. Those near the first one are bits, others are compared one by one.
class SectorSet {
 public:
  void Add(uint64_t sector) {
    if (empty_) {
      origin_ = sector - kNear / 2;
      empty_ = false;
    }
    const uint64_t near = sector - origin_;
    if (near < kNear) {
      bits_[near / 64] |= uint64_t{1} << (near % 64);
    } else if (std::find(far_, far_ + count_, sector) == far_ + count_) {
      far_[count_++] = sector;
    }
  }
  uint64_t size() const {
    uint64_t size = count_;
    for (const uint64_t bits : bits_) size += static_cast<uint64_t>(std::popcount(bits));
    return size;
  }

 private:
  static constexpr uint64_t kNear = 256;
  bool empty_ = true;
  uint64_t origin_ = 0;
  uint64_t bits_[kNear / 64] = {};
  uint64_t far_[kLanes];
  uint64_t count_ = 0;
};

// All lanes, each after the one before.
bool IsOnePiece(uint32_t mask, const uint64_t* addresses, uint64_t total) {
  bool one = mask == kAllLanes;
  for (uint64_t lane = 0; lane < kLanes; ++lane)
    one &= addresses[lane] == addresses[0] + lane * total;
  return one;
}

template <typename T>
T ReadAs(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename U, typename S>
uint64_t ReadElement(const uint8_t* from, bool is_signed) {
  return is_signed ? static_cast<uint64_t>(int64_t{ReadAs<S>(from)}) : ReadAs<U>(from);
}

uint64_t ReadBytes(const uint8_t* from, int bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return ReadElement<uint8_t, int8_t>(from, is_signed);
    case 2:
      return ReadElement<uint16_t, int16_t>(from, is_signed);
    case 4:
      return ReadElement<uint32_t, int32_t>(from, is_signed);
    default:
      return ReadAs<uint64_t>(from);
  }
}

}  // namespace

void Block::LoadLane(Warp& warp, const Instruction& instruction, int lane, const uint8_t* from) {
  for (int i = 0; i < instruction.count; ++i, from += instruction.bytes) {
    if (instruction.data[i] == kNoRow) continue;
    warp.Row(instruction.data[i])[lane] = ReadBytes(from, instruction.bytes, instruction.is_signed);
  }
}

void Block::StoreLane(Warp& warp, const Instruction& instruction, int lane, uint8_t* to) {
  for (int i = 0; i < instruction.count; ++i, to += instruction.bytes) {
    std::memcpy(to, &warp.Row(instruction.data[i])[lane], instruction.bytes);  // little-endian
  }
}

void Block::Access(Warp& warp, const Instruction& instruction, uint32_t mask) {
  if (mask == 0) return;
  uint64_t addresses[kLanes];
  const uint64_t* base = warp.Row(instruction.source[0]);
  const uint64_t bits = instruction.narrow_address ? 0xffffffff : ~uint64_t{0};
  for (int lane = 0; lane < kLanes; ++lane) {
    addresses[lane] = (base[lane] & bits) + static_cast<uint64_t>(instruction.offset);
  }
  if (instruction.space != Space::kGeneric) {
    return AccessSpace(warp, instruction, instruction.space, mask, addresses);
  }
  uint32_t shared = 0, local = 0;
  ForLanes(mask, [&](int lane) {
    if (addresses[lane] - kSharedWindow < kWindowBytes) {
      shared |= 1u << lane;
      addresses[lane] -= kSharedWindow;
    } else if (addresses[lane] - kLocalWindow < kWindowBytes) {
      local |= 1u << lane;
      addresses[lane] -= kLocalWindow;
    }
  });
  AccessSpace(warp, instruction, Space::kShared, shared, addresses);
  AccessSpace(warp, instruction, Space::kLocal, local, addresses);
  AccessSpace(warp, instruction, Space::kGlobal, mask & ~shared & ~local, addresses);
}

void Block::AccessSpace(Warp& warp, const Instruction& instruction, Space space, uint32_t mask,
                        const uint64_t* addresses) {
  if (mask == 0 || result_ != cuda::kSuccess) return;
  switch (space) {
    case Space::kShared:
      return AccessShared(warp, instruction, mask, addresses);
    case Space::kLocal:
      return AccessLocal(warp, instruction, mask, addresses);
    case Space::kParam:
      return AccessParameters(warp, instruction, mask, addresses);
    case Space::kGlobal:
    case Space::kGeneric:
      return AccessGlobal(warp, instruction, mask, addresses);
  }
}

// A warp that accesses one piece of memory, lane after lane, is handled as one access of the whole
// piece; another one as an access for each lane.
void Block::AccessGlobal(Warp& warp, const Instruction& instruction, uint32_t mask,
                         const uint64_t* addresses) {
  const bool load = instruction.kind == Kind::kLoad;
  const auto total = static_cast<uint64_t>(instruction.bytes * instruction.count);
  const int lanes = IsOnePiece(mask, addresses, total) ? kLanes : 1;
  const uint64_t bytes = total * static_cast<uint64_t>(lanes);
  SectorSet sectors;
  for (uint32_t left = mask; left != 0; left = lanes > 1 ? 0 : left & (left - 1)) {
    const int lane = std::countr_zero(left);
    const uint64_t address = addresses[lane];
    Allocation* allocation = memory_.Find(address, bytes);
    if (allocation == nullptr) {
      const uint64_t last = address + bytes - 1;
      const bool freed = memory_.WasFreed(address) && memory_.WasFreed(last);
      return Fault(freed ? Check::kUseAfterFree : Check::kOutOfBounds, instruction,
                   cuda::kIllegalAddress);
    }
    if ((address & (total - 1)) != 0) {
      return Fault(Check::kMisaligned, instruction, cuda::kMisalignedAddress);
    }
    const uint64_t end = address + bytes;
    for (uint64_t at = address; at < end; at += kSectorBytes) sectors.Add(at / kSectorBytes);
    sectors.Add((end - 1) / kSectorBytes);
    const Piece piece = {*allocation, address - allocation->base, bytes, lane, lanes};
    Touch(piece, load);
    if (load) {
      LoadPiece(warp, instruction, piece);
    } else {
      StorePiece(warp, instruction, piece);
    }
  }
  ++(load ? counters_.load_requests : counters_.store_requests);
  (load ? counters_.load_sectors : counters_.store_sectors) += sectors.size();
  (load ? counters_.load_bytes : counters_.store_bytes) +=
      total * static_cast<uint64_t>(std::popcount(mask));
  if (load && mask == kAllLanes) ++counters_.full_warp_loads[std::countr_zero(total)];
}

// Notes the bytes' interval and their sectors.
void Block::Touch(const Piece& piece, bool load) {
  Allocation& allocation = piece.allocation;
  const uint64_t launch = memory_.launch();
  if (allocation.touched != launch) {
    allocation.touched = launch;
    allocation.load_begin = allocation.store_begin = allocation.size;
    allocation.load_end = allocation.store_end = 0;
    const uint64_t sectors = allocation.size / kSectorBytes + 1;
    allocation.loaded.resize(sectors);
    allocation.stored.resize(sectors);
  }
  const uint64_t end = piece.offset + piece.bytes;
  uint64_t& first = load ? allocation.load_begin : allocation.store_begin;
  uint64_t& last = load ? allocation.load_end : allocation.store_end;
  first = std::min(first, piece.offset);
  last = std::max(last, end);
  std::vector<uint32_t>& stamps = load ? allocation.loaded : allocation.stored;
  uint64_t& unique = load ? counters_.unique_load_sectors : counters_.unique_store_sectors;
  for (uint64_t i = piece.offset / kSectorBytes; i <= (end - 1) / kSectorBytes; ++i) {
    unique += stamps[i] != static_cast<uint32_t>(launch) ? 1 : 0;
    stamps[i] = static_cast<uint32_t>(launch);
  }
}

void Block::LoadPiece(Warp& warp, const Instruction& instruction, const Piece& piece) {
  if (options_.checks) NoteLoad(piece, instruction);
  const uint8_t* from = piece.allocation.bytes.get() + piece.offset;
  const uint64_t total = piece.bytes / static_cast<uint64_t>(piece.lanes);
  for (int i = 0; i < piece.lanes; ++i, from += total) {
    LoadLane(warp, instruction, piece.first_lane + i, from);
  }
}

void Block::StorePiece(Warp& warp, const Instruction& instruction, const Piece& piece) {
  uint8_t* const to = piece.allocation.bytes.get() + piece.offset;
  uint8_t old[16 * kLanes];
  std::memcpy(old, to, piece.bytes);
  const uint64_t total = piece.bytes / static_cast<uint64_t>(piece.lanes);
  for (int i = 0; i < piece.lanes; ++i) {
    StoreLane(warp, instruction, piece.first_lane + i, to + static_cast<uint64_t>(i) * total);
  }
  piece.allocation.MarkWritten(piece.offset, piece.bytes);
  if (options_.checks) NoteStore(piece, warp.index * kLanes, old, instruction);
}

void Block::NoteLoad(const Piece& piece, const Instruction& instruction) {
  Allocation& allocation = piece.allocation;
  const auto granule = static_cast<uint64_t>(kernel_.global_granule);
  if (!allocation.AllWritten(piece.offset, piece.bytes)) {
    Find(Check::kUnwrittenGlobal, instruction);
  }
  const uint64_t granules = allocation.size / granule + 1;
  if (allocation.reader.size() < granules) allocation.reader.resize(granules);
  const uint32_t several = memory_.reader_base() + 1;
  const uint32_t me = several + 1 + static_cast<uint32_t>(index_);
  const uint64_t first = piece.offset / granule, count = piece.bytes / granule;
  uint32_t* const readers = allocation.reader.data() + first;
  for (uint64_t i = 0; i < count; ++i) {
    readers[i] = readers[i] < several || readers[i] == me ? me : several;
  }
  if (allocation.writer.size() < granules) return;  // nobody wrote to it
  const uint32_t base = memory_.writer_base();
  const uint32_t* const writers = allocation.writer.data() + first;
  bool other = false;  // wrote it, of this block's threads or not
  for (uint64_t i = 0; i < count; ++i) other |= writers[i] > base;
  for (uint64_t i = 0; other && i < count; ++i) {
    if (writers[i] > base && (writers[i] - base - 1) / threads_ != static_cast<uint32_t>(index_)) {
      return Find(Check::kGlobalReadOfOtherBlock, instruction);
    }
  }
}

void Block::NoteStore(const Piece& piece, int first_thread, const uint8_t* old,
                      const Instruction& instruction) {
  Allocation& allocation = piece.allocation;
  const auto granule = static_cast<uint64_t>(kernel_.global_granule);
  const uint64_t granules = allocation.size / granule + 1;
  if (allocation.writer.size() < granules) allocation.writer.resize(granules);
  if (allocation.reader.size() < granules) allocation.reader.resize(granules);
  const uint32_t base = memory_.writer_base();
  const auto thread = static_cast<uint32_t>(first_thread + piece.first_lane);
  uint32_t me = base + 1 + static_cast<uint32_t>(index_ * threads_) + thread;
  const uint32_t several = memory_.reader_base() + 1;
  const uint32_t block = several + 1 + static_cast<uint32_t>(index_);
  const uint8_t* now = allocation.bytes.get() + piece.offset;
  const uint64_t count = piece.bytes / granule;
  const uint64_t in_lane = count / static_cast<uint64_t>(piece.lanes);
  uint32_t* const writers = allocation.writer.data() + piece.offset / granule;
  const uint32_t* const readers = allocation.reader.data() + piece.offset / granule;
  bool two_writers = false, read_before = false;
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0 && i % in_lane == 0) ++me;
    const bool written = writers[i] > base && writers[i] != me;
    const bool read = readers[i] >= several && readers[i] != block;
    if (written || read) {
      const bool changed = std::memcmp(old + i * granule, now + i * granule, granule) != 0;
      two_writers |= changed && written;
      read_before |= changed && read;
    }
    writers[i] = me;
  }
  if (two_writers) Find(Check::kGlobalTwoWriters, instruction);
  if (read_before) Find(Check::kGlobalWriteAfterReadOfOtherBlock, instruction);
}

void Block::AccessLocal(Warp& warp, const Instruction& instruction, uint32_t mask,
                        const uint64_t* addresses) {
  const bool load = instruction.kind == Kind::kLoad;
  const auto total = static_cast<uint64_t>(instruction.bytes * instruction.count);
  ++counters_.local_accesses;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t offset = addresses[lane];
    if (offset > kernel_.local_bytes || total > kernel_.local_bytes - offset) {
      return Fault(Check::kOutOfBounds, instruction, cuda::kIllegalAddress);
    }
    if (offset % total != 0) {
      return Fault(Check::kMisaligned, instruction, cuda::kMisalignedAddress);
    }
    const uint64_t at = static_cast<uint64_t>(lane) * kernel_.local_bytes + offset;
    if (!load) {
      StoreLane(warp, instruction, lane, &warp.local[at]);
      std::fill_n(&warp.local_written[at], total, 1);
      continue;
    }
    const uint8_t* written = &warp.local_written[at];
    if (options_.checks && std::find(written, written + total, 0) != written + total) {
      Find(Check::kUnwrittenLocal, instruction);
    }
    LoadLane(warp, instruction, lane, &warp.local[at]);
  }
}

void Block::AccessParameters(Warp& warp, const Instruction& instruction, uint32_t mask,
                             const uint64_t* addresses) {
  const auto total = static_cast<uint64_t>(instruction.bytes * instruction.count);
  const auto size = static_cast<uint64_t>(kernel_.parameter_bytes);
  const int first = std::countr_zero(mask);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const uint64_t offset = addresses[lane];
    if (lane != first && offset == addresses[first]) {  // nearly always: one parameter for all
      for (int i = 0; i < instruction.count; ++i) {
        if (instruction.data[i] == kNoRow) continue;
        uint64_t* const row = warp.Row(instruction.data[i]);
        row[lane] = row[first];
      }
      continue;
    }
    if (offset > size || total > size - offset) {
      return Fault(Check::kOutOfBounds, instruction, cuda::kIllegalAddress);
    }
    if (offset % total != 0) {
      return Fault(Check::kMisaligned, instruction, cuda::kMisalignedAddress);
    }
    LoadLane(warp, instruction, lane, launch_.parameters + offset);
  }
}

}  // namespace kiln::ptx
