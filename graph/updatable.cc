// SPDX-License-Identifier: Apache-2.0
#include "graph/updatable.h"

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "graph/rebuild.h"

namespace kiln {
namespace {

std::string Quoted(const std::string& name) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\"");
}

bool IsConstant(const Value& value) { return value.constant && value.producer.v < 0; }

absl::StatusOr<ValueId> FindConstant(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!IsConstant(value)) continue;
    if (value.name == name) return ValueId{static_cast<int32_t>(v)};
    names.push_back(value.name);
  }
  return NoSuchConstant(name, names);
}

std::vector<Shape> InputShapes(const Graph& graph) {
  std::vector<Shape> shapes;
  for (const ValueId id : graph.inputs()) shapes.push_back(graph.value(id).shape);
  return shapes;
}

// Makes the graph for other shapes as the original is made, and then its constants inputs again.
std::shared_ptr<const Graph::Maker> MakerOf(const Graph& graph,
                                            const std::vector<std::string>& names) {
  if (graph.maker == nullptr) return nullptr;
  const auto make = [maker = graph.maker, own = graph.inputs().size(),
                     names](const std::vector<Shape>& shapes) -> absl::StatusOr<Graph> {
    KILN_ASSIGN_OR_RETURN(
        const Graph made,
        (*maker)({shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(own)}));
    KILN_ASSIGN_OR_RETURN(UpdatableGraph updatable, MakeUpdatable(made, names));
    return std::move(updatable.graph);
  };
  return std::make_shared<const Graph::Maker>(make);
}

}  // namespace

absl::Status NoSuchConstant(const std::string& name, const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;  // correctness: a message, not a list of all weights
  std::string text;
  for (size_t k = 0; k < names.size() && k < kMost; ++k)
    absl::StrAppend(&text, k == 0 ? "" : ", ", Quoted(names[k]));
  if (names.size() > kMost) absl::StrAppend(&text, " and ", names.size() - kMost, " more");
  return absl::InvalidArgumentError(absl::StrCat("updatable ", Quoted(name),
                                                 ": the model has no such constant; it has ",
                                                 names.empty() ? "none" : text));
}

absl::StatusOr<std::vector<Tensor>> ConstantsNamed(const Graph& graph,
                                                   const std::vector<std::string>& names) {
  std::vector<Tensor> values;
  for (const std::string& name : names) {
    KILN_ASSIGN_OR_RETURN(const ValueId id, FindConstant(graph, name));
    values.push_back(*graph.value(id).constant);
  }
  return values;
}

absl::StatusOr<UpdatableGraph> MakeUpdatable(const Graph& graph,
                                             const std::vector<std::string>& names) {
  UpdatableGraph made{graph, {}};
  if (names.empty()) return made;
  KILN_ASSIGN_OR_RETURN(made.values, ConstantsNamed(graph, names));
  Graph read = graph;
  read.maker = nullptr;
  for (const std::string& name : names) {
    KILN_ASSIGN_OR_RETURN(const ValueId constant, FindConstant(read, name));
    const Value value = read.value(constant);
    const ValueId input = read.AddInput(name, value.type, value.shape);
    std::swap(read.mutable_value(constant).name, read.mutable_value(input).name);
    read.ReplaceUses(constant, input);
  }
  absl::StatusOr<Graph> inferred = WithInputShapes(read, InputShapes(read));
  if (!inferred.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "updatable ", absl::StrJoin(names, ", "), ": the graph needs the value of a constant: ",
        inferred.status().message(), "; leave that constant out"));
  }
  made.graph = *std::move(inferred);
  for (const Guard& guard : graph.guards()) made.graph.AddGuard(guard);
  made.graph.maker = MakerOf(graph, names);
  return made;
}

}  // namespace kiln
