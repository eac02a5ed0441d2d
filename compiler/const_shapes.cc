// SPDX-License-Identifier: Apache-2.0
#include "compiler/const_shapes.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "compiler/variants.h"
#include "graph/rebuild.h"

namespace kiln {
namespace {

template <typename... T>
absl::Status Refused(const T&... text) {
  return absl::InvalidArgumentError(absl::StrCat("const_shapes: ", text...));
}

std::string Text(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status NoInput(const std::string& name, const std::vector<PortInfo>& ports) {
  return Refused("the model has no input \"", name, "\"; it has ",
                 absl::StrJoin(ports, ", ", [](std::string* out, const PortInfo& port) {
                   absl::StrAppend(out, "\"", port.name, "\"");
                 }));
}

// What the shape of one input says of symbols is added to `symbols`.
absl::Status Learn(const PortInfo& port, const std::vector<int64_t>& shape,
                   std::map<std::string, Dim>& symbols) {
  if (shape.size() != port.shape.size()) {
    return Refused("input \"", port.name, "\": ", Text(shape), " has rank ", shape.size(),
                   ", the model's ", ToString(port.shape), " has ", port.shape.size(),
                   "; give all extents");
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Dim& dim = port.shape[axis];
    if (shape[axis] < 0 || (dim.constant() && *dim.constant() != shape[axis])) {
      return Refused("input \"", port.name, "\": dim ", axis, " is ", shape[axis],
                     ", the model's is ", dim.ToString(), "; give one of ", ToString(port.shape));
    }
    const std::string symbol = SymbolOf(dim);
    if (symbol.empty()) continue;
    const Dim& known = symbols.emplace(symbol, Dim(shape[axis])).first->second;
    if (*known.constant() == shape[axis]) continue;
    return Refused("input \"", port.name, "\": dim ", axis, " (", symbol, ") is ", shape[axis],
                   ", and ", *known.constant(), " elsewhere; give shapes that go together");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PortInfo>> WithConstShapes(const std::vector<PortInfo>& inputs,
                                                      const NamedShapes& shapes) {
  std::map<std::string, Dim> symbols;
  std::set<std::string> named;
  std::vector<PortInfo> made = inputs;
  for (const auto& named_shape : shapes) {
    const std::string& name = named_shape.first;
    const std::vector<int64_t>& shape = named_shape.second;
    const auto port = std::find_if(inputs.begin(), inputs.end(),
                                   [&](const PortInfo& one) { return one.name == name; });
    if (port == inputs.end()) return NoInput(name, inputs);
    if (!named.insert(name).second) return Refused("input \"", name, "\" is named twice");
    KILN_RETURN_IF_ERROR(Learn(*port, shape, symbols));
    made[static_cast<size_t>(port - inputs.begin())].shape = ToShape(shape);
  }
  for (PortInfo& port : made) port.shape = Substituted(port.shape, symbols);
  return made;
}

absl::StatusOr<Graph> WithConstShapes(const Graph& graph, const NamedShapes& shapes) {
  if (shapes.empty()) return graph;
  KILN_ASSIGN_OR_RETURN(const std::vector<PortInfo> ports,
                        WithConstShapes(PortInfosOf(graph, /*inputs=*/true), shapes));
  std::vector<Shape> all;
  for (const PortInfo& port : ports) all.push_back(port.shape);
  absl::StatusOr<Graph> made = WithInputShapes(graph, all);
  if (!made.ok()) return Annotate(made.status(), "const_shapes");
  return made;
}

}  // namespace kiln
