// SPDX-License-Identifier: Apache-2.0
// A test case of a package: inputs, and what the model is to give for them. `kiln run --self-test`
// runs them; no other run looks at them.
#ifndef KILN_EXEC_PACKAGE_TEST_CASE_H_
#define KILN_EXEC_PACKAGE_TEST_CASE_H_

#include <vector>

#include "absl/status/status.h"
#include "base/tensor.h"
#include "kiln/model.h"

namespace kiln {

struct TestCase {
  std::vector<Tensor> inputs;   // by port, all of them
  std::vector<Tensor> outputs;  // by port; none: nothing is compared
  double max_error = 0;         // of floats: |got - want| <= max_error + max_error * |want|
  bool silent = false;          // nothing is said where it is right
};

// kInvalidArgument: tensors are not one for each port, have another type, rank or extent than their
// port, or the bound is no number from 0 on.
absl::Status CheckTestCase(const TestCase& test, const std::vector<PortInfo>& inputs,
                           const std::vector<PortInfo>& outputs);

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_TEST_CASE_H_
