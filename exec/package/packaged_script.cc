// SPDX-License-Identifier: Apache-2.0
#include "exec/package/packaged_script.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/proto_add.h"
#include "base/status_macros.h"
#include "exec/library/dynamic_ops.h"
#include "exec/ports.h"

namespace kiln {
namespace {

constexpr size_t kMaxRank = 16;  // correctness: as of a Program (checked_program.cc)

using Kind = ScriptStep::Kind;

absl::Status Wrong(absl::string_view subject, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("script: \"", subject, "\": ", what));
}

absl::StatusOr<Shape> DimsOf(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  Shape dims;
  for (const std::string& text : texts) {
    KILN_ASSIGN_OR_RETURN(dims.emplace_back(), Dim::Parse(text));
  }
  return dims;
}

absl::StatusOr<Script::Slot> SlotOf(const packaged::Slot& stored) {
  Script::Slot slot;
  slot.name = stored.name();
  KILN_ASSIGN_OR_RETURN(slot.type, ToDType(stored.dtype()));
  if (stored.shape_size() > static_cast<int>(kMaxRank))
    return Wrong(slot.name, absl::StrCat("has rank ", stored.shape_size()));
  KILN_ASSIGN_OR_RETURN(slot.shape, DimsOf(stored.shape()));
  KILN_ASSIGN_OR_RETURN(slot.elements, DimsOf(stored.elements()));
  if (!slot.elements.empty() && IsFloat(slot.type))
    return Wrong(slot.name, "has elements that are extents, and floating point type");
  return slot;
}

ScriptStep StepOf(const packaged::Step& stored) {
  ScriptStep step;
  step.kind = static_cast<Kind>(stored.kind());
  step.name = stored.name();
  step.op = stored.op();
  for (const program::Attribute& attribute : stored.attributes())
    step.attributes[attribute.name()] = {attribute.ints().begin(), attribute.ints().end()};
  step.inputs = {stored.inputs().begin(), stored.inputs().end()};
  step.outputs = {stored.outputs().begin(), stored.outputs().end()};
  step.callees = {stored.callees().begin(), stored.callees().end()};
  step.carried = stored.carried();
  step.released = {stored.released().begin(), stored.released().end()};
  return step;
}

// Walks over the steps in their order and follows which slots have a tensor.
class Checker {
 public:
  explicit Checker(const Script& script) : script_(script), filled_(script.slots.size(), false) {}

  absl::Status Check(const std::vector<PortInfo>& inputs, const std::vector<PortInfo>& outputs) {
    for (const auto& [slot, tensor] : script_.constants) {
      KILN_RETURN_IF_ERROR(Fill(slot, "constant"));
      if (Slot(slot).type != tensor.dtype() ||
          Slot(slot).shape.size() != static_cast<size_t>(tensor.rank()))
        return Wrong(Slot(slot).name, "is a constant of another type");
    }
    KILN_RETURN_IF_ERROR(CheckModelPorts(script_.inputs, inputs, "inputs"));
    for (const int slot : script_.inputs) KILN_RETURN_IF_ERROR(Fill(slot, "input"));
    for (const ScriptStep& step : script_.steps) KILN_RETURN_IF_ERROR(CheckStep(step));
    KILN_RETURN_IF_ERROR(CheckModelPorts(script_.outputs, outputs, "outputs"));
    for (const int slot : script_.outputs) KILN_RETURN_IF_ERROR(CheckFilled(slot, "outputs"));
    return absl::OkStatus();
  }

 private:
  bool IsSlot(int slot) const {
    return slot >= 0 && static_cast<size_t>(slot) < script_.slots.size();
  }
  const Script::Slot& Slot(int slot) const { return script_.slots[static_cast<size_t>(slot)]; }

  absl::Status Fill(int slot, absl::string_view subject) {
    if (!IsSlot(slot)) return Wrong(subject, absl::StrCat("there is no slot ", slot));
    filled_[static_cast<size_t>(slot)] = true;
    return absl::OkStatus();
  }
  absl::Status CheckFilled(int slot, absl::string_view subject) const {
    if (IsSlot(slot) && filled_[static_cast<size_t>(slot)]) return absl::OkStatus();
    return Wrong(subject, absl::StrCat("reads slot ", slot, ", which nothing has given"));
  }

  absl::Status CheckModelPorts(const std::vector<int>& slots, const std::vector<PortInfo>& ports,
                               absl::string_view what) const {
    bool same = slots.size() == ports.size();
    for (size_t k = 0; same && k < slots.size(); ++k) {
      same = IsSlot(slots[k]) && Slot(slots[k]).type == ports[k].type &&
             (ports[k].any_rank || Slot(slots[k]).shape.size() == ports[k].shape.size()) &&
             !ports[k].optional;
    }
    return same ? absl::OkStatus() : Wrong(what, "are not those of the model");
  }

  // `given`, as many as the callee takes but for its symbols, are slots, or -1 for a tensor of the
  // executor's own.
  absl::Status CheckCallee(const ScriptStep& step, int number, const std::vector<int>& given) {
    if (number < 0 || static_cast<size_t>(number) >= script_.callees.size())
      return Wrong(step.name, absl::StrCat("there is no callee ", number));
    const Script::Callee& callee = script_.callees[static_cast<size_t>(number)];
    const std::vector<PortInfo>& ports = callee.program->inputs();
    const size_t symbols = callee.symbols.empty() ? 0 : 1;
    if (ports.size() != given.size() + symbols)
      return Wrong(step.name, "its callee takes other inputs");
    for (size_t k = 0; k < given.size(); ++k) {
      if (given[k] < 0) continue;
      if (Slot(given[k]).type != ports[k].type ||
          Slot(given[k]).shape.size() != ports[k].shape.size())
        return Wrong(step.name, absl::StrCat("input ", k, " has another type than its callee's"));
    }
    if (symbols > 0 && (ports.back().type != DType::kI64 || ports.back().shape.size() != 1))
      return Wrong(step.name, "its callee takes no symbols");
    return absl::OkStatus();
  }

  absl::Status CheckResults(const ScriptStep& step, int number) const {
    const std::vector<PortInfo>& ports =
        script_.callees[static_cast<size_t>(number)].program->outputs();
    bool same = ports.size() == step.outputs.size();
    for (size_t k = 0; same && k < ports.size(); ++k)
      same = IsSlot(step.outputs[k]) && Slot(step.outputs[k]).type == ports[k].type;
    return same ? absl::OkStatus() : Wrong(step.name, "its callee gives other results");
  }

  absl::Status CheckIf(const ScriptStep& step) {
    if (step.inputs.empty() || Slot(step.inputs[0]).type != DType::kBool)
      return Wrong(step.name, "has no condition");
    for (const int callee : step.callees) {
      KILN_RETURN_IF_ERROR(CheckCallee(step, callee, {step.inputs.begin() + 1, step.inputs.end()}));
      KILN_RETURN_IF_ERROR(CheckResults(step, callee));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLoop(const ScriptStep& step) {
    const size_t carried = static_cast<size_t>(std::max(step.carried, 0));
    if (step.carried < 0 || step.inputs.size() < 2 + carried || step.outputs.size() < carried)
      return Wrong(step.name, absl::StrCat("carries ", step.carried, " values"));
    const auto is = [&](size_t k, DType type) {
      return step.inputs[k] < 0 || Slot(step.inputs[k]).type == type;
    };
    if (!is(0, DType::kI64) || !is(1, DType::kBool))
      return Wrong(step.name, "its trip count or condition has another type");
    std::vector<int> given = step.inputs;
    given[0] = given[1] = -1;
    KILN_RETURN_IF_ERROR(CheckCallee(step, step.callees[0], given));
    const Script::Callee& body = script_.callees[static_cast<size_t>(step.callees[0])];
    const std::vector<PortInfo>& takes = body.program->inputs();
    const std::vector<PortInfo>& gives = body.program->outputs();
    bool same = takes[0].type == DType::kI64 && takes[0].shape.empty() &&
                takes[1].type == DType::kBool && takes[1].shape.empty() &&
                gives.size() == 1 + step.outputs.size() && gives[0].type == DType::kBool;
    for (size_t k = 0; same && k < step.outputs.size(); ++k) {
      const Script::Slot& slot = Slot(step.outputs[k]);
      same = slot.type == gives[k + 1].type &&
             (k < carried ? Slot(step.inputs[k + 2]).type == slot.type : !slot.shape.empty());
    }
    return same ? absl::OkStatus() : Wrong(step.name, "its body has other ports");
  }

  absl::Status CheckStep(const ScriptStep& step) {
    const bool loop = step.kind == Kind::kLoop;
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const bool may_be_absent = step.kind == Kind::kHost || (loop && k < 2);
      if (step.inputs[k] == -1 && may_be_absent) continue;
      KILN_RETURN_IF_ERROR(CheckFilled(step.inputs[k], step.name));
    }
    for (const int slot : step.outputs) {
      if (!IsSlot(slot)) return Wrong(step.name, absl::StrCat("there is no slot ", slot));
    }
    const size_t callees = step.kind == Kind::kHost ? 0 : step.kind == Kind::kIf ? 2 : 1;
    if (step.kind > Kind::kLoop || step.callees.size() != callees)
      return Wrong(step.name, "is of an unknown kind, or has other callees");
    if (step.kind == Kind::kHost && !library::IsDynamic(step.op))
      return Wrong(step.name, absl::StrCat("there is no operator \"", step.op, "\""));
    if (step.kind == Kind::kCall) {
      KILN_RETURN_IF_ERROR(CheckCallee(step, step.callees[0], step.inputs));
      KILN_RETURN_IF_ERROR(CheckResults(step, step.callees[0]));
    }
    if (step.kind == Kind::kIf) KILN_RETURN_IF_ERROR(CheckIf(step));
    if (loop) KILN_RETURN_IF_ERROR(CheckLoop(step));
    for (const int slot : step.outputs) filled_[static_cast<size_t>(slot)] = true;
    for (const int slot : step.released) {
      KILN_RETURN_IF_ERROR(CheckFilled(slot, step.name));
      filled_[static_cast<size_t>(slot)] = false;
    }
    return absl::OkStatus();
  }

  const Script& script_;
  std::vector<bool> filled_;
};

}  // namespace

absl::Status StoreScript(const Script& script, packaged::Script& out) {
  for (const Script::Slot& slot : script.slots) {
    packaged::Slot* const made = AddTo(out.mutable_slots());
    made->set_name(slot.name);
    made->set_dtype(static_cast<uint32_t>(slot.type));
    for (const Dim& dim : slot.shape) *AddTo(made->mutable_shape()) = dim.ToString();
    for (const Dim& dim : slot.elements) *AddTo(made->mutable_elements()) = dim.ToString();
  }
  out.mutable_inputs()->Add(script.inputs.begin(), script.inputs.end());
  out.mutable_outputs()->Add(script.outputs.begin(), script.outputs.end());
  for (const ScriptStep& step : script.steps) {
    if (step.custom) {
      return absl::UnimplementedError(absl::StrCat(
          "package: node \"", step.name, "\" is an operator of the caller's, which no file holds"));
    }
    packaged::Step* const made = AddTo(out.mutable_steps());
    made->set_kind(static_cast<uint32_t>(step.kind));
    made->set_name(step.name);
    made->set_op(step.op);
    for (const auto& [name, ints] : step.attributes) {
      program::Attribute* const attribute = AddTo(made->mutable_attributes());
      attribute->set_name(name);
      attribute->mutable_ints()->Add(ints.begin(), ints.end());
    }
    made->mutable_inputs()->Add(step.inputs.begin(), step.inputs.end());
    made->mutable_outputs()->Add(step.outputs.begin(), step.outputs.end());
    made->mutable_callees()->Add(step.callees.begin(), step.callees.end());
    made->set_carried(step.carried);
    made->mutable_released()->Add(step.released.begin(), step.released.end());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Script>> RestoreScript(const packaged::Script& stored,
                                                            const std::vector<PortInfo>& inputs,
                                                            const std::vector<PortInfo>& outputs,
                                                            const RestoreConstantFn& constant,
                                                            const RestoreCalleeFn& callee) {
  auto script = std::make_shared<Script>();
  for (const packaged::Slot& slot : stored.slots()) {
    KILN_ASSIGN_OR_RETURN(script->slots.emplace_back(), SlotOf(slot));
  }
  for (const packaged::SlotConstant& value : stored.constants()) {
    KILN_ASSIGN_OR_RETURN(Tensor tensor, constant(value.value()));
    script->constants.emplace_back(value.slot(), std::move(tensor));
  }
  script->inputs = {stored.inputs().begin(), stored.inputs().end()};
  script->outputs = {stored.outputs().begin(), stored.outputs().end()};
  for (const packaged::Callee& part : stored.callees()) {
    Script::Callee& made = script->callees.emplace_back();
    KILN_ASSIGN_OR_RETURN(made.program, callee(part));
    made.symbols = {part.symbols().begin(), part.symbols().end()};
  }
  for (const packaged::Step& step : stored.steps()) script->steps.push_back(StepOf(step));
  KILN_RETURN_IF_ERROR(Checker(*script).Check(inputs, outputs));
  return std::shared_ptr<const Script>(std::move(script));
}

}  // namespace kiln
