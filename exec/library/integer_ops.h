// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of bytes less their zero points, with sums of 32 bits that wrap:
//
// - matmul_integer: a, b as matmul has them, u8 or i8 each; zero points of a, which broadcast to it
//   with one for each row at most, and of b, with one for each column at most.
// - conv_integer: x, w and attributes as conv has them, u8 or i8 each; one zero point of x, which
//   padding has too; one of w, or one for each output channel.
// - qlinear_conv: the same with the sums as bytes again (requantize.h); inputs as ONNX's
//   QLinearConv has them.
//
// Zero points may be absent, and all operands but x and a may be constant or not.
#ifndef KILN_EXEC_LIBRARY_INTEGER_OPS_H_
#define KILN_EXEC_LIBRARY_INTEGER_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "exec/library/pair_block.h"
#include "exec/library/primitive.h"

namespace kiln::library {

// On loops over pairs of terms of 16 bits (pair_block.h), any strides.
absl::StatusOr<std::unique_ptr<Primitive>> MakePairMatmul(const Request& request,
                                                          const std::shared_ptr<Session>& session);
// Likewise. Of one channel for each group, each with one filter, the second.
absl::StatusOr<std::unique_ptr<Primitive>> MakePairConv(const Request& request,
                                                        const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakePairDepthwise(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeQuantisedConv(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeQuantisedDepthwise(
    const Request& request, const std::shared_ptr<Session>& session);

// The same with loops that are not the processor's fastest (AllPairLoops).
absl::StatusOr<std::unique_ptr<Primitive>> MakePairMatmulWith(
    const PairLoops& loops, const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakePairConvWith(
    const PairLoops& loops, bool quantised, const Request& request,
    const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakePairDepthwiseWith(
    const PairLoops& loops, bool quantised, const Request& request,
    const std::shared_ptr<Session>& session);

// Copies of i32, then the plain loops of reference_conv.h and reference_matmul.h.
absl::StatusOr<std::unique_ptr<Primitive>> MakeIntegerMatmulLoop(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeIntegerConvLoop(
    const Request& request, const std::shared_ptr<Session>& session);
absl::StatusOr<std::unique_ptr<Primitive>> MakeQuantisedConvLoop(
    const Request& request, const std::shared_ptr<Session>& session);

// The request as `conv` and `matmul` have it: types i32, zero points of a matmul as operands that
// broadcast to the result; kInvalidArgument for operands that the operator does not take.
absl::StatusOr<Request> AsConv(const Request& request);
absl::StatusOr<Request> AsMatmul(const Request& request);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_INTEGER_OPS_H_
