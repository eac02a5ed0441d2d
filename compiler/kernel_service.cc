// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/kernel_service.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kiln/base/cpu_model.h"
#include "kiln/base/log.h"
#include "kiln/base/status_macros.h"
#include "kiln/compiler/task_queue.h"
#include "kiln/exec/support/loader.h"
#include "kiln/exec/vm/vm.h"
#include "kiln/kernel/text.h"
#include "kiln/persistent_cache/cache.h"
#include "kiln/persistent_cache/directory.h"
#include "kiln/persistent_cache/settings.h"
#include "kiln/schedule/scheduler.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

int Processors() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

std::shared_ptr<Store> OpenStore(const CacheOptions& options) {
  if (!options.enabled) return nullptr;
  if (options.open != nullptr) return options.open->store();
  StoreOptions settings = SettingsFromEnvironment(RealFileSystem());
  settings.read_only = options.read_only;
  settings.directory = options.directory;
  absl::Status failed;
  if (settings.directory.empty()) {
    absl::StatusOr<std::string> directory = DefaultCacheDirectory();
    failed = directory.status();
    if (directory.ok()) settings.directory = *std::move(directory);
  }
  if (failed.ok()) {
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(RealFileSystem(), settings);
    if (store.ok()) return *std::move(store);
    failed = store.status();
  }
  LogWarning("kernels are not cached: ", failed.message());
  if (settings.packs.empty() && settings.shared_directory.empty()) return nullptr;
  settings.directory.clear();  // what was shipped is still read
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(RealFileSystem(), settings);
  return store.ok() ? *std::move(store) : nullptr;
}

std::shared_ptr<const KernelFunction> Compiled(LoadedKernel loaded) {
  auto owner = std::make_shared<LoadedKernel>(std::move(loaded));
  auto function = std::make_shared<KernelFunction>();
  function->run = owner->function();
  function->owner = std::move(owner);
  return function;
}

absl::StatusOr<std::shared_ptr<const KernelFunction>> VmFunction(const std::string& text) {
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(text));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const VmKernel> vm, VmKernel::Compile(kernel));
  auto function = std::make_shared<KernelFunction>();
  function->run = &RunVm;
  function->self = vm.get();
  function->vm = true;
  function->owner = std::move(vm);
  return function;
}

// The widest size class for which the scheduler makes these very parameters: what the code is right
// for, whatever extents the first model that asked for it has. `asked` where there is none.
std::vector<int64_t> WidestClass(const Kernel& kernel, const KernelIdentity& identity,
                                 std::vector<int64_t> asked) {
  const Scheduler* const scheduler = FindScheduler(kernel);
  if (scheduler == nullptr) return asked;
  const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
  for (const SizeClass& sizes : scheduler->classes(kernel, any)) {
    const Params params = scheduler->choose(kernel, sizes, ProfileFor(identity.target));
    if (params.ToString() != identity.params) continue;
    asked = sizes.at_most;
    std::replace(asked.begin(), asked.end(), kUnbounded, int64_t{-1});
  }
  return asked;
}

// What whoever validates the kernel needs to know besides its key.
std::map<std::string, std::string> MetaForValidation(const KernelIdentity& identity,
                                                     const std::vector<int64_t>& asked,
                                                     const std::vector<int64_t>& example) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(identity.text);
  const absl::StatusOr<Params> params = Params::Parse(identity.params);
  if (!kernel.ok() || !params.ok()) return {{"at_most", FormatClass(asked)}};
  const std::vector<int64_t> at_most = WidestClass(*kernel, identity, asked);
  std::map<std::string, std::string> meta = {{"at_most", FormatClass(at_most)}};
  if (NeedsExample(*kernel, *params, at_most)) meta["example"] = FormatClass(example);
  return meta;
}

// An entry as it is before it is validated.
Entry EntryOf(const KernelIdentity& identity, std::map<std::string, std::string> meta,
              const Preimage& preimage, const CodegenAnswer& answer) {
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  meta.insert({{"device", "cpu"},
               {"isa", answer.isa},
               {"params", identity.params},
               {"scratch", absl::StrCat(answer.scratch_bytes)},
               {"target", std::string(Name(identity.target))},
               {"wall_ms", absl::StrCat(answer.wall_ms)}});
  entry.Add("meta", FormatMeta(meta), true);
  for (const auto& [tag, bytes] : answer.sections) entry.Add(tag, bytes, tag == "elf");
  return entry;
}

void SetMeta(Entry& entry, const std::map<std::string, std::string>& values) {
  for (Section& section : entry.sections) {
    if (section.tag != "meta") continue;
    std::map<std::string, std::string> meta = ParseMeta(section.bytes);
    for (const auto& [name, value] : values) meta[name] = value;
    section.bytes = FormatMeta(meta);
  }
}

// Under which it is recorded that an entry's code was validated on this model of CPU.
Preimage RecordOf(const Entry& entry) {
  return Preimage()
      .Add("schema", "1")
      .Add("artefact", "validation")
      .Add("validator", absl::StrCat(kValidationVersion))
      .Add("entry", ToHex(entry.key))
      .Add("elf", ToHex(Sha256(*entry.Find("elf"))))
      .Add("cpu", CpuModelId());
}

}  // namespace

ValidationRequest ValidationOf(const Entry& entry, const std::vector<int64_t>& example) {
  const std::string* const elf = entry.Find("elf");
  const std::string* const preimage = entry.Find("preimage");
  std::map<std::string, std::string> meta = MetaOf(entry);
  std::vector<int64_t> own = ParseClass(meta["example"]);
  if (own.empty()) own = example;
  return {elf != nullptr ? *elf : "", FieldOf(*preimage, "kernel"), FieldOf(*preimage, "params"),
          ParseClass(meta["at_most"]), std::move(own)};
}

KernelService::KernelService(const CompileOptions& options)
    : options_(options),
      target_(options.target.value_or(HostIsa())),
      store_(OpenStore(options.cache)),
      validator_(options.validator, Processors()),
      builds_(std::max(1, Processors() / 2), kBuildingLater) {}

KernelService::~KernelService() {
  ending_ = true;
  builds_.Drop();
  WorkerPool* workers = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    workers = workers_.get();
  }
  if (workers != nullptr) workers->Stop();
  FinishValidations();
}

void KernelService::FinishValidations() {
  builds_.Wait();  // adds validations
  validator_.Finish();
}

KernelIdentity KernelService::Identify(const std::string& text, const std::string& params) const {
  return {text, params, target_, options_.math};
}

KernelCounts KernelService::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

void KernelService::WarnOnce(absl::string_view what) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(warned_, true)) return;
  }
  LogWarning(what);
}

absl::StatusOr<WorkerPool*> KernelService::Workers() {
  absl::MutexLock lock(&mutex_);
  if (ending_) return absl::CancelledError("the kernel service ends");
  if (workers_ == nullptr && no_workers_.ok()) {
    const absl::StatusOr<std::string> executable = FindCodegen(options_.codegen);
    no_workers_ = executable.status();
    if (executable.ok()) {
      workers_ = std::make_unique<WorkerPool>(*executable, Processors());
    }
  }
  KILN_RETURN_IF_ERROR(no_workers_);
  return workers_.get();
}

absl::StatusOr<bool> KernelService::NeedsValidation(const Entry& entry) {
  std::map<std::string, std::string> meta = MetaOf(entry);
  if (meta["validated_on"] == CpuModelId()) return false;
  if (!MayPublish()) return meta["validation"].empty();
  const std::optional<Entry> record = store_->Lookup(RecordOf(entry));
  if (!record.has_value()) return true;
  const std::string* const failure = record->Find("failure");
  if (failure == nullptr) return false;
  return absl::UnavailableError(absl::StrCat(*failure, " (known from the cache)"));
}

absl::StatusOr<KernelService::Made> KernelService::FromCache(const Wanted& wanted, bool again) {
  Made nothing;
  if (store_ == nullptr) return nothing;
  const Preimage& preimage = wanted.preimage;
  std::optional<Entry> entry = again ? store_->LookupAgain(preimage) : store_->Lookup(preimage);
  if (!entry.has_value()) return nothing;
  if (const std::string* const failure = entry->Find("failure"); failure != nullptr)
    return absl::UnavailableError(absl::StrCat(*failure, " (known from the cache)"));
  const std::string* const elf = entry->Find("elf");
  if (elf == nullptr || !HostRuns(MetaOf(*entry)["isa"])) return nothing;
  KILN_ASSIGN_OR_RETURN(const bool needs_validation, NeedsValidation(*entry));
  absl::StatusOr<LoadedKernel> loaded = LoadKernel(*elf);
  if (!loaded.ok()) {
    WarnOnce(absl::StrCat("cached kernel ", ToHex(entry->key).substr(0, 12), ": ",
                          loaded.status().message(), "; it is built again"));
    return nothing;
  }
  Made made{Compiled(*std::move(loaded)), Source::kCached};
  if (needs_validation) {
    made.unvalidated = std::make_shared<Unvalidated>();
    made.unvalidated->entry = *std::move(entry);
    made.unvalidated->example = wanted.example;
  }
  return made;
}

absl::StatusOr<CodegenAnswer> KernelService::Emit(const KernelIdentity& identity,
                                                  std::vector<std::string> sections) {
  KILN_ASSIGN_OR_RETURN(WorkerPool* const workers, Workers());
  CodegenRequest request;
  request.kernel = identity.text;
  request.params = identity.params;
  request.target = std::string(Name(identity.target));
  request.sections = std::move(sections);
  request.timeout_ms = options_.kernel_timeout_ms;
  request.cpu_ms = options_.kernel_cpu_ms;
  KILN_ASSIGN_OR_RETURN(CodegenAnswer answer, workers->Compile(request));
  if (answer.outcome == CodegenAnswer::Outcome::kOk) return answer;
  const std::string error = absl::StrCat("kernel compiler: ", answer.error);
  if (answer.outcome == CodegenAnswer::Outcome::kTransient) return absl::UnavailableError(error);
  return absl::InternalError(error);
}

absl::StatusOr<Entry> KernelService::BuildEntry(const Wanted& wanted) {
  const KernelIdentity& identity = wanted.identity;
  const absl::StatusOr<CodegenAnswer> answer = Emit(identity, {"elf"});
  if (absl::IsInternal(answer.status()) && MayPublish()) {
    store_
        ->PublishFailure(wanted.preimage, answer.status().message(),
                         {{"device", "cpu"},
                          {"params", identity.params},
                          {"target", std::string(Name(identity.target))}})
        .IgnoreError();
  }
  KILN_RETURN_IF_ERROR(answer.status());
  Entry entry = EntryOf(identity, MetaForValidation(identity, wanted.at_most, wanted.example),
                        wanted.preimage, *answer);
  if (entry.Find("elf") != nullptr) return entry;
  return absl::InternalError("kernel compiler: its answer has no code");
}

absl::StatusOr<KernelService::Made> KernelService::Build(const Wanted& wanted) {
  KILN_ASSIGN_OR_RETURN(Entry entry, BuildEntry(wanted));
  if (const std::string isa = MetaOf(entry)["isa"]; !HostRuns(isa)) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel code needs \"", isa, "\", which this machine lacks"));
  }
  KILN_ASSIGN_OR_RETURN(LoadedKernel loaded, LoadKernel(*entry.Find("elf")));
  Made made{Compiled(std::move(loaded)), Source::kBuilt};
  if (!MayPublish()) return made;
  made.unvalidated = std::make_shared<Unvalidated>();
  made.unvalidated->entry = std::move(entry);
  made.unvalidated->example = wanted.example;
  made.unvalidated->fresh = true;
  return made;
}

// Another process may be building the same. One that hangs is not waited for much longer than a
// build may take, and nobody is when this service ends.
KeyLock KernelService::LockWhileWanted(const CacheKey& key) {
  const absl::Time end =
      absl::Now() + 2 * absl::Milliseconds(static_cast<int64_t>(options_.kernel_timeout_ms));
  constexpr absl::Duration kStep = absl::Milliseconds(200);
  while (true) {
    const absl::Time begun = absl::Now();
    KeyLock lock = store_->LockKey(key, std::min(kStep, end - begun));
    const bool waited = absl::Now() - begun >= kStep;  // else there are no locks on this disk
    if (lock.held() || !waited || ending_ || absl::Now() >= end) return lock;
  }
}

absl::StatusOr<KernelService::Made> KernelService::BuildOrWait(const Wanted& wanted) {
  std::shared_ptr<KeyLock> lock;
  if (store_ != nullptr) {
    lock = std::make_shared<KeyLock>(LockWhileWanted(wanted.preimage.Key()));
    if (ending_) return absl::CancelledError("the kernel service ends");
    absl::StatusOr<Made> made = FromCache(wanted, /*again=*/true);
    if (!made.ok() || made->function != nullptr) return made;
  }
  absl::StatusOr<Made> made = Build(wanted);
  if (made.ok() && made->unvalidated != nullptr) made->unvalidated->lock = std::move(lock);
  return made;
}

absl::StatusOr<KernelService::Made> KernelService::OnVm(const Wanted& wanted, Source source) {
  KILN_ASSIGN_OR_RETURN(auto function, VmFunction(wanted.identity.text));
  return Made{std::move(function), source};
}

absl::StatusOr<KernelService::Made> KernelService::Make(const Wanted& wanted) {
  if (options_.compile_mode == CompileMode::kNever || target_ < IsaLevel::kV3)
    return OnVm(wanted, Source::kVm);
  absl::StatusOr<Made> made = FromCache(wanted, /*again=*/false);
  if (made.ok() && made->function == nullptr) {
    if (options_.compile_mode == CompileMode::kBackground) {
      made = OnVm(wanted, Source::kVm);
      if (made.ok()) made->later = true;
      return made;
    }
    made = BuildOrWait(wanted);
  }
  if (made.ok()) return made;
  WarnOnce(absl::StrCat("a kernel runs on the VM, slower and with the same results: ",
                        made.status().message()));
  return OnVm(wanted, Source::kFailed);
}

void KernelService::Count(Source source, int by) {
  counts_.cached += source == Source::kCached ? by : 0;
  counts_.built += source == Source::kBuilt ? by : 0;
  counts_.failed += source == Source::kFailed ? by : 0;
  counts_.vm += source == Source::kVm || source == Source::kFailed ? by : 0;
}

void KernelService::BuildLater(Wanted wanted, std::shared_ptr<KernelHandle> handle) {
  builds_.Add([this, wanted = std::move(wanted), handle = std::move(handle)] {
    absl::StatusOr<Made> built = BuildOrWait(wanted);
    if (!built.ok() && ending_) return;
    if (built.ok()) {
      handle->Swap(std::move(built->function));
    } else {
      WarnOnce(absl::StrCat("a kernel stays on the VM, slower and with the same results: ",
                            built.status().message()));
    }
    const Source source = built.ok() ? built->source : Source::kFailed;
    {
      absl::MutexLock lock(&mutex_);
      Count(Source::kVm, -1);
      Count(source, 1);
    }
    if (built.ok() && built->unvalidated != nullptr)
      ValidateLater(handle, source, std::move(built->unvalidated));
  });
}

void KernelService::ValidateLater(std::shared_ptr<KernelHandle> handle, Source source,
                                  std::shared_ptr<Unvalidated> unvalidated) {
  ValidationRequest request = ValidationOf(unvalidated->entry, unvalidated->example);
  validator_.Add(std::move(request),
                 [this, handle = std::move(handle), source,
                  unvalidated = std::move(unvalidated)](const auto& validation) {
                   AfterValidation(*handle, source, *unvalidated, validation);
                   unvalidated->lock.reset();
                 });
}

void KernelService::AfterValidation(KernelHandle& handle, Source source, Unvalidated& unvalidated,
                                    const absl::StatusOr<std::string>& validation) {
  if (const absl::Status done = PublishValidation(unvalidated, validation); !done.ok())
    WarnOnce(absl::StrCat("kernels are used but not kept: ", done.message()));
  if (!absl::IsDataLoss(validation.status())) return;
  LogWarning("kernel ", ToHex(unvalidated.entry.key).substr(0, 12),
             ": its compiled code was refused and runs on the VM from now on: ",
             validation.status().message(), "; please report this as a defect");
  auto vm = VmFunction(FieldOf(*unvalidated.entry.Find("preimage"), "kernel"));
  if (!vm.ok()) return;  // cannot be: the validation has run it
  handle.Swap(*std::move(vm));
  absl::MutexLock lock(&mutex_);
  Count(source, -1);
  Count(Source::kFailed, 1);
}

absl::Status KernelService::PublishValidation(Unvalidated& unvalidated,
                                              const absl::StatusOr<std::string>& validation) {
  Entry& entry = unvalidated.entry;
  if (!MayPublish()) return absl::OkStatus();
  if (absl::IsDataLoss(validation.status())) {
    Preimage about = unvalidated.fresh ? Preimage::Of(*entry.Find("preimage")) : RecordOf(entry);
    std::map<std::string, std::string> meta = MetaOf(entry);
    return store_->PublishFailure(
        about, absl::StrCat("its compiled code was refused: ", validation.status().message()),
        {{"device", meta["device"]}, {"params", meta["params"]}, {"target", meta["target"]}});
  }
  KILN_RETURN_IF_ERROR(validation.status());
  const std::map<std::string, std::string> validated = {{"validation", *validation},
                                                        {"validated_on", CpuModelId()}};
  if (unvalidated.fresh) {
    SetMeta(entry, validated);
    return store_->Publish(entry);
  }
  const Preimage about = RecordOf(entry);
  Entry record;
  record.key = about.Key();
  record.Add("preimage", about.bytes(), true);
  record.Add("meta", FormatMeta(validated), true);
  return store_->Publish(record);
}

absl::StatusOr<KernelService::Kept> KernelService::Keep(const KernelIdentity& identity,
                                                        const std::vector<int64_t>& at_most,
                                                        const std::vector<int64_t>& example) {
  if (!MayPublish()) return absl::UnavailableError("there is no cache that may be written");
  const Wanted wanted = {identity, at_most, example, KernelPreimage(identity)};
  std::optional<Entry> entry = store_->Lookup(wanted.preimage);
  KeyLock lock;
  if (!entry.has_value()) {
    lock = LockWhileWanted(wanted.preimage.Key());
    entry = store_->LookupAgain(wanted.preimage);
  }
  if (entry.has_value()) return entry->Find("failure") != nullptr ? Kept::kFailed : Kept::kWasThere;
  absl::StatusOr<Entry> built = BuildEntry(wanted);
  if (absl::IsInternal(built.status())) return Kept::kFailed;
  KILN_RETURN_IF_ERROR(built.status());
  if (!HostRuns(MetaOf(*built)["isa"])) {
    KILN_RETURN_IF_ERROR(store_->Publish(*built));  // validated by the first CPU that can run it
    return Kept::kBuilt;
  }
  Unvalidated unvalidated{*std::move(built), example, /*fresh=*/true, nullptr};
  const absl::StatusOr<std::string> validation =
      validator_.Validate(ValidationOf(unvalidated.entry, example));
  KILN_RETURN_IF_ERROR(PublishValidation(unvalidated, validation));
  if (validation.ok()) return Kept::kBuilt;
  LogWarning("kernel ", ToHex(unvalidated.entry.key).substr(0, 12),
             ": its compiled code was refused: ", validation.status().message(),
             "; please report this as a defect");
  return Kept::kFailed;
}

absl::StatusOr<std::shared_ptr<KernelHandle>> KernelService::Get(
    const program::KernelDef& def, const program::KernelChoice& choice) {
  const KernelIdentity identity = Identify(def.text(), choice.params());
  Wanted wanted = {identity,
                   {choice.at_most().begin(), choice.at_most().end()},
                   {def.example().begin(), def.example().end()},
                   KernelPreimage(identity)};
  const CacheKey key = wanted.preimage.Key();
  {
    absl::MutexLock lock(&mutex_);
    const auto settled = [&]()
                             ABSL_NO_THREAD_SAFETY_ANALYSIS { return in_flight_.count(key) == 0; };
    mutex_.Await(absl::Condition(&settled));
    if (const auto found = table_.find(key); found != table_.end()) return found->second;
    in_flight_[key] = 1;
  }
  absl::StatusOr<Made> made = Make(wanted);
  absl::MutexLock lock(&mutex_);
  in_flight_.erase(key);
  KILN_RETURN_IF_ERROR(made.status());
  ++counts_.kernels;
  Count(made->source, 1);
  auto handle = std::make_shared<KernelHandle>(std::move(made->function));
  table_[key] = handle;
  if (made->unvalidated != nullptr)
    ValidateLater(handle, made->source, std::move(made->unvalidated));
  if (made->later) BuildLater(std::move(wanted), handle);
  return handle;
}

absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> KernelService::GetAll(
    const program::Program& program) {
  const Clock::time_point start = Clock::now();
  std::vector<std::vector<std::shared_ptr<KernelHandle>>> handles(
      static_cast<size_t>(program.kernels_size()));
  std::vector<std::pair<int, int>> jobs;
  for (int i = 0; i < program.kernels_size(); ++i) {
    handles[static_cast<size_t>(i)].resize(static_cast<size_t>(program.kernels(i).choices_size()));
    for (int j = 0; j < program.kernels(i).choices_size(); ++j) jobs.emplace_back(i, j);
  }
  std::vector<absl::Status> results(jobs.size());
  ForEachInParallel(jobs.size(), [&](size_t k) {
    const auto [i, j] = jobs[k];
    auto handle = Get(program.kernels(i), program.kernels(i).choices(j));
    results[k] = handle.status();
    if (handle.ok()) handles[static_cast<size_t>(i)][static_cast<size_t>(j)] = *std::move(handle);
  });
  {
    absl::MutexLock lock(&mutex_);
    counts_.ms += MsSince(start);
  }
  for (const absl::Status& result : results) KILN_RETURN_IF_ERROR(result);
  return handles;
}

}  // namespace kiln
