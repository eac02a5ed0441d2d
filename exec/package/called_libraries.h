// SPDX-License-Identifier: Apache-2.0
// Whether a device has the libraries that a stored program calls there.
#ifndef KILN_EXEC_PACKAGE_CALLED_LIBRARIES_H_
#define KILN_EXEC_PACKAGE_CALLED_LIBRARIES_H_

#include "absl/status/status.h"
#include "exec/program.pb.h"
#include "exec/support/compute_device.h"

namespace kiln {

// kFailedPrecondition: a library is missing; which, and what to do. Null: there is no device, which
// is found out later. Libraries are asked for only if there are calls.
absl::Status CheckCalledLibraries(const program::Program& program, ComputeDevice* on);

}  // namespace kiln

#endif  // KILN_EXEC_PACKAGE_CALLED_LIBRARIES_H_
