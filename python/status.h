// SPDX-License-Identifier: Apache-2.0
// From absl::Status to Python's exceptions: each code is a class of kiln/_errors.py, and its number
// is that of kiln.h.
//
//   Check(context.Run(control));                    // returns, or throws what Python raises
//   kiln::Model model = Value(kiln::Compile(path, options));
//
// Needs the GIL.
#ifndef KILN_PYTHON_STATUS_H_
#define KILN_PYTHON_STATUS_H_

#include <string>
#include <utility>

#include "kiln/status.h"

namespace kiln::python {

[[noreturn]] void Raise(const absl::Status& status);
[[noreturn]] void RaiseInvalid(const std::string& message);

inline void Check(const absl::Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T Value(absl::StatusOr<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

}  // namespace kiln::python

#endif  // KILN_PYTHON_STATUS_H_
