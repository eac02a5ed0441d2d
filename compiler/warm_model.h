// SPDX-License-Identifier: Apache-2.0
// A model file with the Programs that the cache has of it.
//
//   KILN_ASSIGN_OR_RETURN(auto opened, WarmModel::Open("net.onnx", options, service));
//   opened->inputs()[0].name;                    // known without reading the graph on a warm start
//   KILN_ASSIGN_OR_RETURN(Model model, Compile(opened, options));
//
// As a VariantProvider it hands out what was found; only when inputs fit none of it is the graph
// read and compiled (variants.h, or value_variants.h where values of inputs decide the graph's
// structure), and what comes of that is kept for the next start. Not kept are scripts (segments.h):
// which variants their parts need is known only while they run. Models with custom ops are always
// compiled: what those are is known to the program alone. Thread-safe.
#ifndef KILN_COMPILER_WARM_MODEL_H_
#define KILN_COMPILER_WARM_MODEL_H_

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/keyed_mutex.h"
#include "base/long_mutex.h"
#include "base/mutex.h"
#include "base/task_queue.h"
#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "compiler/model_source.h"
#include "compiler/program_cache.h"
#include "compiler/tuner.h"
#include "compiler/value_variants.h"
#include "compiler/variants.h"
#include "exec/provider.h"
#include "graph/graph.h"
#include "graph/onnx/import.h"

namespace kiln {

class WarmModel : public VariantProvider {
 public:
  // Where `kernels` has no cache, or the cache nothing of this model for these options, the graph
  // is read and verified at once: errors as ModelSource. `compiles`: Prepare follows; what it would
  // do is begun while the digest of a file that no process has met is computed. `memory`: the model
  // in place of the file; `path` is then its name.
  static absl::StatusOr<std::shared_ptr<WarmModel>> Open(
      absl::string_view path, const CompileOptions& options, std::shared_ptr<KernelService> kernels,
      bool compiles = false, std::shared_ptr<const onnx::ModelMemory> memory = nullptr);

  const std::vector<PortInfo>& inputs() const override { return inputs_; }
  const std::vector<PortInfo>& outputs() const override { return outputs_; }
  const std::vector<Tensor>& updatable() const override { return updatable_; }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(const std::vector<InputInfo>& inputs) override;
  void ResumeAfterFork() override { kernels_->ResumeAfterFork(); }
  // Of a model in the host's memory, which is read where it lies: its name.
  std::string ConstantIn(const MemoryRange& range) const override;

  // Compiles in place of a Program that was found and does not run here.
  absl::StatusOr<std::shared_ptr<const Variant>> Instead(
      const std::shared_ptr<const Variant>& refused, const std::vector<InputInfo>& inputs) override;

  // Tells the model and what Programs it has; nothing where there is no cache.
  std::optional<CacheKey> key() const {
    return cache_ != nullptr ? std::optional(cache_->key()) : std::nullopt;
  }
  const KernelService* kernels() const { return kernels_.get(); }

  Tuner* tuner() const { return options_.tuner.get(); }  // null: nothing is looked up
  MeasuredChoices* measured_choices() override {
    return options_.tuner != nullptr ? &options_.tuner->records() : nullptr;
  }
  PackedConstants* packed_constants() override {
    return cache_ != nullptr ? cache_->packed() : nullptr;
  }

  MemoryPlanStore* memory_plans() override {
    return cache_ != nullptr ? cache_->memory_plans() : nullptr;
  }

  // Makes the first variant, so that errors and compile time come before the first run. Where
  // values decide, there is none before they are known.
  absl::Status Prepare();
  // Whether Prepare compiled it, so that its kernels may still be being built; waits for them.
  bool compiled() const { return compiled_; }
  void FinishKernels() { compiler_->FinishKernels(); }
  // Read when it is first asked for; lives as long as the model. Where values of inputs decide its
  // structure, all its inputs and what could be read without them.
  absl::StatusOr<const Graph*> graph();
  // The graph that holds for `inputs`, one for each of the model's in order.
  absl::StatusOr<Graph> GraphFor(const std::vector<Tensor>& inputs);

  WeightCounts weights() const;
  // Until all that was compiled is in the cache.
  void WaitUntilKept() {
    keeping_.Wait();
    if (cache_ != nullptr) cache_->WaitUntilKept();
  }

 private:
  // A Program that was found. Without `stored` it is ready to run; else it has its guards only.
  struct Slot {
    std::shared_ptr<Variant> variant;
    std::optional<size_t> stored;  // its number in the cache; it has no constants and kernels yet
  };
  WarmModel(std::string path, CompileOptions options, std::shared_ptr<KernelService> kernels,
            std::shared_ptr<const onnx::ModelMemory> memory)
      : path_(std::move(path)),
        options_(std::move(options)),
        kernels_(std::move(kernels)),
        memory_(std::move(memory)),
        keeping_(1, KeepingOf(options_)) {}
  // A Program that was found and fits, made ready if it is not; null: there is none. Others that
  // need the same Program wait for it.
  std::shared_ptr<const Variant> FindKept(const std::vector<InputInfo>& inputs);
  // What FindKept does for the Program with this number; null: it is none.
  std::shared_ptr<const Variant> Finish(size_t stored);
  // Reads what a Program needs from the cache. Of a variant that is not ready others read the
  // guards and ports only, which stay.
  absl::Status Restore(size_t stored, Variant& variant);
  std::list<Slot>::iterator Fitting(const std::vector<InputInfo>& inputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads what the cache has opened, whatever is at the path by now.
  OnnxImportOptions import_options() const;
  // What was read while the digest was computed may be another file: then nothing is kept.
  void CheckSame();
  // Takes over what the cache found, if that can be run.
  bool TakeFound(const std::string& path);
  // Reads the file, once. `path`: as messages call it.
  absl::Status Read(const std::string& path);
  absl::StatusOr<ValueVariants::Made> Make(const std::vector<InputInfo>& inputs);
  void Keep(ValueVariants::Made made);

  const std::string path_;  // from the root: the working directory may change
  const CompileOptions options_;
  std::atomic<bool> compiled_{false};
  const std::shared_ptr<KernelService> kernels_;
  const std::shared_ptr<const onnx::ModelMemory> memory_;  // null: the file is read
  std::vector<PortInfo> inputs_, outputs_;
  std::vector<Tensor> updatable_;        // what the last of inputs_ are in the model
  std::unique_ptr<ProgramCache> cache_;  // null: nothing is kept
  LongMutex reading_;
  KeyedMutex<size_t> finishing_;                   // by Slot::stored
  Mutex mutex_;                                    // guards all below
  std::list<Slot> found_ ABSL_GUARDED_BY(mutex_);  // newest use first
  // Immutable from when they are there, which Read has then seen: the source with the one or the
  // other.
  std::optional<ModelSource> source_;
  std::unique_ptr<Variants> compiler_;
  std::unique_ptr<ValueVariants> values_;                  // where the model needs inputs
  std::set<const Variant*> kept_ ABSL_GUARDED_BY(mutex_);  // those that were given to Keep
  TaskQueue keeping_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_WARM_MODEL_H_
