// SPDX-License-Identifier: Apache-2.0
#include "trace/program.h"

#include <utility>

#include "base/status_macros.h"
#include "compiler/compile.h"

namespace kiln::tracing {
namespace {

Tensor NumberAt(uint64_t* bits, DType type) { return Tensor::View(bits, type, {}); }

}  // namespace

absl::Status Program::Convert(const Log& log) {
  if (!operands_.empty() || !graph_.outputs().empty()) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(graph_, ToGraph(log, begin_, end_, results_, Constants::kAll, operands_));
  numbers_.resize(operands_.size());
  bound_.resize(operands_.size());
  return absl::OkStatus();
}

absl::Status Program::Make(CompileOptions options) {
  options.output_memory = OutputMemory::kFresh;
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph_, options));
  context_.emplace(model.NewContext());
  for (Tensor& tensor : bound_) tensor = Tensor();
  return absl::OkStatus();
}

absl::Status Program::Compiled(CompileOptions options) {
  options.output_memory = OutputMemory::kFresh;
  compiled_ = true;
  if (generic_ == nullptr) return Make(std::move(options));
  absl::StatusOr<Context> context = generic_->NewContext(options);
  if (!context.ok()) {
    generic_ = nullptr;
    return Make(std::move(options));
  }
  context_.emplace(*std::move(context));
  for (Tensor& tensor : bound_) tensor = Tensor();
  return absl::OkStatus();
}

void Program::Rest() {
  if (runs_ != 1 || compiled_) return;
  context_.reset();
  for (Tensor& tensor : bound_) tensor = Tensor();
}

absl::Status Program::Bind(const Log& log) {
  for (size_t k = 0; k < operands_.size(); ++k) {
    const LogValue& value = log.values[operands_[k]];
    Tensor& bound = bound_[k];
    if (value.kind == LogValue::Kind::kNumber) {
      numbers_[k] = value.bits;
      if (bound.data() != nullptr) continue;
      bound = NumberAt(&numbers_[k], value.type.type);
    } else {
      const Tensor& tensor = value.node->tensor;
      if (bound.data() == tensor.data() && bound.data() != nullptr &&
          bound.strides() == tensor.strides() && bound.device() == tensor.device() &&
          bound.owner() == tensor.owner())
        continue;
      bound = tensor;
    }
    KILN_RETURN_IF_ERROR(context_->Bind(k, bound));
  }
  return absl::OkStatus();
}

absl::Status Program::Run(Log& log, Steps& steps, const CompileOptions& options, bool timed) {
  const bool first = runs_ == 0 && !compiled_ && (generic_ == nullptr || !generic_->compiled());
  if (first && steps.Suits(log, begin_, end_, results_)) {
    KILN_RETURN_IF_ERROR(steps.Run(log, begin_, end_, results_, options));
    ++runs_;
    return absl::OkStatus();
  }
  if (!compiled_) {
    KILN_RETURN_IF_ERROR(Convert(log));
    KILN_RETURN_IF_ERROR(first ? Make(FirstSight(options)) : Compiled(options));
  }
  KILN_RETURN_IF_ERROR(Bind(log));
  if (timed && runs_ > 0) {
    KILN_ASSIGN_OR_RETURN(std::vector<ThunkTime> times, context_->Profile());
    for (size_t i = 0; i < times.size() && i < times_.size(); ++i) times[i].ms += times_[i].ms;
    times_ = std::move(times);
    ++timed_runs_;
  } else {
    KILN_RETURN_IF_ERROR(context_->Run());
  }
  ++runs_;
  for (size_t k = 0; k < results_.size(); ++k) {
    Node* const node = log.values[results_[k]].node;
    if (node == nullptr) continue;
    KILN_ASSIGN_OR_RETURN(Tensor tensor, context_->Output(k));
    node->SetTensor(std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace kiln::tracing
