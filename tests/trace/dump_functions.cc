// SPDX-License-Identifier: Apache-2.0
// dump_functions DIR COUNT SEED: random traced functions as ONNX models, with inputs and what the
// trace gives for them, for dump_onnx_test.py.
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "base/status_macros.h"
#include "tests/trace/dumped_function.h"

namespace kiln {
namespace {

absl::Status Write(const std::string& stem, uint64_t seed) {
  const RandomFunction function = RandomModel(seed);
  std::mt19937_64 random(seed);
  const std::vector<Tensor> inputs = RandomInputs(function, random);
  DumpOptions options;
  options.keep_var_name = static_cast<int>(seed % 3);
  options.keep_opr_name = seed % 2 == 0;
  if (seed % 4 == 0) options.optimize_for_inference.emplace();
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                        TraceAndDump(function, inputs, stem + ".onnx", options));
  for (size_t k = 0; k < inputs.size(); ++k)
    KILN_RETURN_IF_ERROR(WriteNpy(absl::StrCat(stem, "_in", k, ".npy"), inputs[k]));
  for (size_t k = 0; k < outputs.size(); ++k)
    KILN_RETURN_IF_ERROR(WriteNpy(absl::StrCat(stem, "_out", k, ".npy"), outputs[k]));
  return absl::OkStatus();
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const uint64_t count = std::strtoull(argv[2], nullptr, 10),
                 first = std::strtoull(argv[3], nullptr, 10);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const absl::Status status = kiln::Write(absl::StrCat(argv[1], "/", seed), seed);
    if (status.ok()) continue;
    std::cerr << "seed " << seed << ": " << status << "\n";
    return 1;
  }
  return 0;
}
