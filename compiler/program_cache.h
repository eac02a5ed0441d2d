// SPDX-License-Identifier: Apache-2.0
// Programs kept from one process to the next, in the same store as kernels.
//
// The key of an entry is made of the digests of the model's files (model_file.h), the options that
// decide about Programs, the target and the build id of the compiler. It holds every variant
// compiled so far with its guards. Constants stay where they are: in the model's files, as blobs
// (blobs.h), small ones in the entry. A start that finds its Program parses no model, runs no pass
// and reads no weights. Anything that does not fit is a miss.
#ifndef KILN_COMPILER_PROGRAM_CACHE_H_
#define KILN_COMPILER_PROGRAM_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/task_queue.h"
#include "compiler/blobs.h"
#include "compiler/kernel_key.h"
#include "compiler/machine_of.h"
#include "compiler/model_file.h"
#include "compiler/packed_blobs.h"
#include "compiler/stored.pb.h"
#include "compiler/stored_plans.h"
#include "exec/provider.h"
#include "graph/onnx/import.h"
#include "persistent_cache/store.h"

namespace kiln {

// Bytes of constants, and of their packed forms, that were mapped where they lie, and bytes that
// were copied or computed.
struct WeightCounts {
  int64_t mapped = 0;
  int64_t copied = 0;
};

// In `background` mode the first answer comes before anything is kept.
inline Yielding KeepingOf(const CompileOptions& options) {
  return options.compile_mode == CompileMode::kBackground ? kKeepingLater : kKeeping;
}

// How every field of CompileOptions gets into a Program's key, or why it need not.
std::span<const KeyOption> ProgramKeyOptions();

class ProgramCache {
 public:
  // Errors as ImportOnnx: the model then cannot be read, or has external data that may not be.
  // `beside` as OpenModelFiles; `memory`: the model in place of the file.
  static absl::StatusOr<std::unique_ptr<ProgramCache>> Open(
      const std::string& path, const CompileOptions& options, Store& store,
      const std::function<void()>& beside,
      std::shared_ptr<const onnx::ModelMemory> memory = nullptr);

  // Of the entry found; no variants and no ports where there is none.
  const std::vector<PortInfo>& inputs() const { return inputs_; }
  const std::vector<PortInfo>& outputs() const { return outputs_; }
  // Without constants and kernels. The first is the template's own. kResourceExhausted where the
  // model has more bytes of tensors than the options allow: only an import can name the tensor.
  absl::StatusOr<std::vector<Variant>> Variants() const;
  // Gives variant `k` its constants.
  absl::Status Restore(size_t k, Variant& variant);

  // Adds a variant to the entry. `import` is what it was compiled from; of other files than were
  // opened here nothing is kept. Errors of the cache are only logged. Thread-safe.
  void Keep(const Variant& variant, const std::vector<PortInfo>& inputs,
            const std::vector<PortInfo>& outputs, const OnnxImport& import);

  // Says where the constants of `import`, which must live as long as this, are in the files.
  void NameConstants(const OnnxImport& import);
  // Constants as library operators want them.
  PackedConstants* packed() { return &packed_; }
  MemoryPlanStore* memory_plans() { return &memory_plans_; }

  // The files that were opened.
  onnx::ModelMemory files() const;
  // Whether the import is of others.
  bool HasOtherFiles(const OnnxImport& import) const;
  // Of the files of the model, and the options that make its Programs.
  CacheKey key() const { return preimage_.Key(); }
  WeightCounts counts() const;
  // Until all packed constants and memory plans are written.
  void WaitUntilKept() {
    packed_.Wait();
    memory_plans_.Wait();
  }

 private:
  ProgramCache(Store& store, std::vector<ModelFile> files, Preimage preimage,
               const CompileOptions& options);
  std::shared_ptr<const stored::Model> Find();
  absl::StatusOr<Tensor> Restore(const stored::Place& place);
  void SetPlace(const Tensor& constant, bool loose, const OnnxImport& import, stored::Place* place);
  bool SetRange(const Tensor& constant, bool loose, const OnnxImport& import, stored::Place* place);
  // The file at `number` as `import` has mapped it; null where it has not.
  std::shared_ptr<onnx::MappedFile> ImportedFile(size_t number, const OnnxImport& import) const;
  bool IsSame(size_t number, const onnx::MappedFile& imported) const;
  // ImportedFile; null where it is another than was opened here.
  std::shared_ptr<onnx::MappedFile> FileOf(size_t number, const OnnxImport& import) const;

  Store& store_;
  const std::vector<ModelFile> files_;
  const Preimage preimage_;
  const Target target_;  // for people
  const int64_t max_weight_bytes_;
  Blobs blobs_;
  PackedBlobs packed_;
  StoredPlans memory_plans_;
  std::shared_ptr<const stored::Model> found_;  // null: nothing
  std::vector<PortInfo> inputs_, outputs_;
  mutable Mutex mutex_;
  WeightCounts counts_;  // guarded by mutex_
};

}  // namespace kiln

#endif  // KILN_COMPILER_PROGRAM_CACHE_H_
