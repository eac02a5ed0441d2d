// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile_script.h"

#include <chrono>
#include <utility>

#include "base/status_macros.h"
#include "compiler/kernel_service.h"
#include "compiler/variants.h"
#include "exec/script.h"
#include "kiln/model.h"

namespace kiln {
namespace {

constexpr std::chrono::seconds kLongestRun(60);

absl::Status RunOn(const std::shared_ptr<VariantProvider>& provider, const CompileOptions& options,
                   const std::vector<Tensor>& inputs) {
  const RunOptions& run = options;
  KILN_ASSIGN_OR_RETURN(Model model, Model::Create(provider, run));
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t k = 0; k < inputs.size(); ++k)
    named.emplace_back(provider->inputs()[k].name, inputs[k]);
  RunControl control;
  control.deadline = RunControl::Clock::now() + kLongestRun;
  return model.Run(named, control).status();
}

}  // namespace

absl::StatusOr<std::shared_ptr<VariantProvider>> CompileScript(
    const Graph& graph, const CompileOptions& options,
    const std::vector<std::vector<Tensor>>& samples, absl::Status* ran) {
  CompileOptions own = options;
  own.compile_mode = CompileMode::kNever;
  own.cache.enabled = false;
  own.cache.open = nullptr;
  const auto whole = std::make_shared<Variants>(graph, own, std::make_shared<KernelService>(own));
  KILN_RETURN_IF_ERROR(whole->Prepare());
  for (const std::vector<Tensor>& inputs : samples) {
    const absl::Status status = RunOn(whole, own, inputs);
    if (ran->ok()) *ran = status;
  }
  return whole;
}

std::vector<std::shared_ptr<const Variant>> VariantsOf(const VariantProvider& provider) {
  const auto* const variants = dynamic_cast<const Variants*>(&provider);
  if (variants == nullptr) return {};
  return variants->Known();
}

void AddKernels(const VariantProvider& provider, const CompileOptions& options,
                std::set<CacheKey>& known, std::vector<KernelJob>& jobs) {
  for (const std::shared_ptr<const Variant>& variant : VariantsOf(provider)) {
    AddKernels(variant->program, TargetOf(options), options.math, known, jobs);
    if (variant->script == nullptr) continue;
    for (const Script::Callee& callee : variant->script->callees)
      AddKernels(*callee.program, options, known, jobs);
  }
}

}  // namespace kiln
