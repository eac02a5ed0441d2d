// SPDX-License-Identifier: Apache-2.0
// A model as Python names it.
#ifndef KILN_PYTHON_SOURCE_H_
#define KILN_PYTHON_SOURCE_H_

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "kiln/compile.h"

namespace kiln::python {

namespace nb = nanobind;

// A path; or bytes, in any object with a buffer.
struct Source {
  std::string path;
  std::optional<ModelBytes> bytes;
};

// Raises InvalidArgument.
Source SourceOf(nb::handle model, const std::string& name, const std::string& folder);

}  // namespace kiln::python

#endif  // KILN_PYTHON_SOURCE_H_
