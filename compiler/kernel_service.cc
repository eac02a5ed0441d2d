// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/kernel_service.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "kiln/base/log.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/support/loader.h"
#include "kiln/exec/vm/vm.h"
#include "kiln/kernel/text.h"
#include "kiln/persistent_cache/directory.h"
#include "kiln/persistent_cache/settings.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::unique_ptr<Store> OpenStore(const CacheOptions& options) {
  if (!options.enabled) return nullptr;
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

absl::StatusOr<std::shared_ptr<const KernelFunction>> OnVm(const std::string& text) {
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, ParseKernel(text));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const VmKernel> vm, VmKernel::Compile(kernel));
  auto function = std::make_shared<KernelFunction>();
  function->run = &RunVm;
  function->self = vm.get();
  function->vm = true;
  function->owner = std::move(vm);
  return function;
}

}  // namespace

bool HostRuns(absl::string_view isa) {
  const CpuFeatures& host = HostCpu();
  for (absl::string_view wanted : absl::StrSplit(isa, ' ', absl::SkipEmpty())) {
    if (absl::StartsWith(wanted, "avx512") && HostIsa() < IsaLevel::kV4) return false;
    const auto known =
        std::find_if(AllCpuFeatures().begin(), AllCpuFeatures().end(),
                     [&](const CpuFeatureName& feature) { return feature.name == wanted; });
    if (known == AllCpuFeatures().end() || !(host.*known->has)) return false;
  }
  return true;
}

KernelService::KernelService(const CompileOptions& options)
    : options_(options),
      target_(options.target.value_or(HostIsa())),
      store_(OpenStore(options.cache)) {}

KernelService::~KernelService() = default;

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
  if (workers_ == nullptr && no_workers_.ok()) {
    const absl::StatusOr<std::string> executable = FindCodegen(options_.codegen);
    no_workers_ = executable.status();
    if (executable.ok()) {
      const int size = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
      workers_ = std::make_unique<WorkerPool>(*executable, size);
    }
  }
  KILN_RETURN_IF_ERROR(no_workers_);
  return workers_.get();
}

absl::StatusOr<std::shared_ptr<const KernelFunction>> KernelService::FromCache(
    const Preimage& preimage, bool again) {
  const std::shared_ptr<const KernelFunction> nothing;
  if (store_ == nullptr) return nothing;
  const std::optional<Entry> entry =
      again ? store_->LookupAgain(preimage) : store_->Lookup(preimage);
  if (!entry.has_value()) return nothing;
  if (const std::string* const failure = entry->Find("failure"); failure != nullptr)
    return absl::UnavailableError(absl::StrCat(*failure, " (known from the cache)"));
  const std::string* const elf = entry->Find("elf");
  if (elf == nullptr || !HostRuns(MetaOf(*entry)["isa"])) return nothing;
  absl::StatusOr<LoadedKernel> loaded = LoadKernel(*elf);
  if (loaded.ok()) return Compiled(*std::move(loaded));
  WarnOnce(absl::StrCat("cached kernel ", ToHex(entry->key).substr(0, 12), ": ",
                        loaded.status().message(), "; it is built again"));
  return nothing;
}

void KernelService::Publish(const KernelIdentity& identity, const Preimage& preimage,
                            const CodegenAnswer& answer) {
  if (store_ == nullptr || options_.cache.read_only) return;
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta",
            FormatMeta({{"device", "cpu"},
                        {"isa", answer.isa},
                        {"params", identity.params},
                        {"scratch", absl::StrCat(answer.scratch_bytes)},
                        {"target", std::string(Name(identity.target))},
                        {"wall_ms", absl::StrCat(answer.wall_ms)}}),
            true);
  for (const auto& [tag, bytes] : answer.sections) entry.Add(tag, bytes, tag == "elf");
  const absl::Status done = store_->Publish(entry);
  if (!done.ok()) WarnOnce(absl::StrCat("kernels are used but not kept: ", done.message()));
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
  KILN_ASSIGN_OR_RETURN(CodegenAnswer answer, workers->Compile(request));
  if (answer.outcome == CodegenAnswer::Outcome::kOk) return answer;
  const std::string error = absl::StrCat("kernel compiler: ", answer.error);
  if (answer.outcome == CodegenAnswer::Outcome::kTransient) return absl::UnavailableError(error);
  return absl::InternalError(error);
}

absl::StatusOr<std::shared_ptr<const KernelFunction>> KernelService::Build(
    const KernelIdentity& identity, const Preimage& preimage) {
  const absl::StatusOr<CodegenAnswer> answer = Emit(identity, {"elf"});
  if (absl::IsInternal(answer.status()) && store_ != nullptr) {
    store_
        ->PublishFailure(preimage, answer.status().message(),
                         {{"device", "cpu"},
                          {"params", identity.params},
                          {"target", std::string(Name(identity.target))}})
        .IgnoreError();
  }
  KILN_RETURN_IF_ERROR(answer.status());
  for (const auto& [tag, bytes] : answer->sections) {
    if (tag != "elf") continue;
    if (!HostRuns(answer->isa)) {
      return absl::FailedPreconditionError(
          absl::StrCat("kernel code needs \"", answer->isa, "\", which this machine lacks"));
    }
    KILN_ASSIGN_OR_RETURN(LoadedKernel loaded, LoadKernel(bytes));
    Publish(identity, preimage, *answer);
    return Compiled(std::move(loaded));
  }
  return absl::InternalError("kernel compiler: its answer has no code");
}

absl::StatusOr<KernelService::Made> KernelService::Make(const KernelIdentity& identity) {
  const bool vm_only = options_.compile_mode == CompileMode::kNever || target_ < IsaLevel::kV3;
  if (!vm_only) {
    const Preimage preimage = KernelPreimage(identity);
    auto made = FromCache(preimage, /*again=*/false);
    KeyLock lock;
    if (made.ok() && *made == nullptr && store_ != nullptr) {
      // Another process may be building it: what it publishes meanwhile is taken. One that hangs is
      // not waited for much longer than a build may take.
      lock = store_->LockKey(preimage.Key(), 2 * absl::Milliseconds(options_.kernel_timeout_ms));
      made = FromCache(preimage, /*again=*/true);
    }
    if (made.ok() && *made != nullptr) return Made{*std::move(made), Source::kCached};
    if (made.ok()) made = Build(identity, preimage);
    if (made.ok()) return Made{*std::move(made), Source::kBuilt};
    WarnOnce(absl::StrCat("a kernel runs on the VM, slower and with the same results: ",
                          made.status().message()));
  }
  KILN_ASSIGN_OR_RETURN(auto vm, OnVm(identity.text));
  return Made{std::move(vm), vm_only ? Source::kVm : Source::kFailed};
}

absl::StatusOr<std::shared_ptr<KernelHandle>> KernelService::Get(
    const program::KernelDef& def, const program::KernelChoice& choice) {
  const KernelIdentity identity = Identify(def.text(), choice.params());
  const CacheKey key = KernelPreimage(identity).Key();
  {
    absl::MutexLock lock(&mutex_);
    const auto settled = [&]()
                             ABSL_NO_THREAD_SAFETY_ANALYSIS { return in_flight_.count(key) == 0; };
    mutex_.Await(absl::Condition(&settled));
    if (const auto found = table_.find(key); found != table_.end()) return found->second;
    in_flight_[key] = 1;
  }
  absl::StatusOr<Made> made = Make(identity);
  absl::MutexLock lock(&mutex_);
  in_flight_.erase(key);
  KILN_RETURN_IF_ERROR(made.status());
  ++counts_.kernels;
  counts_.cached += made->source == Source::kCached ? 1 : 0;
  counts_.built += made->source == Source::kBuilt ? 1 : 0;
  counts_.failed += made->source == Source::kFailed ? 1 : 0;
  counts_.vm += made->source == Source::kVm || made->source == Source::kFailed ? 1 : 0;
  return table_[key] = std::make_shared<KernelHandle>(std::move(made->function));
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
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t k = next++; k < jobs.size(); k = next++) {
      const auto [i, j] = jobs[k];
      auto handle = Get(program.kernels(i), program.kernels(i).choices(j));
      results[k] = handle.status();
      if (handle.ok()) handles[static_cast<size_t>(i)][static_cast<size_t>(j)] = *std::move(handle);
    }
  };
  const size_t helpers =
      std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), jobs.size());
  std::vector<std::thread> threads;
  for (size_t t = 1; t < helpers; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  {
    absl::MutexLock lock(&mutex_);
    counts_.ms += MsSince(start);
  }
  for (const absl::Status& result : results) KILN_RETURN_IF_ERROR(result);
  return handles;
}

}  // namespace kiln
