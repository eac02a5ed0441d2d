// SPDX-License-Identifier: Apache-2.0
#include "kiln/model.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c_api/handles.h"

namespace kiln::c_api {
namespace {

// Inputs in the order of the ports; those that are absent are left out.
absl::StatusOr<NamedTensors> InputsOf(const Model& model, const kiln_tensor* const* inputs,
                                      size_t count) {
  const std::vector<PortInfo>& ports = model.inputs();
  if (count != ports.size()) {
    return absl::InvalidArgumentError(absl::StrCat("inputs: ", count, " are given, the model has ",
                                                   ports.size(),
                                                   "; an optional one that is absent is NULL"));
  }
  if (count > 0) KILN_RETURN_IF_ERROR(CheckPointer(inputs, "inputs"));
  NamedTensors named;
  for (size_t k = 0; k < count; ++k) {
    if (inputs[k] != nullptr) named.emplace_back(ports[k].name, inputs[k]->tensor);
  }
  return named;
}

std::vector<std::unique_ptr<kiln_tensor>> Handles(std::vector<Tensor> tensors) {
  std::vector<std::unique_ptr<kiln_tensor>> handles;
  for (Tensor& tensor : tensors) {
    handles.push_back(std::make_unique<kiln_tensor>());
    handles.back()->tensor = std::move(tensor);
  }
  return handles;
}

absl::Status RunOnce(kiln_model& model, const kiln_tensor* const* inputs, size_t num_inputs,
                     const kiln_run_control* control, kiln_tensor** outputs, size_t num_outputs) {
  KILN_ASSIGN_OR_RETURN(const NamedTensors named, InputsOf(model.model, inputs, num_inputs));
  if (num_outputs != model.outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("outputs: room for ", num_outputs, ", the model has ", model.outputs.size()));
  }
  if (num_outputs > 0) KILN_RETURN_IF_ERROR(CheckPointer(outputs, "outputs"));
  KILN_ASSIGN_OR_RETURN(std::vector<Tensor> made, model.model.Run(named, ControlOf(control)));
  std::vector<std::unique_ptr<kiln_tensor>> handles = Handles(std::move(made));
  for (size_t k = 0; k < handles.size(); ++k) outputs[k] = handles[k].release();
  return absl::OkStatus();
}

// Ends an asynchronous run: hands over what it gave.
void Tell(kiln_done_fn done, void* user, absl::StatusOr<std::vector<Tensor>> made) {
  std::vector<std::unique_ptr<kiln_tensor>> handles;
  std::vector<kiln_tensor*> pointers;
  kiln_status* const failed = Call("run", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(made.status());
    handles = Handles(*std::move(made));
    pointers.resize(handles.size());
    return absl::OkStatus();
  });
  if (failed != nullptr) return done(user, failed, nullptr, 0);
  std::transform(handles.begin(), handles.end(), pointers.begin(),
                 [](auto& handle) { return handle.release(); });
  done(user, nullptr, pointers.data(), pointers.size());
}

absl::Status ShapeOf(kiln_model& model, const kiln_shape* shapes, size_t num_shapes, size_t output,
                     int64_t* extents, size_t capacity, size_t* rank) {
  KILN_ASSIGN_OR_RETURN(const NamedShapes given, Shapes(shapes, num_shapes));
  KILN_RETURN_IF_ERROR(CheckPointer(rank, "rank"));
  if (capacity > 0) KILN_RETURN_IF_ERROR(CheckPointer(extents, "extents"));
  KILN_ASSIGN_OR_RETURN(const auto made, model.model.OutputShapes(given));
  if (output >= made.size()) {
    return absl::InvalidArgumentError(absl::StrCat("output ", output, ": there are ", made.size()));
  }
  std::copy_n(made[output].begin(), std::min(capacity, made[output].size()), extents);
  *rank = made[output].size();
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln::c_api

using kiln::c_api::Call;
using kiln::c_api::CallOn;
using kiln::c_api::CheckPointer;

extern "C" {

kiln_shared_arena* kiln_shared_arena_new(void) {
  return kiln::c_api::NewHandle<kiln_shared_arena>([] { return kiln::NewSharedArena(); });
}

void kiln_shared_arena_free(kiln_shared_arena* arena) { delete arena; }

kiln_cancel* kiln_cancel_new(void) {
  return kiln::c_api::NewHandle<kiln_cancel>(
      [] { return std::make_shared<std::atomic<bool>>(false); });
}

void kiln_cancel_set(kiln_cancel* cancel) { cancel->flag->store(true); }

void kiln_cancel_free(kiln_cancel* cancel) { delete cancel; }

kiln_status* kiln_load_package(const char* path, const kiln_run_options* options, int32_t validate,
                               kiln_model** out) {
  return Call("package", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(path, "path"));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(const kiln::RunOptions run, kiln::c_api::RunOptionsOf(options));
    KILN_ASSIGN_OR_RETURN(kiln::Model model,
                          kiln::LoadPackage(path, run,
                                            validate != 0 ? kiln::PackageValidation::kFirstUse
                                                          : kiln::PackageValidation::kTrust));
    *out = new kiln_model(std::move(model));
    return absl::OkStatus();
  });
}

void kiln_model_free(kiln_model* model) { delete model; }

size_t kiln_model_num_inputs(const kiln_model* model) { return model->inputs.size(); }
size_t kiln_model_num_outputs(const kiln_model* model) { return model->outputs.size(); }
size_t kiln_model_num_updatable(const kiln_model* model) { return model->updatable.size(); }

kiln_status* kiln_model_input(const kiln_model* model, size_t index, kiln_port* out) {
  return CallOn(model, "model", [&] { return model->inputs.Get(index, "input", out); });
}

kiln_status* kiln_model_output(const kiln_model* model, size_t index, kiln_port* out) {
  return CallOn(model, "model", [&] { return model->outputs.Get(index, "output", out); });
}

kiln_status* kiln_model_updatable(const kiln_model* model, size_t index, kiln_port* out) {
  return CallOn(model, "model",
                [&] { return model->updatable.Get(index, "updatable constant", out); });
}

kiln_status* kiln_model_input_index(const kiln_model* model, const char* name, size_t* out) {
  return CallOn(model, "model", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(name, "name"));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(*out, model->model.InputIndex(name));
    return absl::OkStatus();
  });
}

kiln_status* kiln_model_output_index(const kiln_model* model, const char* name, size_t* out) {
  return CallOn(model, "model", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(name, "name"));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(*out, model->model.OutputIndex(name));
    return absl::OkStatus();
  });
}

int32_t kiln_model_threads(const kiln_model* model) { return model->model.threads(); }

kiln_status* kiln_model_update(kiln_model* model, const char* name, const kiln_tensor* value) {
  return CallOn(model, "model", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(name, "name"));
    KILN_RETURN_IF_ERROR(CheckPointer(value, "value"));
    return model->model.Update(name, value->tensor);
  });
}

kiln_status* kiln_model_run(kiln_model* model, const kiln_tensor* const* inputs, size_t num_inputs,
                            const kiln_run_control* control, kiln_tensor** outputs,
                            size_t num_outputs) {
  return CallOn(model, "model", [&] {
    return kiln::c_api::RunOnce(*model, inputs, num_inputs, control, outputs, num_outputs);
  });
}

kiln_status* kiln_model_run_async(kiln_model* model, const kiln_tensor* const* inputs,
                                  size_t num_inputs, const kiln_run_control* control,
                                  kiln_done_fn done, void* user) {
  return CallOn(model, "model", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(reinterpret_cast<const void*>(done), "done"));
    KILN_ASSIGN_OR_RETURN(kiln::NamedTensors named,
                          kiln::c_api::InputsOf(model->model, inputs, num_inputs));
    model->model.RunAsync(
        std::move(named),
        [done, user](absl::StatusOr<std::vector<kiln::Tensor>> made) {
          kiln::c_api::Tell(done, user, std::move(made));
        },
        kiln::c_api::ControlOf(control));
    return absl::OkStatus();
  });
}

kiln_status* kiln_model_prepare(kiln_model* model, const kiln_shape* shapes, size_t num_shapes) {
  return CallOn(model, "model", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const kiln::NamedShapes given, kiln::c_api::Shapes(shapes, num_shapes));
    return model->model.Prepare(given);
  });
}

kiln_status* kiln_model_output_shape(kiln_model* model, const kiln_shape* shapes, size_t num_shapes,
                                     size_t output, int64_t* extents, size_t capacity,
                                     size_t* rank) {
  return CallOn(model, "model", [&] {
    return kiln::c_api::ShapeOf(*model, shapes, num_shapes, output, extents, capacity, rank);
  });
}

void kiln_model_memory(const kiln_model* model, kiln_memory* out) {
  const kiln::MemoryReport now = model->model.memory();
  kiln::c_api::Write(kiln_memory{0, now.constants, now.arenas, now.copies, now.outputs, now.states,
                                 now.plans, now.plan_bytes, now.idle_contexts, now.idle_bytes,
                                 now.device_arenas, now.device_constants},
                     out);
}

void kiln_model_trim(kiln_model* model) { model->model.Trim(); }

}  // extern "C"
