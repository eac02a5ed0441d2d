// SPDX-License-Identifier: Apache-2.0
#include "exec/library/library.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/library/conv_1x1.h"
#include "exec/library/conv_backward_product.h"
#include "exec/library/deconv_phases.h"
#include "exec/library/deconv_product.h"
#include "exec/library/depthwise_conv.h"
#include "exec/library/dot_conv.h"
#include "exec/library/gemv.h"
#include "exec/library/integer_ops.h"
#include "exec/library/lookup.h"
#include "exec/library/onednn.h"
#include "exec/library/order_ops.h"
#include "exec/library/pool_backward.h"
#include "exec/library/pool_ops.h"
#include "exec/library/post_ops.h"
#include "exec/library/scatter.h"
#include "exec/library/skinny_gemm.h"

namespace kiln::library {
namespace {

constexpr Operator kOperators[] = {
    {"average_pool",
     1,
     1,
     1,
     {{{"rows of channels", MakeAveragePoolRows}, {"planes", MakeAveragePoolPlanes}}},
     true},
    {"average_pool_backward",
     1,
     1,
     1,
     {{{"rows of channels", MakeAveragePoolBackwardRows},
       {"planes", MakeAveragePoolBackwardPlanes}}},
     true},
    {"conv",
     2,
     3,
     1,
     {{{"dot products", MakeDotConv, true},
       {"points", MakeConv1X1, true},
       {"rows times panels", MakeSkinnyGemmConv, true},
       {"channel by channel", MakeDepthwiseConv, true},
       {"oneDNN, layouts kept", MakeConvKept, true},
       {"oneDNN, layouts of its own", MakeConvReordered, true},
       {"loop", MakeConvLoop}}},
     true},
    {"conv_backward_weights",
     2,
     2,
     1,
     {{{"a product of rows", MakeConvBackwardWeightsProduct},
       {"oneDNN, layouts kept", MakeConvBackwardWeightsKept},
       {"oneDNN, layouts of its own", MakeConvBackwardWeightsReordered},
       {"loop", MakeConvBackwardWeightsLoop}}}},
    {"conv_integer",
     2,
     4,
     1,
     {{{"pairs of taps", MakePairDepthwise},
       {"pairs of terms", MakePairConv},
       {"loop", MakeIntegerConvLoop}}},
     true},
    {"conv_transpose",
     2,
     3,
     1,
     {{{"rows times panels, by phase", MakeDeconvPhases, true},
       {"products, then a sum of taps", MakeDeconvProduct},
       {"oneDNN, layouts kept", MakeConvTransposeKept},
       {"oneDNN, layouts of its own", MakeConvTransposeReordered},
       {"loop", MakeConvTransposeLoop}}},
     true},
    {"cumulative", 1, 1, 1, {{{"loop", MakeCumulative}}}},
    {"lookup", 2, 2, 1, {{{"permutations of bytes", MakeLookup}}}},
    {"matmul",
     2,
     2,
     1,
     {{{"matrix times vector", MakeGemv, true},
       {"rows times panels", MakeSkinnyGemmMatmul, true},
       {"oneDNN", MakeOneDnnMatmul, true},
       {"loop", MakeMatmulLoop}}}},
    {"matmul_integer",
     2,
     4,
     1,
     {{{"pairs of terms", MakePairMatmul}, {"loop", MakeIntegerMatmulLoop}}}},
    {"max_pool",
     1,
     1,
     1,
     {{{"rows of channels", MakeMaxPoolRows}, {"planes", MakeMaxPoolPlanes}}},
     true},
    {"max_pool_backward",
     2,
     2,
     1,
     {{{"rows of channels", MakeMaxPoolBackwardRows}, {"planes", MakeMaxPoolBackwardPlanes}}},
     false},
    {"qlinear_conv",
     8,
     9,
     1,
     {{{"pairs of taps", MakeQuantisedDepthwise},
       {"pairs of terms", MakeQuantisedConv},
       {"loop", MakeQuantisedConvLoop}}},
     true},
    {"scatter_elements", 3, 3, 1, {{{"loop", MakeScatterElements}}}},
    {"scatter_nd", 3, 3, 1, {{{"loop", MakeScatterNd}}}},
    {"top_k", 1, 1, 2, {{{"loop", MakeTopK}}}},
};

// The implementations in the order in which they are asked.
std::vector<Implementation> Asked(const Operator& op, const Wish& wish) {
  std::vector<Implementation> asked;
  for (const Implementation& candidate : op.implementations) {
    if (candidate.make == nullptr) break;
    if (candidate.name == wish.first) {
      asked.insert(asked.begin(), candidate);
    } else if (!wish.only) {
      asked.push_back(candidate);
    }
  }
  return asked;
}

// Of the first implementation that takes the request; those that do not are added to `considered`.
absl::StatusOr<std::unique_ptr<Primitive>> First(const Operator& op, const Request& request,
                                                 const std::shared_ptr<Session>& session,
                                                 const Wish& wish,
                                                 std::vector<Considered>& considered) {
  absl::StatusOr<std::unique_ptr<Primitive>> made = absl::UnimplementedError("no implementation");
  std::unique_ptr<Primitive> large;  // of the first that takes it and needs more than the limit
  std::string large_name;
  for (const Implementation& candidate : Asked(op, wish)) {
    if (!request.post_ops.empty() && !candidate.post_ops) {
      considered.push_back({candidate.name, "takes no post-ops"});
      continue;
    }
    made = candidate.make(request, session);
    if (made.ok() && wish.workspace_limit > 0 && (*made)->scratch_bytes() > wish.workspace_limit) {
      const std::string needs =
          absl::StrCat("needs ", (*made)->scratch_bytes(), " bytes of workspace, more than the ",
                       wish.workspace_limit, " allowed");
      considered.push_back({candidate.name, needs});
      if (large == nullptr) large = *std::move(made), large_name = candidate.name;
      made = absl::UnimplementedError(needs);
      continue;
    }
    considered.push_back({candidate.name, std::string(made.status().message())});
    if (!absl::IsUnimplemented(made.status())) break;
  }
  if (!absl::IsUnimplemented(made.status()) || large == nullptr) return made;
  considered.push_back({large_name, ""});
  return large;
}

}  // namespace

absl::Status CheckOperands(const Operator& op, const Request& request) {
  KILN_RETURN_IF_ERROR(CheckPostOps(request));
  const int inputs = static_cast<int>(request.inputs.size() - CountOperands(request.post_ops)),
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

const Operator* Find(absl::string_view name) {
  for (const Operator& op : kOperators) {
    if (name == op.name) return &op;
  }
  return nullptr;
}

int Session::AddReader(const void* constant) {
  const MutexLock lock(mutex_);
  return readers_[constant]++;
}

absl::StatusOr<std::unique_ptr<Primitive>> Make(const Operator& op, const Request& request,
                                                const std::shared_ptr<Session>& session,
                                                const Wish& wish) {
  if (absl::Status status = CheckOperands(op, request); !status.ok())
    return Annotate(status, op.name);
  std::vector<Considered> considered;
  absl::StatusOr<std::unique_ptr<Primitive>> made = First(op, request, session, wish, considered);
  if (!request.post_ops.empty() && absl::IsUnimplemented(made.status())) {
    made = First(op, WithoutPostOps(request), session, wish, considered);
    if (made.ok()) {
      made = WithPostOpLoops(std::move(*made), request);
      considered.back().implementation += ", then a loop of post-ops";
    }
  }
  if (!made.ok()) return Annotate(made.status(), op.name);
  (*made)->set_considered(std::move(considered));
  return made;
}

}  // namespace kiln::library
