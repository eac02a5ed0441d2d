// SPDX-License-Identifier: Apache-2.0
#include "trace/program.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "kiln/graph.h"

namespace kiln::tracing {
namespace {

Tensor NumberAt(uint64_t* bits, DType type) { return Tensor::View(bits, type, {}); }

// Operations of a log as nodes, and the values from outside that they need.
class Converter {
 public:
  Converter(const Log& log, Graph& graph) : log_(log), graph_(graph), ids_(log.values.size()) {}

  absl::StatusOr<ValueId> OperandOf(uint32_t id) {
    if (id == kAbsent) return ValueId{};
    if (ids_[id].valid()) return ids_[id];
    const LogValue& value = log_.values[id];
    if (value.kind == LogValue::Kind::kConstant) {
      Tensor number = Tensor::Allocate(value.type.type, {});
      std::memcpy(number.data(), &value.bits, SizeOf(value.type.type));
      return ids_[id] = graph_.AddConstant("", std::move(number));
    }
    operands.push_back(id);
    return ids_[id] = graph_.AddInput(absl::StrCat("x", operands.size() - 1), value.type.type,
                                      ToShape(value.type.shape()));
  }

  absl::Status Add(const Operation& operation) {
    std::vector<ValueId> inputs;
    for (const uint32_t id : log_.OperandsOf(operation)) {
      KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), OperandOf(id));
    }
    const CallForm& form = *operation.form;
    KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                          graph_.AddNode(*form.op, std::move(inputs), form.attrs, "",
                                         std::vector<std::string>(form.num_results)));
    for (size_t k = 0; k < results.size(); ++k) ids_[operation.first_result + k] = results[k];
    return absl::OkStatus();
  }

  std::vector<uint32_t> operands;

 private:
  const Log& log_;
  Graph& graph_;
  std::vector<ValueId> ids_;
};

// What one run is worth: no fusion, nothing from disk, and no code.
CompileOptions FirstSight(CompileOptions options) {
  options.graph_opt_level = 0;
  options.compile_mode = CompileMode::kNever;
  options.cache = CacheOptions();
  options.cache.enabled = false;
  options.schedule_choice = ScheduleChoice::kReproducible;
  options.kernels = nullptr;
  options.dump = nullptr;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Create(const Log& log, size_t begin, size_t end,
                                                         std::vector<uint32_t> results) {
  std::unique_ptr<Program> made(new Program);
  made->graph_.name = "trace";
  Converter convert(log, made->graph_);
  for (size_t i = begin; i < end; ++i) {
    if (log.operations[i].kind == Operation::Kind::kCall)
      KILN_RETURN_IF_ERROR(convert.Add(log.operations[i]));
  }
  for (size_t k = 0; k < results.size(); ++k) {
    KILN_ASSIGN_OR_RETURN(const ValueId id, convert.OperandOf(results[k]));
    made->graph_.AddOutput(id, absl::StrCat("y", k));
  }
  made->operands_ = std::move(convert.operands);
  made->results_ = std::move(results);
  made->numbers_.resize(made->operands_.size());
  made->bound_.resize(made->operands_.size());
  return made;
}

absl::Status Program::Make(CompileOptions options) {
  options.output_memory = OutputMemory::kFresh;
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph_, options));
  context_.emplace(model.NewContext());
  for (Tensor& tensor : bound_) tensor = Tensor();
  return absl::OkStatus();
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

absl::Status Program::Run(Log& log, const CompileOptions& options, bool timed) {
  if (runs_ == 0) KILN_RETURN_IF_ERROR(Make(FirstSight(options)));
  if (runs_ == 1) KILN_RETURN_IF_ERROR(Make(options));
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
