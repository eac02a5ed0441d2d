// SPDX-License-Identifier: Apache-2.0
#include "tools/serve.h"

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "nlohmann/json.hpp"
#include "tools/exit_code.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Server {
 public:
  explicit Server(const CommonOptions& common) : common_(common) {}

  // The answer, or nothing for "quit".
  std::optional<json> Answer(const std::string& line) {
    if (line.size() > kMaxLine)
      return Refusal(absl::StrCat("the request has ", line.size(), " bytes, more than ", kMaxLine));
    const json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!request.is_object()) return Refusal("the request is no JSON object");
    try {
      return Handle(request);
    } catch (const json::exception& error) {  // a member of another type
      return Refusal(error.what());
    }
  }

 private:
  static constexpr size_t kMaxLine = size_t{1} << 20;

  static json Refusal(absl::string_view error) {
    return json{{"ok", false}, {"error", std::string(error)}};
  }

  std::optional<json> Handle(const json& request) {
    const std::string command = request.value("cmd", "");
    if (command == "quit") return std::nullopt;
    if (command == "version") return json{{"version", "kiln " KILN_VERSION}};
    const absl::StatusOr<json> answer =
        command == "load"   ? Load(request)
        : command == "time" ? Time(request)
                            : absl::InvalidArgumentError(absl::StrCat(
                                  "cmd \"", command, "\": is none of version, load, time, quit"));
    if (answer.ok()) return *answer;
    return Refusal(answer.status().message());
  }

  absl::StatusOr<json> Load(const json& request) {
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
    const double seconds = SecondsSince(start);
    const std::string prefix = request.value("results", "");
    for (size_t k = 0; k < model.outputs().size(); ++k) {
      KILN_ASSIGN_OR_RETURN(const Tensor output, context_->Output(model.outputs()[k].name));
      if (!prefix.empty()) KILN_RETURN_IF_ERROR(WriteNpy(absl::StrCat(prefix, k, ".npy"), output));
    }
    return json{{"ok", true}, {"load_s", seconds}, {"results", model.outputs().size()}};
  }

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

  absl::StatusOr<json> Time(const json& request) {
    if (context_ == nullptr) return absl::FailedPreconditionError("time: nothing is loaded");
    for (int i = 0; i < request.value("warm", 1); ++i) KILN_RETURN_IF_ERROR(context_->Run());
    const double budget = request.value("budget_s", 1e9);
    const Clock::time_point begin = Clock::now();
    std::vector<double> ms;
    for (int i = 0; i < request.value("n", 1); ++i) {
      const Clock::time_point start = Clock::now();
      KILN_RETURN_IF_ERROR(context_->Run());
      ms.push_back(SecondsSince(start) * 1e3);
      if (SecondsSince(begin) > budget) break;
    }
    return json{{"ms", ms}};
  }

  const CommonOptions common_;
  std::unique_ptr<Context> context_;
  std::map<std::string, Tensor> bound_;  // inputs of the last load
};

}  // namespace

int Serve(const CommonOptions& options) {
  Server server(options);
  for (std::string line; std::getline(std::cin, line);) {
    const std::optional<json> answer = server.Answer(line);
    if (!answer.has_value()) return kExitOk;
    std::cout << answer->dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }
  return kExitOk;
}

}  // namespace kiln
