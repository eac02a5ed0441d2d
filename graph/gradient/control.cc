// SPDX-License-Identifier: Apache-2.0
// Gradients of control flow: nodes that run the gradients of their graphs. What these need of the
// forward pass they compute again, but for a loop's carried values, which a second run of the loop
// stacks.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/gradients.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::gradient {
namespace {

// `graph` with the outputs `results`, as the attribute of a node.
absl::StatusOr<Body> Finished(Graph graph, const Ids& results) {
  std::vector<Graph::Output> outputs;
  for (size_t k = 0; k < results.size(); ++k)
    outputs.push_back({absl::StrCat("result_", k), results[k]});
  graph.SetOutputs(std::move(outputs));
  GraphBuilder(&graph).HoldToGuards();
  graph.RemoveDead();
  KILN_RETURN_IF_ERROR(Verify(graph));
  return std::make_shared<const Graph>(std::move(graph));
}

void Append(Shape& extents, const Shape& shape) {
  extents.insert(extents.end(), shape.begin(), shape.end());
}

// ---- if: the gradient of each branch takes the branch's inputs, then the cotangents of its
// outputs, and gives the cotangents of the inputs that are floats.
absl::StatusOr<Body> BranchGradient(const Graph& branch, std::span<const ValueId> g) {
  Graph graph = branch;
  graph.name = graph.name + "_gradient";
  graph.maker = nullptr;
  GraphBuilder b(&graph);
  Nodes m(b);
  Ids outputs, cotangents;
  for (size_t k = 0; k < g.size(); ++k) {
    if (!g[k].valid()) continue;
    const Value& output = branch.value(branch.outputs()[k].value);
    outputs.push_back(branch.outputs()[k].value);
    cotangents.push_back(b.Input(absl::StrCat("d_", output.name), output.type, output.shape));
  }
  Ids wrt;
  for (const ValueId id : branch.inputs()) {
    if (IsFloat(b.type(id))) wrt.push_back(id);
  }
  KILN_ASSIGN_OR_RETURN(Ids results, Backward(b, 0, outputs, cotangents, wrt));
  for (size_t k = 0; k < wrt.size(); ++k) {
    if (!results[k].valid()) results[k] = m.ZerosLike(wrt[k]);
  }
  KILN_RETURN_IF_ERROR(b.status());
  return Finished(std::move(graph), results);
}

// ---- loop
// A loop node's operands by what they are.
struct LoopParts {
  const Graph& body;
  size_t carried, captures;
  Dim trips;  // how many turns it makes: known, or a symbol that a run of it gives its value
};

bool IsTrue(const Value& value) {
  return value.constant && ReadInt(Dense(*value.constant), 0) != 0;
}

// The trip count, if it is all that ends the loop and is known.
std::optional<Dim> KnownTrips(Nodes& m, const Node& node, const Graph& body) {
  const ValueId goes_on = body.outputs()[0].value;
  const bool never_ends = goes_on == body.inputs()[1] || IsTrue(body.value(goes_on));
  const bool begins = !node.inputs[1].valid() || IsTrue(m.builder().value(node.inputs[1]));
  if (!never_ends || !begins || !node.inputs[0].valid()) return std::nullopt;
  const std::optional<Shape> content = ContentOf(m.builder().value(node.inputs[0]));
  if (!content || content->size() != 1) return std::nullopt;
  return (*content)[0];
}

LoopParts PartsOf(Nodes& m, const Node& node) {
  const Graph& body = GraphAttr(node, "body");
  const auto carried = static_cast<size_t>(IntAttr(node, "carried"));
  const Dim trips =
      KnownTrips(m, node, body).value_or(Dim::Symbol(absl::StrCat(node.name, "_turns")));
  return {body, carried, node.inputs.size() - 2 - carried, trips};
}

Shape Stacked(const Dim& trips, const Shape& shape) {
  Shape stacked = {trips};
  Append(stacked, shape);
  return stacked;
}

// The loop again, giving what is carried into each turn, stacked; first of all the turn's number.
absl::StatusOr<Ids> CarriedStacks(Nodes& m, const Node& node, const LoopParts& parts) {
  Graph graph = parts.body;
  graph.maker = nullptr;
  std::vector<Graph::Output> outputs(graph.outputs().begin(),
                                     graph.outputs().begin() + 1 + static_cast<int>(parts.carried));
  Shape extents;
  for (size_t k = 0; k < parts.carried; ++k) Append(extents, m.ShapeOf(node.inputs[k + 2]));
  outputs.push_back({"turn", graph.inputs()[0]});
  Append(extents, Stacked(parts.trips, graph.value(graph.inputs()[0]).shape));
  for (size_t k = 0; k < parts.carried; ++k)
    outputs.push_back({absl::StrCat("carried_", k), graph.inputs()[k + 2]});
  for (size_t k = 0; k < parts.carried; ++k)
    Append(extents, Stacked(parts.trips, m.ShapeOf(node.inputs[k + 2])));
  graph.SetOutputs(std::move(outputs));
  graph.RemoveDead();
  Attrs attrs = node.attrs;
  attrs["body"] = std::make_shared<const Graph>(std::move(graph));
  attrs["extents"] = DimsValue(extents);
  const Ids made = m.builder().Ops("loop", node.inputs, std::move(attrs));
  KILN_RETURN_IF_ERROR(m.builder().status());
  return Ids(made.begin() + static_cast<int>(parts.carried), made.end());
}

// Adds the nodes of `body` to `b`, its inputs being `inputs`; returns what its outputs are.
absl::StatusOr<Ids> Inlined(Graph& graph, const Graph& body, const Ids& inputs) {
  std::vector<ValueId> map(body.values().size());
  for (size_t k = 0; k < inputs.size(); ++k)
    map[static_cast<size_t>(body.inputs()[k].v)] = inputs[k];
  const auto mapped = [&](const Ids& ids) {
    Ids result;
    for (const ValueId id : ids) {
      if (!id.valid()) {
        result.emplace_back();
        continue;
      }
      ValueId& to = map[static_cast<size_t>(id.v)];
      if (!to.valid()) to = graph.AddConstant("", *body.value(id).constant);
      result.push_back(to);
    }
    return result;
  };
  for (const Node& node : body.nodes()) {
    KILN_ASSIGN_OR_RETURN(const Ids made,
                          graph.AddNode(*node.op, mapped(node.inputs), node.attrs, node.name,
                                        std::vector<std::string>(node.outputs.size())));
    for (size_t k = 0; k < made.size(); ++k) map[static_cast<size_t>(node.outputs[k].v)] = made[k];
  }
  Ids outputs;
  for (const Graph::Output& output : body.outputs()) outputs.push_back(output.value);
  return mapped(outputs);
}

// What the reverse loop carries, and takes, from the outside; and its body.
struct ReverseLoop {
  Ids carried, captures;
  std::vector<size_t> of_input;  // the node's input whose cotangent each carried value is
  Body body;
};

// Turn i of the reverse loop is turn m - 1 - i of the loop, computed again from its carried values,
// and differentiated:
//   body(i, c, ds..., dx..., m, stacks of s..., stacks of dt..., x...) -> (c, ds..., dx...)
class ReverseMaker {
 public:
  ReverseMaker(Nodes& m, const Node& node, const LoopParts& parts, std::span<const ValueId> g)
      : m_(m), node_(node), parts_(parts), g_(g), b_(&graph_), inner_(b_) {
    graph_.name = parts.body.name + "_gradient";
  }

  absl::StatusOr<ReverseLoop> Make(ValueId turns, const Ids& stacks) {
    const ValueId turn = b_.Input("i", DType::kI64, {});
    const ValueId goes_on = b_.Input("c", DType::kBool, {});
    Ids sums = CarriedInputs();
    const ValueId last = inner_.Sub(Capture(turns, {}), inner_.Number(DType::kI64, 1));
    const ValueId at = inner_.Sub(last, turn);

    Ids inputs = {inner_.Reshape(at, Inner(0).shape),
                  inner_.Filled(DType::kBool, Inner(1).shape, 1)};
    for (size_t k = 0; k < parts_.carried; ++k)
      inputs.push_back(Pick(Capture(stacks[k + 1], Stacked(parts_.trips, Inner(k + 2).shape)), at));
    Ids outside(1 + parts_.carried);  // cotangents of the body's outputs
    for (size_t k = 0, n = 0; k < parts_.carried; ++k) {
      if (IsFloat(Inner(k + 2).type)) outside[k + 1] = sums[n++];
    }
    for (size_t k = parts_.carried; k < g_.size(); ++k) {
      const Shape shape = parts_.body.value(parts_.body.outputs()[k + 1].value).shape;
      outside.push_back(g_[k].valid() ? Pick(Capture(g_[k], Stacked(parts_.trips, shape)), at)
                                      : ValueId());
    }
    for (size_t k = 0; k < parts_.captures; ++k) {
      const size_t input = 2 + parts_.carried + k;
      inputs.push_back(Capture(node_.inputs[input], Inner(input).shape));
    }
    KILN_RETURN_IF_ERROR(b_.status());
    const size_t first = graph_.nodes().size();
    KILN_ASSIGN_OR_RETURN(const Ids outputs, Inlined(graph_, parts_.body, inputs));
    KILN_ASSIGN_OR_RETURN(const Ids parts, Backward(b_, first, outputs, outside, inputs));

    Ids results = {goes_on};
    for (size_t n = 0; n < sums.size(); ++n) {
      const size_t input = loop_.of_input[n];
      ValueId part = parts[input];
      if (input >= 2 + parts_.carried) {
        part = part.valid() ? inner_.Add(sums[n], part) : sums[n];
      } else if (!part.valid()) {
        part = inner_.ZerosLike(sums[n]);
      }
      results.push_back(part);
    }
    KILN_RETURN_IF_ERROR(b_.status());
    KILN_ASSIGN_OR_RETURN(loop_.body, Finished(std::move(graph_), results));
    return std::move(loop_);
  }

 private:
  const Value& Inner(size_t input) const { return parts_.body.value(parts_.body.inputs()[input]); }

  // A value of the outside, as an input of the body.
  ValueId Capture(ValueId outer, const Shape& shape) {
    loop_.captures.push_back(outer);
    return b_.Input(absl::StrCat("x", loop_.captures.size()), m_.TypeOf(outer), shape);
  }

  ValueId Pick(ValueId stack, ValueId at) {
    return inner_.Op("gather", {stack, at}, {{"axis", int64_t{0}}});
  }

  // Cotangents of carried values begin as those of the loop's results, those of captures at 0.
  Ids CarriedInputs() {
    Ids sums;
    for (size_t input = 2; input < node_.inputs.size(); ++input) {
      if (!IsFloat(Inner(input).type)) continue;
      const bool is_result = input < 2 + parts_.carried && g_[input - 2].valid();
      loop_.carried.push_back(is_result ? g_[input - 2] : m_.ZerosLike(node_.inputs[input]));
      loop_.of_input.push_back(input);
      sums.push_back(b_.Input(absl::StrCat("d", input), Inner(input).type, Inner(input).shape));
    }
    return sums;
  }

  Nodes& m_;
  const Node& node_;
  const LoopParts& parts_;
  const std::span<const ValueId> g_;
  Graph graph_;
  GraphBuilder b_;
  Nodes inner_;
  ReverseLoop loop_;
};

}  // namespace

absl::StatusOr<Ids> If(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  Attrs attrs;
  for (const char* branch : {"then_branch", "else_branch"}) {
    KILN_ASSIGN_OR_RETURN(attrs[branch], BranchGradient(GraphAttr(node, branch), g));
  }
  Ids inputs = node.inputs;
  for (const ValueId cotangent : g) {
    if (cotangent.valid()) inputs.push_back(cotangent);
  }
  Shape extents;
  std::vector<size_t> floats;
  for (size_t k = 1; k < node.inputs.size(); ++k) {
    if (!IsFloat(m.TypeOf(node.inputs[k]))) continue;
    floats.push_back(k);
    Append(extents, m.ShapeOf(node.inputs[k]));
  }
  Ids result(node.inputs.size());
  if (floats.empty()) return result;
  attrs["extents"] = DimsValue(extents);
  const Ids made = b.Ops("if", std::move(inputs), std::move(attrs));
  KILN_RETURN_IF_ERROR(b.status());
  for (size_t k = 0; k < floats.size(); ++k) result[floats[k]] = made[k];
  return result;
}

absl::StatusOr<Ids> Loop(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  Nodes m(b);
  const LoopParts parts = PartsOf(m, node);
  KILN_ASSIGN_OR_RETURN(const Ids stacks, CarriedStacks(m, node, parts));
  const ValueId turns = m.Reshape(m.Extent(stacks[0], 0, DType::kI64), {});
  KILN_ASSIGN_OR_RETURN(const ReverseLoop loop,
                        ReverseMaker(m, node, parts, g).Make(turns, stacks));
  Ids inputs = {turns, ValueId()};
  inputs.insert(inputs.end(), loop.carried.begin(), loop.carried.end());
  inputs.insert(inputs.end(), loop.captures.begin(), loop.captures.end());
  Shape extents;
  for (const ValueId id : loop.carried) Append(extents, m.ShapeOf(id));
  const Ids made = b.Ops("loop", std::move(inputs),
                         {{"body", loop.body},
                          {"carried", static_cast<int64_t>(loop.carried.size())},
                          {"extents", DimsValue(extents)}});
  KILN_RETURN_IF_ERROR(b.status());
  Ids result(node.inputs.size());
  for (size_t n = 0; n < loop.of_input.size(); ++n) result[loop.of_input[n]] = made[n];
  return result;
}

}  // namespace kiln::gradient
