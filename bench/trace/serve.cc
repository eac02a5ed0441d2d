// SPDX-License-Identifier: Apache-2.0
// Programs of arrays in Kiln's tracer, or in Eigen, as bench/interleaved.py asks for them:
//
//   kiln-bench-programs kiln|eigen THREADS
//   {"cmd": "load", "onnx": "polynomial", "inputs": {"0": "0.npy"}, "results": "/tmp/kiln."}
//   {"cmd": "time", "n": 100, "warm": 2, "budget_s": 60}
#include <chrono>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "bench/trace/programs.h"
#include "nlohmann/json.hpp"

namespace kiln::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Server {
 public:
  Server(bool eigen, int threads) : eigen_(eigen), threads_(threads) {}

  absl::StatusOr<json> Answer(const json& request) {
    return request.value("cmd", "") == "load" ? Load(request) : Time(request);
  }

 private:
  absl::StatusOr<json> Load(const json& request) {
    std::vector<Tensor> inputs;
    for (const auto& [name, path] : request.at("inputs").items()) {
      KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), ReadNpy(path.get<std::string>()));
    }
    const std::string program = request.value("onnx", "");
    KILN_ASSIGN_OR_RETURN(
        prepared_, eigen_ ? PrepareEigen(program, inputs) : PrepareKiln(program, inputs, threads_));
    for (int k = 0; k < 3; ++k) KILN_RETURN_IF_ERROR(prepared_.run());
    KILN_ASSIGN_OR_RETURN(const Tensor result, prepared_.result());
    KILN_RETURN_IF_ERROR(WriteNpy(absl::StrCat(request.value("results", ""), "0.npy"), result));
    return json{{"ok", true}};
  }

  absl::StatusOr<json> Time(const json& request) {
    if (prepared_.run == nullptr) return absl::FailedPreconditionError("time: nothing is loaded");
    for (int k = 0; k < request.value("warm", 1); ++k) KILN_RETURN_IF_ERROR(prepared_.run());
    const Clock::time_point begin = Clock::now();
    std::vector<double> ms;
    do {
      const Clock::time_point start = Clock::now();
      KILN_RETURN_IF_ERROR(prepared_.run());
      ms.push_back(MsSince(start));
    } while (static_cast<int>(ms.size()) < request.value("n", 1) &&
             MsSince(begin) < 1e3 * request.value("budget_s", 60.0));
    return json{{"ms", ms}};
  }

  const bool eigen_;
  const int threads_;
  Prepared prepared_;
};

int Serve(Server server) {
  for (std::string line; std::getline(std::cin, line);) {
    const json request = json::parse(line, nullptr, /*allow_exceptions=*/false);
    absl::StatusOr<json> answer = absl::InvalidArgumentError("the request is no JSON object");
    if (request.is_object()) answer = server.Answer(request);
    std::cout << (answer.ok() ? *answer : json{{"ok", false}, {"error", answer.status().message()}})
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && (words[0] == "kiln" || words[0] == "eigen"))
    return kiln::bench::Serve({words[0] == "eigen", std::stoi(words[1])});
  std::cerr << "usage: kiln-bench-programs kiln|eigen THREADS\n";
  return 2;
}
