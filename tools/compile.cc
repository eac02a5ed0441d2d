// SPDX-License-Identifier: Apache-2.0
// kiln compile: builds the kernels of a model ahead of time.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/processors.h"
#include "base/sha256.h"
#include "compiler/precompile.h"
#include "nlohmann/json.hpp"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/model_kernels.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/signing_key.h"

namespace kiln {
namespace {

struct CompileFlags {
  CommonOptions common;
  ModelFlags model;
  std::string output, sign;
  bool zstd = false;
  bool cache_only = false;
  int jobs = 0;
};

struct Totals {
  int cached = 0, built = 0, failed = 0;
  int unvalidated = 0;  // of those that failed: built, but not compared with the VM
  absl::Status error;   // the first kernel that may succeed another time
};

const char* Count(const absl::StatusOr<KernelService::Kept>& kept, Totals& totals) {
  if (!kept.ok() && totals.error.ok()) totals.error = kept.status();
  if (kept.ok() ? *kept == KernelService::Kept::kUnvalidated : absl::IsUnimplemented(kept.status()))
    return ++totals.failed, ++totals.unvalidated, "unvalidated";
  if (!kept.ok() || *kept == KernelService::Kept::kFailed) return ++totals.failed, "failed";
  if (*kept == KernelService::Kept::kBuilt) return ++totals.built, "built";
  return ++totals.cached, "cached";
}

struct Outcome {
  double ms = 0;
  int measured = 0;
  size_t package_bytes = 0;
  std::string signer;  // public key
};

void Print(const CompileFlags& flags, const std::map<std::string, Totals>& targets,
           const Totals& all, const Outcome& outcome) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, totals] : targets) {
    list.push_back({{"name", name},
                    {"kernels", totals.cached + totals.built + totals.failed},
                    {"cached", totals.cached},
                    {"built", totals.built},
                    {"failed", totals.failed},
                    {"unvalidated", totals.unvalidated}});
  }
  const int kernels = all.cached + all.built + all.failed;
  if (flags.common.json) {
    PrintJson("compile", flags.common,
              {{"kernels", kernels},
               {"cached", all.cached},
               {"built", all.built},
               {"failed", all.failed},
               {"unvalidated", all.unvalidated},
               {"ms", outcome.ms},
               {"measured", outcome.measured},
               {"package_bytes", outcome.package_bytes},
               {"signer", outcome.signer},
               {"targets", list}});
    return;
  }
  if (outcome.package_bytes > 0) {
    std::cout << "wrote \"" << flags.output << "\", "
              << Bytes(static_cast<int64_t>(outcome.package_bytes)) << "; "
              << (outcome.signer.empty() ? "not signed" : "signed with " + outcome.signer) << "\n";
  }
  std::cout << kernels << " kernels: " << all.built << " built, " << all.cached << " were there, "
            << all.failed << " failed, "
            << (all.unvalidated > 0 ? absl::StrCat(all.unvalidated, " of them unvalidated, ") : "")
            << (outcome.measured > 0 ? absl::StrCat(outcome.measured, " choices measured, ") : "")
            << static_cast<int64_t>(outcome.ms) << " ms\n";
}

int CompileModel(const CompileFlags& flags) {
  if (flags.cache_only != flags.output.empty()) {
    return Fail(absl::InvalidArgumentError(
                    "compile: say what to make, a package (-o m.kiln) or --cache-only"),
                kExitUsage);
  }
  if (flags.cache_only && (flags.zstd || !flags.sign.empty())) {
    return Fail(
        absl::InvalidArgumentError("compile: --sign and --zstd are about packages; give -o"),
        kExitUsage);
  }
  const auto key = ReadSigningKey(flags.sign);  // before the work
  if (!key.ok()) return Fail(key.status(), UsageExit(key.status()));
  const absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const auto service = std::make_shared<KernelService>(*options);
  if (service->store() == nullptr || flags.common.cache_readonly || flags.common.no_cache) {
    return Fail(absl::FailedPreconditionError(
                    "compile: there is no cache that may be written; see kiln cache doctor"),
                kExitCache);
  }
  std::unique_ptr<PackageWriter> package;
  TuneUse tune;
  tune.store = service->store();
  const auto jobs = KernelsOfModel(flags.model, flags.common, tune, /*keep=*/true,
                                   flags.cache_only ? nullptr : &package);
  if (!jobs.ok()) return Fail(jobs.status(), ModelExit(jobs.status()));
  Totals all;
  std::map<std::string, Totals> targets;
  const auto start = std::chrono::steady_clock::now();
  {
    Progress progress(flags.common, jobs->size());
    const int cpus = Processors();
    Precompile(*service, *jobs, flags.jobs > 0 ? std::min(flags.jobs, cpus) : cpus,
               [&](const KernelJob& job, const KernelDone& done) {
                 const std::string target(job.identity.target.name());
                 Count(done.kept, all);
                 const char* const what = Count(done.kept, targets[target]);
                 const std::string key = ToHex(KernelPreimage(job.identity).Key()).substr(0, 12);
                 progress.Step(done.done, absl::StrCat(what, " ", target, " ", key, " ", job.name),
                               absl::StrCat(target, " ", job.name));
               });
  }
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  if (options->schedule_choice == ScheduleChoice::kProfile) {
    const absl::Status planned = PlanForInputs(flags.model, flags.common, service, tune);
    if (!planned.ok())
      Note(flags.common, absl::StrCat("library calls are not measured: ", planned.message()));
  }
  size_t package_bytes = 0;
  if (package != nullptr) {
    const PackageWriteOptions how{key->has_value() ? &**key : nullptr, flags.zstd};
    const absl::Status written = WriteFileDurably(flags.output, [&](WritableFile& file) {
      return package->Write(*service->store(), how, [&](absl::string_view bytes) {
        package_bytes += bytes.size();
        return file.Append(bytes);
      });
    });
    if (!written.ok())
      return Fail(written, absl::IsFailedPrecondition(written) ? kExitDevice : kExitIo);
  }
  Print(flags, targets, all, {ms, tune.measured, package_bytes, SignerOf(*key)});
  if (all.failed == 0) return kExitOk;
  if (all.error.ok()) return kExitDiffers;
  return Fail(all.error, absl::IsNotFound(all.error) ? kExitDevice : kExitCache);
}

}  // namespace

void AddCompile(Flags& command) {
  auto flags = std::make_shared<CompileFlags>();
  command.Option("MODEL", flags->model.model, "ONNX file, or .graph text").File().Required();
  command
      .Option("-o,--output", flags->output,
              "Write a package: the model for these targets, in one file (m.kiln)")
      .File();
  command.Option("--sign", flags->sign, "Sign the package with this Ed25519 key (PEM)").File();
  command.Switch("--zstd", flags->zstd,
                 "Compress constants in the package; they are not mapped then");
  command.Switch("--cache-only", flags->cache_only, "Fill the kernel cache");
  AddModelFlags(command, flags->model);
  command.Option("-j", flags->jobs, "Kernels built at a time (default: the CPUs)").Range(1, 1024);
  AddCommonFlags(command, flags->common);
  AddConstShapeFlag(command, flags->common);
  command.Runs([flags] { return CompileModel(*flags); });
}

}  // namespace kiln
