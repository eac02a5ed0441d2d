// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/library/library.h"

#include "absl/strings/str_cat.h"
#include "kiln/base/status.h"
#include "kiln/base/status_macros.h"
#include "kiln/exec/library/onednn.h"
#include "kiln/exec/library/order_ops.h"
#include "kiln/exec/library/pool_ops.h"
#include "kiln/exec/library/post_ops.h"

namespace kiln::library {
namespace {

constexpr Operator kOperators[] = {
    {"average_pool", 1, 1, 1, MakeAveragePool},
    {"conv", 2, 3, 1, MakeConv},
    {"conv_transpose", 2, 3, 1, MakeConvTranspose},
    {"cumulative", 1, 1, 1, MakeCumulative},
    {"matmul", 2, 2, 1, MakeMatmul},
    {"max_pool", 1, 1, 1, MakeMaxPool},
    {"scatter_elements", 3, 3, 1, MakeScatterElements},
    {"scatter_nd", 3, 3, 1, MakeScatterNd},
    {"top_k", 1, 1, 2, MakeTopK},
};

absl::Status CheckOperands(const Operator& op, const Request& request) {
  KILN_RETURN_IF_ERROR(CheckPostOps(request));
  const int inputs = static_cast<int>(request.inputs.size() - CountOperands(request)),
            outputs = static_cast<int>(request.outputs.size());
  if (inputs < op.min_inputs || inputs > op.max_inputs || outputs != op.outputs) {
    return absl::InvalidArgumentError(absl::StrCat(inputs, " inputs and ", outputs,
                                                   " outputs; need ", op.min_inputs, " to ",
                                                   op.max_inputs, " and ", op.outputs));
  }
  for (int i = 0; i < op.min_inputs; ++i) {
    if (!request.inputs[static_cast<size_t>(i)].present) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", i, " is absent; it is not optional"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const Operator* Find(absl::string_view name) {
  for (const Operator& op : kOperators) {
    if (name == op.name) return &op;
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<Primitive>> Make(const Operator& op, const Request& request,
                                                const std::shared_ptr<Session>& session) {
  absl::Status status = CheckOperands(op, request);
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<Primitive>> primitive = op.make(request, session);
    if (primitive.ok()) return primitive;
    status = primitive.status();
  }
  return Annotate(status, op.name);
}

}  // namespace kiln::library
