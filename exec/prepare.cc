// SPDX-License-Identifier: Apache-2.0
// What a model makes ready to run for some inputs: a variant of its provider, and a plan of that.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/device_use.h"
#include "exec/model_state.h"
#include "exec/recorded_provider.h"
#include "exec/script.h"
#include "exec/symbols.h"

namespace kiln {
namespace {

std::string ShapeText(const std::optional<Tensor>& input) {
  if (!input) return "it is absent";
  return absl::StrCat("shape is [", absl::StrJoin(input->shape(), ", "), "]");
}

// The inputs whose elements count: those of guards, and those whose elements are symbols.
std::vector<PreparedRun::Value> ValuesThatCount(
    const Variant& variant, const std::vector<InputInfo>& info,
    const std::map<std::string, size_t, std::less<>>& input_index) {
  std::vector<PreparedRun::Value> values;
  for (const Guard& guard : variant.guards) {
    if (guard.kind != Guard::Kind::kValue) continue;
    const auto it = input_index.find(guard.input);
    if (it != input_index.end()) values.push_back({it->second, guard.bytes});
  }
  const size_t ports = std::min(info.size(), static_cast<size_t>(variant.program.inputs_size()));
  for (size_t i = 0; i < ports; ++i) {
    const InputInfo& input = info[i];
    if (variant.program.inputs(static_cast<int>(i)).elements_size() == 0 || !input.present)
      continue;
    values.push_back({i, std::string(static_cast<const char*>(input.tensor.data()),
                                     static_cast<size_t>(input.tensor.size_bytes()))});
  }
  return values;
}

// Whether only its shape is known.
bool IsUnknown(const InputInfo& input) {
  return input.present && input.tensor.data() == nullptr && input.tensor.num_elements() > 0;
}

// Whether elements that are not known yet decide what runs.
bool ValuesCount(const Variant& variant, const std::vector<InputInfo>& info) {
  const auto known = [&](const std::string& name) {
    return std::any_of(info.begin(), info.end(), [&](const InputInfo& input) {
      return input.name == name && input.present && input.tensor.data() != nullptr;
    });
  };
  for (const Guard& guard : variant.guards)
    if (guard.kind == Guard::Kind::kValue && !known(guard.input)) return true;
  const size_t ports = std::min(info.size(), static_cast<size_t>(variant.program.inputs_size()));
  for (size_t i = 0; i < ports; ++i) {
    if (variant.program.inputs(static_cast<int>(i)).elements_size() > 0 && IsUnknown(info[i]))
      return true;
  }
  return false;
}

// Whether a provider that gives this status needs values that are not known yet.
bool NeedsValues(const absl::Status& status, const std::vector<InputInfo>& info) {
  return absl::IsUnimplemented(status) && std::any_of(info.begin(), info.end(), IsUnknown);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CheckedProgram>> Model::State::Checked(
    const std::shared_ptr<const Variant>& variant) {
  {
    const MutexLock lock(mutex);
    std::erase_if(checked, [](const auto& entry) { return entry.second.expired(); });
    const auto it = checked.find(variant.get());
    if (it != checked.end()) {
      if (std::shared_ptr<const CheckedProgram> found = it->second.lock()) return found;
    }
  }
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const CheckedProgram> made, CheckProgram(variant));
  ++runtime->state().variants;
  const MutexLock lock(mutex);
  checked[variant.get()] = made;
  return made;
}

// Of inputs on the device only the shape is told.
absl::StatusOr<std::vector<InputInfo>> Model::State::Info(const BoundTensors& inputs,
                                                          const PortPlaces& places) const {
  const std::vector<PortInfo>& ports = provider->inputs();
  std::vector<InputInfo> info;
  for (size_t i = 0; i < ports.size(); ++i) {
    const std::optional<Tensor>& bound = inputs[i];
    if (!bound && !ports[i].optional) {
      return Invalid("input \"", ports[i].name, "\": not bound; give it a tensor of shape ",
                     ToString(ports[i].shape));
    }
    if (places.Input(i)) {
      info.push_back({ports[i].name, true, Tensor::View(nullptr, bound->dtype(), bound->shape())});
      continue;
    }
    // Providers read values: they get them dense.
    const Tensor tensor = bound ? (UsableAsIs(*bound) ? *bound : bound->Clone()) : Tensor();
    info.push_back({ports[i].name, bound.has_value(), tensor});
  }
  return info;
}

PlanCache::Made Model::State::Prepared(const BoundTensors& inputs, const std::vector<bool>& wanted,
                                       const PortPlaces& places) {
  return plans->Get(inputs, wanted, places, [&] {
    return options.record_level > 0 ? MakeRecorded(inputs, wanted, places)
                                    : Make(inputs, wanted, places);
  });
}

PlanCache::Made Model::State::MakeRecorded(const BoundTensors& inputs,
                                           const std::vector<bool>& wanted,
                                           const PortPlaces& places) {
  const LongMutexLock lock(recording);
  for (size_t i = 0; recorded && i < inputs.size(); ++i) {
    const std::optional<std::vector<int64_t>>& kept = (*recorded)[i];
    if (inputs[i].has_value() == kept.has_value() && (!kept || inputs[i]->shape() == *kept))
      continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "input \"", provider->inputs()[i].name, "\": ", ShapeText(inputs[i]),
        "; the first run had ", kept ? absl::StrCat("[", absl::StrJoin(*kept, ", "), "]") : "none",
        ", which record_level ", options.record_level,
        " keeps; give that, or make a model with record_level 0"));
  }
  if (given_up) {
    return absl::FailedPreconditionError(
        "record_level 2: other outputs, or values, need a plan that was not made before what makes "
        "plans was given up; run as the first time, or make a model with a lower level");
  }
  PlanCache::Made made = Make(inputs, wanted, places);
  if (made.ok()) recorded = (*made)->shapes;
  return made;
}

void Model::State::Record(const PreparedRun& prepared) {
  if (recorder == nullptr || given_up || prepared.plan == nullptr) return;
  const LongMutexLock lock(recording);
  if (given_up.exchange(true)) return;
  choosing.measured = nullptr;
  recorder->GiveUp(prepared.variant);
}

PlanCache::Made Model::State::Make(const BoundTensors& inputs, const std::vector<bool>& wanted,
                                   const PortPlaces& places) {
  KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, Info(inputs, places));
  const auto got = provider->Get(info);
  if (!places.none() && NeedsValues(got.status(), info)) return NeedsHost("an input");
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const Variant> variant, got);
  if (!places.none() && (variant->script != nullptr || ValuesCount(*variant, info)))
    return NeedsHost("an input");
  KILN_RETURN_IF_ERROR(DeviceUseOf(runtime).CheckKernels(variant->program, *told_of_cpu));
  PlanCache::Made made = MakeOf(variant, info, wanted, places);
  if (made.ok() || IsNeedsHost(made.status())) return made;
  return MakeInstead(variant, info, wanted, places, made.status());
}

PlanCache::Made Model::State::PreparedInstead(const std::shared_ptr<const PreparedRun>& refused,
                                              const BoundTensors& inputs, const absl::Status& why) {
  // What makes plans is not given up meanwhile, by a run of another context.
  std::optional<LongMutexLock> kept;
  if (recorder != nullptr) kept.emplace(recording);
  KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, Info(inputs, refused->places));
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedRun> made,
                        MakeInstead(refused->variant, info, refused->wanted, refused->places, why));
  plans->Replace(refused, made);
  return made;
}

PlanCache::Made Model::State::MakeInstead(std::shared_ptr<const Variant> variant,
                                          const std::vector<InputInfo>& info,
                                          const std::vector<bool>& wanted, const PortPlaces& places,
                                          absl::Status why) {
  for (;;) {
    auto other = provider->Instead(variant, info);
    if (absl::IsNotFound(other.status())) return why;
    KILN_RETURN_IF_ERROR(other.status());
    variant = *std::move(other);
    PlanCache::Made made = MakeOf(variant, info, wanted, places);
    if (made.ok()) return made;
    why = made.status();
  }
}

PlanCache::Made Model::State::MakeOf(const std::shared_ptr<const Variant>& variant,
                                     const std::vector<InputInfo>& info,
                                     const std::vector<bool>& wanted, const PortPlaces& places) {
  auto prepared = std::make_shared<PreparedRun>();
  for (const InputInfo& input : info) {
    prepared->shapes.push_back(input.present ? std::optional(input.tensor.shape()) : std::nullopt);
  }
  prepared->values = ValuesThatCount(*variant, info, input_index);
  prepared->wanted = wanted;
  prepared->places = places;
  prepared->variant = variant;
  KILN_RETURN_IF_ERROR(variant->script != nullptr ? BindScript(info, *prepared)
                                                  : MakePlan(info, *prepared));
  return prepared;
}

bool Model::State::grows() const {
  return std::any_of(states.begin(), states.end(), [&](const StatePorts& state) {
    return !Constant(provider->inputs()[state.input].shape).has_value();
  });
}

PlanOptions Model::State::HowToPlan() const {
  return {.separate_buffers = options.temporaries != Temporaries::kPlanned,
          .by_samples = options.batch_invariant,
          .watched = options.on_thunk != nullptr,
          .verified = kVerifyPlans || options.check_first_run,
          .device = device.get(),
          .device_required = runtime->state().options.require_device};
}

absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Model::State::PlanAgain(
    const PreparedRun& prepared, const BoundTensors& inputs, const PlanOptions& how) {
  std::optional<LongMutexLock> kept;  // as in PreparedInstead
  if (recorder != nullptr) kept.emplace(recording);
  KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, Info(inputs, how.places));
  return PlanOf(prepared.variant, info, prepared.wanted, how);
}

absl::StatusOr<std::shared_ptr<const ExecutionPlan>> Model::State::PlanOf(
    const std::shared_ptr<const Variant>& variant, const std::vector<InputInfo>& info,
    const std::vector<bool>& wanted, const PlanOptions& how) {
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const CheckedProgram> program, Checked(variant));
  const std::vector<PortInfo>& outputs = provider->outputs();
  if (program->outputs.size() != outputs.size()) {
    return Invalid("program: ", program->outputs.size(), " outputs; the model has ",
                   outputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (program->outputs[i].type != outputs[i].type) {
      return Invalid("program: output ", i, " is ", Name(program->outputs[i].type),
                     "; the model's is ", Name(outputs[i].type));
    }
  }
  KILN_ASSIGN_OR_RETURN(const SymbolValues symbols, BindSymbols(program->inputs, info));
  std::vector<bool> present;
  for (const InputInfo& input : info) present.push_back(input.present);
  return ExecutionPlan::Create(program, symbols, present, wanted, session, choosing, how);
}

absl::Status Model::State::MakePlan(const std::vector<InputInfo>& info, PreparedRun& prepared) {
  const auto sizes = grows() ? MemoryLayouts::Sizes::kGrowing : MemoryLayouts::Sizes::kFixed;
  PlanOptions how = HowToPlan();
  how.places = prepared.places;
  how.plan_memory = [&](std::span<const Interval> intervals, int64_t alignment) {
    return plans->layouts().Plan(intervals, alignment, sizes);
  };
  KILN_ASSIGN_OR_RETURN(prepared.plan, PlanOf(prepared.variant, info, prepared.wanted, how));
  if (prepared.plan->made_layout()) ++runtime->state().plans;
  if (options.on_plan) {
    std::string text;
    for (const InputInfo& input : info) {
      if (!input.present) continue;
      absl::StrAppend(&text, "input \"", input.name, "\" [",
                      absl::StrJoin(input.tensor.shape(), ", "), "]\n");
    }
    options.on_plan({text + prepared.plan->ToString(), prepared.plan->LibraryCalls()});
  }
  return absl::OkStatus();
}

absl::Status Model::State::BindScript(const std::vector<InputInfo>& info,
                                      PreparedRun& prepared) const {
  std::vector<CheckedPort> ports;
  for (const program::Port& port : prepared.variant->program.inputs()) {
    CheckedPort& made = ports.emplace_back();
    made.name = port.name();
    made.type = static_cast<DType>(port.dtype());
    for (const std::string& dim : port.shape()) {
      KILN_ASSIGN_OR_RETURN(made.shape.emplace_back(), Dim::Parse(dim));
    }
    for (const std::string& element : port.elements()) {
      KILN_ASSIGN_OR_RETURN(made.elements.emplace_back(), Dim::Parse(element));
    }
  }
  KILN_ASSIGN_OR_RETURN(prepared.symbols, BindSymbols(ports, info));
  return absl::OkStatus();
}

absl::StatusOr<BoundTensors> Model::State::WithShapes(const NamedShapes& shapes) const {
  const std::vector<PortInfo>& ports = provider->inputs();
  BoundTensors inputs(ports.size());
  for (const auto& [name, shape] : shapes) {
    KILN_ASSIGN_OR_RETURN(const size_t index, InputIndex(name));
    if (CheckedBytes(ports[index].type, shape) < 0)
      return Invalid("input \"", name, "\": shape [", absl::StrJoin(shape, ", "), "] has no size");
    inputs[index] = Tensor::View(nullptr, ports[index].type, shape);
  }
  const UpdatedConstants::Values now = updated.Now();
  for (size_t k = 0; k < now->size(); ++k) inputs[own_inputs.size() + k] = (*now)[k];
  for (size_t i = 0; i < ports.size(); ++i) {
    if (inputs[i] || ports[i].optional) continue;
    const std::optional<std::vector<int64_t>> shape = Constant(ports[i].shape);
    if (!shape) {
      return Invalid("input \"", ports[i].name, "\": no shape is given for ",
                     ToString(ports[i].shape), "; give all its extents");
    }
    inputs[i] = Tensor::View(nullptr, ports[i].type, *shape);
  }
  return inputs;
}

absl::Status Model::State::Prepare(const NamedShapes& shapes) {
  KILN_ASSIGN_OR_RETURN(const BoundTensors inputs, WithShapes(shapes));
  KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, Info(inputs, {}));
  const auto found = provider->Get(info);
  if (NeedsValues(found.status(), info)) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const Variant> variant, found);
  // A plan for values that are not known yet would be for none.
  if (variant->script != nullptr || ValuesCount(*variant, info)) return absl::OkStatus();
  return Prepared(inputs, std::vector<bool>(provider->outputs().size(), true), {}).status();
}

absl::StatusOr<std::vector<std::vector<int64_t>>> Model::State::OutputShapes(
    const NamedShapes& shapes) {
  KILN_ASSIGN_OR_RETURN(const BoundTensors inputs, WithShapes(shapes));
  KILN_ASSIGN_OR_RETURN(const std::vector<InputInfo> info, Info(inputs, {}));
  const auto found = provider->Get(info);
  const std::vector<PortInfo>& ports = provider->outputs();
  const auto unknown = [&](size_t i, absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(
        "output \"", ports[i].name, "\": its shape depends on values of inputs", why, "; run it"));
  };
  if (NeedsValues(found.status(), info)) return unknown(0, "");
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const Variant> variant, found);
  if (variant->script != nullptr) return unknown(0, "");
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<const CheckedProgram> program, Checked(variant));
  if (ValuesCount(*variant, info)) return unknown(0, "");
  KILN_ASSIGN_OR_RETURN(const SymbolValues symbols, BindSymbols(program->inputs, info));
  std::vector<std::vector<int64_t>> made;
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    absl::StatusOr<std::vector<int64_t>> shape = Evaluate(program->outputs[i].shape, symbols);
    if (!shape.ok()) return unknown(i, absl::StrCat(" (", shape.status().message(), ")"));
    made.push_back(*std::move(shape));
  }
  return made;
}

std::shared_ptr<Model::State> Model::State::PartOf(const std::shared_ptr<VariantProvider>& part) {
  const MutexLock lock(mutex);
  std::erase_if(parts, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<State>& kept = parts[part.get()];
  if (std::shared_ptr<State> state = kept.lock()) return state;
  auto made = std::make_shared<State>(part, *this);
  kept = made;
  return made;
}

}  // namespace kiln
