// SPDX-License-Identifier: Apache-2.0
// Building the errors that users read: `<subject>: <what is wrong, both values>; <what to do>`.
#ifndef KILN_BASE_STATUS_H_
#define KILN_BASE_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kiln {

// `status` with "<context>: " before its message; Ok stays Ok. Payloads are kept.
//   Annotate(InvalidArgumentError("node \"a\": rank 3"), "importing \"m.onnx\"")
//     -> INVALID_ARGUMENT: importing "m.onnx": node "a": rank 3
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// kInvalidArgument with the text of StrCat.
template <typename... T>
absl::Status Invalid(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

// The error of a failed system call: `"<path>": <call>: No space left on device`. Which code an
// errno becomes is written in file_system.h.
absl::Status ErrnoStatus(int error, absl::string_view path, absl::string_view call);

}  // namespace kiln

#endif  // KILN_BASE_STATUS_H_
