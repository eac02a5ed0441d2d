// SPDX-License-Identifier: Apache-2.0
// How Kiln says that something failed: absl::Status and absl::StatusOr, and no exception.
//
//   absl::StatusOr<kiln::Model> model = kiln::Compile("net.onnx", {});
//   if (!model.ok()) { std::cerr << model.status().message() << "\n"; return 1; }
//
// A message has a subject, what is wrong with both values, and what to do. The code says whose turn
// it is:
//   kInvalidArgument     the model, an option or an input is wrong
//   kUnimplemented       the model needs what Kiln does not have; the message lists all of it
//   kNotFound            no such file; no variant in a package for these inputs
//   kDataLoss            a file is damaged
//   kFailedPrecondition  a call out of order, as an output before the first run
//   kPermissionDenied    a file or directory may not be used
//   kResourceExhausted   memory, disk or a limit
//   kUnavailable         the system refused a thread or process: worth another try
//   kInternal            a bug of Kiln: please report it
#ifndef KILN_STATUS_H_
#define KILN_STATUS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Before what libkiln.so and libkiln_runtime.so export.
#define KILN_API __attribute__((visibility("default")))
// Before a part of an exported class that is not.
#define KILN_INSIDE __attribute__((visibility("hidden")))

#endif  // KILN_STATUS_H_
