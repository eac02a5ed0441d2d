// SPDX-License-Identifier: Apache-2.0
#include "tools/requests.h"

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

json Refusal(absl::string_view error) { return json{{"ok", false}, {"error", std::string(error)}}; }

class Server {
 public:
  explicit Server(const Served& served) : served_(served) {}

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
    loaded_ = false;
    KILN_ASSIGN_OR_RETURN(json answer, served_.load(request));
    loaded_ = true;
    answer["ok"] = true;
    return answer;
  }

  absl::StatusOr<json> Time(const json& request) {
    if (!loaded_) return absl::FailedPreconditionError("time: nothing is loaded");
    for (int i = 0; i < request.value("warm", 1); ++i) KILN_RETURN_IF_ERROR(served_.run());
    const double budget = request.value("budget_s", 1e9);
    const Clock::time_point begin = Clock::now();
    std::vector<double> ms;
    for (int i = 0; i < request.value("n", 1); ++i) {
      const Clock::time_point start = Clock::now();
      KILN_RETURN_IF_ERROR(served_.run());
      ms.push_back(SecondsSince(start) * 1e3);
      if (SecondsSince(begin) > budget) break;
    }
    return json{{"ms", ms}};
  }

  const Served& served_;
  bool loaded_ = false;
};

}  // namespace

void AnswerRequests(const Served& served) {
  Server server(served);
  for (std::string line; std::getline(std::cin, line);) {
    const std::optional<json> answer = server.Answer(line);
    if (!answer.has_value()) return;
    std::cout << answer->dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  }
}

}  // namespace kiln
