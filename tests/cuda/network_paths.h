// SPDX-License-Identifier: Apache-2.0
// The files whose kernels tests of GPUs compile: networks of tests/data, graphs of the benchmark.
#ifndef KILN_TESTS_CUDA_NETWORK_PATHS_H_
#define KILN_TESTS_CUDA_NETWORK_PATHS_H_

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace kiln {

inline std::vector<std::string> NetworkPaths() {
  std::vector<std::string> paths;
  for (const char* folder : {KILN_TEST_DATA_DIR "/models", KILN_SOURCE_DIR "/bench/kernels"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
      const auto extension = file.path().extension();
      if (extension == ".onnx" || extension == ".graph") paths.push_back(file.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The text of a graph of the benchmark, with floats of `type` where it has f32, as bench/compare
// --dtype makes it.
inline std::string GraphTextOf(const std::string& path, const std::string& type) {
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::regex port(R"(\n((?:input|const) \S+ : )f32\b)"), cast(R"(\bto = f32\b)");
  return std::regex_replace(std::regex_replace(text, port, "\n$1" + type), cast, "to = " + type);
}

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_NETWORK_PATHS_H_
