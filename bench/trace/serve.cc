// SPDX-License-Identifier: Apache-2.0
// Programs of arrays in Kiln's tracer, or in Eigen, as bench/interleaved.py asks for them
// (tools/requests.h):
//
//   kiln-bench-programs kiln|eigen THREADS
//   {"cmd": "load", "onnx": "polynomial", "inputs": {"0": "0.npy"}, "results": "/tmp/kiln."}
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "bench/trace/programs.h"
#include "tools/requests.h"

namespace kiln::bench {
namespace {

using nlohmann::json;

absl::StatusOr<Prepared> Load(const json& request, bool eigen, int threads) {
  std::vector<Tensor> inputs;
  for (const auto& [name, path] : request.at("inputs").items()) {
    KILN_ASSIGN_OR_RETURN(inputs.emplace_back(), ReadNpy(path.get<std::string>()));
  }
  const std::string program = request.value("onnx", "");
  KILN_ASSIGN_OR_RETURN(const Prepared prepared, eigen ? PrepareEigen(program, inputs)
                                                       : PrepareKiln(program, inputs, threads));
  for (int k = 0; k < 3; ++k) KILN_RETURN_IF_ERROR(prepared.run());
  KILN_ASSIGN_OR_RETURN(const Tensor result, prepared.result());
  KILN_RETURN_IF_ERROR(WriteNpy(absl::StrCat(request.value("results", ""), "0.npy"), result));
  return prepared;
}

void ServePrograms(bool eigen, int threads) {
  Prepared prepared;
  const auto load = [&](const json& request) -> absl::StatusOr<json> {
    KILN_ASSIGN_OR_RETURN(prepared, Load(request, eigen, threads));
    return json::object();
  };
  AnswerRequests({load, [&] { return prepared.run(); }});
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && (words[0] == "kiln" || words[0] == "eigen")) {
    kiln::bench::ServePrograms(words[0] == "eigen", std::stoi(words[1]));
    return 0;
  }
  std::cerr << "usage: kiln-bench-programs kiln|eigen THREADS\n";
  return 2;
}
