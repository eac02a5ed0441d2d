// SPDX-License-Identifier: Apache-2.0
// kiln devices: what kernels can run on here, and how fast memory and launches of GPUs are;
// --measure writes what kernels cost (schedule/machine.h).

#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/cuda_device.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "base/target.h"
#include "compiler/measure_machine.h"
#include "exec/support/compute_device.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/device_libraries.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct DevicesFlags {
  CommonOptions common;
  std::string device, measure;
};

// One line of the list: the CPU, or a GPU with what it was measured to do.
struct ListedDevice {
  std::string name, model;
  Target target;
  std::vector<std::string> features;
  std::optional<DeviceFacts> facts;
  absl::StatusOr<DeviceSpeed> speed;
  std::vector<DeviceLibraryInfo> libraries;
};

ListedDevice Unmeasured(const DeviceRow& row) {
  return {row.name,
          row.model(),
          HostTarget(row.device),
          row.features(),
          {},
          absl::UnavailableError("not measured"),
          {}};
}

ListedDevice Measured(ComputeDevice& device, const std::string& name) {
  return {
      name,           device.model(),   device.target(),   CudaFeaturesOf(device.target().level),
      device.facts(), device.Measure(), device.libraries()};
}

// "cuda", "cuda:1", ...: as many as the driver has.
std::vector<ListedDevice> AllOf(const DeviceRow& row, const CommonOptions& common) {
  std::vector<ListedDevice> found;
  for (int i = 0;; ++i) {
    const std::string name = i == 0 ? row.name : absl::StrCat(row.name, ":", i);
    const auto device = OpenComputeDevice(name);
    if (device.ok()) {
      found.push_back(Measured(**device, name));
      continue;
    }
    if (i == 0) {
      Note(common, std::string(device.status().message()));
      found.push_back(Unmeasured(row));
    }
    return found;
  }
}

absl::StatusOr<std::vector<ListedDevice>> Devices(const DevicesFlags& flags) {
  std::vector<ListedDevice> devices;
  for (const DeviceRow& row : AllDevices()) {
    const bool host = row.device == DefaultDevice();
    if (flags.device == row.name && host) return std::vector{Unmeasured(row)};
    if (!flags.device.empty() || row.model().empty()) continue;  // or there is none here
    const std::vector<ListedDevice> found =
        host ? std::vector{Unmeasured(row)} : AllOf(row, flags.common);
    devices.insert(devices.end(), found.begin(), found.end());
  }
  if (!flags.device.empty()) {
    KILN_ASSIGN_OR_RETURN(const auto device, OpenComputeDevice(flags.device));
    devices.push_back(Measured(*device, flags.device));
  }
  return devices;
}

nlohmann::json ToJson(const DeviceSpeed& speed) {
  return {{"memory_gb_s", speed.memory_gb_s},
          {"memory_set_bytes", speed.memory_set_bytes},
          {"cache_gb_s", speed.cache_gb_s},
          {"cache_set_bytes", speed.cache_set_bytes},
          {"to_device_pinned_gb_s", speed.to_device_pinned_gb_s},
          {"from_device_pinned_gb_s", speed.from_device_pinned_gb_s},
          {"to_device_pageable_gb_s", speed.to_device_pageable_gb_s},
          {"from_device_pageable_gb_s", speed.from_device_pageable_gb_s},
          {"launch_ns", speed.launch_ns}};
}

nlohmann::json ToJson(const ListedDevice& device) {
  nlohmann::json json = {{"device", device.name},
                         {"model", device.model},
                         {"target", std::string(device.target.name())},
                         {"features", device.features},
                         {"threads", Processors()}};
  if (!device.facts) return json;
  const DeviceFacts& facts = *device.facts;
  json["driver"] = facts.driver;
  json["memory_bytes"] = facts.memory_bytes;
  json["cache_bytes"] = facts.cache_bytes;
  json["multiprocessors"] = facts.multiprocessors;
  json["clock_ghz"] = facts.clock_ghz;
  json["libraries"] = ToJson(device.libraries);
  if (device.speed.ok()) {
    json["measured"] = ToJson(*device.speed);
  } else {
    json["error"] = std::string(device.speed.status().message());
  }
  return json;
}

std::string SpeedText(const DeviceSpeed& speed) {
  return absl::StrFormat(
      "copies on it %.1f GB/s (%.1f GB/s in its cache); to it %.1f GB/s pinned, %.1f pageable; "
      "from it %.1f, %.1f; a launch %.2f us",
      speed.memory_gb_s, speed.cache_gb_s, speed.to_device_pinned_gb_s,
      speed.to_device_pageable_gb_s, speed.from_device_pinned_gb_s, speed.from_device_pageable_gb_s,
      speed.launch_ns / 1000);
}

void PrintText(const std::vector<ListedDevice>& devices) {
  std::vector<std::vector<std::string>> rows = {{"device", "model", "target", "threads"}};
  std::string more;
  for (const ListedDevice& device : devices) {
    rows.push_back({device.name, device.model, std::string(device.target.name()),
                    device.facts ? "-" : absl::StrCat(Processors())});
    if (!device.facts) {
      absl::StrAppend(&more, "features: ", absl::StrJoin(device.features, " "), "\n");
      continue;
    }
    const DeviceFacts& facts = *device.facts;
    absl::StrAppend(
        &more, device.name, ": ", facts.driver, "; ", facts.multiprocessors, " multiprocessors, ",
        absl::StrFormat("%.2f GHz, ", facts.clock_ghz), Bytes(facts.memory_bytes), " of memory, ",
        Bytes(facts.cache_bytes), " of cache\n", device.name, ": ",
        device.speed.ok() ? SpeedText(*device.speed) : std::string(device.speed.status().message()),
        "\n");
    for (const DeviceLibraryInfo& library : device.libraries)
      absl::StrAppend(&more, device.name, ": ", ToText(library), "\n");
  }
  std::cout << Table(rows) << more;
}

// The text of a machine file of the device, of the CPU by default.
absl::StatusOr<std::string> MachineText(const DevicesFlags& flags) {
  if (flags.device.empty() || flags.device == AllDevices().front().name) {
    CompileOptions options;
    options.cache.enabled = false;
    KILN_ASSIGN_OR_RETURN(const Machine machine, MeasureMachine(options));
    return ToString(machine);
  }
  KILN_ASSIGN_OR_RETURN(const auto device, OpenComputeDevice(flags.device));
  KILN_ASSIGN_OR_RETURN(const Machine machine, MeasureDevice(*device));
  return absl::StrCat("# ", device->model(), ", ", device->facts().driver,
                      ", measured by kiln devices; lanes, lanes64, latency and gflops are of the "
                      "file shipped for its level.\n",
                      ToString(machine));
}

int WriteMachine(const DevicesFlags& flags) {
  const absl::StatusOr<std::string> text = MachineText(flags);
  if (!text.ok()) return Fail(text.status(), kExitDevice);
  if (!(std::ofstream(flags.measure) << *text).flush()) {
    return Fail(absl::UnavailableError(absl::StrCat("--measure \"", flags.measure,
                                                    "\": cannot be written; is the folder there?")),
                kExitIo);
  }
  Note(flags.common, absl::StrCat("wrote ", flags.measure, "; use it with --machine"));
  return kExitOk;
}

int RunDevices(const DevicesFlags& flags) {
  if (!flags.measure.empty()) {
    if (const int exit = WriteMachine(flags); exit != kExitOk) return exit;
  }
  const absl::StatusOr<std::vector<ListedDevice>> devices = Devices(flags);
  if (!devices.ok()) {
    const bool usage = absl::IsInvalidArgument(devices.status());
    return Fail(devices.status(), usage ? kExitUsage : kExitDevice);
  }
  if (!flags.common.json) {
    PrintText(*devices);
    return kExitOk;
  }
  nlohmann::json list = nlohmann::json::array();
  for (const ListedDevice& device : *devices) list.push_back(ToJson(device));
  PrintJson("devices", flags.common, {{"devices", std::move(list)}});
  return kExitOk;
}

}  // namespace

void AddDevices(Flags& command) {
  auto flags = std::make_shared<DevicesFlags>();
  command.Option("--device", flags->device,
                 "This one only: cpu, cuda, cuda:1, cuda-emulated (default: all that are here)");
  command
      .Option("--measure", flags->measure,
              "Time small kernels, or copies of a GPU, and write a machine file for --machine")
      .File();
  AddOutputFlags(command, flags->common);
  command.Runs([flags] { return RunDevices(*flags); });
}

}  // namespace kiln
