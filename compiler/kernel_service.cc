// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_service.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/catch_exceptions.h"
#include "base/cpu_model.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "compiler/assembler.h"
#include "compiler/known_failures.h"
#include "exec/runtime_state.h"
#include "exec/support/kernel_code.h"
#include "kernel/text.h"
#include "kiln/cache.h"
#include "persistent_cache/directory.h"
#include "persistent_cache/settings.h"
#include "persistent_cache/store.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// How long after a build that failed for a reason that passes it is tried again.
constexpr std::chrono::milliseconds kTryAgainAfter[] = {std::chrono::milliseconds(1000),
                                                        std::chrono::milliseconds(5000),
                                                        std::chrono::milliseconds(30'000)};

int BuildJobs(const CompileOptions& options) {
  return options.build_jobs > 0 ? options.build_jobs : Processors();
}

// Builds beside something else: a caller waits for them in `block` mode; else they yield.
int BuildThreads(const CompileOptions& options) {
  const int jobs = BuildJobs(options);
  return options.compile_mode == CompileMode::kBlock ? jobs : std::max(1, jobs / 2);
}
Yielding BuildingOf(const CompileOptions& options) {
  return options.compile_mode == CompileMode::kBlock ? Yielding() : kBuildingLater;
}

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

// Kernels that no schedule is for have their operands on the host.
DeviceKind OperandsOf(const KernelIdentity& identity) {
  return identity.schedule.empty() ? DefaultDevice() : identity.target.device;
}

}  // namespace

KernelService::KernelService(const CompileOptions& options, std::shared_ptr<KernelTotals> totals)
    : options_(options),
      target_(TargetOf(options)),
      device_(DeviceOf(options.runtime)),
      store_(OpenStore(options.cache)),
      totals_(std::move(totals)),
      generation_(ForkGeneration()),
      workers_(options.codegen, BuildJobs(options)),
      validator_(options.validator.empty() ? options.prover : options.validator,
                 BuildJobs(options)),
      publishing_(2),
      validations_(std::max(1, Processors() / 2)),
      builds_(BuildThreads(options), BuildingOf(options)) {}

KernelService::~KernelService() {
  ending_ = true;
  builds_.Drop();
  validations_.Drop();
  workers_.Stop();
  validator_.Stop();
  builds_.Wait();
  publishing_.Wait();
}

void KernelService::FinishValidations() {
  builds_.Wait();
  validations_.Wait();
  publishing_.Wait();
}

const ComputeDevice* KernelService::ValidatesOn(DeviceKind device) {
  const char* const emulated = RuntimeOf(device).emulated;
  if (emulated == nullptr) return nullptr;
  if (device_ != nullptr && device_->target().device == device) return device_.get();
  const MutexLock lock(mutex_);
  if (emulated_ == nullptr) {
    auto opened = OpenComputeDevice(emulated);
    if (opened.ok()) emulated_ = *std::move(opened);
  }
  return emulated_.get();
}

std::string KernelService::ModelId(const Entry& entry) {
  const std::optional<KernelCode> code = CodeOf(entry);
  const ComputeDevice* const on = code ? ValidatesOn(code->device->device) : nullptr;
  if (on == nullptr) return CpuModelId();
  return absl::StrCat(Name(on->target().device), " ", on->model());
}

ValidationRequest KernelService::RequestOf(const Entry& entry,
                                           const std::vector<int64_t>& example) {
  const std::optional<KernelCode> code = CodeOf(entry);
  return ValidationOf(entry, example, code ? ValidatesOn(code->device->device) : nullptr);
}

KernelIdentity KernelService::Identify(const std::string& text, const std::string& schedule) const {
  return IdentityOf(text, schedule, target_, options_.math);
}

KernelCounts KernelService::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

void KernelService::WarnOnce(absl::string_view what) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(warned_, true)) return;
  }
  LogWarning(what);
}

absl::StatusOr<KernelService::Validated> KernelService::WhereValidated(
    const Entry& entry, const std::vector<int64_t>& example) {
  std::map<std::string, std::string> meta = MetaOf(entry);
  const std::string& transcript = meta["validation"];
  const bool of_this_version = absl::StartsWith(transcript, absl::StrCat(kValidationVersion, ":"));
  if (of_this_version && meta["validated_on"] == ModelId(entry)) return Validated::kHere;
  if (!transcript.empty() && !MayPublish()) return Validated::kHere;
  if (const std::optional<Entry> record = store_->Lookup(RecordOf(entry, ModelId(entry)));
      record.has_value()) {
    if (record->Find("failure") == nullptr) return Validated::kHere;
    if (IsKnownToFail(*record, {example, options_})) return KnownFailure(*record);
  }
  return transcript.empty() ? Validated::kNowhere : Validated::kElsewhere;
}

absl::StatusOr<KernelService::Made> KernelService::FromCache(const Wanted& wanted, bool again,
                                                             bool may_wait) {
  Made nothing;
  if (store_ == nullptr) return nothing;
  const Preimage& preimage = wanted.preimage;
  std::optional<Entry> entry = again ? store_->LookupAgain(preimage) : store_->Lookup(preimage);
  if (!entry.has_value()) return nothing;
  if (IsKnownToFail(*entry, {wanted.example, options_})) return KnownFailure(*entry);
  const std::optional<KernelCode> code = CodeOf(*entry);
  if (!code || !code->RunsHere(device_.get())) return nothing;
  KILN_ASSIGN_OR_RETURN(const Validated where, WhereValidated(*entry, wanted.example));
  if (where == Validated::kNowhere) {
    if (!may_wait) return nothing;
    KILN_ASSIGN_OR_RETURN(const Validation validation,
                          ValidateFirst(*entry, /*fresh=*/false, wanted.example));
    if (MayPublish()) PublishLater(MakeRecord(*entry, validation, ModelId(*entry)), nullptr);
  }
  absl::StatusOr<LoadedKernel> loaded = code->Load(device_.get());
  if (!loaded.ok()) {
    WarnOnce(absl::StrCat("cached kernel ", ToHex(entry->key).substr(0, 12), ": ",
                          loaded.status().message(), "; it is built again"));
    return nothing;
  }
  Made made{CompiledFunction(*std::move(loaded), target_.device), Source::kCached};
  if (where == Validated::kElsewhere)
    made.again = std::make_shared<ToValidate>(ToValidate{*std::move(entry), wanted.example});
  return made;
}

absl::StatusOr<CodegenAnswer> KernelService::Emit(const KernelIdentity& identity,
                                                  std::vector<std::string> sections) {
  CodegenRequest request;
  request.kernel = identity.text;
  request.schedule = identity.schedule;
  request.target = std::string(identity.target.name());
  request.sections = std::move(sections);
  request.timeout_ms = options_.kernel_timeout_ms;
  request.cpu_ms = options_.kernel_cpu_ms;
  KILN_RETURN_IF_ERROR(AddTools(request));
  absl::StatusOr<CodegenAnswer> asked = workers_.Compile(request);
  if (absl::IsDeadlineExceeded(asked.status()))  // it does not keep its time itself
    return absl::UnavailableError(asked.status().message());
  KILN_RETURN_IF_ERROR(asked.status());
  CodegenAnswer answer = *std::move(asked);
  if (answer.outcome == CodegenAnswer::Outcome::kOk) {
    KILN_RETURN_IF_ERROR(CheckMadeBy(identity.assembler, answer));
    return answer;
  }
  const std::string error = absl::StrCat("kernel compiler: ", answer.error);
  if (answer.outcome == CodegenAnswer::Outcome::kTransient) return absl::UnavailableError(error);
  if (answer.outcome == CodegenAnswer::Outcome::kTimedOut)
    return absl::DeadlineExceededError(error);
  return absl::InternalError(error);
}

absl::StatusOr<Entry> KernelService::BuildEntry(const Wanted& wanted) {
  const KernelIdentity& identity = wanted.identity;
  const absl::StatusOr<CodegenAnswer> answer = Emit(identity, SectionsOf(identity));
  const bool late = absl::IsDeadlineExceeded(answer.status());
  if ((absl::IsInternal(answer.status()) || late) && MayPublish()) {
    std::map<std::string, std::string> meta = {
        {"device", std::string(Name(identity.target.device))},
        {"schedule", identity.schedule},
        {"target", std::string(identity.target.name())}};
    if (late) meta.merge(MetaOfTimeOut(options_));
    store_->PublishFailure(wanted.preimage, answer.status().message(), std::move(meta))
        .IgnoreError();
  }
  KILN_RETURN_IF_ERROR(answer.status());
  Entry entry = EntryOf(identity, wanted.at_most, wanted.preimage, *answer);
  if (CodeOf(entry)) return entry;
  return absl::InternalError("kernel compiler: its answer has no code");
}

void KernelService::AddValidation(Entry& entry, const Validation& validation,
                                  const std::vector<int64_t>& example) {
  std::map<std::string, std::string> meta = MetaOfValidation(validation, ModelId(entry));
  if (validation.of_example) meta["example"] = FormatClass(example);
  SetMeta(entry, meta);
}

absl::Status KernelService::Remember(const Entry& entry, bool fresh, const absl::Status& why,
                                     const std::vector<int64_t>& example) {
  std::map<std::string, std::string> meta = MetaOf(entry);
  std::map<std::string, std::string> about = {
      {"device", meta["device"]}, {"schedule", meta["schedule"]}, {"target", meta["target"]}};
  if (IsUnvalidated(why)) about.merge(MetaOfUnvalidated(example));
  return store_->PublishFailure(
      fresh ? Preimage::Of(*entry.Find("preimage")) : RecordOf(entry, ModelId(entry)),
      why.message(), std::move(about));
}

absl::StatusOr<Validation> KernelService::ValidateFirst(const Entry& entry, bool fresh,
                                                        const std::vector<int64_t>& example) {
  const Clock::time_point start = Clock::now();
  absl::StatusOr<Validation> validation = validator_.Validate(RequestOf(entry, example));
  {
    const MutexLock lock(mutex_);
    counts_.validate_ms += MsSince(start);
  }
  if (validation.ok()) return validation;
  const absl::Status& status = validation.status();
  absl::Status failed;
  if (absl::IsDataLoss(status)) {
    failed = absl::DataLossError(absl::StrCat("its compiled code was refused: ", status.message()));
    LogWarning("kernel ", ToHex(entry.key).substr(0, 12), ": ", failed.message(),
               "; it runs on the VM, please report this as a defect");
  } else {
    const std::string text =
        absl::StrCat("its compiled code cannot be validated: ", status.message());
    failed = MayPass(status) ? absl::AbortedError(text) : absl::UnimplementedError(text);
  }
  // What passes, such as a lack of memory, is tried again by the next process.
  if (MayPublish() && (absl::IsDataLoss(status) || absl::IsUnimplemented(status)))
    Remember(entry, fresh, failed, example).IgnoreError();
  return failed;
}

void KernelService::PublishLater(Entry entry, std::shared_ptr<KeyLock> lock) {
  // A lock is a file descriptor, and the disk may be slow: of those that wait here few are kept.
  // Without one another process may build the same.
  constexpr int kMostLocks = 16;
  if (++unpublished_ > kMostLocks) lock = nullptr;
  publishing_.Add([this, entry = std::move(entry), lock = std::move(lock)] {
    if (const absl::Status done = store_->Publish(entry); !done.ok())
      WarnOnce(absl::StrCat("kernels are used but not kept: ", done.message()));
    --unpublished_;
  });
}

absl::StatusOr<KernelService::Made> KernelService::Build(const Wanted& wanted,
                                                         std::shared_ptr<KeyLock> lock) {
  const Clock::time_point start = Clock::now();
  validator_.Prepare(++building_);  // starts while the kernel is built
  absl::StatusOr<Entry> entry = BuildEntry(wanted);
  --building_;
  {
    const MutexLock mutex(mutex_);
    counts_.build_ms += MsSince(start);
  }
  KILN_RETURN_IF_ERROR(entry.status());
  if (!RunsHere(MetaOf(*entry), device_.get())) {
    return absl::FailedPreconditionError(absl::StrCat("kernel code needs \"", MetaOf(*entry)["isa"],
                                                      "\", which this machine lacks"));
  }
  KILN_ASSIGN_OR_RETURN(const Validation validation,
                        ValidateFirst(*entry, /*fresh=*/true, wanted.example));
  AddValidation(*entry, validation, wanted.example);
  KILN_ASSIGN_OR_RETURN(LoadedKernel loaded, CodeOf(*entry)->Load(device_.get()));
  if (MayPublish()) PublishLater(*std::move(entry), std::move(lock));
  return Made{CompiledFunction(std::move(loaded), target_.device), Source::kBuilt};
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
    absl::StatusOr<Made> made = FromCache(wanted, /*again=*/true, /*may_wait=*/true);
    if (!made.ok() || made->function != nullptr) return made;
  }
  return Build(wanted, std::move(lock));
}

absl::StatusOr<KernelService::Made> KernelService::OnVm(const Wanted& wanted, Source source) {
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(wanted.identity.text));
  KILN_ASSIGN_OR_RETURN(auto function, VmFunction(kernel, OperandsOf(wanted.identity)));
  return Made{std::move(function), source};
}

absl::StatusOr<KernelService::Made> KernelService::Make(const Wanted& wanted, bool may_wait) {
  const bool compiles = target_.compiles() && !wanted.identity.schedule.empty();
  if (wanted.never_launched || options_.compile_mode == CompileMode::kNever || !compiles)
    return OnVm(wanted, Source::kVm);
  absl::StatusOr<Made> made = FromCache(wanted, /*again=*/false, may_wait);
  if (made.ok() && made->function == nullptr) {
    if (!may_wait) {
      made = OnVm(wanted, Source::kVm);
      if (made.ok()) made->later = true;
      return made;
    }
    made = BuildOrWait(wanted);
  }
  if (made.ok()) return made;
  if (!absl::IsDataLoss(made.status())) {  // each of those was warned of
    WarnOnce(absl::StrCat("a kernel runs on the VM, slower and with the same results: ",
                          made.status().message()));
  }
  const bool may_pass = MayPass(made.status());
  made = OnVm(wanted, IsUnvalidated(made.status()) ? Source::kUnvalidated : Source::kFailed);
  if (made.ok()) made->may_pass = may_pass;
  return made;
}

void KernelService::Count(Source source, int by) {
  counts_.cached += source == Source::kCached ? by : 0;
  counts_.built += source == Source::kBuilt ? by : 0;
  const bool failed = source == Source::kFailed || source == Source::kUnvalidated;
  counts_.unvalidated += source == Source::kUnvalidated ? by : 0;
  counts_.failed += failed ? by : 0;
  counts_.vm += source == Source::kVm || failed ? by : 0;
  if (by < 0) return;
  totals_->cached += source == Source::kCached ? 1 : 0;
  totals_->built += source == Source::kBuilt ? 1 : 0;
  totals_->failed += failed ? 1 : 0;
}

void KernelService::BuildLater(const CacheKey& key) {
  std::chrono::milliseconds delay{0};
  {
    const MutexLock lock(mutex_);
    const size_t tries = pending_[key].tries;
    if (tries > 0) delay = kTryAgainAfter[tries - 1];
  }
  builds_.AddAfter(delay, [this, key] { BuildPending(key); });
}

void KernelService::BuildPending(const CacheKey& key) {
  Pending pending;
  {
    const MutexLock lock(mutex_);
    const auto found = pending_.find(key);
    if (found == pending_.end()) return;
    pending = found->second;
  }
  absl::Cleanup abandon = [&] { Abandon(key); };
  absl::StatusOr<Made> built =
      CatchExceptions("kernel", [&] { return BuildOrWait(pending.wanted); });
  if (!built.ok() && ending_) return;
  if (built.ok()) {
    pending.handle->Swap(std::move(built->function));
  } else if (!absl::IsDataLoss(built.status())) {  // each of those was warned of
    const bool waited_for = options_.compile_mode == CompileMode::kBlock && pending.tries == 0;
    WarnOnce(
        absl::StrCat("a kernel ", waited_for ? "runs" : "stays",
                     " on the VM, slower and with the same results: ", built.status().message()));
  }
  const bool again =
      !built.ok() && MayPass(built.status()) && pending.tries < std::size(kTryAgainAfter);
  {
    const MutexLock lock(mutex_);
    const Source source = built.ok()                      ? built->source
                          : IsUnvalidated(built.status()) ? Source::kUnvalidated
                                                          : Source::kFailed;
    if (source != pending.source) {
      Count(pending.source, -1);
      Count(source, 1);
      pending.source = source;
    }
    ++pending.tries;
    if (again) pending_[key] = pending;
    if (!again) pending_.erase(key);
    settled_.NotifyAll();
  }
  std::move(abandon).Cancel();
  if (again) BuildLater(key);
  if (built.ok() && built->again != nullptr) ValidateAgain(pending.handle, std::move(built->again));
}

void KernelService::Abandon(const CacheKey& key) {
  const MutexLock lock(mutex_);
  const auto found = pending_.find(key);
  if (found != pending_.end() && found->second.tries == 0) pending_.erase(found);
  settled_.NotifyAll();
}

void KernelService::ResumeAfterFork() {
  const uint32_t now = ForkGeneration();
  if (generation_.load(std::memory_order_relaxed) == now || generation_.exchange(now) == now)
    return;
  std::vector<CacheKey> keys;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, pending] : pending_) keys.push_back(key);
  }
  for (const CacheKey& key : keys) BuildLater(key);
}

void KernelService::ValidateAgain(std::shared_ptr<KernelHandle> handle,
                                  std::shared_ptr<ToValidate> what) {
  if (NoThreads::Active()) {
    const MutexLock lock(mutex_);
    put_off_.emplace_back(std::move(handle), std::move(what));
    return;
  }
  validations_.Add([this, handle = std::move(handle), what = std::move(what)] {
    ValidationRequest request = RequestOf(what->entry, what->example);
    request.nobody_waits = true;
    const absl::StatusOr<Validation> validation = validator_.Validate(request);
    if (!ending_) AfterValidation(*handle, *what, validation);
  });
}

void KernelService::Maintain() {
  decltype(put_off_) put_off;
  {
    const MutexLock lock(mutex_);
    put_off.swap(put_off_);
  }
  for (auto& [handle, what] : put_off) ValidateAgain(std::move(handle), std::move(what));
  FinishValidations();
  if (!MayPublish()) return;
  const absl::Status pruned = store_->Prune(store_->max_bytes(), /*dry_run=*/false).status();
  if (!pruned.ok()) LogWarning("cache: not pruned: ", pruned.message());
}

void KernelService::AfterValidation(KernelHandle& handle, const ToValidate& what,
                                    const absl::StatusOr<Validation>& validation) {
  if (validation.ok())
    return PublishLater(MakeRecord(what.entry, *validation, ModelId(what.entry)), nullptr);
  if (!absl::IsDataLoss(validation.status())) return;  // it was validated elsewhere
  const absl::Status refused = absl::DataLossError(
      absl::StrCat("its compiled code was refused: ", validation.status().message()));
  if (MayPublish()) Remember(what.entry, /*fresh=*/false, refused, what.example).IgnoreError();
  LogWarning("kernel ", ToHex(what.entry.key).substr(0, 12), ": ", refused.message(),
             "; it runs on the VM from now on, please report this as a defect");
  const absl::StatusOr<Kernel> kernel =
      ParseKernel(FieldOf(*what.entry.Find("preimage"), "kernel"));
  if (!kernel.ok()) return;  // cannot be: the validation has run it
  auto vm = VmFunction(*kernel, target_.device);
  if (!vm.ok()) return;
  handle.Swap(*std::move(vm));
  const MutexLock lock(mutex_);
  Count(Source::kCached, -1);
  Count(Source::kFailed, 1);
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
  const auto failed = [](const Entry& known) {
    return IsUnvalidated(KnownFailure(known)) ? Kept::kUnvalidated : Kept::kFailed;
  };
  if (entry.has_value() && IsKnownToFail(*entry, {example, options_})) return failed(*entry);
  const bool was_there = entry.has_value() && entry->Find("failure") == nullptr;
  if (was_there && !MetaOf(*entry)["validation"].empty()) return Kept::kWasThere;
  absl::StatusOr<Entry> built = was_there ? *std::move(entry) : BuildEntry(wanted);
  if (absl::IsInternal(built.status())) return Kept::kFailed;
  KILN_RETURN_IF_ERROR(built.status());
  const std::optional<KernelCode> code = CodeOf(*built);
  const bool runs_here = code && code->RunsHere(ValidatesOn(code->device->device));
  if (was_there && !runs_here) return Kept::kWasThere;
  if (!runs_here) {
    SetExampleIfNeeded(*built, example);
    KILN_RETURN_IF_ERROR(store_->Publish(*built));  // validated by the first CPU that can run it
    return Kept::kBuilt;
  }
  const absl::StatusOr<Validation> validation = ValidateFirst(*built, !was_there, example);
  if (!validation.ok()) {
    // Known from now on; anything else may go better another time.
    const std::optional<Entry> known =
        store_->LookupAgain(was_there ? RecordOf(*built, ModelId(*built)) : wanted.preimage);
    if (known.has_value() && known->Find("failure") != nullptr) return failed(*known);
    return IsUnvalidated(validation.status())
               ? absl::UnimplementedError(validation.status().message())
               : absl::UnavailableError(validation.status().message());
  }
  AddValidation(*built, *validation, example);
  KILN_RETURN_IF_ERROR(store_->Publish(*built));
  return was_there ? Kept::kWasThere : Kept::kBuilt;
}

KernelService::Wanted KernelService::WantedOf(const program::KernelDef& def,
                                              const program::KernelChoice& choice) const {
  const KernelIdentity identity = Identify(def.text(), choice.schedule());
  Wanted wanted = {identity,
                   {choice.at_most().begin(), choice.at_most().end()},
                   {def.example().begin(), def.example().end()},
                   KernelPreimage(identity)};
  // Of such a class nothing is built; another class of the same key may be launched.
  wanted.never_launched = IsNeverLaunched(identity.text, wanted.at_most);
  return wanted;
}

CacheKey KernelService::KeyOf(const Wanted& wanted) {
  return wanted.never_launched ? Preimage(wanted.preimage).Add("launched", "never").Key()
                               : wanted.preimage.Key();
}

absl::StatusOr<std::shared_ptr<KernelHandle>> KernelService::Get(
    const program::KernelDef& def, const program::KernelChoice& choice) {
  return Get(WantedOf(def, choice), options_.compile_mode == CompileMode::kBlock);
}

absl::StatusOr<std::shared_ptr<KernelHandle>> KernelService::Get(Wanted wanted, bool may_wait) {
  const CacheKey key = KeyOf(wanted);
  {
    const MutexLock lock(mutex_);
    // A thread of the parent makes nothing for a child of a fork.
    const auto in_flight = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const auto found = in_flight_.find(key);
      return found != in_flight_.end() && found->second == ForkGeneration();
    };
    while (in_flight()) settled_.Wait(mutex_);
    if (const auto found = table_.find(key); found != table_.end()) return found->second;
    in_flight_[key] = ForkGeneration();
  }
  const absl::Cleanup others_may_look = [&] {
    const MutexLock lock(mutex_);
    in_flight_.erase(key);
    settled_.NotifyAll();
  };
  KILN_ASSIGN_OR_RETURN(Made made, Make(wanted, may_wait));
  auto handle = std::make_shared<KernelHandle>(std::move(made.function));
  {
    const MutexLock lock(mutex_);
    ++counts_.kernels;
    Count(made.source, 1);
    table_[key] = handle;
    if (made.later || made.may_pass)
      pending_[key] = {std::move(wanted), handle, made.source, made.later ? 0u : 1u};
  }
  absl::Cleanup abandon = [&] { Abandon(key); };
  if (made.again != nullptr) ValidateAgain(handle, std::move(made.again));
  if (made.later || made.may_pass) BuildLater(key);
  std::move(abandon).Cancel();
  return handle;
}

absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> KernelService::GetAll(
    const program::Program& program) {
  auto handles = GetAll(program, options_.compile_mode == CompileMode::kBlock);
  if (handles.ok()) Finish(program);  // others may have started some of them
  return handles;
}

absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> KernelService::StartAll(
    const program::Program& program) {
  const bool waits = options_.compile_mode == CompileMode::kBlock && NoThreads::Active();
  return GetAll(program, /*may_wait=*/waits);
}

void KernelService::Finish(const program::Program& program) {
  if (options_.compile_mode != CompileMode::kBlock) return;
  ResumeAfterFork();
  const Clock::time_point start = Clock::now();
  {
    const MutexLock lock(mutex_);
    if (pending_.empty()) return;
  }
  for (const program::KernelDef& def : program.kernels()) {
    for (const program::KernelChoice& choice : def.choices()) {
      const CacheKey key = KeyOf(WantedOf(def, choice));
      const MutexLock lock(mutex_);
      const auto pending = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const auto found = pending_.find(key);
        return found != pending_.end() && found->second.tries == 0;
      };
      while (pending()) settled_.Wait(mutex_);
    }
  }
  const MutexLock lock(mutex_);
  counts_.ms += MsSince(start);
}

void KernelService::ExpectBuilds() {
  const bool builds = target_.compiles() && options_.compile_mode == CompileMode::kBlock;
  if (!builds || NoThreads::Active()) return;
  builds_.Add([this] { workers_.PrepareAll(BuildJobs(options_)); });
}

absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> KernelService::GetAll(
    const program::Program& program, bool may_wait) {
  const Clock::time_point start = Clock::now();
  const auto compilers = workers_.Keep();
  const auto validators = validator_.Keep();
  std::vector<std::vector<std::shared_ptr<KernelHandle>>> handles(
      static_cast<size_t>(program.kernels_size()));
  std::vector<std::pair<int, int>> jobs;
  for (int i = 0; i < program.kernels_size(); ++i) {
    handles[static_cast<size_t>(i)].resize(static_cast<size_t>(program.kernels(i).choices_size()));
    for (int j = 0; j < program.kernels(i).choices_size(); ++j) jobs.emplace_back(i, j);
  }
  std::vector<absl::Status> results(jobs.size());
  // Kernels of the VM are made in less time than a thread takes to start.
  const int threads = options_.compile_mode == CompileMode::kNever ? 1 : 0;
  ForEachInParallel(
      jobs.size(),
      [&](size_t k) {
        const auto [i, j] = jobs[k];
        auto handle = Get(WantedOf(program.kernels(i), program.kernels(i).choices(j)), may_wait);
        results[k] = handle.status();
        if (handle.ok())
          handles[static_cast<size_t>(i)][static_cast<size_t>(j)] = *std::move(handle);
      },
      threads);
  {
    const MutexLock lock(mutex_);
    counts_.ms += MsSince(start);
  }
  for (const absl::Status& result : results) KILN_RETURN_IF_ERROR(result);
  return handles;
}

}  // namespace kiln
