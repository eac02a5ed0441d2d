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

// A path as the operating system has it: of a str or an os.PathLike. Raises TypeError for other
// objects, InvalidArgument for a path with a NUL, which would end it.
std::string PathOf(nb::handle path);
// The same of what is text already.
const std::string& CheckPath(const std::string& path);

// Raises InvalidArgument.
Source SourceOf(nb::handle model, const std::string& name, const std::string& folder);

}  // namespace kiln::python

#endif  // KILN_PYTHON_SOURCE_H_
