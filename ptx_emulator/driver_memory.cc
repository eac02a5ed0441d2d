// SPDX-License-Identifier: Apache-2.0
// Memory of devices and pinned memory of the host, and copies between them.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ptx_emulator/driver.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's.
namespace kiln::cuda {
namespace {

using ptx::Allocation;
using ptx::Call;
using ptx::DeviceState;
using ptx::Driver;
using ptx::Needs;
using ptx::StreamState;

// A range of device memory, of any device.
struct DeviceRange {
  Allocation* allocation = nullptr;
  uint64_t offset = 0;

  uint8_t* bytes() const { return allocation->bytes.get() + offset; }
};

bool FindRange(Driver& driver, DevicePointer memory, size_t bytes, DeviceRange& range) {
  ptx::Memory* of = driver.MemoryOf(memory);
  range.allocation = of == nullptr ? nullptr : of->Find(memory, bytes);
  if (range.allocation == nullptr) return false;
  range.offset = memory - range.allocation->base;
  return true;
}

void NoteRange(Driver& driver, const DeviceRange& range, size_t bytes, bool write,
               const StreamState& stream, const char* what) {
  driver.Note(range.allocation->log, range.offset, range.offset + bytes, write, stream.number,
              stream.clock, what);
  if (write) range.allocation->MarkWritten(range.offset, bytes);
}

// True: the host's memory is pinned, so the copy goes on while the host does.
bool NotePinned(Driver& driver, const void* memory, size_t bytes, bool write,
                const StreamState& stream, const char* what) {
  uint64_t offset = 0;
  ptx::PinnedState* pinned = driver.FindPinned(memory, bytes, offset);
  if (pinned == nullptr) return false;
  driver.Note(pinned->log, offset, offset + bytes, write, stream.number, stream.clock, what);
  return true;
}

// cuMemFree and cuMemFreeHost wait for all that goes on.
void WaitForAll(Driver& driver, const DeviceState& device) {
  driver.HostKnows(device.default_stream.clock);
  for (const auto& [handle, stream] : driver.streams.objects()) {
    if (stream.device == device.ordinal) driver.HostKnows(stream.clock);
  }
}

}  // namespace

Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return Call(__func__, Needs::kContext, [&](Driver&, DeviceState& device) {
    if (free_bytes == nullptr || total_bytes == nullptr) return kInvalidValue;
    *total_bytes = device.memory.capacity();
    *free_bytes = device.memory.capacity() - device.memory.used();
    return kSuccess;
  });
}

Result cuMemAlloc_v2(DevicePointer* memory, size_t bytes) {
  return Call(__func__, Needs::kContext, [&](Driver&, DeviceState& device) {
    if (memory == nullptr || bytes == 0) return kInvalidValue;
    const uint64_t address = device.memory.Allocate(bytes);
    if (address == 0) return kOutOfMemory;
    *memory = address;
    return kSuccess;
  });
}

Result cuMemFree_v2(DevicePointer memory) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    if (memory == 0) return kSuccess;
    WaitForAll(driver, device);
    ptx::Memory* of = driver.MemoryOf(memory);
    return of != nullptr && of->Free(memory) ? kSuccess : kInvalidValue;
  });
}

Result cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    constexpr unsigned kKnown = 7;  // portable, mapped, write-combined
    if (memory == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return kInvalidValue;
    ptx::PinnedState pinned;
    pinned.device = device.ordinal;
    pinned.size = bytes;
    pinned.bytes = std::make_unique<uint8_t[]>(bytes);
    *memory = pinned.bytes.get();
    driver.pinned.Add(reinterpret_cast<uintptr_t>(*memory), std::move(pinned));
    return kSuccess;
  });
}

Result cuMemFreeHost(void* memory) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    WaitForAll(driver, device);
    return driver.pinned.Erase(memory) ? kSuccess : kInvalidValue;
  });
}

Result cuPointerGetAttribute(void* value, PointerAttribute attribute, DevicePointer memory) {
  return Call(__func__, Needs::kInit, [&](Driver& driver) {
    if (value == nullptr) return kInvalidValue;
    uint64_t offset = 0;
    DeviceRange range;
    const ptx::PinnedState* pinned =
        driver.FindPinned(reinterpret_cast<const void*>(memory), 1, offset);
    if (pinned == nullptr && !FindRange(driver, memory, 1, range)) return kInvalidValue;
    int device = pinned == nullptr ? 0 : pinned->device;
    for (DeviceState& state : driver.devices) {
      if (pinned == nullptr && &state.memory == driver.MemoryOf(memory)) device = state.ordinal;
    }
    const unsigned type = pinned == nullptr ? kDeviceMemory : kHostMemory;
    const Context context = ptx::ContextOf(device);
    switch (attribute) {
      case kPointerContext:
        std::memcpy(value, &context, sizeof context);
        return kSuccess;
      case kPointerMemoryType:
        std::memcpy(value, &type, sizeof type);
        return kSuccess;
      case kPointerDeviceOrdinal:
        std::memcpy(value, &device, sizeof device);
        return kSuccess;
    }
    return kInvalidValue;
  });
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    StreamState* on = driver.FindStream(stream, device);
    DeviceRange range;
    if (on == nullptr) return kInvalidHandle;
    if (bytes == 0) return kSuccess;
    if (from == nullptr || !FindRange(driver, to, bytes, range)) return kInvalidValue;
    driver.BeginStep(*on);
    NoteRange(driver, range, bytes, true, *on, "a copy from the host");
    NotePinned(driver, from, bytes, false, *on, "a copy from the host");
    std::memcpy(range.bytes(), from, bytes);
    return kSuccess;
  });
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    StreamState* on = driver.FindStream(stream, device);
    DeviceRange range;
    if (on == nullptr) return kInvalidHandle;
    if (bytes == 0) return kSuccess;
    if (to == nullptr || !FindRange(driver, from, bytes, range)) return kInvalidValue;
    driver.BeginStep(*on);
    NoteRange(driver, range, bytes, false, *on, "a copy to the host");
    if (driver.config.checks != 0 && !range.allocation->AllWritten(range.offset, bytes)) {
      driver.findings.Add(ptx::Check::kUnwrittenGlobal,
                          absl::StrCat("a copy of ", bytes, " bytes to the host"));
    }
    const bool pinned = NotePinned(driver, to, bytes, true, *on, "a copy to the host");
    if (!pinned) driver.HostKnows(on->clock);  // it is over when the call returns
    std::memcpy(to, range.bytes(), bytes);
    return kSuccess;
  });
}

Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    StreamState* on = driver.FindStream(stream, device);
    DeviceRange source, target;
    if (on == nullptr) return kInvalidHandle;
    if (bytes == 0) return kSuccess;
    if (!FindRange(driver, from, bytes, source) || !FindRange(driver, to, bytes, target)) {
      return kInvalidValue;
    }
    driver.BeginStep(*on);
    const uint8_t* written = source.allocation->written.data() + source.offset;
    const std::vector<uint8_t> copied(written, written + bytes);  // unwritten bytes stay so
    NoteRange(driver, source, bytes, false, *on, "a copy between devices");
    NoteRange(driver, target, bytes, true, *on, "a copy between devices");
    std::memmove(target.bytes(), source.bytes(), bytes);
    std::memcpy(target.allocation->written.data() + target.offset, copied.data(), bytes);
    return kSuccess;
  });
}

Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, Stream stream) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    StreamState* on = driver.FindStream(stream, device);
    DeviceRange range;
    if (on == nullptr) return kInvalidHandle;
    if (bytes == 0) return kSuccess;
    if (!FindRange(driver, to, bytes, range)) return kInvalidValue;
    driver.BeginStep(*on);
    NoteRange(driver, range, bytes, true, *on, "a memset");
    std::memset(range.bytes(), value, bytes);
    return kSuccess;
  });
}

}  // namespace kiln::cuda
// NOLINTEND(readability-identifier-naming)
