// SPDX-License-Identifier: Apache-2.0
// KernelService: from a kernel's identity to something that runs, by the shortest way there is:
//   memory table -> persistent cache -> worker process -> block VM.
//
// Get never fails for want of a compiler, a cache or a disk: the VM answers then, with the same
// bits, and a warning says once why. In `background` mode it answers at once where the cache has
// nothing, and compiled code takes its place between two runs when it is built. What a cache
// returns was verified when it was read, and is used only if this CPU has all instruction sets that
// the code really uses. Thread-safe. Kernels of one service are loaded once, however many models
// use them.
//
// Validation before publication: a kernel is used from memory as soon as it is built, and published
// when kiln-validate has compared it with the VM (validator.h), while the model may be running. If
// that fails, the VM takes its place between two runs, a warning says so, and the failure is
// remembered. An entry that was not validated on this model of CPU is validated once more, in the
// same way, and that is kept as a record of its own; whoever may not write the cache believes
// validations of other CPUs.
#ifndef KILN_COMPILER_KERNEL_SERVICE_H_
#define KILN_COMPILER_KERNEL_SERVICE_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kiln/compiler/kernel_key.h"
#include "kiln/compiler/options.h"
#include "kiln/compiler/task_queue.h"
#include "kiln/compiler/validator.h"
#include "kiln/compiler/worker.h"
#include "kiln/exec/provider.h"
#include "kiln/persistent_cache/store.h"

namespace kiln {

// Of all distinct kernels asked for: kernels = cached + built + vm; failed is part of vm.
struct KernelCounts {
  int kernels = 0, cached = 0, built = 0, failed = 0, vm = 0;
  double ms = 0;  // wall time spent getting kernels
};

class KernelService : public KernelProvider {
 public:
  // A cache that cannot be opened is warned of and done without.
  explicit KernelService(const CompileOptions& options);
  // Ends builds in the background that are not done; finishes the validations of what was built.
  ~KernelService() override;

  absl::StatusOr<std::shared_ptr<KernelHandle>> Get(const program::KernelDef& def,
                                                    const program::KernelChoice& choice) override;

  // All kernels of a program, several at a time: result[i][j] is choice j of kernel i.
  absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> GetAll(
      const program::Program& program);

  // Until nothing is being built in the background.
  void WaitForBuilds() { builds_.Wait(); }

  KernelIdentity Identify(const std::string& text, const std::string& params) const;

  // The build of one kernel with extra sections ("stmt", "asm"), for people to look at; neither
  // cached nor loaded. kInternal: building it fails each time; kUnavailable: it may work later.
  absl::StatusOr<CodegenAnswer> Emit(const KernelIdentity& identity,
                                     std::vector<std::string> sections);

  // Where a kernel that Keep was asked for is now.
  enum class Kept : uint8_t { kWasThere, kBuilt, kFailed };
  // Makes sure that the cache holds a kernel, for any target and without loading it. Validated
  // first if this machine can run it. kUnavailable: not built, or not published; why. kFailed:
  // building or validation is known to fail. Needs a cache that may be written. `example` is
  // KernelDef::example.
  absl::StatusOr<Kept> Keep(const KernelIdentity& identity, const std::vector<int64_t>& at_most,
                            const std::vector<int64_t>& example);

  // Waits for what is being built in the background, and for the validations of all kernels so far.
  void FinishValidations();

  KernelCounts counts() const;
  Store* store() const { return store_.get(); }  // null: no cache

 private:
  enum class Source : uint8_t { kCached, kBuilt, kVm, kFailed };
  // What is still to be done about a kernel that is in use.
  struct Unvalidated {
    Entry entry;
    std::vector<int64_t> example = {};  // of KernelDef
    bool fresh = false;                 // to be published once validated; else only to be recorded
    std::shared_ptr<KeyLock> lock;      // others wait for the entry
  };
  struct Made {
    std::shared_ptr<const KernelFunction> function;
    Source source = Source::kVm;
    std::shared_ptr<Unvalidated> unvalidated = nullptr;  // null: nothing
    bool later = false;                                  // compiled code is still to be built
  };
  using Class = std::vector<int64_t>;  // KernelChoice::at_most
  struct Wanted {
    KernelIdentity identity;
    Class at_most;
    std::vector<int64_t> example;  // of KernelDef
    Preimage preimage;
  };
  absl::StatusOr<Made> Make(const Wanted& wanted);
  absl::StatusOr<Made> OnVm(const Wanted& wanted, Source source);
  // No function: not there. An error: building it is known to fail. `again`: see
  // Store::LookupAgain.
  absl::StatusOr<Made> FromCache(const Wanted& wanted, bool again);
  // Builds, or takes what another process publishes meanwhile.
  absl::StatusOr<Made> BuildOrWait(const Wanted& wanted);
  void BuildLater(Wanted wanted, std::shared_ptr<KernelHandle> handle);
  absl::StatusOr<Made> Build(const Wanted& wanted);
  // Build without loading; a deterministic failure is remembered.
  absl::StatusOr<Entry> BuildEntry(const Wanted& wanted);
  KeyLock LockWhileWanted(const CacheKey& key);
  // Whether a cached entry has yet to be validated for this CPU; an error if that is known to fail.
  absl::StatusOr<bool> NeedsValidation(const Entry& entry);
  bool MayPublish() const { return store_ != nullptr && !store_->read_only(); }
  void ValidateLater(std::shared_ptr<KernelHandle> handle, Source source,
                     std::shared_ptr<Unvalidated> unvalidated);
  void AfterValidation(KernelHandle& handle, Source source, Unvalidated& unvalidated,
                       const absl::StatusOr<std::string>& validation);
  // Publishes what a validation says of an entry; gives what is wrong.
  absl::Status PublishValidation(Unvalidated& unvalidated,
                                 const absl::StatusOr<std::string>& validation);
  void Count(Source source, int by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<WorkerPool*> Workers();
  void WarnOnce(absl::string_view what);

  const CompileOptions options_;
  const IsaLevel target_;
  const std::shared_ptr<Store> store_;

  mutable absl::Mutex mutex_;
  std::map<CacheKey, std::shared_ptr<KernelHandle>> table_ ABSL_GUARDED_BY(mutex_);
  std::map<CacheKey, int> in_flight_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerPool> workers_ ABSL_GUARDED_BY(mutex_);
  absl::Status no_workers_ ABSL_GUARDED_BY(mutex_);
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;
  KernelCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> ending_{false};
  // Last: their threads use all of the above, and what was built in the background is validated.
  Validator validator_;
  TaskQueue builds_;
};

// What a kernel's entry asks of a validation; it may have an example of its own.
ValidationRequest ValidationOf(const Entry& entry, const std::vector<int64_t>& example);

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_SERVICE_H_
