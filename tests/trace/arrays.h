// SPDX-License-Identifier: Apache-2.0
// Arrays of floats, and traces that run on the VM alone (tests/compiler/on_vm.h).
#ifndef KILN_TESTS_TRACE_ARRAYS_H_
#define KILN_TESTS_TRACE_ARRAYS_H_

#include <gtest/gtest.h>

#include <vector>

#include "absl/status/statusor.h"
#include "kiln/trace.h"
#include "tests/compiler/on_vm.h"

namespace kiln {

using Floats = std::vector<float>;

inline TraceOptions Plain() {
  TraceOptions options;
  options.compile = OnVm();
  return options;
}

inline Array Of(const Floats& values) { return Array::from(values); }

// None, and the test fails, where the array has an error.
inline Floats ValuesOf(const Array& array) {
  const absl::StatusOr<Floats> values = array.to_vector<float>();
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : Floats();
}

}  // namespace kiln

#endif  // KILN_TESTS_TRACE_ARRAYS_H_
