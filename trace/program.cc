// SPDX-License-Identifier: Apache-2.0
#include "trace/program.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "compiler/compile.h"
#include "exec/device_use.h"
#include "trace/log_graph.h"

namespace kiln::tracing {
namespace {

Tensor NumberAt(uint64_t* bits, DType type) { return Tensor::View(bits, type, {}); }

// Whether nothing may run on the VM, a first run neither.
bool RequiresDevice(const CompileOptions& options) {
  const DeviceUse use = DeviceUseOf(options.runtime);
  return use.required && use.device != nullptr;
}

}  // namespace

absl::Status Program::Convert(const Log& log) {
  if (!operands_.empty() || !graph_.outputs().empty()) return absl::OkStatus();
  // All or nothing, whatever throws.
  std::vector<uint32_t> operands;
  KILN_ASSIGN_OR_RETURN(Graph graph,
                        ToGraph(log, begin_, end_, results_, Constants::kAll, operands));
  std::vector<ResultMemory> memory;
  for (const uint32_t id : results_) memory.emplace_back(log.values[id].type);
  numbers_.resize(operands.size());
  bound_.resize(operands.size());
  is_bound_.resize(operands.size());
  bound_results_.resize(results_.size());
  memory_ = std::move(memory);
  operands_ = std::move(operands);
  graph_ = std::move(graph);
  return absl::OkStatus();
}

absl::Status Program::Use(Model& model, const std::shared_ptr<Runtime>& runtime) {
  Context made = model.NewContext();
  if (!made.valid()) return absl::ResourceExhaustedError("array: no memory for a context");
  context_ = std::move(made);
  runtime_ = runtime;
  for (Tensor& tensor : bound_) tensor = Tensor();
  std::fill(is_bound_.begin(), is_bound_.end(), false);
  std::fill(bound_results_.begin(), bound_results_.end(), nullptr);
  return absl::OkStatus();
}

absl::Status Program::TryUpgrade(const Log& log, Engine& engine, const CompileOptions& options,
                                 bool waits) {
  KILN_RETURN_IF_ERROR(Convert(log));
  if (symbolic_ != nullptr) {
    DeferredModel& shared = symbolic_->model();
    const absl::StatusOr<Model*> model =
        shared.GetOrCompile(symbolic_->graph(), options, engine, waits);
    if (model.ok()) {
      if (*model == nullptr) return absl::OkStatus();
      KILN_RETURN_IF_ERROR(Use(**model, shared.runtime()));
      compiled_ = true;
      return absl::OkStatus();
    }
    symbolic_ = nullptr;  // what has symbols cannot be compiled; numbers may
  }
  KILN_ASSIGN_OR_RETURN(Model* const model, own_.GetOrCompile(graph_, options, engine, waits));
  if (model == nullptr) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(Use(*model, own_.runtime()));
  compiled_ = true;
  return absl::OkStatus();
}

void Program::ReleaseScratch() {
  if (runs_ != 1 || compiled_) return;
  context_.reset();
  for (Tensor& tensor : bound_) tensor = Tensor();
  std::fill(is_bound_.begin(), is_bound_.end(), false);
  for (ResultMemory& memory : memory_) memory.Drop();
}

absl::Status Program::Bind(const Log& log) {
  for (size_t k = 0; k < operands_.size(); ++k) {
    const LogValue& value = log.values[operands_[k]];
    Tensor& bound = bound_[k];
    if (value.kind == LogValue::Kind::kNumber) {
      numbers_[k] = value.bits;
      if (is_bound_[k]) continue;
      bound = NumberAt(&numbers_[k], value.type.type);
    } else {
      const Tensor& tensor = value.node->tensor;
      if (is_bound_[k] && bound.data() == tensor.data() && bound.data() != nullptr &&
          bound.owner() == tensor.owner() && bound.device() == tensor.device() &&
          bound.strides() == tensor.strides())
        continue;
      is_bound_[k] = false;
      bound = tensor;
    }
    KILN_RETURN_IF_ERROR(context_->Bind(k, bound));
    is_bound_[k] = true;
  }
  return absl::OkStatus();
}

// After the operands: memory that was one of the last run is free only then.
absl::Status Program::BindResults() {
  for (size_t k = 0; k < results_.size(); ++k) {
    KILN_RETURN_IF_ERROR(memory_[k].Acquire(runtime_));
    const Tensor& memory = memory_[k].tensor();
    if (bound_results_[k] == memory.data()) continue;
    // Without a share: those that there are tell whether the memory is free.
    KILN_RETURN_IF_ERROR(
        context_->BindOutput(k, Tensor::View(memory.data(), memory.dtype(), memory.shape())));
    bound_results_[k] = memory.data();
  }
  return absl::OkStatus();
}

absl::Status Program::RunContext(Log& log, bool timed) {
  KILN_RETURN_IF_ERROR(Bind(log));
  KILN_RETURN_IF_ERROR(BindResults());
  if (timed) {
    KILN_ASSIGN_OR_RETURN(std::vector<ThunkTime> times, context_->Profile());
    for (size_t i = 0; i < times.size() && i < times_.size(); ++i) times[i].ms += times_[i].ms;
    times_ = std::move(times);
    ++timed_runs_;
  } else {
    KILN_RETURN_IF_ERROR(context_->Run());
  }
  for (size_t k = 0; k < results_.size(); ++k) {
    Node* const node = log.values[results_[k]].node;
    if (node != nullptr) node->SetTensor(memory_[k].tensor());
  }
  return absl::OkStatus();
}

absl::Status Program::Run(Log& log, EagerExecutor& eager, Engine& engine,
                          const CompileOptions& options, bool timed) {
  if (!compiled_) {
    const bool again = runs_ > 0 || (symbolic_ != nullptr && symbolic_->model().there());
    const bool must = RequiresDevice(options);
    if (again || must) KILN_RETURN_IF_ERROR(TryUpgrade(log, engine, options, timed || must));
  }
  if (!context_ && (runs_ > 0 || eager.Suits(log, begin_, end_, results_))) {
    KILN_RETURN_IF_ERROR(eager.Run(log, begin_, end_, results_, engine, options));
  } else {
    if (!context_) {
      KILN_RETURN_IF_ERROR(Convert(log));
      const CompileOptions first = WithBoundResults(engine.InterpreterOptions(options));
      KILN_ASSIGN_OR_RETURN(Model model, Compile(graph_, first));
      KILN_RETURN_IF_ERROR(Use(model, first.runtime));
    }
    KILN_RETURN_IF_ERROR(RunContext(log, timed && compiled_));
  }
  ++runs_;
  return absl::OkStatus();
}

}  // namespace kiln::tracing
