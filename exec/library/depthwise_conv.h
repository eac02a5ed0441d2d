// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions, channels innermost: every channel has a filter of its own. Neighbouring
// outputs of a line share the points that they read, which are found through pointers; beyond the
// image they point to zeros, and rows beyond it are left out.
#ifndef KILN_EXEC_LIBRARY_DEPTHWISE_CONV_H_
#define KILN_EXEC_LIBRARY_DEPTHWISE_CONV_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// conv of f32 with a group for each channel, channels innermost, constant finite weights, and a
// window that FindDepthwiseBlock knows along the last axis. Others are kUnimplemented.
absl::StatusOr<std::unique_ptr<Primitive>> MakeDepthwiseConv(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_DEPTHWISE_CONV_H_
