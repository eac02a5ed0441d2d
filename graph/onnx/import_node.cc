// SPDX-License-Identifier: Apache-2.0
// One node of a model: its inputs are looked up, its converter, function or structure is applied,
// its outputs get names.
#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/known_dims.h"
#include "graph/needed_value.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/constant_value.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/node_view.h"
#include "graph/op.h"
#include "graph/open_extents.h"
#include "graph/rebuild.h"

namespace kiln::onnx {
namespace {

constexpr int64_t kMaxSymbolElements = 64;  // of one tensor whose elements become symbols
constexpr int kMaxOperands = 16;            // of one node that tell its structure

bool IsAboutExtents(const Guard& guard) { return !guard.Symbols().empty(); }

absl::Status CheckAttributes(const NodeProto& node) {
  std::set<absl::string_view> seen;
  for (const AttributeProto& attribute : node.attribute()) {
    if (!seen.insert(attribute.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute ", Quoted(attribute.name()), " is given twice"));
    }
    if (!attribute.ref_attr_name().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute ", Quoted(attribute.name()),
                       " refers to one of a function, but the node is in no function"));
    }
  }
  return absl::OkStatus();
}

// Inference names the node as well: `node "a" (reshape): why` is only why, behind our own subject.
std::string Reason(const absl::Status& status, const NodeProto& node) {
  absl::string_view text = status.message();
  if (absl::ConsumePrefix(&text, absl::StrCat("node \"", NameOf(node), "\" ("))) {
    const size_t end = text.find("): ");
    if (end != absl::string_view::npos) return std::string(text.substr(end + 3));
    text = status.message();
  }
  return std::string(text);
}

}  // namespace

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\"");
}

std::string DomainOf(absl::string_view domain) {
  return domain == "ai.onnx" ? "" : std::string(domain);
}

std::string OperatorOf(const NodeProto& node) {
  const std::string domain = DomainOf(node.domain());
  return absl::Utf8SafeCEscape(domain.empty() ? node.op_type()
                                              : absl::StrCat(domain, ".", node.op_type()));
}

std::string Subject(const NodeProto& node) {
  return absl::StrCat("node ", Quoted(NameOf(node)), " (", OperatorOf(node), ")");
}

const AttributeProto* FindAttribute(const NodeProto& node, absl::string_view name) {
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

absl::Status Importer::Define(Scope& scope, const std::string& name, Slot slot) {
  if (scope.slots.emplace(name, std::move(slot)).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("value ", Quoted(name), ": is defined twice; names must be unique in a graph"));
}

ValueId Importer::Capture(Scope& scope, ValueId outer) {
  if (!outer.valid() || scope.graph == scope.parent->graph) return outer;
  const auto [at, fresh] = scope.known.emplace(outer, ValueId{});
  if (!fresh) return at->second;
  const Value value = scope.parent->graph->value(outer);
  if (value.constant && value.producer.v < 0) {
    at->second = scope.graph->AddConstant(value.name, *value.constant);
  } else {
    at->second = scope.graph->AddInput(value.name, value.type, value.shape);
    scope.graph->mutable_value(at->second).shape_content = value.shape_content;
    scope.captures.push_back(outer);
  }
  return at->second;
}

const Slot* Importer::Find(Scope& scope, const std::string& name) {
  const auto here = scope.slots.find(name);
  if (here != scope.slots.end()) return &here->second;
  if (scope.parent == nullptr) return nullptr;
  const Slot* outer = Find(*scope.parent, name);
  if (outer == nullptr || scope.parent->graph == scope.graph) return outer;
  Slot slot = *outer;
  slot.id = Capture(scope, slot.id);
  for (ValueId& item : slot.items) item = Capture(scope, item);
  return &scope.slots.emplace(name, std::move(slot)).first->second;
}

absl::StatusOr<std::vector<Slot>> Importer::Resolve(Scope& scope, const NodeProto& node) {
  std::vector<Slot> slots;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      slots.push_back({.kind = Slot::Kind::kNone});
      continue;
    }
    const Slot* slot = Find(scope, name);
    if (slot == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", Quoted(name), " is no graph input, no initializer and no output of an ",
          "earlier node; nodes must be in topological order"));
    }
    slots.push_back(*slot);
  }
  return slots;
}

absl::Status Importer::Convert(Scope& scope, const Converter& converter, const NodeProto& node,
                               const std::vector<ValueId>& inputs, std::vector<Slot>& outputs) {
  const int64_t opset = scope.opsets[DomainOf(node.domain())];
  NodeView view(node, opset, converter.record, inputs, *scope.graph, source_, symbols_, read_,
                scope.graph == main_.graph, options_.training);
  if (opset < kOldestOpset) view.Ignore("consumed_inputs");  // tells of memory only
  KILN_RETURN_IF_ERROR(converter.convert(view));
  KILN_RETURN_IF_ERROR(view.status());
  if (const std::string unread = view.UnreadAttr(); !unread.empty()) {
    return absl::UnimplementedError(absl::StrCat("attribute ", Quoted(unread), " is not known"));
  }
  for (int k = 0; k < node.output_size(); ++k) {
    const ValueId id = view.outputs()[static_cast<size_t>(k)];
    if (view.wants(k) && !id.valid())
      return absl::UnimplementedError(absl::StrCat("output ", k, " is not supported"));
    outputs[static_cast<size_t>(k)].id = id;
  }
  return absl::OkStatus();
}

ValueId Importer::FindValue(const Graph& graph, const std::string& name) const {
  const std::vector<Value>& values = graph.values();
  const auto named =
      std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.name == name; });
  return ValueId{named == values.end() ? -1 : static_cast<int32_t>(named - values.begin())};
}

bool Importer::SettleNeeded(Scope& scope, const absl::Status& status,
                            std::vector<ValueId>& inputs) {
  const std::optional<std::string> name = NeededValue(status);
  if (!name) return false;
  const auto input = std::find(inputs.begin(), inputs.end(), FindValue(*scope.graph, *name));
  if (input == inputs.end() || !input->valid()) return false;
  std::optional<Tensor> value = ConstantValue(*scope.graph, *input, work_left_);
  if (!value) return false;
  *input = scope.graph->AddConstant(*name, *std::move(value));
  return true;
}

bool Importer::NoteNeeded(Scope& scope, const std::string& value) {
  // Values of a body are not the caller's to give.
  if (scope.graph != main_.graph) return false;
  const Graph& graph = *scope.graph;
  std::vector<ValueId> work = {FindValue(graph, value)};
  std::set<ValueId> seen;
  std::set<std::string> sources;
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    if (!id.valid() || !seen.insert(id).second) continue;
    const Value& v = graph.value(id);
    if (v.constant || ContentOf(v)) continue;
    if (v.producer.v >= 0 && graph.node(v.producer).op->dynamic) return false;
    if (v.producer.v >= 0) {
      const std::vector<ValueId>& inputs = graph.node(v.producer).inputs;
      work.insert(work.end(), inputs.begin(), inputs.end());
    } else {
      if (v.shape.size() > 1) return false;
      sources.insert(v.name);
    }
  }
  const std::vector<std::string> known = out_.value_inputs;
  for (const std::string& name : sources) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      out_.value_inputs.push_back(name);
  }
  return !sources.empty();
}

namespace {

bool IsOneOf(const Node& node, std::initializer_list<absl::string_view> names) {
  return std::find(names.begin(), names.end(), node.op->name) != names.end();
}

// Calls f on every value that `value` is made of, itself included, down to what is known, also
// where a branch or body takes it from around; f says whether to look behind it.
template <typename F>
void ForEachSource(const Scope& scope, ValueId value, const F& f) {
  std::vector<std::pair<const Scope*, ValueId>> work = {{&scope, value}};
  std::set<std::pair<const Graph*, ValueId>> seen;
  while (!work.empty()) {
    const Scope* at = work.back().first;
    const ValueId id = work.back().second;
    work.pop_back();
    if (!id.valid() || !seen.insert({at->graph, id}).second) continue;
    // Of the scopes of one graph the outermost captures.
    while (at->parent != nullptr && at->parent->graph == at->graph) at = at->parent;
    const auto taken = std::find_if(at->known.begin(), at->known.end(),
                                    [&](const auto& pair) { return pair.second == id; });
    const Value& v = at->graph->value(id);
    if (taken != at->known.end() && !v.constant && !ContentOf(v)) {
      work.emplace_back(at->parent, taken->first);
      continue;
    }
    if (!f(*at->graph, v) || v.producer.v < 0) continue;
    for (const ValueId input : at->graph->node(v.producer).inputs) work.emplace_back(at, input);
  }
}

}  // namespace

bool FollowsFromShapes(const Scope& scope, ValueId value) {
  bool follows = true;
  ForEachSource(scope, value, [&](const Graph& graph, const Value& v) {
    if (v.constant || ContentOf(v)) return false;
    const bool dynamic = v.producer.v >= 0 && graph.node(v.producer).op->dynamic;
    follows = follows && v.producer.v >= 0 && !dynamic;
    return follows;
  });
  return follows;
}

namespace {

bool IsNeverNegative(const Value& value) {
  if (const std::optional<Shape> content = ContentOf(value)) {
    return std::all_of(content->begin(), content->end(),
                       [](const Dim& dim) { return Guard::AtLeast(dim, 0).Static() == true; });
  }
  const std::vector<double> numbers = ToDoubles(*value.constant);
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return number >= 0; });
}

// Whether it is made of what is never negative by operators that keep it so.
bool NeverNegative(const Scope& scope, ValueId value) {
  bool never = true;
  ForEachSource(scope, value, [&](const Graph& graph, const Value& v) {
    if (v.constant || ContentOf(v)) {
      never = never && IsNeverNegative(v);
      return false;
    }
    never = never && v.producer.v >= 0 &&
            IsOneOf(graph.node(v.producer),
                    {"add",         "cast",       "ceil",       "concat",      "div",
                     "expand",      "floor",      "gather",     "identity",    "max",
                     "min",         "mul",        "reduce_max", "reduce_mean", "reduce_min",
                     "reduce_prod", "reduce_sum", "reshape",    "round",       "slice",
                     "sqrt",        "squeeze",    "transpose",  "unsqueeze"});
    return never;
  });
  return never;
}

}  // namespace

bool Importer::MakeElements(Scope& scope, const absl::Status& status,
                            std::vector<ValueId>& inputs) {
  const std::optional<std::string> name = NeededValue(status);
  if (!name) return false;
  Graph& graph = *scope.graph;
  const auto input = std::find(inputs.begin(), inputs.end(), FindValue(graph, *name));
  if (input == inputs.end() || !input->valid()) return false;
  const Value value = graph.value(*input);
  const std::optional<std::vector<int64_t>> shape = kiln::Constant(value.shape);
  const int64_t count = shape ? CheckedBytes(DType::kU8, *shape) : -1;
  if (!IsInt(value.type) || value.shape.size() > 1 || count < 0 || count > kMaxSymbolElements)
    return false;
  // Symbols are from 0 on. What extents alone decide may be negative; it is known with them.
  const bool of_shapes = FollowsFromShapes(scope, *input);
  if (of_shapes && !NeverNegative(scope, *input)) return false;
  Shape elements;
  for (int64_t i = 0; i < count; ++i)
    elements.push_back(symbols_.Fresh(absl::StrCat(value.name, "_", i)));
  const absl::StatusOr<std::vector<ValueId>> known =
      graph.AddNode(*FindOp("elements"), {*input}, {{"symbols", DimsValue(elements)}},
                    absl::StrCat(value.name, "/elements"), {});
  if (!known.ok()) return false;
  *input = known->front();
  if (of_shapes) {
    for (const Dim& element : elements) element.CollectSymbols(shape_elements_);
  }
  return true;
}

namespace {

// Whether it follows from what is known that the guard does not hold.
bool IsExcluded(const Guard& guard, const KnownDims& known) {
  switch (guard.kind) {
    case Guard::Kind::kAtLeast:
      return known.NeverNegative(Dim(guard.number - 1) - guard.left);
    case Guard::Kind::kLess:
      return known.NeverNegative(guard.left - guard.number);
    case Guard::Kind::kEqual:
    case Guard::Kind::kSame: {
      const Dim right = guard.kind == Guard::Kind::kSame ? guard.right : Dim(guard.number);
      return known.NeverNegative(guard.left - right - 1) ||
             known.NeverNegative(right - guard.left - 1);
    }
    default:
      return false;
  }
}

}  // namespace

absl::Status Importer::CheckGuards(const Graph& graph, size_t first) const {
  const std::span<const Guard> guards = graph.guards();
  if (first >= guards.size()) return absl::OkStatus();
  const std::set<std::string> told = ToldByInputs(*main_.graph);
  for (size_t k = first; k < guards.size(); ++k) {
    for (const std::string& symbol : guards[k].Symbols()) {
      if (shape_elements_.count(symbol) == 0) continue;
      return OpenExtentsError(absl::StrCat("needs ", guards[k].ToString(), ", where ", symbol,
                                           " is computed from extents that are not known"));
    }
    // What a run finds out is its own matter.
    if (IsOnlyAbout(guards[k], told) && IsExcluded(guards[k], KnownDims(guards.first(k)))) {
      return OpenExtentsError(absl::StrCat("needs ", guards[k].ToString(),
                                           ", but nodes before it were given other extents"));
    }
  }
  return absl::OkStatus();
}

void Importer::Unsupported(const NodeProto& node, int64_t opset, std::string reason,
                           bool needs_values) {
  out_.unsupported.push_back(
      {NameOf(node), OperatorOf(node), opset, std::move(reason), needs_values});
}

absl::Status Importer::AddNode(Scope& scope, const NodeProto& node) {
  if (node.op_type() == "Constant" && node.output_size() == 1 && IsUpdatable(scope, node.output(0)))
    return absl::OkStatus();  // AddUpdatable has defined it
  KILN_ASSIGN_OR_RETURN(std::vector<Slot> slots, Resolve(scope, node));
  KILN_RETURN_IF_ERROR(CheckAttributes(node));
  const std::string domain = DomainOf(node.domain());
  const int64_t opset = scope.opsets.count(domain) > 0 ? scope.opsets[domain] : 0;
  bool missing = false, needs_values = false;
  std::string reason;
  for (const Slot& slot : slots) {
    if (!slot.missing()) continue;
    missing = true;
    if (reason.empty()) reason = slot.reason;
  }
  std::vector<Slot> outputs(static_cast<size_t>(node.output_size()));
  std::vector<Guard> aside = SetAsideFound(*scope.graph);
  const size_t guards = scope.graph->guards().size(), listed = out_.unsupported.size();
  const auto attempt = [&]() -> absl::Status {
    if (const std::shared_ptr<const CustomOp> custom = FindCustom(node)) {
      std::vector<ValueId> ids;
      for (const Slot& slot : slots) ids.push_back(slot.id);
      return missing ? absl::OkStatus() : AddCustom(scope, node, *custom, ids, outputs);
    }
    if (const FunctionProto* function = FindFunction(node))
      return Expand(scope, node, *function, slots, outputs);
    if (domain.empty() && opset < 1)
      return absl::UnimplementedError("the model does not say which operator set it uses");
    const bool standard =
        domain.empty() || domain == "com.microsoft" || domain == "ai.onnx.preview.training";
    const Converter* converter =
        standard ? FindConverter(OperatorOf(node),
                                 std::max<int64_t>(domain.empty() ? opset : 0, kOldestOpset))
                 : nullptr;
    if (converter == nullptr) return absl::UnimplementedError("");
    if (missing) return absl::OkStatus();
    if (node.op_type() == "If" && domain.empty()) {
      absl::Status status = AddIf(scope, node, slots, outputs);
      if (absl::IsUnimplemented(status))
        needs_values = NoteNeeded(scope, scope.graph->value(slots[0].id).name);
      return status;
    }
    if (node.op_type() == "Loop" && domain.empty()) return AddLoop(scope, node, slots, outputs);
    if (node.op_type() == "Scan" && domain.empty()) return AddScan(scope, node, slots, outputs);
    if (node.op_type() == "Gradient") return AddGradient(scope, node, slots, outputs);
    KILN_ASSIGN_OR_RETURN(const bool done, AddSequenceOp(scope, node, slots, outputs));
    if (done) return Measure(*scope.graph, guards, outputs);
    std::vector<ValueId> inputs;
    for (const Slot& slot : slots) {
      if (slot.kind == Slot::Kind::kSequence)
        return absl::UnimplementedError("a sequence is given where a tensor is expected");
      inputs.push_back(slot.id);
    }
    absl::Status status = Convert(scope, *converter, node, inputs, outputs);
    // Operands that follow from constants are computed, those that the caller's inputs decide are
    // noted, and elements of others become symbols.
    for (int tries = 0; tries < kMaxOperands && NeededValue(status); ++tries) {
      if (!SettleNeeded(scope, status, inputs)) {
        needs_values = NoteNeeded(scope, *NeededValue(status));
        if (needs_values || !MakeElements(scope, status, inputs)) break;
      }
      status = Convert(scope, *converter, node, inputs, outputs);
    }
    return status.ok() ? Measure(*scope.graph, guards, outputs) : status;
  };
  absl::Status status = reason.empty() ? attempt() : absl::UnimplementedError(reason);
  const bool literal = status.ok() && domain.empty() && node.op_type() == "Constant";
  if (literal && !outputs.empty() && outputs[0].kind == Slot::Kind::kTensor &&
      outputs[0].id.valid())
    scope.graph->mutable_value(outputs[0].id).literal = true;
  // What is within a function or a chosen branch has been asked by itself.
  if (status.ok() && out_.unsupported.size() == listed) status = CheckGuards(*scope.graph, guards);
  for (Guard& guard : aside) scope.graph->AddGuard(std::move(guard));
  // What does not go together under assumptions about extents may do so for others, and so may what
  // extents say: a target of n - 1 elements asks for as many as there are where n is 0.
  const auto says_extents = [&](const Slot& slot) {
    if (slot.kind != Slot::Kind::kTensor || !slot.id.valid()) return false;
    const std::optional<Shape> content = ContentOf(scope.graph->value(slot.id));
    return content && !kiln::Constant(*content);
  };
  if (absl::IsInvalidArgument(status)) {
    if (std::any_of(slots.begin(), slots.end(), says_extents)) {
      status = OpenExtentsError(std::string(status.message()));
    } else if (std::any_of(scope.graph->guards().begin(), scope.graph->guards().end(),
                           IsAboutExtents)) {
      status = absl::UnimplementedError(status.message());
    }
  }
  if (absl::IsUnimplemented(status)) {
    Unsupported(node, opset, Reason(status, node), needs_values);
    out_.unsupported.back().needs_extents = IsOfOpenExtents(status);
    outputs.assign(outputs.size(), {});
  } else if (!status.ok()) {
    return absl::Status(status.code(), Reason(status, node));
  }
  for (int k = 0; k < node.output_size(); ++k) {
    if (!node.output(k).empty())
      KILN_RETURN_IF_ERROR(Define(scope, node.output(k), outputs[static_cast<size_t>(k)]));
  }
  return absl::OkStatus();
}

absl::Status Importer::AddNodes(Scope& scope,
                                const google::protobuf::RepeatedPtrField<NodeProto>& nodes) {
  for (const NodeProto& node : nodes) {
    if (scope.parent != nullptr) KILN_RETURN_IF_ERROR(CountInner());
    KILN_RETURN_IF_ERROR(Annotate(AddNode(scope, node), Subject(node)));
  }
  return absl::OkStatus();
}

absl::Status Importer::CountInner(int64_t nodes) {
  inner_nodes_ += nodes;
  if (inner_nodes_ <= kMaxExpandedNodes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("functions, branches, loop bodies and sequences expand to more than ",
                   kMaxExpandedNodes, " nodes"));
}

}  // namespace kiln::onnx
