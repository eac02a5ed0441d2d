// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/gradients.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/custom_op.h"
#include "graph/gradient/bodies.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/rules.h"
#include "graph/gradient/sum_of_parts.h"
#include "graph/rebuild.h"

namespace kiln {
namespace gradient {
namespace {

// The cotangents of the node's inputs, of those that are `wanted` at least.
absl::StatusOr<Ids> NodeCotangents(GraphBuilder& b, const Node& node, const Ids& cotangents,
                                   const std::vector<bool>& wanted);

class Sweep {
 public:
  Sweep(GraphBuilder& b, size_t first, const Ids& wrt)
      : b_(b), first_(first), end_(b.graph().nodes().size()), wrt_(wrt) {
    depends_.resize(b.graph().values().size(), false);
    for (const ValueId id : wrt) {
      if (id.valid() && IsFloat(b.type(id))) depends_[Ix(id)] = true;
    }
    for (size_t i = first_; i < end_; ++i) {
      const Node& node = b.graph().nodes()[i];
      bool depends = false;
      for (const ValueId id : node.inputs) depends = depends || Depends(id);
      if (!depends) continue;
      for (const ValueId id : node.outputs) {
        if (IsFloat(b.type(id))) depends_[Ix(id)] = true;
      }
    }
  }

  void Add(ValueId value, ValueId cotangent) {
    if (!cotangent.valid() || !Depends(value)) return;
    Nodes nodes(b_);
    cotangents_[value.v].Add(nodes, cotangent);
  }

  absl::Status Run() {
    for (size_t i = end_; i-- > first_;) {
      const Node node = b_.graph().nodes()[i];  // a copy: nodes are added
      Ids cotangents;
      bool any = false;
      for (const ValueId id : node.outputs) {
        cotangents.push_back(Depends(id) ? Of(id) : ValueId());
        any = any || cotangents.back().valid();
      }
      if (!any) continue;
      const std::optional<Variance> variance = VarianceOf(b_.graph(), node);
      if (variance && !IsAsked(variance->mean) && !IsAsked(variance->difference) &&
          !IsAsked(variance->square)) {
        KILN_ASSIGN_OR_RETURN(const ValueId part,
                              VarianceCotangent(b_, node, *variance, cotangents[0]));
        Add(variance->x, part);
        continue;
      }
      std::vector<bool> wanted;
      for (const ValueId id : node.inputs) wanted.push_back(Depends(id));
      const absl::StatusOr<Ids> parts = NodeCotangents(b_, node, cotangents, wanted);
      if (!parts.ok()) {
        return Annotate(parts.status(),
                        absl::StrCat("gradient of node \"", node.name, "\" (", node.op->name, ")"));
      }
      KILN_RETURN_IF_ERROR(b_.status());
      for (size_t k = 0; k < parts->size() && k < node.inputs.size(); ++k)
        Add(node.inputs[k], (*parts)[k]);
    }
    return b_.status();
  }

  ValueId Of(ValueId value) {
    const auto at = cotangents_.find(value.v);
    Nodes nodes(b_);
    return at == cotangents_.end() ? ValueId() : at->second.Value(nodes);
  }

 private:
  static size_t Ix(ValueId id) { return static_cast<size_t>(id.v); }
  bool Depends(ValueId id) const {
    return id.valid() && Ix(id) < depends_.size() && depends_[Ix(id)];
  }

  bool IsAsked(ValueId id) const { return std::find(wrt_.begin(), wrt_.end(), id) != wrt_.end(); }

  GraphBuilder& b_;
  const size_t first_, end_;
  const Ids wrt_;
  std::vector<bool> depends_;  // floats that depend on what is differentiated by
  std::map<int32_t, SumOfParts> cotangents_;
};

absl::StatusOr<Ids> CompositeCotangents(GraphBuilder& b, const Node& node, const Ids& cotangents) {
  const size_t first = b.graph().nodes().size();
  KILN_ASSIGN_OR_RETURN(const Ids results, node.op->decompose(b, node));
  KILN_RETURN_IF_ERROR(b.status());
  return Backward(b, first, results, cotangents, node.inputs);
}

absl::StatusOr<Ids> NodeCotangents(GraphBuilder& b, const Node& node, const Ids& cotangents,
                                   const std::vector<bool>& wanted) {
  const OpDef& op = *node.op;
  if (op.gradient.none != nullptr)
    return absl::UnimplementedError(absl::StrCat("has none: ", op.gradient.none));
  if (op.gradient.rule != nullptr) return op.gradient.rule(b, node, cotangents);
  switch (op.kind) {
    case OpKind::kScalar:
      return ScalarCotangents(b, node, cotangents[0], wanted);
    case OpKind::kReduce:
      return ReduceCotangents(b, node, cotangents[0]);
    case OpKind::kIndex:
      return IndexCotangents(b, node, cotangents, wanted);
    case OpKind::kComposite:
      return CompositeCotangents(b, node, cotangents);
    case OpKind::kHost:
    case OpKind::kLibrary:
    case OpKind::kScatter:
    case OpKind::kControl:
      break;
  }
  return absl::UnimplementedError("the record has no gradient");
}

absl::Status CheckFloat(const GraphBuilder& b, ValueId id, const char* what) {
  if (!id.valid() || id.v >= static_cast<int64_t>(b.graph().values().size()))
    return absl::InvalidArgumentError(
        absl::StrCat("gradients: ", what, " is no value of the graph"));
  if (IsFloat(b.type(id))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gradients: ", what, " \"", b.value(id).name,
                                                 "\" is ", Name(b.type(id)),
                                                 "; gradients are of floats"));
}

// The names of the outputs: "d_" and the value's.
std::string NameOf(const Graph& graph, ValueId id) {
  return absl::StrCat("d_", graph.value(id).name);
}

}  // namespace

absl::StatusOr<Ids> Custom(GraphBuilder& b, const Node& node, std::span<const ValueId> g) {
  const CustomOp& op = CustomOpOf(node);
  if (!op.gradient) {
    return absl::UnimplementedError(
        absl::StrCat("custom op \"", op.domain, ".", op.name, "\" has no `gradient`"));
  }
  return op.gradient(b, {node.inputs, op.attrs}, node.outputs, {g.begin(), g.end()});
}

absl::StatusOr<Ids> Backward(GraphBuilder& b, size_t first, const Ids& outputs,
                             const Ids& cotangents, const Ids& wrt) {
  KILN_RETURN_IF_ERROR(b.status());
  Sweep sweep(b, first, wrt);
  for (size_t k = 0; k < outputs.size(); ++k) sweep.Add(outputs[k], cotangents[k]);
  KILN_RETURN_IF_ERROR(sweep.Run());
  Ids result;
  for (const ValueId id : wrt) result.push_back(id.valid() ? sweep.Of(id) : ValueId());
  return result;
}

const char* SourceOf(const OpDef& op) {
  if (op.gradient.none != nullptr) return "none";
  if (op.gradient.rule != nullptr) return "rule";
  switch (op.kind) {
    case OpKind::kScalar:
      return "formula";
    case OpKind::kReduce:
      return "reduction";
    case OpKind::kIndex:
      return "index map";
    case OpKind::kComposite:
      return "decomposition";
    default:
      return "none";
  }
}

namespace {

absl::StatusOr<ValueId> ValueNamed(const Graph& graph, const std::string& name) {
  for (size_t v = 0; v < graph.values().size(); ++v) {
    if (graph.values()[v].name == name) return ValueId{static_cast<int32_t>(v)};
  }
  return absl::FailedPreconditionError(absl::StrCat("graph \"", graph.name, "\": made for other ",
                                                    "extents, it has no value \"", name, "\""));
}

// For other extents the forward graph is made again, and differentiated by the values of the same
// names.
std::shared_ptr<const Graph::Maker> MakerOf(const Graph& graph, ValueId loss, const Ids& wrt) {
  std::vector<std::string> names = {graph.value(loss).name};
  for (const ValueId id : wrt) names.push_back(graph.value(id).name);
  return std::make_shared<const Graph::Maker>(
      [forward = graph, names](const std::vector<Shape>& shapes) -> absl::StatusOr<Graph> {
        KILN_ASSIGN_OR_RETURN(const Graph made, WithInputShapes(forward, shapes));
        Ids values;
        for (const std::string& name : names) {
          KILN_ASSIGN_OR_RETURN(values.emplace_back(), ValueNamed(made, name));
        }
        return Gradients(made, values[0], {values.begin() + 1, values.end()});
      });
}

}  // namespace
}  // namespace gradient

absl::StatusOr<std::vector<ValueId>> Gradients(GraphBuilder& b, ValueId loss,
                                               const std::vector<ValueId>& wrt) {
  KILN_RETURN_IF_ERROR(b.status());
  KILN_RETURN_IF_ERROR(gradient::CheckFloat(b, loss, "the loss"));
  if (!Product(b.shape(loss)).IsConst(1)) {
    return absl::InvalidArgumentError(absl::StrCat("gradients: the loss \"", b.value(loss).name,
                                                   "\" is ", ToString(b.shape(loss)),
                                                   "; it must have one element"));
  }
  for (const ValueId id : wrt)
    KILN_RETURN_IF_ERROR(gradient::CheckFloat(b, id, "what is differentiated by"));
  gradient::Nodes m(b);
  const ValueId one = m.Filled(b.type(loss), b.shape(loss), 1);
  KILN_ASSIGN_OR_RETURN(std::vector<ValueId> gradients,
                        gradient::Backward(b, 0, {loss}, {one}, wrt));
  for (size_t k = 0; k < wrt.size(); ++k) {
    if (!gradients[k].valid()) gradients[k] = m.ZerosLike(wrt[k]);
  }
  KILN_RETURN_IF_ERROR(b.status());
  b.HoldToGuards();
  return gradients;
}

absl::StatusOr<Graph> Gradients(const Graph& graph, ValueId loss, const std::vector<ValueId>& wrt) {
  Graph result = graph;
  GraphBuilder b(&result);
  KILN_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients, Gradients(b, loss, wrt));
  std::vector<Graph::Output> outputs = {{graph.value(loss).name, loss}};
  for (size_t k = 0; k < wrt.size(); ++k)
    outputs.push_back({gradient::NameOf(result, wrt[k]), gradients[k]});
  result.SetOutputs(std::move(outputs));
  result.RemoveDead();
  KILN_RETURN_IF_ERROR(Verify(result));
  result.premises = graph.premises;
  result.maker = gradient::MakerOf(graph, loss, wrt);
  return result;
}

}  // namespace kiln
