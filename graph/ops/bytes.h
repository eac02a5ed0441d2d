// SPDX-License-Identifier: Apache-2.0
// What products of bytes share: operands u8 or i8, each by itself, less zero points of their types.
#ifndef KILN_GRAPH_OPS_BYTES_H_
#define KILN_GRAPH_OPS_BYTES_H_

#include "absl/status/status.h"
#include "graph/op.h"

namespace kiln::ops {

// That input k is u8 or i8, and input `zero`, its zero point, as it is.
absl::Status RequireBytes(const InferContext& c, int k, int zero);

// q - zero, which broadcasts to q; both are dense i64, as the interpreter has them. Null: q.
Tensor Centered(const Tensor& q, const Tensor* zero);

// Input k of a reference loop; null where it is absent.
const Tensor* InputOrNull(const Node& node, std::span<const Tensor> inputs, size_t k);

}  // namespace kiln::ops

#endif  // KILN_GRAPH_OPS_BYTES_H_
