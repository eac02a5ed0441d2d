// SPDX-License-Identifier: Apache-2.0
// Constants of a Model that take other values while it runs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "exec/model_state.h"
#include "exec/script.h"
#include "kiln/model.h"

namespace kiln {
namespace {

absl::Status NotUpdatable(absl::string_view name, const std::vector<PortInfo>& ports) {
  const auto quote = [](std::string* out, const PortInfo& port) {
    absl::StrAppend(out, "\"", port.name, "\"");
  };
  return absl::NotFoundError(absl::StrCat(
      "constant \"", name, "\": is not updatable; ",
      ports.empty() ? "none is" : absl::StrCat("it has ", absl::StrJoin(ports, ", ", quote)),
      "; name it in CompileOptions::updatable"));
}

std::string TypeText(const Tensor& tensor) {
  return absl::StrCat(Name(tensor.dtype()), " ", ToString(ToShape(tensor.shape())));
}

absl::Status CheckValue(const PortInfo& port, const Tensor& value) {
  const auto invalid = [&](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat("constant \"", port.name, "\": ", text...));
  };
  const std::optional<std::vector<int64_t>> shape = Constant(port.shape);
  if (value.dtype() != port.type || !shape || value.shape() != *shape) {
    return invalid("the value is ", TypeText(value), ", expected ", Name(port.type), " ",
                   ToString(port.shape), "; give a tensor of that type and shape");
  }
  if (value.device() != Device()) return invalid("the value is on a GPU; copy it to the CPU");
  if (value.data() == nullptr && value.num_elements() > 0)
    return invalid("no memory; give a tensor with data");
  return absl::OkStatus();
}

}  // namespace

absl::Status Model::State::Update(absl::string_view name, const Tensor& value) {
  const auto port = std::find_if(updatable.begin(), updatable.end(),
                                 [&](const PortInfo& one) { return one.name == name; });
  if (port == updatable.end()) return NotUpdatable(name, updatable);
  KILN_RETURN_IF_ERROR(CheckValue(*port, value));
  updated.Set(static_cast<size_t>(port - updatable.begin()), value.Clone());
  return absl::OkStatus();
}

const std::vector<PortInfo>& Model::updatable() const {
  static const auto* const none = new std::vector<PortInfo>();
  return state_ != nullptr ? state_->updatable : *none;
}

absl::Status Model::Update(absl::string_view name, const Tensor& value) {
  const std::shared_ptr<State> state = state_;
  if (state == nullptr) {
    return absl::FailedPreconditionError(
        "model: it is empty, or was moved from; assign what Compile or LoadPackage returns");
  }
  return CatchExceptions("updating", [&] { return state->Update(name, value); });
}

// Bound again where another value came: from then on nothing is done but the look.
absl::Status Context::Impl::CompleteInputs() {
  for (const InputParts& one : parts) {
    const size_t i = one.input();
    KILN_RETURN_IF_ERROR(input_copies[i].Reserve(std::max<int64_t>(one.bytes(), 1)));
    void* const whole = input_copies[i].data();
    one.CopyTo(whole);
    if (bound_inputs[i]->data() == whole) continue;
    bound_inputs[i] = Tensor::View(whole, model->own_inputs[i].type, one.shape());
    moved = true;
  }
  if (model->updatable.empty()) return absl::OkStatus();
  UpdatedConstants::Values now = model->updated.Now();
  if (now == updated) return absl::OkStatus();
  for (size_t k = 0; k < now->size(); ++k) bound_inputs[model->own_inputs.size() + k] = (*now)[k];
  updated = std::move(now);
  moved = true;
  return absl::OkStatus();
}

}  // namespace kiln
