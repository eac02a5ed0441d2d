// SPDX-License-Identifier: Apache-2.0
// Between Python's objects and kiln::Array.
#ifndef KILN_PYTHON_ARRAY_H_
#define KILN_PYTHON_ARRAY_H_

#include <nanobind/nanobind.h>

#include "kiln/trace.h"
#include "python/tensor.h"

namespace kiln::python {

// Where the program is that calls into Kiln: the newest frame that is not of the package itself.
Location Caller();

// An array, or raises what it carries.
Array Checked(Array array);

// An operand of an operator: a kiln.Array; a number of Python or NumPy; None, which is absent;
// whatever else is an array, copied.
struct PyOperand {
  explicit PyOperand(nb::handle object, Location where);
  PyOperand(const PyOperand&) = delete;
  PyOperand& operator=(const PyOperand&) = delete;

  Array array;
  Operand operand;
};

// Whether an argument of a traced function is an array, and not passed on as it is.
bool IsArray(nb::handle object);

}  // namespace kiln::python

#endif  // KILN_PYTHON_ARRAY_H_
