// SPDX-License-Identifier: Apache-2.0
// kiln devices: what kernels can run on here; --measure writes what they cost (schedule/machine.h).

#include <fstream>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/cpu_features.h"
#include "base/processors.h"
#include "compiler/measure_machine.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

struct DevicesFlags {
  CommonOptions common;
  std::string measure;
};

int Measure(const DevicesFlags& flags) {
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

int Run(const DevicesFlags& flags) {
  if (!flags.measure.empty()) {
    if (const int exit = Measure(flags); exit != kExitOk) return exit;
  }
  std::vector<std::string> features;
  for (const CpuFeatureName& feature : AllCpuFeatures()) {
    if (HostCpu().*feature.has) features.emplace_back(feature.name);
  }
  const int threads = Processors();
  const std::string level(HostTarget().name());
  if (flags.common.json) {
    PrintJson("devices", flags.common,
              {{"devices",
                {{{"device", "cpu"},
                  {"model", HostCpu().model},
                  {"target", level},
                  {"features", features},
                  {"threads", threads}}}}});
  } else {
    std::cout << Table({{"device", "model", "target", "threads"},
                        {"cpu", HostCpu().model, level, absl::StrCat(threads)}})
              << "features: " << absl::StrJoin(features, " ") << "\n";
  }
  return kExitOk;
}

}  // namespace

std::function<int()> AddDevices(CLI::App& command) {
  auto flags = std::make_shared<DevicesFlags>();
  command.add_option("--measure", flags->measure,
                     "Time small kernels here and write a machine file for --machine");
  AddOutputFlags(command, flags->common);
  return [flags] { return Run(*flags); };
}

}  // namespace kiln
