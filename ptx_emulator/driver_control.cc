// SPDX-License-Identifier: Apache-2.0
#include "ptx_emulator/control.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ptx_emulator/driver.h"

// NOLINTBEGIN(readability-identifier-naming): the names are those of an interface in C.
namespace kiln::ptx {
namespace {

size_t CopyText(absl::string_view from, char* text, size_t size) {
  if (text != nullptr && size != 0) {
    const size_t length = std::min(from.size(), size - 1);
    std::memcpy(text, from.data(), length);
    text[length] = 0;
  }
  return from.size();
}

// body(driver) under the lock.
template <typename Body>
auto WithDriver(Body body) {
  SharedDriver& shared = TheDriver();
  const MutexLock lock(shared.mutex);
  return body(shared.driver);
}

}  // namespace

extern "C" {

void kiln_ptx_default_config(kiln_ptx_config* config) {
  *config = {};
  config->devices = 1;
  std::fill_n(config->sm, KILN_PTX_MAX_DEVICES, 80);
  std::fill_n(config->memory, KILN_PTX_MAX_DEVICES, uint64_t{1} << 30);
  std::fill_n(config->multiprocessors, KILN_PTX_MAX_DEVICES, 108);
  config->driver_version = 13000;
  config->checks = 1;
  config->warp_instructions = MachineOptions().warp_instructions;
}

void kiln_ptx_configure(const kiln_ptx_config* config) {
  WithDriver([&](Driver& driver) { driver.Configure(*config); });
}

void kiln_ptx_fail_at(uint64_t k, int result, uint64_t count) {
  WithDriver([&](Driver& driver) {
    driver.fail_from = k == 0 ? 0 : driver.call_count + k;
    driver.fail_until = count == 0 ? UINT64_MAX : driver.fail_from + count;
    driver.failure = static_cast<Result>(result);
  });
}

uint64_t kiln_ptx_calls(const char* function) {
  return WithDriver([&](Driver& driver) -> uint64_t {
    if (function == nullptr) return driver.call_count;
    const auto found = driver.calls.find(function);
    return found == driver.calls.end() ? 0 : found->second;
  });
}

void kiln_ptx_live(kiln_ptx_objects* objects) {
  WithDriver([&](Driver& driver) {
    *objects = {};
    for (DeviceState& device : driver.devices) {
      objects->contexts += device.retains > 0 ? 1 : 0;
      objects->allocations += device.memory.allocations().size();
      objects->allocated_bytes += device.memory.used();
    }
    for (const auto& [handle, module] : driver.modules.objects()) {
      objects->allocations -= module.variables.size();
      for (const Variable& variable : module.module->variables) {
        objects->allocated_bytes -= variable.bytes;
      }
    }
    objects->pinned = driver.pinned.objects().size();
    objects->modules = driver.modules.objects().size();
    objects->streams = driver.streams.objects().size();
    objects->events = driver.events.objects().size();
    objects->graphs = driver.graphs.objects().size();
    objects->graph_execs = driver.execs.objects().size();
  });
}

size_t kiln_ptx_findings(char* text, size_t size) {
  return WithDriver(
      [&](Driver& driver) { return CopyText(driver.findings.ToString(), text, size); });
}

uint64_t kiln_ptx_finding_count(void) {
  return WithDriver([](Driver& driver) { return driver.findings.count(); });
}

int kiln_ptx_count(const char* kernel, kiln_ptx_counters* counters) {
  return WithDriver([&](Driver& driver) {
    *counters = {};
    for (const auto& [name, counted] : driver.counters) {
      if (kernel == nullptr || name == kernel) AddCounters(*counters, counted);
    }
    return counters->launches > 0 ? 1 : 0;
  });
}

size_t kiln_ptx_kernels(char* text, size_t size) {
  return WithDriver([&](Driver& driver) {
    std::string names;
    for (const auto& [name, counted] : driver.counters) absl::StrAppend(&names, name, "\n");
    return CopyText(names, text, size);
  });
}

void kiln_ptx_clear(void) {
  WithDriver([](Driver& driver) {
    driver.findings.Clear();
    driver.counters.clear();
  });
}

}  // extern "C"

}  // namespace kiln::ptx
// NOLINTEND(readability-identifier-naming)
