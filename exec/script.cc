// SPDX-License-Identifier: Apache-2.0
#include "exec/script.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
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

// The one element that a condition or a number of trips has. A script that a package holds may give
// anything.
template <typename T>
absl::StatusOr<T> Only(const Tensor& tensor, DType type, absl::string_view what) {
  if (tensor.dtype() != type || tensor.num_elements() < 1 || tensor.data() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has ", tensor.num_elements(),
                                                   " elements of ", Name(tensor.dtype()),
                                                   ", expected one of ", Name(type)));
  }
  return *static_cast<const T*>(tensor.data());
}

absl::StatusOr<bool> IsTrue(const Tensor& tensor) {
  KILN_ASSIGN_OR_RETURN(const uint8_t value, Only<uint8_t>(tensor, DType::kBool, "a condition"));
  return value != 0;
}

}  // namespace

// A program with its context. Contexts of callees share the caller's threads.
struct ScriptRun::Callee {
  explicit Callee(std::shared_ptr<Model::State> part)
      : model(std::move(part)), context(model.get()) {}
  std::shared_ptr<Model::State> model;
  Context::Impl context;
};

ScriptRun::ScriptRun(std::shared_ptr<const Script> script, Model::State& owner)
    : script_(std::move(script)), options_(owner.options) {
  for (const Script::Callee& callee : script_->callees)
    callees_.push_back(std::make_unique<Callee>(owner.PartOf(callee.program)));
}

ScriptRun::~ScriptRun() = default;

absl::StatusOr<Tensor> ScriptRun::SymbolsOf(const Script::Callee& callee) const {
  Tensor values = Tensor::Allocate(DType::kI64, {static_cast<int64_t>(callee.symbols.size())});
  for (size_t i = 0; i < callee.symbols.size(); ++i) {
    const auto found = symbols_.find(callee.symbols[i]);
    if (found == symbols_.end())
      return absl::InternalError(absl::StrCat("symbol ", callee.symbols[i], " has no value"));
    static_cast<int64_t*>(values.data())[i] = found->second;
  }
  return values;
}

absl::Status ScriptRun::RunCallee(Callee& callee) {
  callee.context.moved = true;
  KILN_RETURN_IF_ERROR(callee.context.Run(control_, nullptr));
  const PlanReport& part = callee.context.report;
  report_.arena = std::max(report_.arena, part.arena);
  report_.lower_bound = std::max(report_.lower_bound, part.lower_bound);
  report_.sum = std::max(report_.sum, part.sum);
  report_.constants = std::max(report_.constants, part.constants);
  report_.kernel_launches += part.kernel_launches;
  report_.library_launches += part.library_launches;
  report_.other_launches += part.other_launches;
  report_.vm_launches += part.vm_launches;
  report_.bytes_moved += part.bytes_moved;
  return absl::OkStatus();
}

absl::Status ScriptRun::BindCallee(int number, const std::vector<Tensor>& inputs) {
  const auto index = static_cast<size_t>(number);
  const Script::Callee& callee = script_->callees[index];
  BoundTensors& bound = callees_[index]->context.bound_inputs;
  const size_t symbols = callee.symbols.empty() ? 0 : 1;
  if (inputs.size() + symbols != bound.size())
    return absl::InternalError(
        absl::StrCat(inputs.size() + symbols, " inputs for a callee of ", bound.size()));
  for (size_t k = 0; k < inputs.size(); ++k) bound[k] = inputs[k];
  if (symbols > 0) {
    KILN_ASSIGN_OR_RETURN(bound.back(), SymbolsOf(callee));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> ScriptRun::Call(int number, const std::vector<Tensor>& inputs) {
  Callee& callee = *callees_[static_cast<size_t>(number)];
  absl::Status status = BindCallee(number, inputs);
  if (status.ok()) status = RunCallee(callee);
  std::vector<Tensor> outputs = callee.context.TakeOutputs();
  callee.context.Unbind();
  KILN_RETURN_IF_ERROR(status);
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
    case ScriptStep::Kind::kIf: {
      KILN_ASSIGN_OR_RETURN(const bool first, IsTrue(inputs[0]));
      return Call(step.callees[first ? 0 : 1], {inputs.begin() + 1, inputs.end()});
    }
    case ScriptStep::Kind::kLoop:
      return Loop(step, inputs);
  }
  return absl::InternalError("unknown step");
}

absl::Status ScriptRun::See(const ScriptStep& step, const std::vector<Tensor>& inputs,
                            const std::vector<Tensor>& outputs) const {
  if (!options_.on_thunk || step.kind != ScriptStep::Kind::kHost) return absl::OkStatus();
  return CatchExceptions("on_thunk", [&] {
    return options_.on_thunk({"host", step.name, inputs, outputs});
  });
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
                                                    const std::vector<Tensor>& inputs) {
  Callee& body = *callees_[static_cast<size_t>(step.callees[0])];
  std::vector<Stack> stacks;
  for (size_t k = static_cast<size_t>(step.carried); k < step.outputs.size(); ++k)
    stacks.emplace_back(script_->slots[static_cast<size_t>(step.outputs[k])]);
  std::vector<Tensor> state = inputs;
  const absl::Status status = Iterate(step, body, state, stacks);
  // What the body's context owns and the state does not hold serves the next loop.
  for (std::vector<Tensor>& owned : body.context.owned_outputs) {
    std::erase_if(owned, [&](const Tensor& tensor) {
      return std::any_of(state.begin(), state.end(),
                         [&](const Tensor& held) { return Overlap(held, tensor); });
    });
  }
  body.context.DropOutputs();
  body.context.Unbind();
  KILN_RETURN_IF_ERROR(status);
  std::vector<Tensor> outputs(state.begin() + 2, state.begin() + 2 + step.carried);
  for (Stack& stack : stacks) {
    KILN_ASSIGN_OR_RETURN(outputs.emplace_back(), std::move(stack).Finish(symbols_));
  }
  return outputs;
}

// An iteration reads its state where the one before has written it; the context of the body has two
// sets of outputs, which take turns.
absl::Status ScriptRun::Iterate(const ScriptStep& step, Callee& body, std::vector<Tensor>& state,
                                std::vector<Stack>& stacks) {
  int64_t trips = INT64_MAX;
  if (step.inputs[0] >= 0) {
    KILN_ASSIGN_OR_RETURN(trips, Only<int64_t>(state[0], DType::kI64, "the number of trips"));
  }
  bool more = true;
  if (step.inputs[1] >= 0) {
    KILN_ASSIGN_OR_RETURN(more, IsTrue(state[1]));
  }
  const auto carried = static_cast<size_t>(step.carried);
  state[0] = One<int64_t>(DType::kI64, 0);
  state[1] = One<uint8_t>(DType::kBool, 1);
  KILN_RETURN_IF_ERROR(BindCallee(step.callees[0], state));
  for (int64_t i = 0; i < trips && more; ++i) {
    KILN_RETURN_IF_ERROR(control_.Check());
    std::memcpy(state[0].data(), &i, sizeof i);
    for (size_t k = 0; k < carried; ++k) *body.context.bound_inputs[k + 2] = state[k + 2];
    const absl::Status status = RunCallee(body);
    if (!status.ok()) return Annotate(status, absl::StrCat("iteration ", i));
    std::vector<Tensor>& made = body.context.outputs;
    if (made.size() != 1 + carried + stacks.size())
      return absl::InternalError(absl::StrCat("the body gives ", made.size(), " results"));
    KILN_ASSIGN_OR_RETURN(more, IsTrue(made[0]));
    for (size_t k = 0; k < carried; ++k) std::swap(state[k + 2], made[k + 1]);
    for (size_t k = 0; k < stacks.size(); ++k)
      KILN_RETURN_IF_ERROR(stacks[k].Push(made[k + 1 + carried]));
  }
  return absl::OkStatus();
}

absl::Status ScriptRun::Stack::Push(const Tensor& iteration) {
  const int64_t bytes = iteration.size_bytes();
  if (iteration.dtype() != slot_.type || iteration.shape().size() + 1 != slot_.shape.size()) {
    return absl::InternalError(absl::StrCat("\"", slot_.name, "\": an iteration gives ",
                                            Name(iteration.dtype()), " of rank ",
                                            iteration.shape().size()));
  }
  if (count_ == 0) {
    shape_ = iteration.shape();
  } else if (iteration.shape() != shape_) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", slot_.name, "\": the iterations give different shapes"));
  }
  const int64_t end = (count_ + 1) * bytes;
  if (end > memory_.num_elements()) {
    Tensor larger = Tensor::Allocate(DType::kU8, {std::max(2 * memory_.num_elements(), 4 * bytes)});
    if (count_ > 0) std::memcpy(larger.data(), memory_.data(), static_cast<size_t>(count_ * bytes));
    memory_ = std::move(larger);
  }
  if (bytes > 0) {
    std::memcpy(static_cast<uint8_t*>(memory_.data()) + count_ * bytes, iteration.data(),
                static_cast<size_t>(bytes));
  }
  ++count_;
  return absl::OkStatus();
}

// Extents that no iteration has told and no symbol knows are 0.
absl::StatusOr<Tensor> ScriptRun::Stack::Finish(const SymbolValues& symbols) && {
  std::vector<int64_t> shape = {count_};
  for (size_t axis = 1; axis < slot_.shape.size(); ++axis) {
    shape.push_back(count_ == 0 ? slot_.shape[axis].Evaluate(symbols).value_or(0)
                                : shape_[axis - 1]);
  }
  if (CheckedBytes(slot_.type, shape) < 0) return absl::ResourceExhaustedError("result too large");
  if (memory_.num_elements() == 0) return Tensor::Allocate(slot_.type, shape);
  return Tensor::View(memory_.data(), slot_.type, shape, {}, memory_.owner());
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
    KILN_RETURN_IF_ERROR(See(step, operands, *results));
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
