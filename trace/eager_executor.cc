// SPDX-License-Identifier: Apache-2.0
#include "trace/eager_executor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "compiler/compile.h"
#include "trace/log_graph.h"

namespace kiln::tracing {

// Whether it is to be computed, by the results that are known to be needed.
bool EagerExecutor::IsNeeded(const Operation& operation) const {
  if (operation.kind != Operation::Kind::kCall) return false;
  const auto first = last_use_.begin() + operation.first_result;
  return std::any_of(first, first + operation.signature->num_results,
                     [](uint32_t use) { return use != 0; });
}

void EagerExecutor::FindNeeded(const Log& log, size_t begin, size_t end,
                               const std::vector<uint32_t>& results) {
  last_use_.assign(log.values.size(), 0);
  for (const uint32_t id : results) last_use_[id] = UINT32_MAX;
  for (size_t i = end; i-- > begin;) {
    const Operation& operation = log.operations[i];
    if (!IsNeeded(operation)) continue;
    for (const uint32_t id : log.OperandsOf(operation))
      if (id != kAbsent && last_use_[id] == 0) last_use_[id] = static_cast<uint32_t>(i + 1);
  }
}

// What a step is found by: signature, operands by kind, type and which of them are one.
void EagerExecutor::MakeKey(const Log& log, const Operation& operation) {
  key_.clear();
  operands_.clear();
  key_.push_back(operation.signature->id);
  for (const uint32_t id : log.OperandsOf(operation)) {
    if (id == kAbsent) {
      key_.push_back(0);
      continue;
    }
    const LogValue& value = log.values[id];
    if (value.kind == LogValue::Kind::kConstant) {
      key_.push_back(1);
      key_.push_back(value.bits);
      if (value.node != nullptr) AppendElements(key_, value.node->tensor);
    } else {
      const auto at = std::find(operands_.begin(), operands_.end(), id) - operands_.begin();
      if (at == static_cast<ptrdiff_t>(operands_.size())) operands_.push_back(id);
      key_.push_back((value.kind == LogValue::Kind::kNumber ? 2u : 3u) +
                     4 * static_cast<uint64_t>(at));
    }
    AppendType(key_, value.type);
  }
}

bool EagerExecutor::Suits(const Log& log, size_t begin, size_t end,
                          const std::vector<uint32_t>& results) {
  // compile time: to compile an operation alone takes about five times its part of a program.
  constexpr size_t kDearer = 5;
  FindNeeded(log, begin, end, results);
  std::set<Words> unknown;
  size_t needed = 0;
  for (size_t i = begin; i < end; ++i) {
    const Operation& operation = log.operations[i];
    if (!IsNeeded(operation)) continue;
    ++needed;
    MakeKey(log, operation);
    if (!cached_.contains(key_)) unknown.insert(key_);
  }
  return unknown.size() * kDearer <= needed;
}

absl::StatusOr<EagerExecutor::CachedOp*> EagerExecutor::GetOrCompile(
    const Log& log, size_t index, Engine& engine, const CompileOptions& options) {
  constexpr size_t kMost = 1024;  // memory: steps that are kept
  const Operation& operation = log.operations[index];
  MakeKey(log, operation);
  if (const auto found = cached_.find(WordsView(key_)); found != cached_.end())
    return found->second.get();
  std::vector<uint32_t> results, operands;
  for (size_t k = 0; k < operation.signature->num_results; ++k)
    results.push_back(operation.first_result + static_cast<uint32_t>(k));
  KILN_ASSIGN_OR_RETURN(Graph graph,
                        ToGraph(log, index, index + 1, results, Constants::kFew, operands));
  CompileOptions first = engine.InterpreterOptions(options);
  first.output_memory = OutputMemory::kFresh;
  KILN_ASSIGN_OR_RETURN(Model model, Compile(std::move(graph), first));
  auto step = std::make_unique<CachedOp>();
  step->context.emplace(model.NewContext());
  if (!step->context->valid())
    return absl::ResourceExhaustedError("array: no memory for a context");
  step->numbers.resize(operands.size());
  step->has_number.resize(operands.size());
  if (cached_.size() >= kMost) cached_.clear();
  return (cached_[key_] = std::move(step)).get();
}

absl::Status EagerExecutor::RunOne(const Log& log, size_t index, CachedOp& step) {
  for (size_t k = 0; k < operands_.size(); ++k) {
    const LogValue& value = log.values[operands_[k]];
    if (value.kind == LogValue::Kind::kNumber) {
      step.numbers[k] = value.bits;
      if (step.has_number[k]) continue;
      KILN_RETURN_IF_ERROR(
          step.context->Bind(k, Tensor::View(&step.numbers[k], value.type.type, {})));
      step.has_number[k] = true;
      continue;
    }
    const Tensor& made = values_[operands_[k]];
    KILN_RETURN_IF_ERROR(step.context->Bind(k, made.data() != nullptr ? made : value.node->tensor));
  }
  KILN_RETURN_IF_ERROR(step.context->Run());
  const Operation& operation = log.operations[index];
  for (size_t k = 0; k < operation.signature->num_results; ++k) {
    const size_t id = operation.first_result + k;
    if (last_use_[id] == 0) continue;
    KILN_ASSIGN_OR_RETURN(values_[id], step.context->Output(k));
  }
  for (const uint32_t id : operands_)
    if (last_use_[id] == index + 1) values_[id] = Tensor();
  return absl::OkStatus();
}

absl::Status EagerExecutor::Run(Log& log, size_t begin, size_t end,
                                const std::vector<uint32_t>& results, Engine& engine,
                                const CompileOptions& options) {
  FindNeeded(log, begin, end, results);
  values_.assign(log.values.size(), Tensor());
  for (size_t i = begin; i < end; ++i) {
    const Operation& operation = log.operations[i];
    if (!IsNeeded(operation)) continue;
    KILN_ASSIGN_OR_RETURN(CachedOp* const step, GetOrCompile(log, i, engine, options));
    KILN_RETURN_IF_ERROR(RunOne(log, i, *step));
  }
  for (const uint32_t id : results) {
    Node* const node = log.values[id].node;
    if (node != nullptr) node->SetTensor(values_[id]);
  }
  values_.clear();
  return absl::OkStatus();
}

}  // namespace kiln::tracing
