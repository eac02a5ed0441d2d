// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/bytes.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/infer.h"

namespace kiln::ops {

absl::Status RequireBytes(const InferContext& c, int k, int zero) {
  const auto is_byte = [](DType type) { return type == DType::kU8 || type == DType::kI8; };
  KILN_RETURN_IF_ERROR(RequireType(c, k, is_byte, "u8 or i8"));
  if (!c.has_input(zero) || c.type(zero) == c.type(k)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input ", k, " is ", Name(c.type(k)),
                                                 ", its zero point, input ", zero, ", is ",
                                                 Name(c.type(zero)), "; cast one of them"));
}

Tensor Centered(const Tensor& q, const Tensor* zero) {
  if (zero == nullptr) return q;
  const std::vector<int64_t>&shape = q.shape(), &own = zero->shape();
  std::vector<int64_t> steps(shape.size(), 0);  // through `zero`, one for each axis of q
  int64_t step = 1;
  for (size_t i = own.size(); i-- > 0; step *= own[i]) {
    if (own[i] != 1) steps[shape.size() - own.size() + i] = step;
  }
  Tensor centered = Tensor::Allocate(DType::kI64, shape);
  for (int64_t i = 0; i < q.num_elements(); ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      at += rest % shape[axis] * steps[axis];
    static_cast<int64_t*>(centered.data())[i] =
        static_cast<const int64_t*>(q.data())[i] - static_cast<const int64_t*>(zero->data())[at];
  }
  return centered;
}

const Tensor* InputOrNull(const Node& node, std::span<const Tensor> inputs, size_t k) {
  return k < inputs.size() && node.inputs[k].valid() ? &inputs[k] : nullptr;
}

}  // namespace kiln::ops
