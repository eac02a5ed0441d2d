// SPDX-License-Identifier: Apache-2.0
// Functions of one byte as tables: what lookup_tables (fusion/lookup_tables.cc) makes of chains of
// 8-bit tensors.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/infer.h"
#include "graph/ops/ops.h"

namespace kiln::ops {
namespace {

constexpr int64_t kBytes = 256;

bool IsByte(DType type) { return type == DType::kU8 || type == DType::kI8; }

absl::Status InferLookup(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsByte, "u8 or i8"));
  KILN_RETURN_IF_ERROR(RequireType(c, 1, IsByte, "u8 or i8"));
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 0, 1));
  KILN_RETURN_IF_ERROR(RequireRank(c, 1, 2));
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(c.node(), "axis"), c.shape(0).size()));
  const Shape& table = c.shape(1);
  KILN_RETURN_IF_ERROR(c.Require(table[1], kBytes, "a row of the table and 256"));
  if (table[0].constant() != 1) {
    KILN_RETURN_IF_ERROR(
        c.Require(table[0], c.shape(0)[static_cast<size_t>(axis)], "rows of the table and `axis`"));
  }
  c.SetOutput(0, c.type(1), c.shape(0));
  return absl::OkStatus();
}

absl::Status ReferenceLookup(const Node& node, std::span<const Tensor> inputs,
                             std::span<Tensor> outputs) {
  const std::vector<int64_t>& shape = inputs[0].shape();
  KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(IntAttr(node, "axis"), shape.size()));
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  const auto* x = static_cast<const int64_t*>(inputs[0].data());
  const auto* table = static_cast<const int64_t*>(inputs[1].data());
  auto* y = static_cast<int64_t*>(outputs[0].data());
  for (int64_t i = 0; i < inputs[0].num_elements(); ++i) {
    const int64_t row = i / inner % inputs[1].shape()[0];
    y[i] = table[row * kBytes + (x[i] & (kBytes - 1))];
  }
  return absl::OkStatus();
}

constexpr AttrSpec kLookupAttrs[] = {
    {"axis", AttrKind::kInt, false, 0, nullptr, "whose coordinate chooses the row of the table"}};

constexpr OpDef kLookupOps[] = {
    {.name = "lookup",
     .doc = "The element of input 1, [rows, 256], at the byte that is the "
            "element of input 0, in the row of its own coordinate along "
            "`axis`, or in the only row.",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kLookupAttrs,
     .infer = InferLookup,
     .reference = ReferenceLookup,
     .test = {0, 100},
     .witness = "tests/fusion: tabulated chains against the chains",
     .linear = true,
     .gradient = {.none = gradient::kGivesIntegers}},
};

}  // namespace

std::span<const OpDef> LookupOps() { return kLookupOps; }

}  // namespace kiln::ops
