// SPDX-License-Identifier: Apache-2.0
// Convolutions to so few channels that registers across channels would lie empty: a head that gives
// one probability a pixel, a filter over a signal. With the channels innermost a row of a window
// lies in one piece, and an output is a dot product of such rows with the filter's.
#ifndef KILN_EXEC_LIBRARY_DOT_CONV_H_
#define KILN_EXEC_LIBRARY_DOT_CONV_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// conv of f32 where that pays by the counts of channels and taps, channels innermost, one group,
// constant weights, the taps along the last axis side by side. Others are kUnimplemented.
absl::StatusOr<std::unique_ptr<Primitive>> MakeDotConv(const Request& request,
                                                       const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_DOT_CONV_H_
