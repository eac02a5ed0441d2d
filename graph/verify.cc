// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/check_node.h"
#include "graph/graph.h"
#include "graph/known_dims.h"

namespace kiln {
namespace {

absl::Status VerifyValues(const Graph& graph) {
  std::set<absl::string_view> names;
  for (const Value& value : graph.values()) {
    if (!names.insert(value.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("value \"", value.name, "\": two values have this name"));
    }
    if (!value.constant) continue;
    if (value.constant->dtype() != value.type || ToShape(value.constant->shape()) != value.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("value \"", value.name, "\": is ", Name(value.type), " ",
                       ToString(value.shape), ", its constant is ", Name(value.constant->dtype()),
                       " ", ToString(ToShape(value.constant->shape()))));
    }
  }
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (input.shape_content) {
      const std::optional<std::vector<int64_t>> shape = Constant(input.shape);
      if ((!IsInt(input.type) && input.type != DType::kBool) || !shape ||
          CheckedBytes(DType::kU8, *shape) != static_cast<int64_t>(input.shape_content->size())) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input \"", input.name, "\": is ", Name(input.type), " ", ToString(input.shape),
            ", its elements are said to be ", ToString(*input.shape_content)));
      }
    }
    if (graph.value(id).producer.v >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("value \"", graph.value(id).name, "\": an input that a node computes"));
    }
  }
  for (const Graph::Output& output : graph.outputs()) {
    if (!output.value.valid() || output.value.v >= static_cast<int64_t>(graph.values().size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("output \"", output.name, "\": is no value of the graph"));
    }
  }
  return absl::OkStatus();
}

// Two Dims that the guards make equal count as equal.
bool EqualUnderGuards(const Graph& graph, const Dim& a, const Dim& b) {
  if (a == b) return true;
  const Guard same = Guard::Same(a, b);
  for (const Guard& guard : graph.guards()) {
    if (guard == same) return true;
  }
  std::map<std::string, Dim> replacements;  // symbols that guards tie to something else
  for (const Guard& guard : graph.guards()) {
    if (guard.kind != Guard::Kind::kSame && guard.kind != Guard::Kind::kEqual) continue;
    const Dim other = guard.kind == Guard::Kind::kSame ? guard.right : Dim(guard.number);
    for (const auto& [from, to] : {std::pair(guard.left, other), std::pair(other, guard.left)}) {
      if (from.terms().size() == 1 && from == Dim::Symbol(from.ToString()) &&
          !replacements.count(from.ToString())) {
        replacements[from.ToString()] = to;
        break;
      }
    }
  }
  Dim x = a, y = b;
  for (size_t i = 0; i <= replacements.size() && !(x == y); ++i) {
    x = x.Substitute(replacements);
    y = y.Substitute(replacements);
  }
  if (x == y) return true;
  // An expression for all cases is as good as the one case that the guards leave.
  std::vector<Guard> guards = graph.guards();
  for (size_t i = 0; i < replacements.size(); ++i) {
    for (Guard& guard : guards) {
      guard.left = guard.left.Substitute(replacements);
      guard.right = guard.right.Substitute(replacements);
    }
  }
  const KnownDims known(guards);
  return known.Simplify(x) == known.Simplify(y);
}

bool EqualUnderGuards(const Graph& graph, const Shape& a, const Shape& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!EqualUnderGuards(graph, a[i], b[i])) return false;
  }
  return true;
}

// Bodies that have been verified, with how many graphs each is, itself and all within it.
using SeenBodies = std::map<const Graph*, int64_t>;

absl::StatusOr<int64_t> VerifyGraph(const Graph& graph, SeenBodies& seen);

// The number of graphs in the node's bodies. One that is named often is verified once.
absl::StatusOr<int64_t> VerifyBodies(const Node& node, SeenBodies& seen) {
  int64_t count = 0;
  for (const auto& [name, value] : node.attrs) {
    const Body* body = std::get_if<Body>(&value);
    if (body == nullptr) continue;
    auto known = seen.find(body->get());
    if (known == seen.end()) {
      const absl::StatusOr<int64_t> inner = VerifyGraph(**body, seen);
      if (!inner.ok())
        return Annotate(inner.status(), absl::StrCat(Subject(node), ": body \"", name, "\""));
      known = seen.emplace(body->get(), *inner).first;
    }
    count += known->second;
  }
  return count;
}

absl::Status VerifyNode(const Graph& graph, Graph& scratch, NodeId id) {
  const Node& node = graph.node(id);
  KILN_RETURN_IF_ERROR(CheckInputs(graph, node));
  KILN_RETURN_IF_ERROR(CheckAttrs(node));
  for (const ValueId input : node.inputs) {
    if (!input.valid()) continue;
    const NodeId producer = graph.value(input).producer;
    if (producer.v >= id.v) {
      return absl::InvalidArgumentError(absl::StrCat(
          Subject(node), ": reads \"", graph.value(input).name, "\" before it is computed"));
    }
  }
  InferContext context(scratch, node);
  KILN_RETURN_IF_ERROR(InferNode(context));
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const ValueId output = node.outputs[k];
    if (!output.valid() || output.v >= static_cast<int64_t>(graph.values().size()) ||
        graph.value(output).producer != id) {
      return absl::InvalidArgumentError(
          absl::StrCat(Subject(node), ": output ", k, " is not a value that it produces"));
    }
    const Value& value = graph.value(output);
    const InferContext::Output& rule = context.outputs[k];
    if (value.type != rule.type || !EqualUnderGuards(graph, value.shape, rule.shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          Subject(node), ": \"", value.name, "\" is ", Name(value.type), " ", ToString(value.shape),
          "; by the op's rule it is ", Name(rule.type), " ", ToString(rule.shape)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> VerifyGraph(const Graph& graph, SeenBodies& seen) {
  KILN_RETURN_IF_ERROR(VerifyValues(graph));
  Graph scratch = graph;  // inference adds guards
  int64_t count = 1;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    KILN_RETURN_IF_ERROR(VerifyNode(graph, scratch, NodeId{static_cast<int32_t>(i)}));
    KILN_ASSIGN_OR_RETURN(const int64_t inner, VerifyBodies(graph.nodes()[i], seen));
    count += inner;
    if (count > kMaxGraphs) {
      return absl::ResourceExhaustedError(
          absl::StrCat("graph \"", graph.name, "\": bodies within bodies are more than ",
                       kMaxGraphs, ", those that are named twice counted twice"));
    }
  }
  return count;
}

}  // namespace

absl::Status Verify(const Graph& graph) {
  SeenBodies seen;
  return VerifyGraph(graph, seen).status();
}

}  // namespace kiln
