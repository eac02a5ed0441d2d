// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. A condition that is known chooses its branch at import. Otherwise the branches
// and bodies become graphs that a node owns; Scan is a loop whose iterations gather their slices.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/constant_value.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/limits.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"
#include "graph/open_extents.h"
#include "graph/rebuild.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln::onnx {
namespace {

// The element of a condition or count, where constants decide it.
std::optional<int64_t> KnownNumber(const Graph& graph, ValueId id, int64_t& budget) {
  if (const std::optional<Shape> content = ContentOf(graph.value(id)))
    return content->size() == 1 ? (*content)[0].constant() : std::nullopt;
  const std::optional<Tensor> value = ConstantValue(graph, id, budget);
  if (!value || value->num_elements() != 1 || IsFloat(value->dtype())) return std::nullopt;
  return ReadInt(*value, 0);
}

absl::StatusOr<const GraphProto*> GraphOf(const NodeProto& node, absl::string_view name) {
  const AttributeProto* attribute = FindAttribute(node, name);
  if (attribute == nullptr || !attribute->has_g())
    return absl::InvalidArgumentError(absl::StrCat("attribute ", Quoted(name), " is missing"));
  return &attribute->g();
}

std::vector<int64_t> IntsOf(const NodeProto& node, absl::string_view name, size_t count,
                            int64_t otherwise) {
  const AttributeProto* attribute = FindAttribute(node, name);
  if (attribute == nullptr) return std::vector<int64_t>(count, otherwise);
  return {attribute->ints().begin(), attribute->ints().end()};
}

// Symbols that values of the graph already have: what a result may say outside of a body.
std::set<std::string> VisibleSymbols(const Graph& graph) {
  std::set<std::string> symbols;
  for (const Value& value : graph.values()) {
    for (const Dim& dim : value.shape) dim.CollectSymbols(symbols);
    if (!value.shape_content) continue;
    for (const Dim& dim : *value.shape_content) dim.CollectSymbols(symbols);
  }
  return symbols;
}

bool IsVisible(const Dim& dim, const std::set<std::string>& visible) {
  std::set<std::string> symbols;
  dim.CollectSymbols(symbols);
  return std::includes(visible.begin(), visible.end(), symbols.begin(), symbols.end());
}

// A condition or count of any rank with one element, as a scalar: other runtimes take that element.
ValueId AsScalar(GraphBuilder& b, ValueId id) {
  if (!id.valid() || b.value(id).shape.empty()) return id;
  return b.Op("reshape", {id}, {{"shape", std::vector<int64_t>()}});
}

// Whether a loop's condition stays what it was: the body hands it through or sets it to true.
bool KeepsCondition(const Graph& body, int64_t& budget) {
  ValueId id = body.outputs()[0].value;
  while (body.value(id).producer.v >= 0) {
    const Node& node = body.node(body.value(id).producer);
    const absl::string_view op = node.op->name;
    if (op != "identity" && op != "reshape") break;
    id = node.inputs[0];
  }
  return id == body.inputs()[1] || KnownNumber(body, id, budget) == 1;
}

// What is wrong with a branch matters only if it is chosen, which is known with the extents that
// decide the condition.
absl::Status OfOneBranch(const Scope& scope, ValueId condition, const absl::Status& wrong) {
  if (!absl::IsInvalidArgument(wrong) || !FollowsFromShapes(scope, condition)) return wrong;
  return OpenExtentsError(std::string(wrong.message()));
}

}  // namespace

// A loop of either kind, with what it takes from the graph around.
struct Importer::LoopParts {
  const GraphProto* body = nullptr;
  std::string name;
  ValueId trips, condition;      // of a Loop
  std::vector<ValueId> state;    // carried values
  std::vector<ValueId> scanned;  // of a Scan: tensors whose slices the iterations take,
  std::vector<int64_t> axes;     // along these axes
  std::vector<bool> backwards;   // from the end
  bool is_scan() const { return !scanned.empty(); }
};

// Nodes and outputs of a graph whose inputs are defined.
absl::Status Importer::RunBody(Scope& scope, const GraphProto& proto,
                               std::vector<ValueId>& results) {
  KILN_RETURN_IF_ERROR(AddInitializers(scope, proto));
  KILN_RETURN_IF_ERROR(AddNodes(scope, proto.node()));
  for (const ValueInfoProto& output : proto.output()) {
    const Slot* slot = Find(scope, output.name());
    if (slot == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("output ", Quoted(output.name()), " of graph ",
                                                     Quoted(proto.name()), ": no node makes it"));
    if (slot->kind != Slot::Kind::kTensor)
      return absl::UnimplementedError(absl::StrCat("output ", Quoted(output.name()),
                                                   " is a sequence or optional, which only ",
                                                   "a condition known at import can choose"));
    results.push_back(slot->id);
  }
  return absl::OkStatus();
}

absl::Status Importer::CountBody() {
  if (++bodies_ <= kMaxBodies) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "branches and loop bodies within each other are looked at more than ", kMaxBodies, " times"));
}

void Importer::AdoptGuards(Graph& graph, const Graph& body) const {
  const std::set<std::string> told = ToldByInputs(*main_.graph);
  for (const Guard& guard : body.guards()) {
    if (IsOnlyAbout(guard, told)) graph.AddGuard(guard);
  }
}

bool Importer::AssumesOnlyInputs(const Graph& body) const {
  const std::set<std::string> told = ToldByInputs(*main_.graph);
  const auto is_decided = [&](const Guard& guard) {
    // That an axis has elements to look up decides no extent (AssumeKnownIfEmpty).
    if (guard.kind == Guard::Kind::kAtLeast && guard.number == 1) return true;
    return IsOnlyAbout(guard, told);
  };
  if (!std::all_of(body.guards().begin(), body.guards().end(), is_decided)) return false;
  for (const Node& node : body.nodes()) {
    for (const auto& [name, value] : node.attrs) {
      const Body* inner = std::get_if<Body>(&value);
      if (inner != nullptr && !AssumesOnlyInputs(**inner)) return false;
    }
  }
  return true;
}

absl::StatusOr<Importer::BodyGraph> Importer::ImportBranch(Scope& scope, const GraphProto& proto,
                                                           const std::string& name,
                                                           const std::vector<ValueId>& captures) {
  KILN_RETURN_IF_ERROR(CountBody());
  BodyGraph made;
  made.graph.name = name;
  Scope inner;
  inner.graph = &made.graph;
  inner.parent = &scope;
  inner.opsets = scope.opsets;
  for (const ValueId outer : captures) Capture(inner, outer);
  std::vector<ValueId> results;
  KILN_RETURN_IF_ERROR(RunBody(inner, proto, results));
  for (size_t k = 0; k < results.size(); ++k) {
    made.complete = made.complete && results[k].valid();
    if (results[k].valid())
      made.graph.AddOutput(results[k], proto.output(static_cast<int>(k)).name());
  }
  made.captures = std::move(inner.captures);
  return made;
}

absl::Status Importer::AddIf(Scope& scope, const NodeProto& node, const std::vector<Slot>& inputs,
                             std::vector<Slot>& outputs) {
  KILN_ASSIGN_OR_RETURN(const GraphProto* const then_branch, GraphOf(node, "then_branch"));
  KILN_ASSIGN_OR_RETURN(const GraphProto* const else_branch, GraphOf(node, "else_branch"));
  if (inputs.size() != 1 || inputs[0].kind != Slot::Kind::kTensor)
    return absl::InvalidArgumentError("takes one condition");
  for (const GraphProto* branch : {then_branch, else_branch}) {
    if (branch->output_size() != node.output_size())
      return absl::InvalidArgumentError(absl::StrCat("a branch gives ", branch->output_size(),
                                                     " results, the node ", node.output_size()));
  }
  Graph& graph = *scope.graph;
  if (const std::optional<int64_t> known = KnownNumber(graph, inputs[0].id, work_left_)) {
    const GraphProto& chosen = *known != 0 ? *then_branch : *else_branch;
    Scope inner;
    inner.graph = scope.graph;
    inner.parent = &scope;
    inner.opsets = scope.opsets;
    KILN_RETURN_IF_ERROR(AddInitializers(inner, chosen));
    KILN_RETURN_IF_ERROR(AddNodes(inner, chosen.node()));
    for (int k = 0; k < chosen.output_size(); ++k) {
      const Slot* slot = Find(inner, chosen.output(k).name());
      if (slot == nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("no node makes output ", Quoted(chosen.output(k).name())));
      outputs[static_cast<size_t>(k)] = *slot;
    }
    return absl::OkStatus();
  }
  const std::string name = NameOf(node);
  const size_t before = out_.unsupported.size();
  absl::StatusOr<BodyGraph> first = ImportBranch(scope, *then_branch, name + "/then", {});
  if (!first.ok()) return OfOneBranch(scope, inputs[0].id, first.status());
  BodyGraph& a = *first;
  absl::StatusOr<BodyGraph> second = ImportBranch(scope, *else_branch, name + "/else", a.captures);
  if (!second.ok()) return OfOneBranch(scope, inputs[0].id, second.status());
  BodyGraph& b = *second;
  if (!a.complete || !b.complete) {
    // Its value known, the condition leaves one of them.
    const bool needs_values = NoteNeeded(scope, graph.value(inputs[0].id).name);
    for (size_t k = before; k < out_.unsupported.size(); ++k)
      out_.unsupported[k].needs_values |= needs_values;
    return absl::OkStatus();
  }
  // What only the second takes, the first takes too.
  for (size_t k = a.captures.size(); k < b.captures.size(); ++k) {
    const Value& value = graph.value(b.captures[k]);
    const ValueId id = a.graph.AddInput(value.name, value.type, value.shape);
    a.graph.mutable_value(id).shape_content = value.shape_content;
  }
  const std::set<std::string> visible = VisibleSymbols(graph);
  const bool settled = AssumesOnlyInputs(a.graph) && AssumesOnlyInputs(b.graph);
  Shape extents;
  for (size_t k = 0; k < a.graph.outputs().size(); ++k) {
    const Shape& x = a.graph.value(a.graph.outputs()[k].value).shape;
    const Shape& y = b.graph.value(b.graph.outputs()[k].value).shape;
    for (size_t axis = 0; axis < x.size(); ++axis) {
      const bool same = axis < y.size() && x[axis] == y[axis] && IsVisible(x[axis], visible) &&
                        (settled || x[axis].constant());
      extents.push_back(same ? x[axis] : symbols_.Fresh(absl::StrCat(name, "_dim", axis)));
    }
  }
  AdoptGuards(graph, a.graph);
  AdoptGuards(graph, b.graph);
  GraphBuilder builder(&graph);
  std::vector<ValueId> operands = {AsScalar(builder, inputs[0].id)};
  KILN_RETURN_IF_ERROR(builder.status());
  operands.insert(operands.end(), b.captures.begin(), b.captures.end());
  KILN_ASSIGN_OR_RETURN(
      const std::vector<ValueId> made,
      graph.AddNode(*FindOp("if"), std::move(operands),
                    {{"then_branch", std::make_shared<const Graph>(std::move(a.graph))},
                     {"else_branch", std::make_shared<const Graph>(std::move(b.graph))},
                     {"extents", DimsValue(extents)}},
                    name, {node.output().begin(), node.output().end()}));
  for (size_t k = 0; k < outputs.size(); ++k) outputs[k].id = made[k];
  return absl::OkStatus();
}

absl::StatusOr<Importer::BodyGraph> Importer::ImportLoopBody(
    Scope& scope, const LoopParts& parts, const std::vector<Shape>& state_shapes) {
  KILN_RETURN_IF_ERROR(CountBody());
  const GraphProto& proto = *parts.body;
  BodyGraph made;
  made.graph.name = parts.name + "/body";
  Scope inner;
  inner.graph = &made.graph;
  inner.parent = &scope;
  inner.opsets = scope.opsets;
  GraphBuilder b(&made.graph);
  const ValueId iteration = made.graph.AddInput("iteration", DType::kI64, {});
  const ValueId condition = made.graph.AddInput("condition", DType::kBool, {});
  // Formal inputs: iteration and condition (of a Loop), state, slices (of a Scan).
  std::vector<ValueId> formal;
  int at = 0;
  if (!parts.is_scan()) {
    for (const ValueId id : {iteration, condition}) {
      if (at >= proto.input_size()) break;
      // As many axes of extent 1 as the body declares.
      const int rank = proto.input(at++).type().tensor_type().shape().dim_size();
      const std::vector<int64_t> ones(static_cast<size_t>(std::min(rank, kMaxRank)), 1);
      formal.push_back(rank > 0 ? b.Op("reshape", {id}, {{"shape", ones}}) : id);
    }
  }
  for (size_t k = 0; k < parts.state.size(); ++k) {
    const Value& value = scope.graph->value(parts.state[k]);
    formal.push_back(made.graph.AddInput(value.name, value.type, state_shapes[k]));
  }
  for (size_t k = 0; k < parts.scanned.size(); ++k) {
    const ValueId x = Capture(inner, parts.scanned[k]);
    ValueId place = iteration;
    if (parts.backwards[k]) {
      const ValueId extent = b.Op(
          "reshape", {b.Op("shape", {x}, {{"start", parts.axes[k]}, {"end", parts.axes[k] + 1}})},
          {{"shape", std::vector<int64_t>{}}});
      place = b.Op("sub", {b.Op("sub", {extent, b.Scalar(DType::kI64, 1)}), iteration});
    }
    formal.push_back(b.Op("gather", {x, place}, {{"axis", parts.axes[k]}}));
  }
  KILN_RETURN_IF_ERROR(b.status());
  if (proto.input_size() != static_cast<int>(formal.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the body takes ", proto.input_size(),
                                                   " inputs; the node has ", formal.size()));
  }
  for (int k = 0; k < proto.input_size(); ++k)
    KILN_RETURN_IF_ERROR(
        Define(inner, proto.input(k).name(), {.id = formal[static_cast<size_t>(k)]}));
  std::vector<ValueId> results;
  KILN_RETURN_IF_ERROR(RunBody(inner, proto, results));
  if (parts.is_scan()) made.graph.AddOutput(condition, "condition");
  if (!parts.is_scan() && !results.empty() && results[0].valid())
    results[0] = AsScalar(b, results[0]);
  KILN_RETURN_IF_ERROR(b.status());
  for (size_t k = 0; k < results.size(); ++k) {
    made.complete = made.complete && results[k].valid();
    if (results[k].valid())
      made.graph.AddOutput(results[k], proto.output(static_cast<int>(k)).name());
  }
  made.captures = std::move(inner.captures);
  return made;
}

absl::StatusOr<std::vector<ValueId>> Importer::EmitLoop(Scope& scope, const LoopParts& parts) {
  Graph& graph = *scope.graph;
  const size_t carried = parts.state.size();
  std::vector<Shape> shapes;
  for (const ValueId id : parts.state) shapes.push_back(graph.value(id).shape);
  // Extents that an iteration changes, or keeps under assumptions that only a run can tell of, are
  // symbols of the body; each try may find more of them.
  BodyGraph body;
  bool settled = true;
  const size_t listed = out_.unsupported.size();
  for (bool changed = true; changed;) {
    changed = false;
    out_.unsupported.resize(listed);
    KILN_ASSIGN_OR_RETURN(body, ImportLoopBody(scope, parts, shapes));
    if (!body.complete) return std::vector<ValueId>();
    if (body.graph.outputs().size() < carried + 1)
      return absl::InvalidArgumentError(absl::StrCat("the body gives ", body.graph.outputs().size(),
                                                     " results for ", carried, " carried values"));
    settled = AssumesOnlyInputs(body.graph);
    for (size_t k = 0; k < carried; ++k) {
      const Value& out = body.graph.value(body.graph.outputs()[k + 1].value);
      if (out.shape.size() != shapes[k].size() || out.type != graph.value(parts.state[k]).type) {
        return absl::UnimplementedError(absl::StrCat(
            "carried value ", k, " goes in as ", Name(graph.value(parts.state[k]).type), " ",
            ToString(shapes[k]), " and comes out as ", Name(out.type), " ", ToString(out.shape)));
      }
      for (size_t axis = 0; axis < shapes[k].size(); ++axis) {
        const bool fresh = !SymbolOf(shapes[k][axis]).empty() &&
                           !(shapes[k][axis] == graph.value(parts.state[k]).shape[axis]);
        const bool stays =
            out.shape[axis] == shapes[k][axis] && (settled || shapes[k][axis].constant());
        if (fresh || stays) continue;
        shapes[k][axis] = symbols_.Fresh(absl::StrCat(parts.name, "_state", k, "_dim", axis));
        changed = true;
      }
    }
  }
  const std::set<std::string> visible = VisibleSymbols(graph);
  Shape extents;
  for (size_t k = 0; k < carried; ++k) {
    for (size_t axis = 0; axis < shapes[k].size(); ++axis) {
      const Dim& before = graph.value(parts.state[k]).shape[axis];
      extents.push_back(shapes[k][axis] == before
                            ? before
                            : symbols_.Fresh(absl::StrCat(parts.name, "_dim", axis)));
    }
  }
  // The number of iterations is known if nothing but the trip count ends the loop.
  std::optional<Dim> iterations;
  const bool goes_on =
      (!parts.condition.valid() || KnownNumber(graph, parts.condition, work_left_) == 1) &&
      KeepsCondition(body.graph, work_left_);
  if (parts.trips.valid() && goes_on) {
    const std::optional<Shape> content = ContentOf(graph.value(parts.trips));
    if (content && content->size() == 1) iterations = Dim::Max((*content)[0], 0);
  }
  const Dim count =
      iterations ? *iterations : symbols_.Fresh(absl::StrCat(parts.name, "_iterations"));
  const size_t results = body.graph.outputs().size() - 1;
  for (size_t k = carried; k < results; ++k) {
    const Value& out = body.graph.value(body.graph.outputs()[k + 1].value);
    extents.push_back(count);
    for (const Dim& dim : out.shape) {
      const bool holds = IsVisible(dim, visible) && (settled || dim.constant());
      extents.push_back(holds ? dim : symbols_.Fresh(absl::StrCat(parts.name, "_scan", k)));
    }
  }
  AdoptGuards(graph, body.graph);
  std::vector<ValueId> operands = {parts.trips, parts.condition};
  operands.insert(operands.end(), parts.state.begin(), parts.state.end());
  operands.insert(operands.end(), body.captures.begin(), body.captures.end());
  return graph.AddNode(*FindOp("loop"), std::move(operands),
                       {{"body", std::make_shared<const Graph>(std::move(body.graph))},
                        {"carried", static_cast<int64_t>(carried)},
                        {"extents", DimsValue(extents)}},
                       parts.name, std::vector<std::string>(results));
}

absl::Status Importer::AddLoop(Scope& scope, const NodeProto& node, const std::vector<Slot>& inputs,
                               std::vector<Slot>& outputs) {
  LoopParts parts;
  KILN_ASSIGN_OR_RETURN(parts.body, GraphOf(node, "body"));
  parts.name = NameOf(node);
  if (inputs.size() < 2) return absl::InvalidArgumentError("has fewer than two inputs");
  for (const Slot& slot : inputs) {
    if (slot.kind == Slot::Kind::kSequence)
      return absl::UnimplementedError("a sequence is carried from iteration to iteration");
  }
  GraphBuilder b(scope.graph);
  parts.trips = AsScalar(b, inputs[0].id);
  parts.condition = AsScalar(b, inputs[1].id);
  KILN_RETURN_IF_ERROR(b.status());
  for (size_t k = 2; k < inputs.size(); ++k) {
    if (!inputs[k].id.valid())
      return absl::UnimplementedError("an optional value is carried from iteration to iteration");
    parts.state.push_back(inputs[k].id);
  }
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> made, EmitLoop(scope, parts));
  if (made.empty()) return absl::OkStatus();
  if (outputs.size() > made.size())
    return absl::InvalidArgumentError(
        absl::StrCat("the body gives ", made.size(), " results, the node names ", outputs.size()));
  for (size_t k = 0; k < outputs.size(); ++k) outputs[k].id = made[k];
  return absl::OkStatus();
}

// The loop of a Scan: as many iterations as the first scanned tensor has slices.
absl::StatusOr<std::vector<ValueId>> Importer::EmitScan(Scope& scope, const LoopParts& given) {
  LoopParts parts = given;
  Graph& graph = *scope.graph;
  GraphBuilder b(&graph);
  const std::set<std::string> told = ToldByInputs(*main_.graph);
  for (size_t k = 0; k < parts.scanned.size(); ++k) {
    const Shape& shape = graph.value(parts.scanned[k]).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    int64_t& axis = parts.axes[k];
    if (axis < -rank || axis >= rank)
      return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of a tensor of rank ", rank));
    if (axis < 0) axis += rank;
    const Shape& first = graph.value(parts.scanned[0]).shape;
    const Dim &own = shape[static_cast<size_t>(axis)],
              &wanted = first[static_cast<size_t>(parts.axes[0])];
    const Guard same = Guard::Same(own, wanted);
    if (same.Static() == false) {
      return absl::InvalidArgumentError(absl::StrCat("scanned input ", k, " has ", own.ToString(),
                                                     " slices along axis ", axis,
                                                     ", scanned input 0 has ", wanted.ToString()));
    }
    if (same.Static() == true) continue;
    if (IsOnlyAbout(same, told)) {
      graph.AddGuard(same);
    } else {  // a run alone can tell
      KILN_ASSIGN_OR_RETURN(
          const std::vector<ValueId> matched,
          graph.AddNode(*FindOp("match_extent"), {parts.scanned[k], parts.scanned[0]},
                        {{"axis", axis}, {"to", parts.axes[0]}},
                        absl::StrCat(parts.name, ", scanned input ", k),
                        {absl::StrCat(parts.name, "/scanned", k)}));
      parts.scanned[k] = matched.front();
    }
  }
  parts.trips =
      b.Op("shape", {parts.scanned[0]}, {{"start", parts.axes[0]}, {"end", parts.axes[0] + 1}});
  KILN_RETURN_IF_ERROR(b.status());
  return EmitLoop(scope, parts);
}

absl::Status Importer::AddScan(Scope& scope, const NodeProto& node, const std::vector<Slot>& inputs,
                               std::vector<Slot>& outputs) {
  LoopParts parts;
  KILN_ASSIGN_OR_RETURN(parts.body, GraphOf(node, "body"));
  parts.name = NameOf(node);
  const AttributeProto* count = FindAttribute(node, "num_scan_inputs");
  const int64_t scanned = count != nullptr ? count->i() : 0;
  const bool batched = scope.opsets[""] < 9;
  const size_t first = batched ? 1 : 0;
  if (inputs.size() < first || scanned < 1 || scanned > static_cast<int64_t>(inputs.size() - first))
    return absl::InvalidArgumentError(absl::StrCat("num_scan_inputs is ", scanned));
  const size_t states = inputs.size() - first - static_cast<size_t>(scanned);
  Graph& graph = *scope.graph;
  GraphBuilder b(&graph);
  const auto squeeze = [&](ValueId id) {
    return b.Op("squeeze", {id}, {{"axes", std::vector<int64_t>{0}}});
  };
  if (batched && inputs[0].kind != Slot::Kind::kNone)
    return absl::UnimplementedError("lengths of sequences are not supported");
  for (size_t k = first; k < inputs.size(); ++k) {
    ValueId id = inputs[k].id;
    if (!id.valid()) return absl::UnimplementedError("an input is no tensor");
    if (batched) {
      if (graph.value(id).shape.empty() || !graph.value(id).shape[0].IsConst(1))
        return absl::UnimplementedError("before operator set 9, only a batch of one is supported");
      id = squeeze(id);
      KILN_RETURN_IF_ERROR(b.status());
    }
    (k - first < states ? parts.state : parts.scanned).push_back(id);
  }
  const auto n = static_cast<size_t>(scanned);
  parts.axes = IntsOf(node, "scan_input_axes", n, 0);
  for (const int64_t way : IntsOf(node, batched ? "directions" : "scan_input_directions", n, 0))
    parts.backwards.push_back(way != 0);
  if (parts.axes.size() != n || parts.backwards.size() != n)
    return absl::InvalidArgumentError("axes or directions are not one per scanned input");
  KILN_ASSIGN_OR_RETURN(std::vector<ValueId> made, EmitScan(scope, parts));
  if (made.empty()) return absl::OkStatus();
  const size_t scans = made.size() - states;
  const std::vector<int64_t> out_axes = IntsOf(node, "scan_output_axes", scans, 0);
  const std::vector<int64_t> out_ways = IntsOf(node, "scan_output_directions", scans, 0);
  if (out_axes.size() != scans || out_ways.size() != scans || outputs.size() > made.size())
    return absl::InvalidArgumentError("axes or directions are not one per scan output");
  for (size_t k = 0; k < outputs.size(); ++k) {
    ValueId id = made[k];
    if (k >= states) {
      if (out_ways[k - states] != 0) {
        const auto one = [](int64_t v) { return std::vector<int64_t>{v}; };
        id = b.Op(
            "slice", {id},
            {{"starts", one(-1)}, {"ends", one(INT64_MIN)}, {"axes", one(0)}, {"steps", one(-1)}});
      }
      const auto rank = static_cast<int64_t>(graph.value(made[k]).shape.size());
      const int64_t axis =
          out_axes[k - states] < 0 ? out_axes[k - states] + rank : out_axes[k - states];
      if (axis < 0 || axis >= rank)
        return absl::InvalidArgumentError(absl::StrCat("scan output axis ", axis));
      if (axis != 0) {
        std::vector<int64_t> order;
        for (int64_t i = 1; i < rank; ++i) order.push_back(i);
        order.insert(order.begin() + axis, 0);
        id = b.Op("transpose", {id}, {{"perm", order}});
      }
    }
    if (batched) id = b.Op("unsqueeze", {id}, {{"axes", std::vector<int64_t>{0}}});
    outputs[k].id = id;
  }
  return b.status();
}

}  // namespace kiln::onnx
