// SPDX-License-Identifier: Apache-2.0
// kiln devices: what kernels can run on here; --measure writes what they cost (schedule/machine.h).

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/processors.h"
#include "base/target.h"
#include "compiler/measure_machine.h"
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
  std::string measure;
};

int MeasureDevices(const DevicesFlags& flags) {
  CompileOptions options;
  options.cache.enabled = false;
  const absl::StatusOr<Machine> machine = MeasureMachine(options);
  if (!machine.ok()) return Fail(machine.status(), kExitDevice);
  if (!(std::ofstream(flags.measure) << ToString(*machine)).flush()) {
    return Fail(absl::UnavailableError(absl::StrCat("--measure \"", flags.measure,
                                                    "\": cannot be written; is the folder there?")),
                kExitIo);
  }
  Note(flags.common, absl::StrCat("wrote ", flags.measure, "; use it with --machine"));
  return kExitOk;
}

int RunDevices(const DevicesFlags& flags) {
  if (!flags.measure.empty()) {
    if (const int exit = MeasureDevices(flags); exit != kExitOk) return exit;
  }
  const int threads = Processors();
  nlohmann::json devices = nlohmann::json::array();
  std::vector<std::vector<std::string>> rows = {{"device", "model", "target", "threads"}};
  std::string features, found;
  for (const DeviceRow& row : AllDevices()) {
    if (row.model().empty()) continue;  // there is none here
    const std::string target(HostTarget(row.device).name());
    std::vector<DeviceLibraryInfo> libraries;
    if (row.device != DefaultDevice()) libraries = DeviceLibraries(std::string(row.name));
    for (const DeviceLibraryInfo& one : libraries)
      absl::StrAppend(&found, row.name, ": ", ToText(one), "\n");
    devices.push_back({{"device", row.name},
                       {"model", row.model()},
                       {"target", target},
                       {"features", row.features()},
                       {"libraries", ToJson(libraries)},
                       {"threads", threads}});
    rows.push_back({row.name, row.model(), target, absl::StrCat(threads)});
    absl::StrAppend(&features, "features: ", absl::StrJoin(row.features(), " "), "\n");
  }
  if (flags.common.json) {
    PrintJson("devices", flags.common, {{"devices", std::move(devices)}});
  } else {
    std::cout << Table(rows) << features << found;
  }
  return kExitOk;
}

}  // namespace

void AddDevices(Flags& command) {
  auto flags = std::make_shared<DevicesFlags>();
  command
      .Option("--measure", flags->measure,
              "Time small kernels here and write a machine file for --machine")
      .File();
  AddOutputFlags(command, flags->common);
  command.Runs([flags] { return RunDevices(*flags); });
}

}  // namespace kiln
