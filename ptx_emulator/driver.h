// SPDX-License-Identifier: Apache-2.0
// The state behind the emulated driver's functions. Private to the component.
//
// Work is done at once, in the calling thread and under one lock. What could run at other times on
// a GPU is told by clocks: each stream has one, an event is a copy of one, and the host has one,
// which all later work knows. Handles are numbers that are never given out twice and looked up in a
// registry, so a wrong or destroyed one is an error.
//
//   Result cuMemFree_v2(DevicePointer memory) {
//     return Call(__func__, Needs::kContext, [&](Driver&, DeviceState& device) -> Result {
//       return device.memory.Free(memory) ? kSuccess : kInvalidValue;
//     });
//   }
#ifndef KILN_PTX_EMULATOR_DRIVER_H_
#define KILN_PTX_EMULATOR_DRIVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/mutex.h"
#include "ptx_emulator/driver_functions.h"
#include "ptx_emulator/machine.h"

namespace kiln::ptx {

using cuda::Result;

inline constexpr int kDefaultDynamicShared = 48 << 10;

// Objects by handle.
template <typename Handle, typename Object>
class Registry {
 public:
  Object* Find(Handle handle) {
    const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
    return found == objects_.end() ? nullptr : &found->second;
  }
  Handle Add(uintptr_t number, Object object) {
    objects_.emplace(number, std::move(object));
    return reinterpret_cast<Handle>(number);
  }
  bool Erase(Handle handle) { return objects_.erase(reinterpret_cast<uintptr_t>(handle)) != 0; }
  template <typename Predicate>
  void EraseIf(Predicate predicate) {
    std::erase_if(objects_, [&](const auto& entry) { return predicate(entry.second); });
  }
  std::map<uintptr_t, Object>& objects() { return objects_; }

 private:
  std::map<uintptr_t, Object> objects_;
};

// What all devices of a compute capability have, by the CUDA programming guide.
struct Capability {
  int sm, threads, shared_bytes, shared_opt_in, l2_mib;
};
const Capability& CapabilityOf(int sm);

// The handle of a device's primary context.
inline cuda::Context ContextOf(int device) {
  return reinterpret_cast<cuda::Context>(uintptr_t{0x1000} + static_cast<uintptr_t>(device) * 16);
}

struct StreamState {
  int device = 0;
  uint64_t number = 0;   // in clocks
  bool blocking = true;  // waits for the default stream, and that one for it
  Clock clock;
};

struct EventState {
  int device = 0;
  bool timed = true, recorded = false;
  Clock clock;
  uint64_t time = 0;  // warp instructions
};

struct ModuleState {
  int device = 0;
  std::shared_ptr<const Module> module;
  std::vector<uint64_t> variables;  // addresses
};

struct FunctionState {
  cuda::Module module = nullptr;
  const Kernel* kernel = nullptr;
  int max_dynamic_shared = kDefaultDynamicShared;
};

// A kernel node: the launch and a copy of its parameters.
struct NodeState {
  uintptr_t handle = 0;
  cuda::KernelNodeParams launch = {};
  std::vector<uint8_t> parameters;
  std::vector<size_t> after;  // earlier nodes
  uint64_t number = 0;        // in clocks, of an instance
};

struct GraphState {
  int device = 0;
  std::vector<NodeState> nodes;  // each after those it waits for
  uint64_t launches = 0;         // of an instance
};

struct PinnedState {
  int device = 0;
  std::unique_ptr<uint8_t[]> bytes;
  uint64_t size = 0;
  AccessLog log;
};

struct DeviceState {
  int ordinal = 0;
  uint64_t retains = 0;  // of the primary context
  Result sticky = cuda::kSuccess;
  StreamState default_stream;
  Memory memory;
};

enum class Needs { kNothing, kInit, kContext };

struct Driver {
  kiln_ptx_config config = {};
  bool initialized = false;
  std::vector<DeviceState> devices;
  Registry<cuda::Module, ModuleState> modules;
  Registry<cuda::Function, FunctionState> functions;
  Registry<cuda::Stream, StreamState> streams;
  Registry<cuda::Event, EventState> events;
  Registry<cuda::Graph, GraphState> graphs;
  Registry<cuda::GraphExec, GraphState> execs;
  Registry<void*, PinnedState> pinned;
  std::map<std::thread::id, std::vector<int>> contexts;  // of each thread, by device
  Clock host;
  uint64_t next_handle = 0x10000, next_stream = 1;
  Findings findings;
  std::map<std::string, Counters> counters;  // by kernel
  uint64_t warp_instructions = 0;            // the clock of events
  std::map<std::string, uint64_t> calls;
  uint64_t call_count = 0, fail_from = 0, fail_until = 0;  // by call_count; 0: never
  Result failure = cuda::kSuccess;

  void Configure(const kiln_ptx_config& new_config);
  // Counts the call. Anything but kSuccess is its answer.
  Result Enter(const char* function, Needs needs);
  DeviceState* Current();
  uintptr_t NewHandle() { return next_handle += 16; }
  // The device's default stream for null; null where there is no such stream of this device.
  StreamState* FindStream(cuda::Stream stream, const DeviceState& device);
  // The stream's next step begins: its clock says what it knows.
  void BeginStep(StreamState& stream);
  void HostKnows(const Clock& clock) { JoinClock(host, clock); }
  // `what` reads or writes bytes of `log`'s memory in the stream's present step.
  void Note(AccessLog& log, uint64_t begin, uint64_t end, bool write, uint64_t stream,
            const Clock& clock, const std::string& what);
  PinnedState* FindPinned(const void* address, uint64_t bytes, uint64_t& offset);
  Memory* MemoryOf(uint64_t address);
  // Frees all that the device's context owns.
  void DestroyContext(DeviceState& device);
  void Forget(const ModuleState& module, DeviceState& device);
};

struct SharedDriver {
  Mutex mutex{AtFork::kForget};
  Driver driver;
};
// The one object with state of this library, as the driver's interface in C has it. A child of a
// fork has another, with the same configuration: a thread of its parent may have been at work in
// the first, under its mutex, and nothing that the parent has made is valid in a child.
SharedDriver& TheDriver();

// Runs body(driver) or body(driver, current device) as a driver's function of that name.
template <typename Body>
Result Call(const char* function, Needs needs, Body body) noexcept {
  try {
    SharedDriver& shared = TheDriver();
    const MutexLock lock(shared.mutex);
    Driver& driver = shared.driver;
    if (const Result entered = driver.Enter(function, needs); entered != cuda::kSuccess) {
      return entered;
    }
    if constexpr (std::is_invocable_v<Body, Driver&, DeviceState&>) {
      return body(driver, *driver.Current());
    } else {
      return body(driver);
    }
  } catch (const std::bad_alloc&) {
    return cuda::kOutOfMemory;
  } catch (...) {
    return cuda::kUnknown;
  }
}

// ---- launches (driver_launch.cc), for graphs too
// The parameters as the kernel lays them out, from one pointer for each; false: a pointer is
// missing.
bool CopyParameters(const Kernel& kernel, void* const* from, std::vector<uint8_t>& to);
// Whether a function may be launched so: its kernel, and kInvalidValue or the like.
Result CheckNode(Driver& driver, const DeviceState& device, const cuda::KernelNodeParams& node);
// Runs it as the step of `stream` that knows `clock`.
Result RunNode(Driver& driver, DeviceState& device, const NodeState& node, uint64_t stream,
               const Clock& clock);

}  // namespace kiln::ptx

#endif  // KILN_PTX_EMULATOR_DRIVER_H_
