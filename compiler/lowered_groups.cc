// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowered_groups.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/stop.h"
#include "fusion/node_key.h"
#include "graph/op.h"

namespace kiln {
namespace {

std::vector<ValueId> ValuesOf(const Node& node) {
  std::vector<ValueId> values = node.inputs;
  values.insert(values.end(), node.outputs.begin(), node.outputs.end());
  return values;
}

size_t PlaceOf(const std::vector<ValueId>& values, ValueId id) {
  return static_cast<size_t>(std::find(values.begin(), values.end(), id) - values.begin());
}

// False: a value of another node is among `ids`.
bool MoveTo(const std::vector<ValueId>& from, const std::vector<ValueId>& to,
            std::vector<ValueId>& ids) {
  for (ValueId& id : ids) {
    const size_t place = PlaceOf(from, id);
    if (place == from.size()) return false;
    id = to[place];
  }
  return true;
}

}  // namespace

std::string LoweredGroups::KeyOf(const Group& group) const {
  if (group.nodes.size() != 1) return "";
  const Node& node = graph_.node(group.nodes.front());
  std::string key = absl::StrCat(node.op->name, "/", node.inputs.size());
  AppendAttrs(node.attrs, key);
  const std::vector<ValueId> values = ValuesOf(node);
  for (const ValueId id : values) {
    absl::StrAppend(&key, " ", PlaceOf(values, id));
    if (!id.valid()) continue;
    const Value& value = graph_.value(id);
    if (value.constant || value.shape_content) return "";
    absl::StrAppend(&key, ":", Name(value.type));
    for (const Dim& dim : value.shape) {
      const std::optional<int64_t> extent = dim.constant();
      if (!extent) return "";
      absl::StrAppend(&key, ",", *extent);
    }
  }
  for (const ValueId id : group.outputs) absl::StrAppend(&key, " ", PlaceOf(values, id));
  return key;
}

absl::StatusOr<LoweredGroup> LoweredGroups::Lower(const Group& group) {
  KILN_RETURN_IF_ERROR(CheckStopped());
  std::string key = KeyOf(group);
  if (key.empty()) return LowerGroup(graph_, group);
  std::vector<ValueId> values = ValuesOf(graph_.node(group.nodes.front()));
  if (const auto found = kept_.find(key); found != kept_.end()) {
    LoweredGroup lowered = found->second.lowered;
    const std::vector<ValueId>& from = found->second.values;
    if (MoveTo(from, values, lowered.inputs) && MoveTo(from, values, lowered.outputs))
      return lowered;
  }
  KILN_ASSIGN_OR_RETURN(LoweredGroup lowered, LowerGroup(graph_, group));
  kept_[std::move(key)] = {lowered, std::move(values)};
  return lowered;
}

}  // namespace kiln
