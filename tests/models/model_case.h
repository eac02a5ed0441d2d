// SPDX-License-Identifier: Apache-2.0
// A model file with inputs and expected outputs, and the settings under which it must give them.
#ifndef KILN_TESTS_MODELS_MODEL_CASE_H_
#define KILN_TESTS_MODELS_MODEL_CASE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "compiler/compile.h"
#include "graph/graph.h"

namespace kiln {

// input_0.npy, input_1.npy, ... or expected_0.npy, ... of a folder, until one is missing.
std::vector<Tensor> ReadTensors(const std::string& folder, const std::string& stem);

// Names of each n-th of the tiny networks, tests/data/models/tiny/NAME.
std::vector<std::string> TinyNetworks(uint64_t every);

// The trained network as scripts/fetch_model leaves it; empty where it is not there.
std::string FetchedModel(const std::string& name);

// Options whose kernels are shared by all tests of this process with the same mode, so that a
// kernel is built once.
CompileOptions SharedOptions(int level, CompileMode mode);

// Inputs by the graph's names, in order.
std::vector<std::pair<std::string, Tensor>> Named(const Graph& graph,
                                                  const std::vector<Tensor>& inputs);

}  // namespace kiln

#endif  // KILN_TESTS_MODELS_MODEL_CASE_H_
