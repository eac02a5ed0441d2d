// SPDX-License-Identifier: Apache-2.0
// What options of Python say.
#ifndef KILN_PYTHON_OPTIONS_H_
#define KILN_PYTHON_OPTIONS_H_

#include <nanobind/nanobind.h>

#include "kiln/options.h"

namespace kiln::python {

namespace nb = nanobind;

// {"x": (1, 64)}. Raises InvalidArgument.
NamedShapes ShapesFrom(const nb::dict& shapes);

}  // namespace kiln::python

#endif  // KILN_PYTHON_OPTIONS_H_
