// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "c_api/handles.h"
#include "kiln/model.h"

using kiln::c_api::CallOn;
using kiln::c_api::CheckPointer;

namespace kiln::c_api {
namespace {

absl::Status Give(absl::StatusOr<Tensor> tensor, kiln_tensor** out) {
  KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
  KILN_RETURN_IF_ERROR(tensor.status());
  *out = new kiln_tensor{*std::move(tensor)};
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln::c_api

extern "C" {

kiln_context* kiln_context_new(kiln_model* model) {
  if (model == nullptr) return nullptr;
  return kiln::c_api::NewHandle<kiln_context>([&] { return model->model.NewContext(); });
}

void kiln_context_free(kiln_context* context) { delete context; }

kiln_status* kiln_context_bind(kiln_context* context, size_t input, const kiln_tensor* tensor) {
  return CallOn(context, "context", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(tensor, "tensor"));
    return context->context.Bind(input, tensor->tensor);
  });
}

kiln_status* kiln_context_bind_parts(kiln_context* context, const char* input,
                                     const kiln_tensor* const* parts, size_t num_parts) {
  return CallOn(context, "context", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(input, "input"));
    if (num_parts > 0) KILN_RETURN_IF_ERROR(CheckPointer(parts, "parts"));
    std::vector<kiln::Tensor> tensors;
    for (size_t k = 0; k < num_parts; ++k) {
      KILN_RETURN_IF_ERROR(CheckPointer(parts[k], "part"));
      tensors.push_back(parts[k]->tensor);
    }
    return context->context.BindParts(input, tensors);
  });
}

kiln_status* kiln_context_bind_output(kiln_context* context, size_t output,
                                      const kiln_tensor* tensor) {
  return CallOn(context, "context", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(tensor, "tensor"));
    return context->context.BindOutput(output, tensor->tensor);
  });
}

kiln_status* kiln_context_set_outputs(kiln_context* context, const char* const* names,
                                      size_t num_names) {
  return CallOn(context, "context", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const auto wanted, kiln::c_api::Names(names, num_names, "names"));
    return context->context.SetOutputs(wanted);
  });
}

kiln_status* kiln_context_set_arena(kiln_context* context, void* memory, int64_t bytes) {
  return CallOn(context, "context", [&] { return context->context.SetArena(memory, bytes); });
}

kiln_status* kiln_context_run(kiln_context* context, const kiln_run_control* control) {
  return CallOn(context, "context",
                [&] { return context->context.Run(kiln::c_api::ControlOf(control)); });
}

kiln_status* kiln_context_output(const kiln_context* context, size_t output, kiln_tensor** out) {
  return CallOn(context, "context",
                [&] { return kiln::c_api::Give(context->context.Output(output), out); });
}

kiln_status* kiln_context_state(const kiln_context* context, const char* input, kiln_tensor** out) {
  return CallOn(context, "context", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(input, "input"));
    return kiln::c_api::Give(context->context.State(input), out);
  });
}

kiln_status* kiln_context_set_state(kiln_context* context, const char* input,
                                    const kiln_tensor* value) {
  return CallOn(context, "context", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(input, "input"));
    KILN_RETURN_IF_ERROR(CheckPointer(value, "value"));
    return context->context.SetState(input, value->tensor);
  });
}

kiln_status* kiln_context_reset_states(kiln_context* context) {
  return CallOn(context, "context", [&] { return context->context.ResetStates(); });
}

void kiln_context_trim(kiln_context* context) { context->context.Trim(); }

void kiln_context_report(const kiln_context* context, kiln_plan_report* out) {
  const kiln::PlanReport& report = context->context.report();
  kiln::c_api::Write(
      kiln_plan_report{0, report.arena, report.lower_bound, report.sum, report.constants,
                       report.kernel_launches, report.library_launches, report.other_launches,
                       report.vm_launches, report.bytes_moved},
      out);
}

kiln_status* kiln_context_profile(kiln_context* context, kiln_profile_fn tell, void* user) {
  return CallOn(context, "context", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(reinterpret_cast<const void*>(tell), "tell"));
    KILN_ASSIGN_OR_RETURN(const std::vector<kiln::ThunkTime> times, context->context.Profile());
    for (const kiln::ThunkTime& time : times) {
      const kiln_launch_time seen = {
          sizeof(kiln_launch_time), time.kind.c_str(), time.name.c_str(), time.ms, time.bytes,
          time.vm ? 1 : 0};
      tell(user, &seen);
    }
    return absl::OkStatus();
  });
}

}  // extern "C"
