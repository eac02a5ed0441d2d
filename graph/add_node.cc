// SPDX-License-Identifier: Apache-2.0
// How a node comes into a graph: by its op's rules for inputs, attributes, types and shapes.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/check_node.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/shape_content.h"

namespace kiln {
namespace {

size_t Index(ValueId id) { return static_cast<size_t>(id.v); }

// Replaces inputs that only tell extents by the attributes that say the same.
void BindShapeInputs(const Graph& graph, Node& node) {
  const std::vector<ValueId> given = node.inputs;
  for (const AttrSpec& spec : node.op->attrs) {
    if (spec.input < 0 || static_cast<size_t>(spec.input) >= node.inputs.size()) continue;
    ValueId& input = node.inputs[static_cast<size_t>(spec.input)];
    if (!input.valid()) continue;
    const std::optional<Shape> content = ContentOf(graph.value(input));
    if (!content) continue;
    node.attrs[spec.name] = DimsValue(*content);
    input = ValueId{};
    node.operands = given;
  }
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
}

}  // namespace

absl::StatusOr<std::vector<ValueId>> Graph::AddNode(const OpDef& op, std::vector<ValueId> inputs,
                                                    Attrs attrs, std::string node_name,
                                                    std::vector<std::string> output_names) {
  Node node;
  node.op = &op;
  const bool named = !node_name.empty();
  node.name = named ? std::move(node_name) : op.name;  // for errors, until the outputs have names
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  const size_t num_outputs = op.num_outputs >= 0 ? static_cast<size_t>(op.num_outputs)
                                                 : std::max<size_t>(1, output_names.size());
  node.outputs.resize(num_outputs);
  if (output_names.size() > num_outputs) {
    return absl::InvalidArgumentError(absl::StrCat("node \"", node.name, "\" (", op.name, "): has ",
                                                   output_names.size(), " outputs; the op gives ",
                                                   num_outputs));
  }
  output_names.resize(num_outputs);

  KILN_RETURN_IF_ERROR(CheckInputs(*this, node));
  BindShapeInputs(*this, node);
  KILN_RETURN_IF_ERROR(CheckAttrs(node));
  const size_t guards_before = guards_.size();
  InferContext context(*this, node);
  if (absl::Status status = InferNode(context); !status.ok()) {
    guards_.resize(guards_before);
    return status;
  }
  const NodeId id{static_cast<int32_t>(nodes_.size())};
  for (size_t k = 0; k < num_outputs; ++k) {
    InferContext::Output& output = context.outputs[k];
    Value value;
    value.name = UniqueName(output_names[k].empty() ? op.name : output_names[k]);
    value.type = output.type;
    value.shape = std::move(output.shape);
    value.shape_content = std::move(output.content);
    value.producer = id;
    node.outputs[k] = AddValue(std::move(value));
  }
  if (!named && num_outputs > 0) node.name = values_[Index(node.outputs[0])].name;
  nodes_.push_back(std::move(node));
  AddUses(id);
  for (size_t k = 0; k < num_outputs; ++k) {
    Value& value = values_[Index(nodes_.back().outputs[k])];
    if (!value.shape_content)
      value.shape_content = FollowContent(*this, nodes_.back(), static_cast<int>(k));
  }
  return nodes_.back().outputs;
}

}  // namespace kiln
