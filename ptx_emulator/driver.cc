// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/driver.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/fork.h"

namespace kiln::ptx {

const Capability& CapabilityOf(int sm) {
  static constexpr Capability kCapabilities[] = {
      {120, 1536, 102400, 101376, 96}, {100, 2048, 233472, 232448, 126},
      {90, 2048, 233472, 232448, 50},  {86, 1536, 102400, 101376, 6},
      {80, 2048, 167936, 166912, 40},  {0, 1024, 65536, 65536, 4},
  };
  return *std::find_if(std::begin(kCapabilities), std::end(kCapabilities),
                       [&](const Capability& capability) { return capability.sm <= sm; });
}

void Driver::Configure(const kiln_ptx_config& new_config) {
  *this = Driver();
  config = new_config;
  config.devices = std::clamp(config.devices, 0, KILN_PTX_MAX_DEVICES);
  for (int i = 0; i < config.devices; ++i) {
    StreamState default_stream;
    default_stream.device = i;
    default_stream.number = next_stream++;
    const uint64_t base = 0x7000000000 + (static_cast<uint64_t>(i) << 44);
    devices.push_back({i, 0, cuda::kSuccess, default_stream, Memory(base, config.memory[i])});
  }
}

Result Driver::Enter(const char* function, Needs needs) {
  ++call_count;
  ++calls[function];
  if (fail_from != 0 && call_count >= fail_from && call_count < fail_until) return failure;
  if (needs == Needs::kNothing) return cuda::kSuccess;
  if (!initialized) return cuda::kNotInitialized;
  if (needs == Needs::kInit) return cuda::kSuccess;
  const DeviceState* device = Current();
  return device == nullptr ? cuda::kInvalidContext : device->sticky;
}

DeviceState* Driver::Current() {
  const auto stack = contexts.find(std::this_thread::get_id());
  if (stack == contexts.end() || stack->second.empty()) return nullptr;
  DeviceState& device = devices[static_cast<size_t>(stack->second.back())];
  return device.retains == 0 ? nullptr : &device;
}

StreamState* Driver::FindStream(cuda::Stream stream, const DeviceState& device) {
  if (stream == nullptr) return &devices[static_cast<size_t>(device.ordinal)].default_stream;
  StreamState* found = streams.Find(stream);
  return found != nullptr && found->device == device.ordinal ? found : nullptr;
}

void Driver::BeginStep(StreamState& stream) {
  JoinClock(stream.clock, host);
  StreamState& other = devices[static_cast<size_t>(stream.device)].default_stream;
  if (&other == &stream) {
    for (const auto& [handle, blocking] : streams.objects()) {
      if (blocking.blocking && blocking.device == stream.device) {
        JoinClock(stream.clock, blocking.clock);
      }
    }
  } else if (stream.blocking) {
    JoinClock(stream.clock, other.clock);
  }
  ++stream.clock[stream.number];
}

void Driver::Note(AccessLog& log, uint64_t begin, uint64_t end, bool write, uint64_t stream,
                  const Clock& clock, const std::string& what) {
  log.Forget(host);
  const StreamAccess* raced = log.Note({begin, end, stream, clock.at(stream), write}, clock);
  if (raced == nullptr) return;
  findings.Add(Check::kStreamRace,
               absl::StrCat(what, write ? " writes" : " reads", " bytes that an unordered stream ",
                            raced->write ? "writes" : "reads"));
}

PinnedState* Driver::FindPinned(const void* address, uint64_t bytes, uint64_t& offset) {
  auto after = pinned.objects().upper_bound(reinterpret_cast<uintptr_t>(address));
  if (after == pinned.objects().begin()) return nullptr;
  --after;
  offset = reinterpret_cast<uintptr_t>(address) - after->first;
  PinnedState& found = after->second;
  return offset <= found.size && bytes <= found.size - offset ? &found : nullptr;
}

Memory* Driver::MemoryOf(uint64_t address) {
  for (DeviceState& device : devices) {
    if (address >= device.memory.base() && address < device.memory.end()) return &device.memory;
  }
  return nullptr;
}

void Driver::Forget(const ModuleState& module, DeviceState& device) {
  for (const uint64_t address : module.variables) device.memory.Free(address);
  functions.EraseIf([&](const FunctionState& function) {
    const auto& kernels = module.module->kernels;
    return function.kernel >= kernels.data() && function.kernel < kernels.data() + kernels.size();
  });
}

void Driver::DestroyContext(DeviceState& device) {
  const auto owned = [&](const auto& object) { return object.device == device.ordinal; };
  for (const auto& [handle, module] : modules.objects()) {
    if (owned(module)) Forget(module, device);
  }
  modules.EraseIf(owned);
  streams.EraseIf(owned);
  events.EraseIf(owned);
  graphs.EraseIf(owned);
  execs.EraseIf(owned);
  pinned.EraseIf(owned);
  while (!device.memory.allocations().empty()) {
    device.memory.Free(device.memory.allocations().begin()->first);
  }
  device.sticky = cuda::kSuccess;
}

SharedDriver& TheDriver() {
  struct Kept {
    Mutex mutex;
    SharedDriver* driver ABSL_GUARDED_BY(mutex) = nullptr;
    uint32_t process ABSL_GUARDED_BY(mutex) = 0;
  };
  static Kept& kept = *new Kept;
  const MutexLock lock(kept.mutex);
  if (kept.driver != nullptr && kept.process == ForkGeneration()) return *kept.driver;
  kiln_ptx_config config;
  if (kept.driver != nullptr) {
    config = kept.driver->driver.config;
  } else {
    kiln_ptx_default_config(&config);
    config.strict = 1;   // whoever counts findings has configured it
    config.devices = 2;  // cuda-emulated and cuda-emulated:1
  }
  auto* const made = new SharedDriver();  // for the life of the process: calls may come at its end
  made->driver.Configure(config);
  kept.driver = made;
  kept.process = ForkGeneration();
  return *made;
}

}  // namespace kiln::ptx
