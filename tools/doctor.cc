// SPDX-License-Identifier: Apache-2.0
// kiln doctor: whether this machine is fit, one line for each thing that Kiln depends on.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/child_process.h"
#include "base/cpu_features.h"
#include "base/file_system.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "compiler/assembler.h"
#include "compiler/build_id.h"
#include "exec/support/compute_device.h"
#include "exec/validate/validator.h"
#include "halide_gen/common/build_id.h"
#include "nlohmann/json.hpp"
#include "tools/checks.h"
#include "tools/device_libraries.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/machine_limits.h"
#include "tools/report.h"

namespace kiln {
namespace {

constexpr int64_t kLittleMemory = int64_t{1} << 30;    // for the builds of a few kernels at a time
constexpr int64_t kLittleScratch = int64_t{64} << 20;  // for their files

void CheckVersion(Checks& checks) {
  checks.Add("version", CheckStatus::kOk,
             absl::StrCat("kiln " KILN_VERSION ", compiler build ", kCompilerBuildId,
                          ", code generator build ", kCodegenBuildId, ", ", kCodegenCompiler));
}

void CheckCpu(Checks& checks) {
  const IsaLevel own = LevelOf(HostCpu());
  const std::string model = absl::StrCat(HostCpu().model, ", ", Name(HostIsa()));
  if (!HostTarget().compiles()) {
    checks.Add("cpu", CheckStatus::kNote, absl::StrCat(model, ": kernels run on the VM alone"),
               own == HostIsa() ? "compiled kernels need AVX2 and FMA" : "unset KILN_MAX_ISA");
  } else if (own != HostIsa()) {
    checks.Add("cpu", CheckStatus::kNote, absl::StrCat(model, ", of ", Name(own)),
               "KILN_MAX_ISA says so");
  } else {
    checks.Add("cpu", CheckStatus::kOk, absl::StrCat(model, " (", HostFeatures(), ")"));
  }
}

void CheckProcessors(Checks& checks) {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int quota = QuotaProcessors(TextOfFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  const std::string mask = known ? absl::StrCat(CPU_COUNT(&allowed)) : "unknown";
  checks.Add("processors", CheckStatus::kOk,
             absl::StrCat(Processors(), " may be used: ", mask, " of ",
                          sysconf(_SC_NPROCESSORS_ONLN), " in the affinity mask, ",
                          quota == INT_MAX ? "no quota" : absl::StrCat("a quota of ", quota)));
}

void CheckMemory(Checks& checks) {
  const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const int64_t group = GroupMemoryLimit(TextOfFile("/proc/self/cgroup"), "/sys/fs/cgroup");
  rlimit space{};
  const bool limited = getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
  std::string detail = absl::StrCat(Bytes(physical), ", ",
                                    group >= physical ? "no limit of a control group"
                                                      : absl::StrCat(Bytes(group),
                                                                     " of them for "
                                                                     "this control group"));
  if (limited) {
    absl::StrAppend(&detail, ", address space of ", Bytes(static_cast<int64_t>(space.rlim_cur)));
  }
  const int64_t least =
      std::min({physical, group, limited ? static_cast<int64_t>(space.rlim_cur) : INT64_MAX});
  checks.Add("memory", least < kLittleMemory ? CheckStatus::kNote : CheckStatus::kOk, detail,
             "kernels may fail to build; raise the limit, or ship a package (kiln compile)");
}

void CheckHugePages(Checks& checks) {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string chosen = ChosenWord(TextOfFile(path));
  const bool may = chosen == "always" || chosen == "madvise";
  checks.Add("huge pages", may ? CheckStatus::kOk : CheckStatus::kNote,
             chosen.empty() ? absl::StrCat("\"", path, "\" cannot be read")
                            : absl::StrCat("transparent huge pages: ", chosen),
             absl::StrCat("large tensors are faster with them; write \"madvise\" to ", path));
}

// A program that kiln-codegen runs, by the search path that it gives it (halide_gen/cpu/link.cc).
void CheckTool(const char* name, CheckStatus otherwise, Checks& checks) {
  for (const char* folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
    const std::string path = absl::StrCat(folder, name);
    if (access(path.c_str(), X_OK) != 0) continue;
    return checks.Add(name, CheckStatus::kOk, path);
  }
  checks.Add(name, otherwise, "neither in /usr/local/bin nor in /usr/bin nor in /bin",
             "install binutils");
}

void CheckScratch(CheckStatus otherwise, Checks& checks) {
  const char* const named = secure_getenv("TMPDIR");
  const std::string folder = named != nullptr ? named : "/tmp";
  const absl::StatusOr<DiskInfo> disk = RealFileSystem().Disk(folder);
  if (!disk.ok() || access(folder.c_str(), W_OK | X_OK) != 0) {
    checks.Add("scratch", otherwise, absl::StrCat("\"", folder, "\": cannot be written"),
               "name another directory in TMPDIR");
    return;
  }
  checks.Add("scratch", disk->free_bytes < kLittleScratch ? otherwise : CheckStatus::kOk,
             absl::StrCat(folder, ": ", Bytes(disk->free_bytes), " free"),
             "make room, or name another directory in TMPDIR");
}

// Where kiln-validate is, and that it answers: of the code of a kernel, where there is some.
absl::StatusOr<std::string> ProbeValidator(const Entry* code) {
  const bool older = secure_getenv("KILN_VALIDATE") == nullptr && secure_getenv("KILN_PROVE");
  KILN_ASSIGN_OR_RETURN(const std::string executable,
                        FindProgram("kiln-validate", "", older ? "KILN_PROVE" : "KILN_VALIDATE"));
  Validator validator("", 1);
  const absl::StatusOr<Validation> done =
      validator.Validate(code != nullptr ? ValidationOf(*code, {}) : ValidationRequest());
  if (done.ok()) {
    return absl::StrCat(executable, " runs the kernel in ", done->probes, " probes: the VM's bits");
  }
  const bool answers = !absl::IsNotFound(done.status()) && !absl::IsUnavailable(done.status());
  if (code == nullptr && answers) return absl::StrCat(executable, " answers");
  return done.status();
}

// All that compiled kernels need.
void CheckCompiler(Checks& checks) {
  // What only compiled code needs is no problem of a CPU that runs none.
  const CheckStatus otherwise = HostTarget().compiles() ? CheckStatus::kBad : CheckStatus::kNote;
  const std::string both = "install kiln-codegen and kiln-validate of this build beside kiln";
  CheckTool("as", otherwise, checks);
  CheckTool("ld", otherwise, checks);
  CheckScratch(otherwise, checks);
  Entry code;
  const absl::StatusOr<std::string> built = ProbeCompiler(&code);
  checks.AddProbe("compiler", built, otherwise, both);
  const bool runs = built.ok() && HostTarget().compiles();
  checks.AddProbe("validator", ProbeValidator(runs ? &code : nullptr), otherwise, both);
}

// The assembler of kernels for GPUs; without one the driver assembles them.
void CheckAssembler(Checks& checks) {
  const Assembler found = HostAssembler();
  if (!found.problem.empty()) {
    checks.Add("ptxas", CheckStatus::kBad, found.problem,
               "without it the driver assembles kernels for GPUs whenever they are loaded");
  } else if (found.path.empty()) {
    checks.Add("ptxas", CheckStatus::kNote, "none: kernels for GPUs have no machine code",
               "the driver assembles them as they are loaded; install the CUDA toolkit");
  } else {
    checks.Add("ptxas", CheckStatus::kOk, absl::StrCat(found.path, ", ", found.name));
  }
}

// Each device of a kind, or why there is none.
void CheckDevices(Checks& checks) {
  for (const DeviceRow& row : AllDevices()) {
    if (row.device == DefaultDevice()) continue;
    for (int number = 0;; ++number) {
      const std::string name = absl::StrCat(row.name, ":", number);
      const absl::StatusOr<std::shared_ptr<ComputeDevice>> opened = OpenComputeDevice(name);
      if (opened.ok()) {
        const ComputeDevice& device = **opened;
        checks.Add(name, CheckStatus::kOk,
                   absl::StrCat(device.model(), ", ", device.target().name(), ", ",
                                device.facts().driver, ", ", Bytes(device.facts().memory_bytes)));
        continue;
      }
      if (number == 0) {
        checks.Add(std::string(row.name), CheckStatus::kNote,
                   std::string(opened.status().message()), "models run on the CPU");
      }
      break;
    }
  }
}

// Libraries of operators for the devices beside the CPU: without them a model has kernels instead.
void CheckDeviceLibraries(Checks& checks) {
  for (const DeviceRow& row : AllDevices()) {
    if (row.device == DefaultDevice() || row.model().empty()) continue;
    for (const DeviceLibraryInfo& one : DeviceLibraries(std::string(row.name))) {
      const std::string name = absl::StrCat(row.name, " ", one.name);
      if (one.missing.empty()) {
        checks.Add(name, CheckStatus::kOk, one.version);
      } else {
        checks.Add(name, CheckStatus::kNote, one.missing, "kernels are used in its place");
      }
    }
  }
}

int Doctor(const CacheFlags& flags) {
  Checks checks("problem");
  CheckVersion(checks);
  CheckCpu(checks);
  CheckProcessors(checks);
  CheckMemory(checks);
  CheckHugePages(checks);
  CheckCompiler(checks);
  CheckAssembler(checks);
  const bool lacks_compiler = checks.any_bad();
  CheckDevices(checks);
  CheckDeviceLibraries(checks);
  CheckCache(flags, checks);
  if (flags.common.json) {
    PrintJson("doctor", flags.common, checks.Json());
  } else {
    std::cout << checks.Text();
  }
  if (lacks_compiler) return kExitDevice;
  return checks.any_bad() ? kExitCache : kExitOk;
}

}  // namespace

void AddDoctor(Flags& command) {
  auto flags = std::make_shared<CacheFlags>();
  command.Option("--dir", flags->dir, "Directory of the cache (default: KILN_CACHE_DIR, else XDG)")
      .Directory();
  AddOutputFlags(command, flags->common);
  command.Runs([flags] { return Doctor(*flags); });
}

}  // namespace kiln
