// SPDX-License-Identifier: Apache-2.0
// kiln run: runs a model once on given or random inputs, saves and checks its outputs.
#include <iostream>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/compare.h"
#include "base/file_system.h"
#include "base/npy.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "exec/package/package.h"
#include "exec/runtime_state.h"
#include "graph/reference/interpreter.h"
#include "nlohmann/json.hpp"
#include "persistent_cache/signature.h"
#include "tools/common.h"
#include "tools/exit_code.h"
#include "tools/flag_values.h"
#include "tools/flags.h"
#include "tools/inputs.h"
#include "tools/lock.h"
#include "tools/nearest_name.h"
#include "tools/report.h"
#include "tools/self_test.h"
#include "tools/watch.h"

namespace kiln {
namespace {

struct RunFlags {
  CommonOptions common;
  std::string model;
  std::vector<std::string> inputs, outputs, expects;
  double rtol = 1e-3, atol = 1e-5;
  bool bits = false, digest = false, self_test = false;
  std::string validate = "trust", trust, locked;
  WatchFlags watch;
};

// A file, or the digest of what would be in it.
struct FileOrDigest {
  std::string path, digest;
};
using Files = std::map<std::string, FileOrDigest>;

// "n=@file", or "n=sha256:HEX" where a digest may stand.
absl::StatusOr<std::pair<std::string, FileOrDigest>> ParseSpec(const std::string& flag,
                                                               const std::string& spec,
                                                               bool digests) {
  constexpr absl::string_view kDigest = "=sha256:";
  const size_t at = spec.find('=');
  if (!digests || at == std::string::npos || !absl::StartsWith(spec.substr(at), kDigest)) {
    KILN_ASSIGN_OR_RETURN(auto file, ParseFileSpec(flag, spec));
    return std::pair(std::move(file.first), FileOrDigest{std::move(file.second), ""});
  }
  std::string digest = spec.substr(at + kDigest.size());
  if (at == 0 || !ParseHexDigest(digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " \"", spec,
                     "\": expected NAME=sha256: and 64 hexadecimal digits, as --digest prints"));
  }
  return std::pair(spec.substr(0, at), FileOrDigest{"", std::move(digest)});
}

absl::StatusOr<Files> ParseFiles(const std::string& flag, const std::vector<std::string>& specs,
                                 const std::vector<PortInfo>& outputs, bool digests = false) {
  Files files;
  std::vector<std::string> names;
  for (const PortInfo& output : outputs) names.push_back(output.name);
  for (const std::string& spec : specs) {
    KILN_ASSIGN_OR_RETURN(auto file, ParseSpec(flag, spec, digests));
    if (std::find(names.begin(), names.end(), file.first) == names.end())
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " \"", file.first, "\": the model has no such output; it has ",
                       absl::StrJoin(names, ", "), DidYouMean(file.first, names)));
    files.insert(std::move(file));
  }
  return files;
}

absl::StatusOr<PackageOptions> PackageOptionsOf(const RunFlags& flags) {
  PackageOptions package;
  if (flags.validate == "first_use") package.validate = PackageValidation::kFirstUse;
  if (!flags.trust.empty()) {
    // An absent trust file names nobody, but one that the user has named must be there.
    KILN_RETURN_IF_ERROR(RealFileSystem().OpenRead(flags.trust).status());
    KILN_ASSIGN_OR_RETURN(package.signers, ReadTrustFile(RealFileSystem(), flags.trust));
  }
  return package;
}

// A model file, or a package.
class RunSubject {
 public:
  static absl::StatusOr<RunSubject> Open(const RunFlags& flags, CompileOptions& options) {
    RunSubject subject;
    if (absl::EndsWith(flags.model, ".kiln")) {
      KILN_ASSIGN_OR_RETURN(const PackageOptions package, PackageOptionsOf(flags));
      KILN_ASSIGN_OR_RETURN(subject.package_,
                            Package::Open(PackageSource::File(flags.model), package,
                                          /*validator=*/"", DeviceUseOf(options.runtime)));
      return subject;
    }
    subject.service_ = std::make_shared<KernelService>(options);
    options.kernels = subject.service_;
    const bool compiles = flags.common.device != "reference";
    KILN_ASSIGN_OR_RETURN(subject.model_,
                          WarmModel::Open(flags.model, options, subject.service_, compiles));
    return subject;
  }

  const VariantProvider& ports() const {
    return model_ != nullptr ? static_cast<const VariantProvider&>(*model_) : *package_;
  }

  absl::StatusOr<std::vector<Tensor>> Inputs(const RunFlags& flags) const {
    if (model_ != nullptr) return MakeInputs(*model_, flags.inputs, flags.common);
    return MakeInputs(GraphOfPorts(package_->inputs()), flags.inputs, flags.common);
  }

  // Runs on the reference interpreter or compiled.
  absl::StatusOr<std::vector<Tensor>> Evaluate(const std::vector<Tensor>& inputs,
                                               const RunFlags& flags,
                                               const CompileOptions& options) const {
    if (flags.common.device == "reference") {
      if (package_ != nullptr)
        return absl::UnimplementedError(
            "device \"reference\": a package has no graph; use --device cpu");
      KILN_ASSIGN_OR_RETURN(const Graph graph, model_->GraphFor(inputs));
      return Interpret(graph, inputs);
    }
    const NamedTensors named = Named(ports().inputs(), inputs);
    if (package_ != nullptr) {
      const RunOptions& run = options;
      KILN_ASSIGN_OR_RETURN(Model model, Model::Create(package_, run));
      absl::StatusOr<std::vector<Tensor>> outputs = model.Run(named);
      if (!absl::IsNotFound(outputs.status())) return outputs;
      return absl::UnimplementedError(outputs.status().message());  // no variant for these shapes
    }
    KILN_ASSIGN_OR_RETURN(Model model, Compile(model_, options));
    return model.Run(named);
  }

  // Where tune records are; null: nowhere.
  Store* store() const { return service_ != nullptr ? service_->store() : nullptr; }
  void WaitUntilKept() const {
    if (model_ != nullptr) model_->WaitUntilKept();
  }
  KernelCounts counts() const {
    if (service_ != nullptr) return service_->counts();
    return CountsOfPackage(*package_);
  }
  WeightCounts weights() const { return model_ != nullptr ? model_->weights() : WeightCounts(); }

 private:
  std::shared_ptr<KernelService> service_;
  std::shared_ptr<WarmModel> model_;  // null: it is a package
  std::shared_ptr<Package> package_;
};

// Compares one output with what is expected; a bf16 file is u16 bits.
absl::StatusOr<Comparison> CompareWith(const Tensor& got, const FileOrDigest& expected,
                                       const RunFlags& flags) {
  if (!expected.digest.empty()) {
    Comparison comparison;
    const std::string digest = ToHex(DigestOf(got));
    comparison.ok = digest == expected.digest;
    if (!comparison.ok)
      comparison.what = absl::StrCat("its digest is ", digest, ", expected ", expected.digest);
    return comparison;
  }
  KILN_ASSIGN_OR_RETURN(Tensor want, ReadNpy(expected.path));
  if (got.dtype() == DType::kBF16 && want.dtype() == DType::kU16) want = BitsAsBFloat16(want);
  return flags.bits ? CompareBits(got, want) : Compare(got, want, flags.rtol, flags.atol);
}

// What --check-numerics found ends the run, and is the result.
int ReportFault(const RunFlags& flags, const Watch& watch) {
  if (flags.common.json) {
    PrintJson("run", flags.common,
              {{"numerics", watch.NumericsJson()}, {"outputs", nlohmann::json::array()}});
  } else {
    std::cout << watch.NumericsText() << "\n";
  }
  return kExitDiffers;
}

int RunModel(const RunFlags& flags) {
  absl::StatusOr<CompileOptions> options = ToCompileOptions(flags.common);
  if (!options.ok()) return Fail(options.status(), OptionsExit(options.status()));
  if (flags.watch.any() && flags.common.device == "reference") {
    return Fail(absl::InvalidArgumentError(
                    "device \"reference\": the interpreter has no launches; --dump-io and "
                    "--check-numerics want --device cpu"),
                kExitUsage);
  }
  const absl::StatusOr<std::shared_ptr<Watch>> watch = Watch::Create(flags.watch);
  if (!watch.ok()) return Fail(watch.status(), kExitIo);
  if (*watch != nullptr) (*watch)->Attach(*options);
  if (!flags.trust.empty() && !absl::EndsWith(flags.model, ".kiln")) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat("--trust: \"", flags.model, "\" is a model; packages are signed")),
                kExitUsage);
  }
  if (flags.self_test) {
    const absl::StatusOr<PackageOptions> package = PackageOptionsOf(flags);
    if (!package.ok()) return Fail(package.status(), ModelExit(package.status()));
    return SelfTest(flags.model, flags.common, *options, *package);
  }
  const absl::StatusOr<RunSubject> model = RunSubject::Open(flags, *options);
  if (!model.ok()) return Fail(model.status(), ModelExit(model.status()));
  ModelFlags compiled;
  compiled.model = flags.model;
  compiled.inputs = flags.inputs;
  const int locked =
      CheckLocked(flags.locked, compiled, flags.common, /*package=*/false, model->store());
  if (locked != kExitOk) return locked;
  const absl::StatusOr<Files> save =
      ParseFiles("--output", flags.outputs, model->ports().outputs());
  if (!save.ok()) return Fail(save.status(), kExitUsage);
  const absl::StatusOr<Files> expect =
      ParseFiles("--expect", flags.expects, model->ports().outputs(), /*digests=*/true);
  if (!expect.ok()) return Fail(expect.status(), kExitUsage);
  const absl::StatusOr<std::vector<Tensor>> inputs = model->Inputs(flags);
  if (!inputs.ok()) return Fail(inputs.status(), UsageExit(inputs.status()));
  std::vector<std::string> names;
  for (const PortInfo& output : model->ports().outputs()) names.push_back(output.name);

  const absl::StatusOr<std::vector<Tensor>> outputs = model->Evaluate(*inputs, flags, *options);
  if (*watch != nullptr) {
    if (const absl::Status written = (*watch)->Finish(); !written.ok())
      return Fail(written, kExitIo);
    if ((*watch)->fault()) return ReportFault(flags, **watch);
  }
  if (!outputs.ok()) return Fail(outputs.status(), ModelExit(outputs.status()));

  int exit = kExitOk;
  nlohmann::json list = nlohmann::json::array();
  for (size_t k = 0; k < names.size(); ++k) {
    const Tensor& got = (*outputs)[k];
    nlohmann::json row = {
        {"name", names[k]}, {"dtype", std::string(Name(got.dtype()))}, {"shape", got.shape()}};
    std::string line = absl::StrCat(names[k], ": ", Describe(got), "  ", FirstElements(got, 6));
    if (flags.digest) {
      const std::string digest = ToHex(DigestOf(got));
      row["sha256"] = digest;
      absl::StrAppend(&line, "  sha256:", digest);
    }
    if (const auto file = save->find(names[k]); file != save->end()) {
      const absl::Status done = WriteNpy(file->second.path, got);
      if (!done.ok()) return Fail(done, kExitIo);
    }
    if (const auto file = expect->find(names[k]); file != expect->end()) {
      const absl::StatusOr<Comparison> comparison = CompareWith(got, file->second, flags);
      if (!comparison.ok()) return Fail(comparison.status(), UsageExit(comparison.status()));
      row["expect"] = ToJson(*comparison);
      absl::StrAppend(
          &line, comparison->ok ? "  as expected" : absl::StrCat("  DIFFERS: ", comparison->what));
      const bool by_element = file->second.digest.empty();
      if (by_element && (comparison->ok || comparison->mismatches > 0))  // they could be compared
        absl::StrAppend(&line, ", max abs ", comparison->max_abs);
      if (!comparison->ok) exit = kExitDiffers;
    }
    list.push_back(std::move(row));
    if (!flags.common.json) std::cout << line << "\n";
  }
  const bool checked = *watch != nullptr && (*watch)->checks_numerics();
  if (checked && !flags.common.json) std::cout << (*watch)->NumericsText() << "\n";
  std::cout.flush();  // before the cache is written
  model->WaitUntilKept();
  const KernelCounts counts = model->counts();
  const WeightCounts weights = model->weights();
  if (flags.common.json) {
    nlohmann::json results = {
        {"compile", ToJson(counts)}, {"weights", ToJson(weights)}, {"outputs", list}};
    if (checked) results["numerics"] = (*watch)->NumericsJson();
    PrintJson("run", flags.common, std::move(results));
  }
  if (flags.common.verbose) {
    Note(flags.common, Describe(counts));
    Note(flags.common, Describe(weights));
  }
  return exit;
}

}  // namespace

void AddRun(Flags& command) {
  auto flags = std::make_shared<RunFlags>();
  command.Option("MODEL", flags->model, "ONNX file, .graph text, or a .kiln package")
      .File()
      .Required();
  const Flag self_test =
      command.Switch("--self-test", flags->self_test,
                     "Run the test cases that a package has, and compare; any miss is exit 1");
  command
      .Option("--input", flags->inputs,
              "n=@a.npy, n=random:SEED[:LO:HI], n=zeros or n=ones (repeatable)")
      .Repeatable()
      .Excludes(self_test);
  command.Option("--output", flags->outputs, "n=@y.npy: save an output (repeatable)")
      .Repeatable()
      .Excludes(self_test);
  command
      .Option("--expect", flags->expects,
              "n=@ref.npy, or n=sha256:HEX as --digest prints: compare an output; any miss is exit "
              "1 (repeatable)")
      .Repeatable()
      .Excludes(self_test);
  command.Option("--rtol", flags->rtol, "Relative bound of --expect").NotNegative().ShowDefault();
  command.Option("--atol", flags->atol, "Absolute bound of --expect").NotNegative().ShowDefault();
  command.Switch("--bits", flags->bits,
                 "--expect: equal bits, and NaN equals NaN, in place of bounds");
  command.Switch("--digest", flags->digest, "Print the SHA-256 of each output");
  command
      .Option("--validate", flags->validate,
              "Code of a package: trust it, or compare it with the VM before its first_use")
      .OneOf({"trust", "first_use"})
      .ShowDefault();
  command
      .Option("--trust", flags->trust,
              "Refuse a package that none of the signers in this trust file has signed")
      .File();
  AddLockedFlag(command, flags->locked);
  AddCommonFlags(command, flags->common);
  AddConstShapeFlag(command, flags->common);
  AddRunningFlags(command, flags->common);
  AddWatchFlags(command, flags->watch);
  command.Runs([flags] { return RunModel(*flags); });
}

}  // namespace kiln
