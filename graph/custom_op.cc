// SPDX-License-Identifier: Apache-2.0
#include "graph/custom_op.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
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

// ---- composed
// What `op` composes for inputs like these, in a graph of its own.
struct Composition {
  Graph graph;
  std::vector<ValueId> outputs;
};

absl::StatusOr<Composition> ComposedAlone(const Graph& graph, const CustomOp& op,
                                          const CustomCall& call) {
  Composition made;
  std::vector<ValueId> inputs;
  for (const ValueId id : call.inputs) {
    inputs.emplace_back();
    if (!id.valid()) continue;
    const Value& value = graph.value(id);
    inputs.back() = value.constant ? made.graph.AddConstant(value.name, *value.constant)
                                   : made.graph.AddInput(value.name, value.type, value.shape);
    made.graph.mutable_value(inputs.back()).shape_content = value.shape_content;
  }
  GraphBuilder b(&made.graph);
  KILN_ASSIGN_OR_RETURN(made.outputs, op.compose(b, {std::move(inputs), call.attrs}));
  KILN_RETURN_IF_ERROR(b.status());
  return made;
}

absl::Status InferComposed(InferContext& c) {
  const CustomOp& op = CustomOpOf(c.node());
  KILN_ASSIGN_OR_RETURN(const Composition made,
                        ComposedAlone(c.graph(), op, {c.node().inputs, op.attrs}));
  if (made.outputs.size() != c.outputs.size())
    return absl::InvalidArgumentError(absl::StrCat("compose gives ", made.outputs.size(),
                                                   " outputs, the node has ", c.outputs.size()));
  for (const Guard& guard : made.graph.guards()) c.Assume(guard);
  for (size_t k = 0; k < made.outputs.size(); ++k) {
    const Value& value = made.graph.value(made.outputs[k]);
    c.SetOutput(static_cast<int>(k), value.type, value.shape);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> Compose(GraphBuilder& b, const Node& node) {
  const CustomOp& op = CustomOpOf(node);
  return op.compose(b, {node.inputs, op.attrs});
}

constexpr AttrSpec kCustomAttrs[] = {
    {"op", AttrKind::kCustom, true, 0, nullptr, "the operator, with its attributes"}};

constexpr OpDef kCustomOps[] = {
    {.name = "custom",
     .doc = "An operator of the caller's, run on the host between kernels.",
     .kind = OpKind::kHost,
     .min_inputs = 0,
     .max_inputs = -1,
     .num_outputs = -1,
     .attrs = kCustomAttrs,
     .infer = InferCustom,
     .witness = "the caller's",
     .dynamic = true,
     .gradient = {.rule = gradient::Custom, .note = "the caller's"}},
    {.name = "composed",
     .doc = "An operator of the caller's, written with others, that has a gradient of its own.",
     .kind = OpKind::kComposite,
     .min_inputs = 0,
     .max_inputs = -1,
     .num_outputs = -1,
     .attrs = kCustomAttrs,
     .infer = InferComposed,
     .decompose = Compose,
     .witness = "the caller's",
     .gradient = {.rule = gradient::Custom, .note = "the caller's"}},
};

absl::StatusOr<std::vector<ValueId>> AddNodeOf(Graph& graph, const OpDef& record,
                                               const CustomOp& op, const CustomCall& call,
                                               const std::string& name, size_t num_outputs) {
  auto bound = std::make_shared<CustomOp>(op);
  bound->attrs = call.attrs;
  return graph.AddNode(record, call.inputs,
                       {{"op", std::shared_ptr<const CustomOp>(std::move(bound))}}, name,
                       std::vector<std::string>(num_outputs));
}

}  // namespace

std::span<const OpDef> ops::CustomOps() { return kCustomOps; }

const CustomOp& CustomOpOf(const Node& node) {
  return **std::get_if<std::shared_ptr<const CustomOp>>(&node.attrs.at("op"));
}

absl::StatusOr<std::vector<ValueId>> AddCustomOp(Graph& graph, const CustomOp& op,
                                                 const CustomCall& call, const std::string& name) {
  const std::string subject = absl::StrCat("custom op \"", op.domain, ".", op.name, "\"");
  if (op.compose && op.gradient) {
    const absl::StatusOr<Composition> alone = ComposedAlone(graph, op, call);
    if (!alone.ok()) return Annotate(alone.status(), subject);
    return AddNodeOf(graph, kCustomOps[1], op, call, name, alone->outputs.size());
  }
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
  return AddNodeOf(graph, kCustomOps[0], op, call, name, outputs->size());
}

}  // namespace kiln
