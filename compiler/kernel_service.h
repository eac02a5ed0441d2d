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
// Validation before use: a kernel that was just built runs in kiln-validate first, and is compared
// with the VM there (exec/validate/validator.h); it is used, and published, when that has passed,
// in every mode. Where the code fails or crashes there, where no extents to try it on are found, or
// without kiln-validate, the VM runs, and a warning says so; what cannot become better is
// remembered, so that the next process does not build it again. An entry that was validated on
// another model of CPU is used at once, and validated once more in the background, which is kept as
// a record of its own; whoever may not write the cache believes validations of other CPUs. An
// entry that nobody validated (built for a CPU that the builder is not) is as one just built.
#ifndef KILN_COMPILER_KERNEL_SERVICE_H_
#define KILN_COMPILER_KERNEL_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/task_queue.h"
#include "compiler/kernel_entry.h"
#include "compiler/kernel_key.h"
#include "compiler/machine_of.h"
#include "compiler/worker.h"
#include "exec/provider.h"
#include "exec/support/compute_device.h"
#include "exec/validate/validator.h"
#include "persistent_cache/store.h"

namespace kiln {

// Of all distinct kernels asked for: kernels = cached + built + vm; failed is part of vm.
struct KernelCounts {
  int kernels = 0, cached = 0, built = 0, failed = 0, vm = 0;
  int unvalidated = 0;     // part of failed: there is code, but it could not be validated
  double ms = 0;           // wall time spent getting kernels
  double build_ms = 0;     // the builds' wall time, added up
  double validate_ms = 0;  // the same of validations that a kernel waited for
};

// What services of one runtime did in all, those that are gone too: none of it falls. A kernel that
// fails and is built later counts twice.
struct KernelTotals {
  std::atomic<int64_t> built{0}, cached{0}, failed{0};
};

class KernelService : public KernelProvider {
 public:
  // A cache that cannot be opened is warned of and done without. `totals` is added to.
  explicit KernelService(const CompileOptions& options,
                         std::shared_ptr<KernelTotals> totals = std::make_shared<KernelTotals>());
  // Ends builds and validations in the background that are not done; publishes what was built.
  ~KernelService() override;

  absl::StatusOr<std::shared_ptr<KernelHandle>> Get(const program::KernelDef& def,
                                                    const program::KernelChoice& choice) override;

  // All kernels of a program, several at a time: result[i][j] is choice j of kernel i.
  absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> GetAll(
      const program::Program& program);

  // In `block` mode, GetAll that does not wait: what must be built or validated runs on the VM
  // until it is, so that its model can be planned meanwhile. Finish waits. Else, and where no
  // thread may be started, GetAll.
  absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> StartAll(
      const program::Program& program);
  // Until each kernel of the program has what GetAll would have given.
  void Finish(const program::Program& program);
  // Kernels will soon be built: in `block` mode starts kiln-codegens, which warm up meanwhile.
  void ExpectBuilds();

  // Until nothing is being built in the background.
  void WaitForBuilds() { builds_.Wait(); }

  // Called before each run: in a child of a fork, begins with what its parent was building.
  void ResumeAfterFork();

  KernelIdentity Identify(const std::string& text, const std::string& schedule) const;

  // The build of one kernel with extra sections ("stmt", "asm"), for people to look at; neither
  // cached nor loaded. kInternal: building it fails each time; kUnavailable: it may work later.
  absl::StatusOr<CodegenAnswer> Emit(const KernelIdentity& identity,
                                     std::vector<std::string> sections);

  // Where a kernel that Keep was asked for is now.
  enum class Kept : uint8_t { kWasThere, kBuilt, kFailed, kUnvalidated };
  // Makes sure that the cache holds a kernel, for any target and without loading it. Validated
  // first if this machine can run it. kUnavailable: not built, or not published; why.
  // kUnimplemented: built, but nobody can validate it now; why. kFailed: building or validation is
  // known to fail; kUnvalidated: there is nothing to validate it on. Needs a cache that may be
  // written. `example` is KernelDef::example.
  absl::StatusOr<Kept> Keep(const KernelIdentity& identity, const std::vector<int64_t>& at_most,
                            const std::vector<int64_t>& example);

  // Waits for what is being built in the background, validated once more, and published.
  void FinishValidations();
  // What is never done on a caller's thread: validates what was put off because no thread may be
  // started, and removes what is old from the cache.
  void Maintain();

  KernelCounts counts() const;
  Store* store() const { return store_.get(); }  // null: no cache

 private:
  enum class Source : uint8_t { kCached, kBuilt, kVm, kFailed, kUnvalidated };
  // An entry in use that is still to be validated on this model of CPU.
  struct ToValidate {
    Entry entry;
    std::vector<int64_t> example;  // of KernelDef
  };
  struct Made {
    std::shared_ptr<const KernelFunction> function;
    Source source = Source::kVm;
    std::shared_ptr<ToValidate> again = nullptr;  // null: nothing
    bool later = false;                           // compiled code is still to be made
    bool may_pass = false;                        // why there is none: it may be had another time
  };
  using Class = std::vector<int64_t>;  // KernelChoice::at_most
  struct Wanted {
    KernelIdentity identity;
    Class at_most;
    std::vector<int64_t> example;  // of KernelDef
    Preimage preimage;
    bool never_launched = false;  // as compiled code, in this class
  };
  // A kernel in use on the VM that is to be built in the background.
  struct Pending {
    Wanted wanted;
    std::shared_ptr<KernelHandle> handle;
    Source source = Source::kVm;  // as it is counted
    size_t tries = 0;             // that failed
  };
  Wanted WantedOf(const program::KernelDef& def, const program::KernelChoice& choice) const;
  static CacheKey KeyOf(const Wanted& wanted);
  // `may_wait`: for builds and validations.
  absl::StatusOr<std::shared_ptr<KernelHandle>> Get(Wanted wanted, bool may_wait);
  absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> GetAll(
      const program::Program& program, bool may_wait);
  absl::StatusOr<Made> Make(const Wanted& wanted, bool may_wait);
  absl::StatusOr<Made> OnVm(const Wanted& wanted, Source source);
  // No function: not there, or, unless `may_wait`, still to be validated before its first use. An
  // error: it is known to fail, or fails now. `again`: see Store::LookupAgain.
  absl::StatusOr<Made> FromCache(const Wanted& wanted, bool again, bool may_wait);
  // Builds, or takes what another process publishes meanwhile.
  absl::StatusOr<Made> BuildOrWait(const Wanted& wanted);
  // Adds the build in the background that `pending_` has under the key.
  void BuildLater(const CacheKey& key);
  void BuildPending(const CacheKey& key);
  // Gives up the first try of one that no thread makes.
  void Abandon(const CacheKey& key);
  absl::StatusOr<Made> Build(const Wanted& wanted, std::shared_ptr<KeyLock> lock);
  // Build without validating; a deterministic failure is remembered.
  absl::StatusOr<Entry> BuildEntry(const Wanted& wanted);
  KeyLock LockWhileWanted(const CacheKey& key);

  // Where the code of a cached entry has been validated; an error if it is known to fail here.
  enum class Validated : uint8_t { kHere, kElsewhere, kNowhere };
  absl::StatusOr<Validated> WhereValidated(const Entry& entry, const std::vector<int64_t>& example);
  // Validates an entry before its first use, and remembers what fails each time: of the kernel if
  // it was just built (`fresh`), else of this entry.
  absl::StatusOr<Validation> ValidateFirst(const Entry& entry, bool fresh,
                                           const std::vector<int64_t>& example);
  // The entry as it is after its validation.
  void AddValidation(Entry& entry, const Validation& validation,
                     const std::vector<int64_t>& example);
  absl::Status Remember(const Entry& entry, bool fresh, const absl::Status& why,
                        const std::vector<int64_t>& example);
  // Where code for a device is validated: on the runtime's device, or an emulated one; null: on the
  // CPU, or nowhere.
  const ComputeDevice* ValidatesOn(DeviceKind device);
  // The model of that.
  std::string ModelId(const Entry& entry);
  ValidationRequest RequestOf(const Entry& entry, const std::vector<int64_t>& example);
  bool MayPublish() const { return store_ != nullptr && !store_->read_only(); }
  // Off the caller's way; others wait for the lock meanwhile.
  void PublishLater(Entry entry, std::shared_ptr<KeyLock> lock);
  void ValidateAgain(std::shared_ptr<KernelHandle> handle, std::shared_ptr<ToValidate> what);
  void AfterValidation(KernelHandle& handle, const ToValidate& what,
                       const absl::StatusOr<Validation>& validation);

  void Count(Source source, int by) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WarnOnce(absl::string_view what);

  const CompileOptions options_;
  const Target target_;
  const std::shared_ptr<ComputeDevice> device_;  // the runtime's; null: kernels run on the CPU
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<KernelTotals> totals_;

  mutable Mutex mutex_;
  CondVar settled_;  // a key is not in flight any more, or not pending for the first time
  std::map<CacheKey, std::shared_ptr<KernelHandle>> table_ ABSL_GUARDED_BY(mutex_);
  // Keys that a thread makes, and the ForkGeneration of its process.
  std::map<CacheKey, uint32_t> in_flight_ ABSL_GUARDED_BY(mutex_);
  std::map<CacheKey, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  // Validations that wait for Maintain.
  std::vector<std::pair<std::shared_ptr<KernelHandle>, std::shared_ptr<ToValidate>>> put_off_
      ABSL_GUARDED_BY(mutex_);
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;
  KernelCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ComputeDevice> emulated_ ABSL_GUARDED_BY(mutex_);  // null: not opened yet
  std::atomic<uint32_t> generation_;  // of the process whose builds are in the queue
  std::atomic<bool> ending_{false};
  std::atomic<int> building_{0};     // kernels that will be validated
  std::atomic<int> unpublished_{0};  // entries given to publishing_
  WorkerPool workers_;
  Validator validator_;
  // Last: their threads use all of the above, and those of the earlier.
  TaskQueue publishing_;
  TaskQueue validations_;
  TaskQueue builds_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_SERVICE_H_
