// SPDX-License-Identifier: Apache-2.0
#include "tools/serve.h"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "nlohmann/json.hpp"
#include "tools/exit_code.h"
#include "tools/requests.h"

namespace kiln {
namespace {

using nlohmann::json;

class Loaded {
 public:
  explicit Loaded(const CommonOptions& common) : common_(common) {}

  absl::StatusOr<json> Load(const json& request) {
    using Clock = std::chrono::steady_clock;
    context_.reset();
    bound_.clear();
    const Clock::time_point start = Clock::now();
    KILN_ASSIGN_OR_RETURN(CompileOptions options, ToCompileOptions(common_));
    KILN_ASSIGN_OR_RETURN(Model model, Compile(request.value("onnx", ""), options));
    context_ = std::make_unique<Context>(model.NewContext());
    const json files = request.value("inputs", json::object());
    for (const PortInfo& input : model.inputs()) {
      if (!files.contains(input.name)) continue;
      KILN_ASSIGN_OR_RETURN(Tensor tensor, ReadNpy(files[input.name].get<std::string>()));
      KILN_RETURN_IF_ERROR(context_->Bind(input.name, tensor));
      bound_[input.name] = std::move(tensor);
    }
    KILN_RETURN_IF_ERROR(Donate(request.value("donate", json::object()), model));
    KILN_RETURN_IF_ERROR(context_->Run());
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::string prefix = request.value("results", "");
    for (size_t k = 0; k < model.outputs().size(); ++k) {
      KILN_ASSIGN_OR_RETURN(const Tensor output, context_->Output(model.outputs()[k].name));
      if (!prefix.empty()) KILN_RETURN_IF_ERROR(WriteNpy(absl::StrCat(prefix, k, ".npy"), output));
    }
    return json{{"load_s", seconds}, {"results", model.outputs().size()}};
  }

  absl::Status Run() { return context_->Run(); }

 private:
  // {"p": 0}: result 0 is written over input p.
  absl::Status Donate(const json& donate, const Model& model) {
    for (const auto& [name, result] : donate.items()) {
      const auto input = bound_.find(name);
      const auto k = result.get<size_t>();
      if (input == bound_.end() || k >= model.outputs().size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("donate: input \"", name, "\" or result ", k, " does not exist"));
      }
      KILN_RETURN_IF_ERROR(context_->BindOutput(model.outputs()[k].name, input->second));
    }
    return absl::OkStatus();
  }

  const CommonOptions common_;
  std::unique_ptr<Context> context_;
  std::map<std::string, Tensor> bound_;  // inputs of the last load
};

}  // namespace

int Serve(const CommonOptions& options) {
  Loaded loaded(options);
  AnswerRequests(
      {[&](const json& request) { return loaded.Load(request); }, [&] { return loaded.Run(); }});
  return kExitOk;
}

}  // namespace kiln
