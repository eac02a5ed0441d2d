// SPDX-License-Identifier: Apache-2.0
// The files whose kernels tests of GPUs compile: networks of tests/data, graphs of the benchmark.
#ifndef KILN_TESTS_CUDA_NETWORK_PATHS_H_
#define KILN_TESTS_CUDA_NETWORK_PATHS_H_

#include <algorithm>
#include <filesystem>
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

}  // namespace kiln

#endif  // KILN_TESTS_CUDA_NETWORK_PATHS_H_
