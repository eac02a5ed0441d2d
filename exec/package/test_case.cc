// SPDX-License-Identifier: Apache-2.0
#include "exec/package/test_case.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

absl::Status CheckFits(const Tensor& tensor, const PortInfo& port) {
  bool fits =
      tensor.dtype() == port.type && (port.any_rank || tensor.shape().size() == port.shape.size());
  for (size_t i = 0; fits && i < port.shape.size(); ++i)
    fits = port.shape[i].constant().value_or(tensor.shape()[i]) == tensor.shape()[i];
  if (fits) return absl::OkStatus();
  return Invalid("\"", port.name, "\" is ", Name(tensor.dtype()), " ",
                 ToString(ToShape(tensor.shape())), ", expected ", Name(port.type), " ",
                 ToString(port.shape));
}

absl::Status CheckAll(const std::vector<Tensor>& tensors, const std::vector<PortInfo>& ports,
                      const char* what) {
  if (tensors.size() != ports.size())
    return Invalid("has ", tensors.size(), " ", what, "s, expected ", ports.size());
  for (size_t k = 0; k < ports.size(); ++k)
    KILN_RETURN_IF_ERROR(Annotate(CheckFits(tensors[k], ports[k]), what));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTestCase(const TestCase& test, const std::vector<PortInfo>& inputs,
                           const std::vector<PortInfo>& outputs) {
  KILN_RETURN_IF_ERROR(CheckAll(test.inputs, inputs, "input"));
  if (!test.outputs.empty()) KILN_RETURN_IF_ERROR(CheckAll(test.outputs, outputs, "output"));
  if (!std::isfinite(test.max_error) || test.max_error < 0)
    return Invalid("has the bound ", test.max_error, ", expected a number from 0 on");
  return absl::OkStatus();
}

}  // namespace kiln
