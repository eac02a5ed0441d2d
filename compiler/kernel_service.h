// SPDX-License-Identifier: Apache-2.0
// KernelService: from a kernel's identity to something that runs, by the shortest way there is:
//   memory table -> persistent cache -> worker process -> block VM.
//
// Get never fails for want of a compiler, a cache or a disk: the VM answers then, with the same
// bits, and a warning says once why. A kernel is used from memory as soon as it is built and
// published afterwards; what a cache returns was verified when it was read, and is used only if
// this CPU has all instruction sets that the code really uses. Thread-safe. Kernels of one service
// are loaded once, however many models use them.
#ifndef KILN_COMPILER_KERNEL_SERVICE_H_
#define KILN_COMPILER_KERNEL_SERVICE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kiln/compiler/kernel_key.h"
#include "kiln/compiler/options.h"
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
  ~KernelService() override;

  absl::StatusOr<std::shared_ptr<KernelHandle>> Get(const program::KernelDef& def,
                                                    const program::KernelChoice& choice) override;

  // All kernels of a program, several at a time: result[i][j] is choice j of kernel i.
  absl::StatusOr<std::vector<std::vector<std::shared_ptr<KernelHandle>>>> GetAll(
      const program::Program& program);

  KernelIdentity Identify(const std::string& text, const std::string& params) const;

  // The build of one kernel with extra sections ("stmt", "asm"), for people to look at; neither
  // cached nor loaded. kInternal: building it fails each time; kUnavailable: it may work later.
  absl::StatusOr<CodegenAnswer> Emit(const KernelIdentity& identity,
                                     std::vector<std::string> sections);

  KernelCounts counts() const;
  Store* store() const { return store_.get(); }  // null: no cache

 private:
  enum class Source : uint8_t { kCached, kBuilt, kVm, kFailed };
  struct Made {
    std::shared_ptr<const KernelFunction> function;
    Source source;
  };
  absl::StatusOr<Made> Make(const KernelIdentity& identity);
  // Null: not there. An error: building it is known to fail. `again`: see Store::LookupAgain.
  absl::StatusOr<std::shared_ptr<const KernelFunction>> FromCache(const Preimage& preimage,
                                                                  bool again);
  absl::StatusOr<std::shared_ptr<const KernelFunction>> Build(const KernelIdentity& identity,
                                                              const Preimage& preimage);
  absl::StatusOr<WorkerPool*> Workers();
  void Publish(const KernelIdentity& identity, const Preimage& preimage,
               const CodegenAnswer& answer);
  void WarnOnce(absl::string_view what);

  const CompileOptions options_;
  const IsaLevel target_;
  std::unique_ptr<Store> store_;

  mutable absl::Mutex mutex_;
  std::map<CacheKey, std::shared_ptr<KernelHandle>> table_ ABSL_GUARDED_BY(mutex_);
  std::map<CacheKey, int> in_flight_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WorkerPool> workers_ ABSL_GUARDED_BY(mutex_);
  absl::Status no_workers_ ABSL_GUARDED_BY(mutex_);
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;
  KernelCounts counts_ ABSL_GUARDED_BY(mutex_);
};

// True if this machine has every instruction set named in `isa` (space separated, as in
// CodegenAnswer::isa), KILN_MAX_ISA respected.
bool HostRuns(absl::string_view isa);

}  // namespace kiln

#endif  // KILN_COMPILER_KERNEL_SERVICE_H_
