// SPDX-License-Identifier: Apache-2.0
#include "graph/custom_op.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/ops/ops.h"

namespace kiln {
namespace {

absl::Status InferCustom(InferContext& c) {
  const CustomOp& op = CustomOpOf(c.node());
  std::vector<const Value*> inputs;
  for (int k = 0; k < c.num_inputs(); ++k) inputs.push_back(c.has_input(k) ? &c.input(k) : nullptr);
  KILN_ASSIGN_OR_RETURN(const std::vector<CustomOutput> outputs, op.infer(inputs, op.attrs));
  if (outputs.size() != c.outputs.size())
    return absl::InvalidArgumentError(
        absl::StrCat("infer gives ", outputs.size(), " outputs, the node has ", c.outputs.size()));
  for (size_t k = 0; k < outputs.size(); ++k)
    c.SetOutput(static_cast<int>(k), outputs[k].type, outputs[k].shape);
  return absl::OkStatus();
}

constexpr AttrSpec kCustomAttrs[] = {
    {"op", AttrKind::kCustom, true, 0, nullptr, "the operator, with its attributes"}};

constexpr OpDef kCustom = {.name = "custom",
                           .doc = "An operator of the caller's, run on the host between kernels.",
                           .kind = OpKind::kHost,
                           .min_inputs = 0,
                           .max_inputs = -1,
                           .num_outputs = -1,
                           .attrs = kCustomAttrs,
                           .infer = InferCustom,
                           .witness = "the caller's",
                           .dynamic = true};

}  // namespace

std::span<const OpDef> ops::CustomOps() { return {&kCustom, 1}; }

const CustomOp& CustomOpOf(const Node& node) {
  return **std::get_if<std::shared_ptr<const CustomOp>>(&node.attrs.at("op"));
}

absl::StatusOr<std::vector<ValueId>> AddCustomOp(Graph& graph, const CustomOp& op,
                                                 const CustomCall& call, const std::string& name) {
  const std::string subject = absl::StrCat("custom op \"", op.domain, ".", op.name, "\"");
  if (op.compose) {
    GraphBuilder b(&graph);
    absl::StatusOr<std::vector<ValueId>> made = op.compose(b, call);
    if (!made.ok()) return Annotate(made.status(), subject);
    if (!b.status().ok()) return Annotate(b.status(), subject);
    return made;
  }
  if (!op.infer || !op.run)
    return absl::InvalidArgumentError(
        absl::StrCat(subject, ": has neither compose nor infer and run; give one of them"));
  std::vector<const Value*> inputs;
  for (const ValueId id : call.inputs) inputs.push_back(id.valid() ? &graph.value(id) : nullptr);
  const absl::StatusOr<std::vector<CustomOutput>> outputs = op.infer(inputs, call.attrs);
  if (!outputs.ok()) return Annotate(outputs.status(), subject);
  auto bound = std::make_shared<CustomOp>(op);
  bound->attrs = call.attrs;
  return graph.AddNode(kCustom, call.inputs,
                       {{"op", std::shared_ptr<const CustomOp>(std::move(bound))}}, name,
                       std::vector<std::string>(outputs->size()));
}

}  // namespace kiln
