// SPDX-License-Identifier: Apache-2.0
// Small models that have, together, one of everything that a Program can hold, and inputs for them.
#ifndef KILN_TESTS_FUZZ_PACKAGES_FUZZ_MODELS_H_
#define KILN_TESTS_FUZZ_PACKAGES_FUZZ_MODELS_H_

#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "kiln/model.h"

namespace kiln {

// Graphs as text.
std::vector<std::string> FuzzGraphs();

// Tensors for inputs that are not absurdly large; symbols stand for `extent`.
std::vector<std::pair<std::string, Tensor>> FuzzInputs(const std::vector<PortInfo>& ports,
                                                       int64_t extent, std::mt19937_64& random);

// The package of a graph with its free variant and one for n = 2. Its kernels have no code.
absl::StatusOr<std::string> PackageOf(const std::string& text, const std::string& directory);

// Runs the model on inputs for `ports`, or for its own, and reads every byte of its outputs.
// A forged loop may have no end: kDeadlineExceeded after `longest`, what compiles included.
absl::Status RunAndRead(Model& model, int64_t extent, std::mt19937_64& random,
                        const std::vector<PortInfo>* ports = nullptr,
                        std::chrono::milliseconds longest = std::chrono::milliseconds(300));

}  // namespace kiln

#endif  // KILN_TESTS_FUZZ_PACKAGES_FUZZ_MODELS_H_
