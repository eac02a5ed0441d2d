// SPDX-License-Identifier: Apache-2.0
// A model by way of a package: compiled for given inputs, written, loaded by the runtime and run.
#ifndef KILN_TESTS_ONNX_CONFORMANCE_PACKAGE_CASE_H_
#define KILN_TESTS_ONNX_CONFORMANCE_PACKAGE_CASE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "compiler/machine_of.h"

namespace kiln {

// The outputs of the package's run. What kDataLoss and kNotFound of it mean is a fault of the
// package, and kInternal here.
absl::StatusOr<std::vector<Tensor>> RunAsPackage(
    const std::string& model, const std::vector<std::pair<std::string, Tensor>>& inputs,
    const std::map<std::string, Shape>& shapes, const CompileOptions& options);

// kInternal unless the bytes are the same.
absl::Status SameBits(const std::vector<Tensor>& package, const std::vector<Tensor>& compiled);

}  // namespace kiln

#endif  // KILN_TESTS_ONNX_CONFORMANCE_PACKAGE_CASE_H_
