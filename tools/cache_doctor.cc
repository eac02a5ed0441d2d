// SPDX-License-Identifier: Apache-2.0
// kiln cache doctor: everything that the cache depends on, one line each.
#include <dlfcn.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/cpu_features.h"
#include "base/status_macros.h"
#include "compiler/kernel_service.h"
#include "kernel/text.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/directory.h"
#include "persistent_cache/settings.h"
#include "schedule/choose.h"
#include "tools/cache.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

constexpr char kProbeKernel[] =
    "kernel v1 math 1\n"
    "dims a\n"
    "in 0 f32 [a] dense\n"
    "out 0 f32 [a] dense = add(in0[a], in0[a])\n";

// `rows` as lines of at most 80 columns, the last column broken at blanks.
std::string Wrapped(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& row : rows) {
    std::string line;
    std::vector<std::string> head = {row[0], row[1]};
    for (absl::string_view word : absl::StrSplit(row[2], ' ')) {
      if (!line.empty() && line.size() + 1 + word.size() > 60) {
        lines.push_back({head[0], head[1], std::exchange(line, "")});
        head = {"", ""};
      }
      absl::StrAppend(&line, line.empty() ? "" : " ", word);
    }
    lines.push_back({head[0], head[1], line});
  }
  return Table(lines);
}

class Report {
 public:
  // `status`: "ok", "note" or "bad".
  void Add(const char* name, const std::string& status, const std::string& detail) {
    rows_.push_back({name, status, detail});
    bad_ = bad_ || status == "bad";
  }
  void AddProbe(const char* name, const absl::StatusOr<std::string>& detail,
                const char* otherwise) {
    Add(name, detail.ok() ? "ok" : otherwise,
        detail.ok() ? *detail : std::string(detail.status().message()));
  }
  int Print(const CacheFlags& flags) const {
    nlohmann::json checks = nlohmann::json::array();
    for (const auto& row : rows_)
      checks.push_back({{"name", row[0]}, {"status", row[1]}, {"detail", row[2]}});
    if (flags.common.json) {
      PrintJson("cache.doctor", flags.common, {{"ok", !bad_}, {"checks", checks}});
    } else {
      std::cout << Wrapped(rows_);
    }
    return bad_ ? kExitDiffers : kExitOk;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  bool bad_ = false;
};

// Writes, syncs, renames and removes a file, and says how long that took and what clock it has.
absl::StatusOr<std::string> ProbeWriting(FileSystem& files, const StoreLayout& layout) {
  const std::string path = absl::StrCat(layout.Temporaries(), "/", UniqueName());
  const absl::Time start = absl::Now();
  KILN_RETURN_IF_ERROR(WriteWhole(files, layout, path, std::string(4096, 'x'), /*durable=*/true));
  const absl::Duration took = absl::Now() - start;
  KILN_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
  KILN_RETURN_IF_ERROR(files.Unlink(path));
  const int64_t skew_ms = (info.mtime_ns - SystemNowNs()) / 1'000'000;
  if (std::abs(skew_ms) > 10'000) {
    return absl::FailedPreconditionError(absl::StrCat("the disk's clock is ", skew_ms / 1000,
                                                      " s from this machine's; eviction and "
                                                      "expiry go by it"));
  }
  return absl::StrFormat("written, synced and renamed in %.1f ms; clock agrees",
                         absl::ToDoubleMilliseconds(took));
}

absl::StatusOr<std::string> ProbeLocks(FileSystem& files, const StoreLayout& layout) {
  const std::string path = absl::StrCat(layout.Temporaries(), "/", UniqueName());
  const auto held = files.TryLock(path, 0);
  const auto again = files.TryLock(path, 0);
  files.Unlink(path).IgnoreError();
  KILN_RETURN_IF_ERROR(held.status());
  if (*held == nullptr || !again.ok() || *again != nullptr)
    return absl::UnavailableError("locks do not exclude; each process builds for itself");
  return std::string("a key is built by one process at a time");
}

absl::StatusOr<std::string> ProbeWorker() {
  KILN_ASSIGN_OR_RETURN(const std::string executable, FindCodegen(""));
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(kProbeKernel));
  const Target host = HostTarget(), target = host.compiles() ? host : LowestTarget();
  const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
  const Schedule schedule = ChooseSchedule(kernel, any, ShippedMachine(target));
  CompileOptions options;
  options.cache.enabled = false;
  options.target = target;
  KernelService service(options);
  const KernelIdentity identity = service.Identify(kProbeKernel, schedule.ToString());
  KILN_ASSIGN_OR_RETURN(const CodegenAnswer answer, service.Emit(identity, {SectionOf(identity)}));
  return absl::StrCat(executable, " builds a kernel in ", answer.wall_ms, " ms");
}

void CheckDisk(FileSystem& files, const Store& store, Report& report) {
  const absl::StatusOr<DiskInfo> disk = files.Disk(store.directory());
  if (!disk.ok()) {
    report.Add("disk", "bad", std::string(disk.status().message()));
    return;
  }
  const bool little = disk->free_bytes < (int64_t{1} << 30);
  report.Add("disk", little ? "note" : "ok",
             absl::StrCat(Bytes(disk->free_bytes), " of ", Bytes(disk->total_bytes), " free"));
  report.Add(
      "file system", disk->network ? "note" : "ok",
      absl::StrCat(disk->kind,
                   disk->network ? ": over a network, so each process builds for itself" : ""));
}

void CheckPacks(FileSystem& files, Report& report) {
  const StoreOptions settings = SettingsFromEnvironment(files);
  for (const std::string& path : settings.packs) {
    const auto pack = Pack::Open(files, path, settings.trust);
    report.Add("pack", pack.ok() ? "ok" : "bad",
               pack.ok() ? absl::StrCat(path, ": ", (*pack)->rows().size(),
                                        " entries, signed by \"", (*pack)->signer(), "\"")
                         : std::string(pack.status().message()));
  }
}

}  // namespace

int CacheDoctor(const CacheFlags& flags) {
  FileSystem& files = RealFileSystem();
  Report report;
  const auto store = OpenStore(flags, /*read_only=*/false);
  report.Add("directory", store.ok() ? "ok" : "bad",
             store.ok() ? absl::StrCat((*store)->directory(), ": ours, and nobody else writes it")
                        : std::string(store.status().message()));
  if (store.ok()) {
    CheckDisk(files, **store, report);
    report.AddProbe("writing", ProbeWriting(files, (*store)->layout()), "bad");
    report.AddProbe("locks", ProbeLocks(files, (*store)->layout()), "note");
  }
  CheckPacks(files, report);
  std::string features;
  for (const CpuFeatureName& feature : AllCpuFeatures()) {
    if (HostCpu().*feature.has)
      absl::StrAppend(&features, features.empty() ? "" : " ", feature.name);
  }
  const std::string level(HostTarget().name());
  report.Add("cpu", HostTarget().compiles() ? "ok" : "note",
             absl::StrCat(level, HostTarget().compiles() ? "" : ": kernels run on the VM", " (",
                          features, ")"));
  report.AddProbe("compiler", ProbeWorker(), "note");
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  report.Add("gpu driver", driver != nullptr ? "ok" : "note",
             driver != nullptr ? "libcuda.so.1 is there" : "no libcuda.so.1");
  if (driver != nullptr) dlclose(driver);
  return report.Print(flags);
}

}  // namespace kiln
