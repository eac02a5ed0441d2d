// SPDX-License-Identifier: Apache-2.0
#include "exec/script.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/binding.h"
#include "exec/library/dynamic_ops.h"
#include "exec/model_state.h"
#include "exec/symbols.h"

namespace kiln {
namespace {

template <typename T>
Tensor One(DType type, T value) {
  Tensor tensor = Tensor::Allocate(type, {});
  std::memcpy(tensor.data(), &value, sizeof value);
  return tensor;
}

// The plain symbol that a dim is, if it is one.
const std::string* Symbol(const Dim& dim) {
  const std::vector<Dim::Term>& terms = dim.terms();
  const bool plain = terms.size() == 1 && terms[0].coef == 1 && terms[0].atoms.size() == 1 &&
                     terms[0].atoms[0].kind == Dim::Atom::Kind::kSymbol;
  return plain ? &terms[0].atoms[0].symbol : nullptr;
}

bool IsTrue(const Tensor& tensor) { return *static_cast<const uint8_t*>(tensor.data()) != 0; }

}  // namespace

// A program with its context. Contexts of callees share the caller's threads.
struct ScriptRun::Callee {
  explicit Callee(std::shared_ptr<Model::State> part)
      : model(std::move(part)), context(model.get()) {}
  std::shared_ptr<Model::State> model;
  Context::Impl context;
};

ScriptRun::ScriptRun(std::shared_ptr<const Script> script, Model::State& owner)
    : script_(std::move(script)) {
  for (const Script::Callee& callee : script_->callees)
    callees_.push_back(std::make_unique<Callee>(owner.PartOf(callee.program)));
}

ScriptRun::~ScriptRun() = default;

absl::StatusOr<std::vector<Tensor>> ScriptRun::Call(int callee, std::vector<Tensor> inputs) {
  const auto index = static_cast<size_t>(callee);
  const std::vector<std::string>& symbols = script_->callees[index].symbols;
  if (!symbols.empty()) {
    Tensor values = Tensor::Allocate(DType::kI64, {static_cast<int64_t>(symbols.size())});
    for (size_t i = 0; i < symbols.size(); ++i) {
      const auto found = symbols_.find(symbols[i]);
      if (found == symbols_.end())
        return absl::InternalError(absl::StrCat("symbol ", symbols[i], " has no value"));
      static_cast<int64_t*>(values.data())[i] = found->second;
    }
    inputs.push_back(std::move(values));
  }
  Context::Impl& context = callees_[index]->context;
  if (inputs.size() != context.bound_inputs.size())
    return absl::InternalError(
        absl::StrCat(inputs.size(), " inputs for a callee of ", context.bound_inputs.size()));
  for (size_t k = 0; k < inputs.size(); ++k) context.bound_inputs[k] = std::move(inputs[k]);
  context.moved = true;
  const absl::Status status = context.Run(control_, nullptr);
  std::vector<Tensor> outputs = context.TakeOutputs();
  context.Unbind();
  KILN_RETURN_IF_ERROR(status);
  const PlanReport& part = context.report;
  report_.arena = std::max(report_.arena, part.arena);
  report_.lower_bound = std::max(report_.lower_bound, part.lower_bound);
  report_.sum = std::max(report_.sum, part.sum);
  report_.constants = std::max(report_.constants, part.constants);
  report_.kernel_launches += part.kernel_launches;
  report_.library_launches += part.library_launches;
  report_.other_launches += part.other_launches;
  report_.vm_launches += part.vm_launches;
  report_.bytes_moved += part.bytes_moved;
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> ScriptRun::RunStep(const ScriptStep& step,
                                                       const std::vector<Tensor>& inputs) {
  switch (step.kind) {
    case ScriptStep::Kind::kCall:
      return Call(step.callees[0], inputs);
    case ScriptStep::Kind::kHost:
      ++report_.other_launches;
      if (step.custom) return Custom(step, inputs);
      return library::RunDynamic(step.op, step.attributes, inputs);
    case ScriptStep::Kind::kIf:
      return Call(step.callees[IsTrue(inputs[0]) ? 0 : 1], {inputs.begin() + 1, inputs.end()});
    case ScriptStep::Kind::kLoop:
      return Loop(step, inputs);
  }
  return absl::InternalError("unknown step");
}

absl::StatusOr<std::vector<Tensor>> ScriptRun::Custom(const ScriptStep& step,
                                                      const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  for (const int slot : step.outputs) {
    const Script::Slot& to = script_->slots[static_cast<size_t>(slot)];
    KILN_ASSIGN_OR_RETURN(std::vector<int64_t> shape, Evaluate(to.shape, symbols_));
    if (CheckedBytes(to.type, shape) < 0)
      return absl::ResourceExhaustedError("its result is too large");
    outputs.push_back(Tensor::Allocate(to.type, std::move(shape)));
  }
  KILN_RETURN_IF_ERROR(step.custom(inputs, outputs));
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> ScriptRun::Loop(const ScriptStep& step,
                                                    std::vector<Tensor> state) {
  const int64_t trips =
      step.inputs[0] < 0 ? INT64_MAX : *static_cast<const int64_t*>(state[0].data());
  bool more = step.inputs[1] < 0 || IsTrue(state[1]);
  const auto carried = static_cast<size_t>(step.carried);
  std::vector<std::vector<Tensor>> stacks(step.outputs.size() - carried);
  for (int64_t i = 0; i < trips && more; ++i) {
    KILN_RETURN_IF_ERROR(control_.Check());
    state[0] = One<int64_t>(DType::kI64, i);
    state[1] = One<uint8_t>(DType::kBool, 1);
    absl::StatusOr<std::vector<Tensor>> made = Call(step.callees[0], state);
    if (!made.ok()) return Annotate(made.status(), absl::StrCat("iteration ", i));
    more = IsTrue((*made)[0]);
    for (size_t k = 0; k < carried; ++k) state[k + 2] = std::move((*made)[k + 1]);
    for (size_t k = 0; k < stacks.size(); ++k)
      stacks[k].push_back(std::move((*made)[k + 1 + carried]));
  }
  std::vector<Tensor> outputs(state.begin() + 2, state.begin() + 2 + step.carried);
  for (size_t k = 0; k < stacks.size(); ++k) {
    const int slot = step.outputs[k + carried];
    KILN_ASSIGN_OR_RETURN(Tensor stacked,
                          Stack(script_->slots[static_cast<size_t>(slot)], stacks[k]));
    outputs.push_back(std::move(stacked));
  }
  return outputs;
}

// Extents that no iteration has told and no symbol knows are 0.
absl::StatusOr<Tensor> ScriptRun::Stack(const Script::Slot& slot,
                                        const std::vector<Tensor>& iterations) {
  std::vector<int64_t> shape = {static_cast<int64_t>(iterations.size())};
  for (size_t axis = 1; axis < slot.shape.size(); ++axis) {
    shape.push_back(iterations.empty() ? slot.shape[axis].Evaluate(symbols_).value_or(0)
                                       : iterations[0].shape()[axis - 1]);
  }
  if (CheckedBytes(slot.type, shape) < 0) return absl::ResourceExhaustedError("result too large");
  Tensor out = Tensor::Allocate(slot.type, shape);
  char* at = static_cast<char*>(out.data());
  for (const Tensor& iteration : iterations) {
    if (iteration.shape() != iterations[0].shape())
      return absl::InvalidArgumentError(
          absl::StrCat("\"", slot.name, "\": the iterations give different shapes"));
    if (iteration.size_bytes() > 0)
      std::memcpy(at, iteration.data(), static_cast<size_t>(iteration.size_bytes()));
    at += iteration.size_bytes();
  }
  return out;
}

absl::Status ScriptRun::Learn(const Script::Slot& slot, const Tensor& tensor) {
  if (tensor.dtype() != slot.type || tensor.shape().size() != slot.shape.size()) {
    return absl::InternalError(absl::StrCat(
        "\"", slot.name, "\" came out as ", Name(tensor.dtype()), " of rank ",
        tensor.shape().size(), ", expected ", Name(slot.type), " ", ToString(slot.shape)));
  }
  for (size_t axis = 0; axis < slot.shape.size(); ++axis) {
    if (const std::string* symbol = Symbol(slot.shape[axis]))
      symbols_.emplace(*symbol, tensor.shape()[axis]);
  }
  if (slot.elements.empty()) return absl::OkStatus();
  const std::vector<int64_t> elements = IntElements(tensor);
  for (size_t i = 0; i < elements.size() && i < slot.elements.size(); ++i) {
    const std::string* symbol = Symbol(slot.elements[i]);
    if (symbol == nullptr) continue;
    if (elements[i] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", slot.name, "\": element ", i, " is ", elements[i],
                       ", where an extent or bound from 0 on is expected"));
    }
    symbols_.emplace(*symbol, elements[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> ScriptRun::Run(const std::vector<Tensor>& inputs,
                                                   SymbolValues symbols, const RunControl& control,
                                                   std::vector<ThunkTime>* times) {
  control_ = control;
  symbols_ = std::move(symbols);
  report_ = PlanReport();
  std::vector<Tensor> slots(script_->slots.size());
  for (size_t k = 0; k < inputs.size(); ++k)
    slots[static_cast<size_t>(script_->inputs[k])] = inputs[k];
  for (const auto& [slot, tensor] : script_->constants) slots[static_cast<size_t>(slot)] = tensor;
  for (const ScriptStep& step : script_->steps) {
    KILN_RETURN_IF_ERROR(control_.Check());
    const auto start = std::chrono::steady_clock::now();
    std::vector<Tensor> operands;
    for (const int slot : step.inputs)
      operands.push_back(slot < 0 ? Tensor() : slots[static_cast<size_t>(slot)]);
    absl::StatusOr<std::vector<Tensor>> results = RunStep(step, operands);
    if (!results.ok()) return Annotate(results.status(), absl::StrCat("\"", step.name, "\""));
    if (results->size() != step.outputs.size())
      return absl::InternalError(absl::StrCat("\"", step.name, "\": gives ", results->size(),
                                              " results, expected ", step.outputs.size()));
    for (size_t k = 0; k < results->size(); ++k) {
      const auto slot = static_cast<size_t>(step.outputs[k]);
      KILN_RETURN_IF_ERROR(Annotate(Learn(script_->slots[slot], (*results)[k]),
                                    absl::StrCat("\"", step.name, "\"")));
      slots[slot] = std::move((*results)[k]);
    }
    for (const int slot : step.released) slots[static_cast<size_t>(slot)] = Tensor();
    if (times != nullptr) {
      const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
      times->push_back({step.kind == ScriptStep::Kind::kCall ? "segment" : "host", step.name,
                        ms.count(), 0, false});
    }
  }
  // What is handed out is no constant's memory, whichever way it came (as a loop that never
  // iterations).
  std::vector<Tensor> outputs;
  for (const int slot : script_->outputs) {
    const Tensor& result = slots[static_cast<size_t>(slot)];
    const bool constant =
        std::any_of(script_->constants.begin(), script_->constants.end(),
                    [&](const std::pair<int, Tensor>& c) { return Overlap(c.second, result); });
    outputs.push_back(constant ? result.Clone() : result);
  }
  return outputs;
}

}  // namespace kiln
