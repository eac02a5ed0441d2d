// SPDX-License-Identifier: Apache-2.0
// kiln cache doctor: everything that the cache depends on, one line each; kiln doctor uses parts of
// it.
#include <dlfcn.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "compiler/kernel_entry.h"
#include "compiler/kernel_service.h"
#include "kernel/text.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/directory.h"
#include "persistent_cache/settings.h"
#include "schedule/choose.h"
#include "tools/cache.h"
#include "tools/checks.h"
#include "tools/exit_code.h"
#include "tools/report.h"

namespace kiln {
namespace {

constexpr char kProbeKernel[] =
    "kernel v1 math 1\n"
    "dims a\n"
    "in 0 f32 [a] dense\n"
    "out 0 f32 [a] dense = add(in0[a], in0[a])\n";

constexpr char kUseAnotherCache[] = "name another one in KILN_CACHE_DIR, or run with --no-cache";

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

void CheckDisk(FileSystem& files, const Store& store, Checks& checks) {
  const absl::StatusOr<DiskInfo> disk = files.Disk(store.directory());
  if (!disk.ok()) {
    checks.Add("disk", CheckStatus::kBad, std::string(disk.status().message()), kUseAnotherCache);
    return;
  }
  const bool little = disk->free_bytes < (int64_t{1} << 30);
  checks.Add("disk", little ? CheckStatus::kNote : CheckStatus::kOk,
             absl::StrCat(Bytes(disk->free_bytes), " of ", Bytes(disk->total_bytes), " free"),
             "make room, or see kiln cache prune");
  checks.Add(
      "file system", disk->network ? CheckStatus::kNote : CheckStatus::kOk,
      absl::StrCat(disk->kind,
                   disk->network ? ": over a network, so each process builds for itself" : ""));
}

void CheckPacks(FileSystem& files, Checks& checks) {
  const StoreOptions settings = SettingsFromEnvironment(files);
  for (const std::string& path : settings.packs) {
    const auto pack = Pack::Open(files, path, settings.trust);
    checks.Add("pack", pack.ok() ? CheckStatus::kOk : CheckStatus::kBad,
               pack.ok() ? absl::StrCat(path, ": ", (*pack)->rows().size(),
                                        " entries, signed by \"", (*pack)->signer(), "\"")
                         : std::string(pack.status().message()),
               "change KILN_CACHE_PACKS");
  }
}

}  // namespace

void CheckCache(const CacheFlags& flags, Checks& checks) {
  FileSystem& files = RealFileSystem();
  const auto store = OpenStore(flags, /*read_only=*/false);
  checks.Add("directory", store.ok() ? CheckStatus::kOk : CheckStatus::kBad,
             store.ok() ? absl::StrCat((*store)->directory(), ": ours, and nobody else writes it")
                        : std::string(store.status().message()),
             kUseAnotherCache);
  if (store.ok()) {
    CheckDisk(files, **store, checks);
    checks.AddProbe("writing", ProbeWriting(files, (*store)->layout()), CheckStatus::kBad,
                    kUseAnotherCache);
    checks.AddProbe("locks", ProbeLocks(files, (*store)->layout()), CheckStatus::kNote);
  }
  CheckPacks(files, checks);
}

absl::StatusOr<std::string> ProbeCompiler(Entry* code) {
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
  if (code != nullptr) *code = EntryOf(identity, any.at_most, KernelPreimage(identity), answer);
  return absl::StrCat(executable, " builds a kernel in ", answer.wall_ms, " ms");
}

int CacheDoctor(const CacheFlags& flags) {
  Checks checks("bad");
  CheckCache(flags, checks);
  const bool compiles = HostTarget().compiles();
  checks.Add("cpu", compiles ? CheckStatus::kOk : CheckStatus::kNote,
             absl::StrCat(HostTarget().name(), compiles ? "" : ": kernels run on the VM", " (",
                          HostFeatures(), ")"));
  checks.AddProbe("compiler", ProbeCompiler(), CheckStatus::kNote);
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  checks.Add("gpu driver", driver != nullptr ? CheckStatus::kOk : CheckStatus::kNote,
             driver != nullptr ? "libcuda.so.1 is there" : "no libcuda.so.1");
  if (driver != nullptr) dlclose(driver);
  if (flags.common.json) {
    PrintJson("cache.doctor", flags.common, checks.Json());
  } else {
    std::cout << checks.Text();
  }
  return checks.any_bad() ? kExitDiffers : kExitOk;
}

}  // namespace kiln
