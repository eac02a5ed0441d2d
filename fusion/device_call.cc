// SPDX-License-Identifier: Apache-2.0
#include "fusion/device_call.h"

#include <algorithm>

#include "graph/op.h"
#include "schedule/device.h"

namespace kiln {

bool IsDeviceCall(const Graph& graph, const Node& node, const LibraryRules& rules) {
  if (node.op->kind != OpKind::kLibrary || rules.device == DefaultDevice()) return false;
  const DeviceModel& model = ModelOf(rules.device);
  if (model.library == nullptr) return false;
  const Value& x = graph.value(node.inputs[0]);
  const auto operands = std::count_if(node.inputs.begin(), node.inputs.end(),
                                      [](ValueId input) { return input.valid(); });
  OperatorForm form{node.op->name, x.type, x.shape.size(), static_cast<size_t>(operands), {}, {},
                    false};
  for (const AttrSpec& spec : node.op->attrs) {
    const absl::string_view name = spec.name;
    if (name == "pads") form.pads = IntsAttr(node, name);
    if (name == "dilations") form.dilations = IntsAttr(node, name);
    if (name == "ceil_mode") form.ceil_mode = IntAttr(node, name) != 0;
  }
  return (model.library(form) & rules.libraries) != 0;
}

}  // namespace kiln
