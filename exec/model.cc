// SPDX-License-Identifier: Apache-2.0
#include "kiln/model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "exec/model_state.h"
#include "exec/script.h"

namespace kiln {
namespace {

constexpr char kRunning[] = "running";

const std::vector<PortInfo>& NoPorts() {
  static const auto* const none = new std::vector<PortInfo>();
  return *none;
}

absl::Status IndexPorts(const std::vector<PortInfo>& ports, absl::string_view what,
                        std::map<std::string, size_t, std::less<>>& index) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name.empty())
      return absl::InvalidArgumentError(absl::StrCat("model: ", what, " ", i, " has no name"));
    if (!index.emplace(ports[i].name, i).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("model: two ", what, "s are named \"", ports[i].name, "\""));
    }
  }
  return absl::OkStatus();
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
  const MutexLock lock(mutex);
  checked[variant.get()] = made;
  return made;
}

std::unique_ptr<Context::State> Model::State::Take() {
  {
    const MutexLock lock(mutex);
    if (!idle.empty()) {
      std::unique_ptr<Context::State> context = std::move(idle.back());
      idle.pop_back();
      return context;
    }
  }
  return std::make_unique<Context::State>(this);
}

void Model::State::GiveBack(std::unique_ptr<Context::State> context) {
  context->Unbind();
  const MutexLock lock(mutex);
  idle.push_back(std::move(context));
}

absl::Status CheckThreads(int threads) {
  if (threads >= 0 && threads <= kMaxThreads) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("threads: is ", threads, ", expected 0 (all) to ", kMaxThreads));
}

absl::StatusOr<Model> Model::Create(std::shared_ptr<VariantProvider> provider,
                                    const RunOptions& options) {
  return CatchExceptions("model", [&]() -> absl::StatusOr<Model> {
    if (provider == nullptr) return absl::InvalidArgumentError("model: no provider");
    KILN_RETURN_IF_ERROR(CheckThreads(options.threads));
    const int threads = options.threads == 0 ? Processors() : options.threads;
    Model model;
    model.state_ = std::make_shared<State>(std::move(provider), threads, options.on_plan);
    KILN_RETURN_IF_ERROR(IndexPorts(model.inputs(), "input", model.state_->input_index));
    KILN_RETURN_IF_ERROR(IndexPorts(model.outputs(), "output", model.state_->output_index));
    KILN_ASSIGN_OR_RETURN(
        model.state_->session,
        library::Session::Create(&model.state_->pool, model.state_->provider->packed_constants()));
    model.state_->choosing = {model.state_->provider->measured_choices(), options.workspace_limit,
                              &model.state_->pool};
    return model;
  });
}

const std::vector<PortInfo>& Model::inputs() const {
  return state_ != nullptr ? state_->provider->inputs() : NoPorts();
}
const std::vector<PortInfo>& Model::outputs() const {
  return state_ != nullptr ? state_->provider->outputs() : NoPorts();
}
int Model::threads() const { return state_ != nullptr ? state_->pool.threads() : 0; }

absl::StatusOr<std::vector<Tensor>> Model::Run(
    const std::vector<std::pair<std::string, Tensor>>& inputs) {
  const std::shared_ptr<State> state = state_;
  if (state == nullptr) {
    return absl::FailedPreconditionError(
        "model: it is empty, or was moved from; assign what Compile or LoadPackage returns");
  }
  return CatchExceptions(kRunning, [&]() -> absl::StatusOr<std::vector<Tensor>> {
    std::unique_ptr<Context::State> context = state->Take();
    const auto run = [&]() -> absl::Status {
      for (const auto& [name, tensor] : inputs) KILN_RETURN_IF_ERROR(context->Bind(name, tensor));
      return context->Run(nullptr);
    };
    const absl::Status status = run();
    std::vector<Tensor> outputs = context->TakeOutputs();
    state->GiveBack(std::move(context));
    if (!status.ok()) return status;
    return outputs;
  });
}

Context Model::NewContext() {
  if (state_ == nullptr) return Context(nullptr);
  std::unique_ptr<Context::State> context;
  CatchExceptions("context", [&] {
    context = std::make_unique<Context::State>(state_.get());
    context->keep = state_;
    return absl::OkStatus();
  }).IgnoreError();
  return Context(std::move(context));
}

}  // namespace kiln
