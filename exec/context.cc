// SPDX-License-Identifier: Apache-2.0
// The public calls of Context.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "exec/model_state.h"
#include "exec/script.h"
#include "kiln/model.h"

namespace kiln {
namespace {

constexpr char kRunning[] = "running";

absl::Status Empty() {
  return absl::FailedPreconditionError(
      "context: it is empty, was moved from, or there was no memory for it; make one with "
      "Model::NewContext");
}

}  // namespace

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
// The state before holds the model that its launcher's pool belongs to: it goes as one.
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

absl::Status Context::Bind(absl::string_view input, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("input", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->InputIndex(input));
    return impl_->Bind(index, std::move(view));
  });
}
absl::Status Context::Bind(size_t input, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("input", [&] { return impl_->Bind(input, std::move(view)); });
}
absl::Status Context::BindParts(absl::string_view input, const std::vector<Tensor>& parts) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("input", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->InputIndex(input));
    return impl_->BindParts(index, parts);
  });
}
absl::Status Context::BindOutput(absl::string_view output, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->OutputIndex(output));
    return impl_->BindOutput(index, std::move(view));
  });
}
absl::Status Context::BindOutput(size_t output, Tensor view) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&] { return impl_->BindOutput(output, std::move(view)); });
}
absl::Status Context::SetOutputs(const std::vector<std::string>& names) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("outputs", [&] { return impl_->SetOutputs(names); });
}

absl::Status Context::SetArena(void* memory, int64_t bytes) {
  if (impl_ == nullptr) return Empty();
  if (bytes < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("arena: is ", bytes, " bytes, expected 0 or more"));
  if (reinterpret_cast<uintptr_t>(memory) % kArenaAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena: ", bytes, " bytes at an address that is ",
                     reinterpret_cast<uintptr_t>(memory) % kArenaAlignment,
                     " beyond a multiple of ", kArenaAlignment, "; give aligned memory"));
  }
  impl_->callers_arena = memory;
  impl_->callers_arena_bytes = bytes;
  return absl::OkStatus();
}

absl::Status Context::Run(const RunControl& control) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions(kRunning, [&] { return impl_->Run(control, nullptr); });
}

absl::StatusOr<Tensor> Context::Output(absl::string_view name) const {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&]() -> absl::StatusOr<Tensor> {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->OutputIndex(name));
    return impl_->Output(index);
  });
}
absl::StatusOr<Tensor> Context::Output(size_t output) const {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("output", [&] { return impl_->Output(output); });
}

absl::StatusOr<Tensor> Context::State(absl::string_view input) const {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("state", [&]() -> absl::StatusOr<Tensor> {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->InputIndex(input));
    return impl_->State(index, input);
  });
}
absl::Status Context::SetState(absl::string_view input, const Tensor& value) {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("state", [&]() -> absl::Status {
    KILN_ASSIGN_OR_RETURN(const size_t index, impl_->model->InputIndex(input));
    return impl_->SetState(index, value);
  });
}
absl::Status Context::ResetStates() {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions("state", [&] { return impl_->ResetStates(); });
}

void Context::Trim() {
  if (impl_ != nullptr) impl_->Trim();
}

const PlanReport& Context::report() const {
  static const PlanReport kNothing;
  return impl_ != nullptr ? impl_->report : kNothing;
}

absl::StatusOr<std::vector<ThunkTime>> Context::Profile() {
  if (impl_ == nullptr) return Empty();
  return CatchExceptions(kRunning, [&]() -> absl::StatusOr<std::vector<ThunkTime>> {
    std::vector<ThunkTime> times;
    KILN_RETURN_IF_ERROR(impl_->Run({}, &times));
    return times;
  });
}

}  // namespace kiln
