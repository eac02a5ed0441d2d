// SPDX-License-Identifier: Apache-2.0
// One test of the ONNX project's backend suites: a folder with model.onnx and, for each data set,
// test_data_set_<n>/input_<i>.pb and output_<i>.pb, serialized tensors in the order of the graph's
// inputs and outputs.
#ifndef KILN_TESTS_ONNX_CONFORMANCE_BACKEND_CASE_H_
#define KILN_TESTS_ONNX_CONFORMANCE_BACKEND_CASE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/machine_of.h"

namespace kiln {

// Who computes.
enum class Evaluator : uint8_t {
  kInterpreter,  // the oracle
  kModel,        // compiled as the options say, through the public API
  kPackage,      // that, and written as a package, loaded and run: the bits must be the same
};

// Bounds of ONNX's own runner. Types and shapes must be equal, integers and bool too.
inline constexpr double kCaseRtol = 1e-3;
inline constexpr double kCaseAtol = 1e-7;

// How results are judged.
enum class Judge : uint8_t {
  kValues,  // within the bounds
  kShares,  // of random results: types, shapes, and the share of zeros, within 0.25
};

// Ok if every data set gives what is expected, and there is at least one. kUnimplemented: the model
// or its data need what Kiln does not have; kInternal: results differ; else as import or run says.
absl::Status RunBackendCase(const std::string& folder, Evaluator executor, Judge judge,
                            const CompileOptions& options);

// The folders <root>/<suite>/test_* with a model, as "<suite>/<name>", sorted.
std::vector<std::string> BackendCases(const std::string& root);

}  // namespace kiln

#endif  // KILN_TESTS_ONNX_CONFORMANCE_BACKEND_CASE_H_
