// SPDX-License-Identifier: Apache-2.0
// A transposed convolution as one ordinary convolution for each phase of the stride: no product
// with the zeros that a stride puts between inputs, and no sum of overlapping patches.
//
// Output o meets input i through tap k where o + pad = i * stride + k * dilation. All outputs of
// one phase, o mod stride, meet the same taps, and each tap at a constant distance: with stride 2
// and a kernel of 4 each phase is a convolution with 2 of the taps.
//
//   tap         k=0      k=1      k=2      k=3        (pad 1)
//   o = 2j               x[j]              x[j-1]
//   o = 2j+1    x[j+1]            x[j]
//
// Each phase is a product of rows, found through pointers, and the panels of its taps.
#ifndef KILN_EXEC_LIBRARY_DECONV_PHASES_H_
#define KILN_EXEC_LIBRARY_DECONV_PHASES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// conv_transpose of f32, channels innermost, one group, constant weights, where this is the fastest
// way that is known. Others are kUnimplemented, with the reason.
absl::StatusOr<std::unique_ptr<Primitive>> MakeDeconvPhases(
    const Request& request, const std::shared_ptr<Session>& session);

// The same whether it pays or not.
absl::StatusOr<std::unique_ptr<Primitive>> MakeDeconvPhasesAnyway(
    const Request& request, const std::shared_ptr<Session>& session);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_DECONV_PHASES_H_
