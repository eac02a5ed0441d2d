// SPDX-License-Identifier: Apache-2.0
// Modules, functions and launches.
#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ptx_emulator/driver.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the driver's.
namespace kiln::ptx {

bool CopyParameters(const Kernel& kernel, void* const* from, std::vector<uint8_t>& to) {
  to.assign(static_cast<size_t>(kernel.parameter_bytes), 0);
  if (kernel.parameters.empty()) return true;
  if (from == nullptr) return false;
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    if (from[i] == nullptr) return false;
    const Parameter& parameter = kernel.parameters[i];
    std::memcpy(to.data() + parameter.offset, from[i], static_cast<size_t>(parameter.bytes));
  }
  return true;
}

namespace {

Launch LaunchOf(const cuda::KernelNodeParams& node, const Kernel* kernel) {
  Launch launch = {kernel, {}, {}, node.shared_bytes, nullptr, nullptr};
  std::copy_n(node.grid, 3, launch.grid);
  std::copy_n(node.block, 3, launch.block);
  return launch;
}

bool IsSticky(Result result) {
  return result == cuda::kIllegalAddress || result == cuda::kMisalignedAddress ||
         result == cuda::kLaunchFailed || result == cuda::kLaunchTimeout ||
         result == cuda::kInvalidPc;
}

// What the launch read and wrote, as intervals of each allocation.
void NoteLaunch(Driver& driver, DeviceState& device, const std::string& kernel, uint64_t stream,
                const Clock& clock) {
  for (auto& [base, allocation] : device.memory.allocations()) {
    if (allocation.touched != device.memory.launch()) continue;
    const std::string what = "kernel " + kernel;
    if (allocation.load_begin < allocation.load_end) {
      driver.Note(allocation.log, allocation.load_begin, allocation.load_end, false, stream, clock,
                  what);
    }
    if (allocation.store_begin < allocation.store_end) {
      driver.Note(allocation.log, allocation.store_begin, allocation.store_end, true, stream, clock,
                  what);
    }
  }
}

}  // namespace

Result CheckNode(Driver& driver, const DeviceState& device, const cuda::KernelNodeParams& node) {
  const FunctionState* function = driver.functions.Find(node.function);
  if (function == nullptr) return cuda::kInvalidHandle;
  const ModuleState* module = driver.modules.Find(function->module);
  if (module == nullptr || module->device != device.ordinal) return cuda::kInvalidContext;
  if (node.extra != nullptr) return cuda::kNotSupported;
  if (node.shared_bytes > static_cast<unsigned>(function->max_dynamic_shared)) {
    return cuda::kInvalidValue;
  }
  return CheckLimits(LaunchOf(node, function->kernel));
}

Result RunNode(Driver& driver, DeviceState& device, const NodeState& node, uint64_t stream,
               const Clock& clock) {
  const FunctionState* function = driver.functions.Find(node.launch.function);
  const ModuleState* module = function == nullptr ? nullptr : driver.modules.Find(function->module);
  if (module == nullptr) return cuda::kInvalidHandle;
  Launch launch = LaunchOf(node.launch, function->kernel);
  launch.parameters = node.parameters.data();
  launch.variables = &module->variables;
  const MachineOptions options = {driver.config.checks != 0, driver.config.warp_instructions};
  const uint64_t findings = driver.findings.count();
  Counters counters = {};
  Result result = RunLaunch(launch, options, device.memory, driver.findings, counters);
  AddCounters(driver.counters[function->kernel->name], counters);
  driver.warp_instructions += counters.warp_instructions;
  NoteLaunch(driver, device, function->kernel->name, stream, clock);
  if (result == cuda::kSuccess && driver.config.strict != 0 &&
      driver.findings.count() != findings) {
    result = cuda::kLaunchFailed;
  }
  if (IsSticky(result)) device.sticky = result;
  return result;
}

}  // namespace kiln::ptx

namespace kiln::cuda {
namespace {

using ptx::Call;
using ptx::DeviceState;
using ptx::Driver;
using ptx::FunctionState;
using ptx::ModuleState;
using ptx::Needs;
using ptx::NodeState;
using ptx::StreamState;

// CUjit_option.
constexpr int kErrorLogBuffer = 5, kErrorLogBytes = 6;

void WriteLog(absl::string_view text, unsigned options, const int* names, void** values) {
  char* buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; names != nullptr && values != nullptr && i < options; ++i) {
    if (names[i] == kErrorLogBuffer) buffer = static_cast<char*>(values[i]);
    if (names[i] == kErrorLogBytes) size = reinterpret_cast<uintptr_t>(values[i]) & 0xffffffff;
  }
  if (buffer == nullptr || size == 0) return;
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = 0;
}

bool IsBinary(const char* image) {
  static constexpr absl::string_view kMagics[] = {
      "\x7f"
      "ELF",
      "\x50\xed\x55\xba", "\xb1\x43\x62\x46"};
  return std::any_of(std::begin(kMagics), std::end(kMagics), [&](absl::string_view magic) {
    return std::strncmp(image, magic.data(), magic.size()) == 0;
  });
}

// Whether the device and the driver's version run it.
Result CheckTarget(const Driver& driver, int device, const ptx::Module& module) {
  const int sm = driver.config.sm[device];
  if (module.target > sm || (module.exact && module.target != sm)) return kNoBinaryForGpu;
  // CUDA 12.3 reads PTX 8.3.
  const int newest =
      (driver.config.driver_version / 1000 - 4) * 10 + driver.config.driver_version % 1000 / 10;
  return module.version > newest ? kUnsupportedPtxVersion : kSuccess;
}

// Places .global and .const arrays; false: no memory.
bool PlaceVariables(ptx::Memory& memory, ModuleState& state) {
  for (const ptx::Variable& variable : state.module->variables) {
    const uint64_t address = memory.Allocate(variable.bytes);
    if (address == 0) {
      for (const uint64_t placed : state.variables) memory.Free(placed);
      return false;
    }
    state.variables.push_back(address);
    ptx::Allocation* allocation = memory.Find(address, variable.bytes);
    std::memset(allocation->bytes.get(), 0, variable.bytes);
    std::copy(variable.initial.begin(), variable.initial.end(), allocation->bytes.get());
    allocation->MarkWritten(0, variable.bytes);
  }
  return true;
}

const ptx::Capability& CapabilityOf(const Driver& driver, const DeviceState& device) {
  return ptx::CapabilityOf(driver.config.sm[device.ordinal]);
}

}  // namespace

Result cuModuleLoadDataEx(Module* module, const void* image, unsigned options, int* names,
                          void** values) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) -> Result {
    if (module == nullptr || image == nullptr) return kInvalidValue;
    const char* text = static_cast<const char*>(image);
    if (IsBinary(text)) return kNoBinaryForGpu;
    absl::StatusOr<ptx::Module> parsed = ptx::Parse(text);
    if (!parsed.ok()) {
      WriteLog(parsed.status().message(), options, names, values);
      return kInvalidPtx;
    }
    if (const Result fits = CheckTarget(driver, device.ordinal, *parsed); fits != kSuccess) {
      return fits;
    }
    ModuleState state;
    state.device = device.ordinal;
    state.module = std::make_shared<const ptx::Module>(*std::move(parsed));
    if (!PlaceVariables(device.memory, state)) return kOutOfMemory;
    *module = driver.modules.Add(driver.NewHandle(), std::move(state));
    return kSuccess;
  });
}

Result cuModuleUnload(Module module) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    const ModuleState* found = driver.modules.Find(module);
    if (found == nullptr || found->device != device.ordinal) return kInvalidHandle;
    driver.Forget(*found, device);
    driver.modules.Erase(module);
    return kSuccess;
  });
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    const ModuleState* found = driver.modules.Find(module);
    if (found == nullptr) return kInvalidHandle;
    if (function == nullptr || name == nullptr) return kInvalidValue;
    const ptx::Kernel* kernel = found->module->Find(name);
    if (kernel == nullptr) return kNotFound;
    for (const auto& [handle, known] : driver.functions.objects()) {
      if (known.kernel != kernel) continue;
      *function = reinterpret_cast<Function>(handle);  // the same one each time
      return kSuccess;
    }
    FunctionState state;
    state.module = module;
    state.kernel = kernel;
    state.max_dynamic_shared -= static_cast<int>(kernel->shared_bytes);
    *function = driver.functions.Add(driver.NewHandle(), state);
    return kSuccess;
  });
}

Result cuFuncGetAttribute(int* value, FunctionAttribute attribute, Function function) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState&) {
    const FunctionState* found = driver.functions.Find(function);
    if (found == nullptr) return kInvalidHandle;
    if (value == nullptr) return kInvalidValue;
    constexpr int kRegisters = 32;  // PTX has no limit, and the emulator gives none
    switch (attribute) {
      case kFunctionMaxThreads:
        *value = static_cast<int>(found->kernel->max_threads);
        return kSuccess;
      case kFunctionSharedBytes:
        *value = static_cast<int>(found->kernel->shared_bytes);
        return kSuccess;
      case kFunctionLocalBytes:
        *value = static_cast<int>(found->kernel->local_bytes);
        return kSuccess;
      case kFunctionRegisters:
        *value = kRegisters;
        return kSuccess;
      case kFunctionMaxDynamicSharedBytes:
        *value = found->max_dynamic_shared;
        return kSuccess;
    }
    return kInvalidValue;
  });
}

Result cuFuncSetAttribute(Function function, FunctionAttribute attribute, int value) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    FunctionState* found = driver.functions.Find(function);
    if (found == nullptr) return kInvalidHandle;
    const int limit =
        CapabilityOf(driver, device).shared_opt_in - static_cast<int>(found->kernel->shared_bytes);
    if (attribute != kFunctionMaxDynamicSharedBytes || value < 0 || value > limit) {
      return kInvalidValue;
    }
    found->max_dynamic_shared = value;
    return kSuccess;
  });
}

Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function function, int threads,
                                                   size_t shared_bytes) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) {
    const FunctionState* found = driver.functions.Find(function);
    if (found == nullptr) return kInvalidHandle;
    if (blocks == nullptr || threads <= 0 || threads > 1024) return kInvalidValue;
    constexpr size_t kReserved = 1024;  // shared memory that a block has for the system
    const ptx::Capability& capability = CapabilityOf(driver, device);
    const int warps = (threads + ptx::kLanes - 1) / ptx::kLanes;
    const size_t used = shared_bytes + found->kernel->shared_bytes + kReserved;
    const size_t by_shared = static_cast<size_t>(capability.shared_bytes) / used;
    *blocks =
        std::min({capability.threads / (warps * ptx::kLanes), 32, static_cast<int>(by_shared)});
    return kSuccess;
  });
}

Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      Stream stream, void** params, void** extra) {
  return Call(__func__, Needs::kContext, [&](Driver& driver, DeviceState& device) -> Result {
    NodeState node;
    node.launch = {function,
                   {grid_x, grid_y, grid_z},
                   {block_x, block_y, block_z},
                   shared_bytes,
                   params,
                   extra,
                   nullptr,
                   nullptr};
    const Result valid = CheckNode(driver, device, node.launch);
    if (valid != kSuccess) return valid;
    StreamState* on = driver.FindStream(stream, device);
    if (on == nullptr) return kInvalidHandle;
    const ptx::Kernel& kernel = *driver.functions.Find(function)->kernel;
    if (!ptx::CopyParameters(kernel, params, node.parameters)) return kInvalidValue;
    driver.BeginStep(*on);
    return ptx::RunNode(driver, device, node, on->number, on->clock);
  });
}

}  // namespace kiln::cuda
// NOLINTEND(readability-identifier-naming)
