// SPDX-License-Identifier: Apache-2.0
// A run whose caller has inputs or outputs on a device, of a program that needs them in the host's
// memory: they are copied before and after it.
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/status_macros.h"
#include "exec/model_state.h"

namespace kiln {

PortPlaces Context::Impl::Places() const {
  PortPlaces places;
  const auto note = [](const BoundTensors& bound, std::vector<bool>& on_device) {
    for (size_t i = 0; i < bound.size(); ++i) {
      if (!bound[i] || bound[i]->device() == Device()) continue;
      on_device.resize(bound.size());
      on_device[i] = true;
    }
  };
  note(bound_inputs, places.inputs);
  note(bound_outputs, places.outputs);
  for (size_t i = 0; i < places.outputs.size(); ++i)
    places.outputs[i] = places.outputs[i] && wanted[i];
  return places;
}

absl::Status Context::Impl::NeedQueue() {
  if (queue != nullptr) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(queue, model->device->device().NewQueue());
  return absl::OkStatus();
}

absl::Status Context::Impl::CopyOutInputs(BoundTensors& inputs, void* stream) {
  KILN_RETURN_IF_ERROR(queue->Begin(stream, /*alone=*/true));
  absl::Cleanup abandon = [this] { queue->Abandon(); };
  for (std::optional<Tensor>& input : inputs) {
    if (!input || input->device() == Device()) continue;
    Tensor landed = Tensor::Allocate(input->dtype(), input->shape());
    KILN_RETURN_IF_ERROR(
        queue->CopyOut(landed.data(), input->data(), static_cast<size_t>(landed.size_bytes())));
    input = std::move(landed);
  }
  KILN_RETURN_IF_ERROR(queue->WaitForCopies());
  std::move(abandon).Cancel();
  return queue->End();
}

absl::Status Context::Impl::CopyInOutputs(const BoundTensors& results, void* stream) {
  KILN_RETURN_IF_ERROR(queue->Begin(stream, /*alone=*/true));
  absl::Cleanup abandon = [this] { queue->Abandon(); };
  for (size_t i = 0; i < results.size(); ++i) {
    if (!wanted[i] || !results[i] || results[i]->device() == Device()) continue;
    KILN_RETURN_IF_ERROR(CheckBoundShape(i, outputs[i].shape()));
    KILN_RETURN_IF_ERROR(queue->CopyIn(results[i]->data(), outputs[i].data(),
                                       static_cast<size_t>(outputs[i].size_bytes())));
    outputs[i] = *results[i];
  }
  std::move(abandon).Cancel();
  return queue->End();
}

absl::Status Context::Impl::RunLanded(const RunControl& control, std::vector<ThunkTime>* times) {
  KILN_RETURN_IF_ERROR(NeedQueue());
  KILN_RETURN_IF_ERROR(CheckBoundOutputs());
  const PortPlaces places = Places();
  const BoundTensors inputs = bound_inputs, results = bound_outputs;
  const absl::Cleanup restore = [&] {
    bound_inputs = inputs;
    bound_outputs = results;
    moved = true;
  };
  moved = true;
  KILN_RETURN_IF_ERROR(CopyOutInputs(bound_inputs, control.stream));
  for (size_t i = 0; i < results.size(); ++i)
    if (places.Output(i)) bound_outputs[i].reset();
  KILN_RETURN_IF_ERROR(RunBound(control, times, {}));
  bound_outputs = results;
  return CopyInOutputs(results, control.stream);
}

}  // namespace kiln
