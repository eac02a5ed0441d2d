// SPDX-License-Identifier: Apache-2.0
// kiln compile: builds the kernels of a model ahead of time.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/processors.h"
#include "base/publish_file.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "compiler/model_file.h"
#include "compiler/model_source.h"
#include "compiler/precompile.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/pack.h"
#include "tools/common.h"
#include "tools/depfile.h"
#include "tools/exit_code.h"
#include "tools/flags.h"
#include "tools/jobserver.h"
#include "tools/kernel_pack.h"
#include "tools/lock.h"
#include "tools/model_graphs.h"
#include "tools/model_kernels.h"
#include "tools/pack_weights.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/shard.h"
#include "tools/signing_key.h"
#include "tools/typed_header.h"

namespace kiln {
namespace {

struct CompileFlags {
  CommonOptions common;
  ModelFlags model;
  std::string output, depfile, shard, locked, header, sign;
  bool zstd = false, no_packed_weights = false;
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

// What was made of which kernels.
struct CompileOutcome {
  Totals all;
  std::map<std::string, Totals> targets;
  double ms = 0;
  int measured = 0;
  size_t package_bytes = 0;
  std::string signer;  // public key
  nlohmann::json shard = nullptr;
};

void PrintOutcome(const CompileFlags& flags, const CompileOutcome& outcome) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [name, totals] : outcome.targets) {
    list.push_back({{"name", name},
                    {"kernels", totals.cached + totals.built + totals.failed},
                    {"cached", totals.cached},
                    {"built", totals.built},
                    {"failed", totals.failed},
                    {"unvalidated", totals.unvalidated}});
  }
  const Totals& all = outcome.all;
  const int kernels = all.cached + all.built + all.failed;
  if (flags.common.json) {
    nlohmann::json results = {{"kernels", kernels},
                              {"cached", all.cached},
                              {"built", all.built},
                              {"failed", all.failed},
                              {"unvalidated", all.unvalidated},
                              {"ms", outcome.ms},
                              {"measured", outcome.measured},
                              {"package_bytes", outcome.package_bytes},
                              {"signer", outcome.signer},
                              {"targets", list}};
    if (!outcome.shard.is_null()) results["shard"] = outcome.shard;
    PrintJson("compile", flags.common, std::move(results));
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
  if (!outcome.shard.is_null()) {
    std::cout << "part " << flags.shard << " of " << outcome.shard["kernels"] << " kernels, series "
              << outcome.shard["series"].get<std::string>() << "\n";
  }
}

absl::Status CheckFlags(const CompileFlags& flags) {
  if (flags.cache_only != flags.output.empty()) {
    return absl::InvalidArgumentError(
        "compile: say what to make, a package (-o m.kiln) or --cache-only");
  }
  if ((flags.cache_only || !flags.shard.empty()) && (flags.zstd || !flags.sign.empty())) {
    return absl::InvalidArgumentError(
        "compile: --sign and --zstd are about packages; give -o, without --shard");
  }
  if (!flags.locked.empty() && (flags.common.tune || flags.common.choose == "profile")) {
    return absl::InvalidArgumentError(
        "--locked: what is measured may be compiled otherwise; compile with --tune first, then "
        "make the lock");
  }
  if (flags.shard.empty()) return absl::OkStatus();
  if (flags.common.tune || flags.common.choose == "profile") {
    return absl::InvalidArgumentError(
        "--shard: parts that measure choose other kernels each; compile with --tune first, and "
        "give its cache to all of them");
  }
  if (absl::EndsWith(flags.output, ".kiln")) {
    return absl::InvalidArgumentError(
        absl::StrCat("-o \"", flags.output,
                     "\": a part is a pack of kernels, not a package; name it .kilnpack, and make "
                     "the package from the merged packs"));
  }
  return Shard::Parse(flags.shard).status();
}

// As many at a time as -j and the CPUs allow, and make, where it runs this.
void Build(const CompileFlags& flags, KernelService& service, const std::vector<KernelJob>& jobs,
           CompileOutcome& outcome) {
  int threads = Processors();
  if (flags.jobs > 0) threads = std::min(flags.jobs, threads);
  const char* const makeflags = secure_getenv("MAKEFLAGS");
  const auto server = Jobserver::Open(makeflags != nullptr ? makeflags : "");
  if (!server.ok()) {
    Note(flags.common, std::string(server.status().message()));
    threads = 1;
  }
  WhenFreeFn when_free;
  if (server.ok() && *server != nullptr) {
    when_free = [&](const std::function<void()>& work) {
      const Jobserver::Token token = (*server)->Acquire();
      work();
    };
  }
  Progress progress(flags.common, jobs.size());
  const auto report = [&](const KernelJob& job, const KernelDone& done) {
    const std::string target(job.identity.target.name());
    Count(done.kept, outcome.all);
    const char* const what = Count(done.kept, outcome.targets[target]);
    const std::string key = ToHex(KernelPreimage(job.identity).Key()).substr(0, 12);
    progress.Step(done.done, absl::StrCat(what, " ", target, " ", key, " ", job.name),
                  absl::StrCat(target, " ", job.name));
  };
  const auto start = std::chrono::steady_clock::now();
  Precompile(service, jobs, threads, report, when_free);
  outcome.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// What all that was read is, as the depfile says it.
absl::StatusOr<std::string> Dependencies(const CompileFlags& flags, const CompileOptions& options,
                                         Store& store) {
  KILN_ASSIGN_OR_RETURN(const std::vector<ModelFile> model,
                        OpenModelFiles(flags.model.model, ImportOptionsOf(options), store, [] {}));
  std::vector<std::string> files;
  for (const ModelFile& file : model) files.push_back(file.path);
  KILN_ASSIGN_OR_RETURN(const std::vector<std::string> named, FilesNamed(flags.model));
  files.insert(files.end(), named.begin(), named.end());
  for (const std::string& file : {flags.common.machine, flags.locked}) {
    if (!file.empty()) files.push_back(file);
  }
  return DepfileText(flags.output, files);
}

// What is written: a package, or where that is null the pack of a part.
struct CompileOutput {
  PackageWriter* package = nullptr;
  PackageWriteOptions how;
  const std::vector<KernelJob>& jobs;
};

absl::Status Write(const CompileOutput& output, Store& store,
                   const PackageWriter::AppendFn& append) {
  if (output.package != nullptr) return output.package->Write(store, output.how, append);
  std::vector<CacheKey> keys;
  for (const KernelJob& job : output.jobs) keys.push_back(KernelPreimage(job.identity).Key());
  KILN_ASSIGN_OR_RETURN(std::vector<Entry> entries, EntriesToShip(store, std::move(keys)));
  KILN_ASSIGN_OR_RETURN(const std::string pack, EncodePack(std::move(entries), nullptr));
  return append(pack);
}

absl::StatusOr<std::string> HeaderOf(const CompileFlags& flags, const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(const ModelSource source,
                        ModelSource::Read(flags.model.model, ImportOptionsOf(options)));
  KILN_ASSIGN_OR_RETURN(const ModelPorts ports, PortsOf(source, options));
  const std::string stem = std::filesystem::path(flags.header).stem().string();
  return TypedHeader(Identifier(stem), ports.inputs, ports.outputs);
}

// Writes the output, and before it its header and depfile; the exit code.
int WriteOutput(const CompileFlags& flags, const CompileOptions& options,
                const CompileOutput& output, Store& store, CompileOutcome& outcome) {
  if (!flags.depfile.empty()) {
    const absl::StatusOr<std::string> text = Dependencies(flags, options, store);
    if (!text.ok()) return Fail(text.status(), UsageExit(text.status()));
    // First: whoever finds the output finds what it depends on.
    const absl::Status written = WriteFileDurably(flags.depfile, *text);
    if (!written.ok()) return Fail(written, kExitIo);
  }
  if (!flags.header.empty()) {
    const absl::StatusOr<std::string> text = HeaderOf(flags, options);
    if (!text.ok()) return Fail(text.status(), ModelExit(text.status()));
    const absl::Status written = WriteFileDurably(flags.header, *text);
    if (!written.ok()) return Fail(written, kExitIo);
  }
  const absl::Status written = PublishFile(RealFileSystem(), flags.output, [&](WritableFile& file) {
    return Write(output, store, [&](absl::string_view bytes) {
      outcome.package_bytes += bytes.size();
      return file.Append(bytes);
    });
  });
  if (!written.ok())
    return Fail(written, absl::IsFailedPrecondition(written) ? kExitDevice : kExitIo);
  return kExitOk;
}

int CompileModel(const CompileFlags& flags) {
  if (const absl::Status fit = CheckFlags(flags); !fit.ok()) return Fail(fit, kExitUsage);
  const auto key = ReadSigningKey(flags.sign);  // before the work
  if (!key.ok()) return Fail(key.status(), UsageExit(key.status()));
  const absl::StatusOr<CompileOptions> options =
      ToCompileOptions(flags.common, TargetsNamed(flags.model));
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  const auto service = std::make_shared<KernelService>(*options);
  if (service->store() == nullptr || flags.common.cache_readonly || flags.common.no_cache) {
    return Fail(absl::FailedPreconditionError(
                    "compile: there is no cache that may be written; see kiln cache doctor"),
                kExitCache);
  }
  const bool whole = !flags.cache_only && flags.shard.empty();
  const int locked = CheckLocked(flags.locked, flags.model, flags.common, whole, service->store());
  if (locked != kExitOk) return locked;
  std::unique_ptr<PackageWriter> package;
  TuneUse tune;
  tune.store = service->store();
  auto jobs =
      KernelsOfModel(flags.model, flags.common, tune, /*keep=*/true, whole ? &package : nullptr);
  if (!jobs.ok()) return Fail(jobs.status(), ModelExit(jobs.status()));
  CompileOutcome outcome;
  if (!flags.shard.empty()) {
    const Shard shard = *Shard::Parse(flags.shard);
    outcome.shard = {{"index", shard.index},
                     {"count", shard.count},
                     {"kernels", jobs->size()},
                     {"series", DigestOf(*jobs)}};
    jobs = shard.Of(*std::move(jobs));
  }
  Build(flags, *service, *jobs, outcome);
  if (options->schedule_choice == ScheduleChoice::kProfile) {
    const absl::Status planned = PlanForInputs(flags.model, flags.common, service, tune);
    if (!planned.ok())
      Note(flags.common, absl::StrCat("library calls are not measured: ", planned.message()));
  }
  outcome.measured = tune.measured;
  if (!flags.output.empty()) {
    outcome.signer = SignerOf(*key);
    if (package != nullptr && !flags.zstd && !flags.no_packed_weights) {
      const absl::Status packed =
          PackWeights(flags.model, flags.common, flags.output, *service->store(), *package);
      if (!packed.ok()) return Fail(packed, kExitIo);
    }
    const PackageWriteOptions how{key->has_value() ? &**key : nullptr, flags.zstd};
    const int exit =
        WriteOutput(flags, *options, {package.get(), how, *jobs}, *service->store(), outcome);
    if (exit != kExitOk) return exit;
  }
  PrintOutcome(flags, outcome);
  const Totals& all = outcome.all;
  if (all.failed == 0) return kExitOk;
  if (all.error.ok()) return kExitDiffers;
  return Fail(all.error, absl::IsNotFound(all.error) ? kExitDevice : kExitCache);
}

}  // namespace

void AddCompile(Flags& command) {
  auto flags = std::make_shared<CompileFlags>();
  command.Option("MODEL", flags->model.model, "ONNX file, or .graph text").File().Required();
  const Flag output =
      command
          .Option("-o,--output", flags->output,
                  "Write a package: the model for these targets, in one file (m.kiln)")
          .File();
  command.Option("--sign", flags->sign, "Sign the package with this Ed25519 key (PEM)").File();
  command.Switch("--zstd", flags->zstd,
                 "Compress constants in the package; they are not mapped then");
  command.Switch("--no-packed-weights", flags->no_packed_weights,
                 "Leave out weights as library operators pack them on this CPU: a smaller package, "
                 "which each process packs anew");
  command.Switch("--cache-only", flags->cache_only, "Fill the kernel cache");
  AddModelFlags(command, flags->model);
  command
      .Option("--depfile", flags->depfile,
              "Write as Makefile text which files the output was made of")
      .File()
      .Needs(output);
  command
      .Option(
          "--header", flags->header,
          "Write a C++ header for the model: a namespace of the file's name, whose Run takes and "
          "gives the model's types")
      .File()
      .Needs(output);
  command.Option("--shard", flags->shard,
                 "Build one of n parts of the kernels, such as 2/4; -o then writes a pack of them");
  command
      .Option("-j", flags->jobs,
              "Kernels built at a time (default: the CPUs); under make, no more than it has jobs")
      .Range(1, 1024);
  AddLockedFlag(command, flags->locked);
  AddCommonFlags(command, flags->common);
  AddConstShapeFlag(command, flags->common);
  command.Runs([flags] { return CompileModel(*flags); });
}

}  // namespace kiln
