// SPDX-License-Identifier: Apache-2.0
#include "tests/models/model_case.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/npy.h"

namespace kiln {

std::vector<Tensor> ReadTensors(const std::string& folder, const std::string& stem) {
  std::vector<Tensor> tensors;
  while (true) {
    absl::StatusOr<Tensor> tensor =
        ReadNpy(absl::StrCat(folder, "/", stem, "_", tensors.size(), ".npy"));
    if (!tensor.ok()) return tensors;
    tensors.push_back(*std::move(tensor));
  }
}

std::vector<std::string> TinyNetworks(uint64_t every) {
  std::vector<std::string> names;
  for (const auto& net : std::filesystem::directory_iterator(KILN_TEST_DATA_DIR "/models/tiny"))
    names.push_back(net.path().filename().string());
  std::sort(names.begin(), names.end());
  std::vector<std::string> chosen;
  for (size_t k = 0; k < names.size(); k += every) chosen.push_back(names[k]);
  return chosen;
}

std::string FetchedModel(const std::string& name) {
  const std::string path = absl::StrCat(KILN_SOURCE_DIR, "/.deps/models/", name, "/model.onnx");
  return std::filesystem::exists(path) ? path : "";
}

CompileOptions SharedOptions(int level, CompileMode mode) {
  // Lives as long as the process: a service for each mode, with workers and loaded kernels.
  static auto* const services = new std::map<CompileMode, std::shared_ptr<KernelService>>;
  CompileOptions options;
  options.graph_opt_level = level;
  options.compile_mode = mode;
  options.threads = 2;
  options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  std::shared_ptr<KernelService>& service = (*services)[mode];
  if (service == nullptr) service = std::make_shared<KernelService>(options);
  options.kernels = service;
  return options;
}

std::vector<std::pair<std::string, Tensor>> Named(const Graph& graph,
                                                  const std::vector<Tensor>& inputs) {
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t k = 0; k < inputs.size(); ++k)
    named.emplace_back(graph.value(graph.inputs()[k]).name, inputs[k]);
  return named;
}

}  // namespace kiln
