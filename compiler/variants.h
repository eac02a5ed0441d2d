// SPDX-License-Identifier: Apache-2.0
// Variants: one template Graph, and the Programs lowered from it under different assumptions about
// the inputs.
//
// The first variant is the template as it is, with all its symbols free; its guards are what
// inference and lowering had to assume. When inputs break a guard, the symbols in that guard are
// fixed to the extents at hand and the graph is lowered again; if that does not help (two inputs
// share a symbol but not its value), all extents are. The newest 16 variants are kept. While one is
// made, only those wait who ask for the same shapes.
//
// Example: input x [n, 64] used with a squeeze that asked for n != 1. Extents n = 9 and 17 run the
// first variant; n = 1 makes a second with the guard n == 1.
#ifndef KILN_COMPILER_VARIANTS_H_
#define KILN_COMPILER_VARIANTS_H_

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/keyed_mutex.h"
#include "base/mutex.h"
#include "compiler/constant_memory.h"
#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "compiler/tuner.h"
#include "exec/provider.h"
#include "graph/graph.h"

namespace kiln {

// CompileGraph (compile_graph.h) for a graph with symbols and given inputs: as few symbols as
// possible are fixed, so that all guards hold. Inputs may be shapes alone, without data.
// kInvalidArgument: their shapes do not go together.
absl::StatusOr<Variant> CompileFor(const Graph& graph, const CompileOptions& options,
                                   const std::vector<InputInfo>& inputs);

// `status`, if it is an error, with the dims of `inputs` that `ports` leave open and what they are:
// these extents are what the model does not take.
absl::Status NamingInputs(const absl::Status& status, const std::vector<PortInfo>& ports,
                          const std::vector<InputInfo>& inputs);

// "1,3,224,224;-;": the shapes of inputs, for keys.
std::string ShapesText(const std::vector<InputInfo>& inputs);

// The inputs, or the outputs, of a graph.
std::vector<PortInfo> PortInfosOf(const Graph& graph, bool inputs);

// Variants of a model that are kept, here and in its entry of the cache.
inline constexpr size_t kMaxVariants = 16;

class Variants : public VariantProvider {
 public:
  // `updatable`: what the graph's last inputs are until Model::Update says otherwise.
  Variants(Graph graph, CompileOptions options, std::shared_ptr<KernelService> kernels,
           std::vector<Tensor> updatable = {});

  const std::vector<PortInfo>& inputs() const override { return inputs_; }
  const std::vector<PortInfo>& outputs() const override { return outputs_; }
  const std::vector<Tensor>& updatable() const override { return updatable_; }
  absl::StatusOr<std::shared_ptr<const Variant>> Get(const std::vector<InputInfo>& inputs) override;
  void ResumeAfterFork() override { kernels_->ResumeAfterFork(); }
  MeasuredChoices* measured_choices() override {
    return options_.tuner != nullptr ? &options_.tuner->records() : nullptr;
  }
  std::string ConstantIn(const MemoryRange& range) const override {
    return constants_.NameIn(range);
  }

  // Those there are by now, oldest first.
  std::vector<std::shared_ptr<const Variant>> Known() const;

  // Makes the first variant, so that errors and compile time come before the first run. What can be
  // made for numbers alone waits for them. Its kernels are complete after FinishKernels.
  absl::Status Prepare();
  // Waits for kernels that Prepare has begun to build; a plan may be made meanwhile.
  void FinishKernels();

 private:
  // Compiles, or splits into a script whose parts have variants of their own.
  absl::StatusOr<Variant> CompileVariant(const Graph& graph, const CompileOptions& options);
  // Kernels are built only for a variant that is going to run. `finished`: waits for them.
  absl::StatusOr<std::shared_ptr<const Variant>> WithKernels(Variant compiled, bool finished);
  // For DumpFn, if it is asked for.
  void DumpCode(const program::Program& program) const;
  absl::StatusOr<std::shared_ptr<const Variant>> MakeFor(const std::vector<InputInfo>& inputs);
  // Null: none fits.
  std::shared_ptr<const Variant> Find(const std::vector<InputInfo>& inputs);

  const Graph template_;
  const CompileOptions options_;
  const std::shared_ptr<KernelService> kernels_;
  std::vector<PortInfo> inputs_, outputs_;
  const std::vector<Tensor> updatable_;
  const ConstantMemory constants_;
  KeyedMutex<std::string> making_;  // by the shapes of inputs; "": the first
  mutable Mutex mutex_;
  std::list<std::shared_ptr<const Variant>> variants_ ABSL_GUARDED_BY(mutex_);  // newest use first
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;  // no variant can be made without inputs
};

}  // namespace kiln

#endif  // KILN_COMPILER_VARIANTS_H_
