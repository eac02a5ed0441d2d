// SPDX-License-Identifier: Apache-2.0
// Calls of the host's library on operands that lie on a device: they are copied to the host, and
// what is computed is copied back. For what no library of the device takes: slow, and right.
#ifndef KILN_EXEC_HOST_CALL_H_
#define KILN_EXEC_HOST_CALL_H_

#include <memory>

#include "exec/library/primitive.h"

namespace kiln {

// `primitive` does `request` in the host's memory. Runs have a DeviceQueue as
// LaunchContext::stream.
std::unique_ptr<library::Primitive> OnHostCopies(std::unique_ptr<library::Primitive> primitive,
                                                 const library::Request& request);

}  // namespace kiln

#endif  // KILN_EXEC_HOST_CALL_H_
