// SPDX-License-Identifier: Apache-2.0
#include "fusion/node_analysis.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fusion/literal.h"
#include "fusion/node_reads.h"
#include "graph/op.h"

namespace kiln {
namespace {

constexpr int64_t kUnknownExtent = 32;  // speed

}  // namespace

int64_t CostOf(const ScalarExpr& expr) {
  int64_t cost = 0;
  for (const ExprNode& node : expr.nodes()) {
    const bool slow =
        node.op == ScalarOp::kDiv || node.op == ScalarOp::kMod || node.op == ScalarOp::kSqrt;
    if (slow || Info(node.op).function) {
      cost += kExpensive;
    } else if (Info(node.op).arity > 0) {
      cost += 1;
    }
  }
  return cost;
}

namespace {

Group::Kind KindOf(const Node& node, bool view) {
  switch (node.op->kind) {
    case OpKind::kScalar:
    case OpKind::kReduce:
    case OpKind::kScatter:
      return Group::Kind::kKernel;
    case OpKind::kIndex:
      return view ? Group::Kind::kView : Group::Kind::kKernel;
    case OpKind::kLibrary:
      return Group::Kind::kLibrary;
    default:
      return Group::Kind::kHost;
  }
}

// See NodeAnalysis::moves.
bool OnlyMoves(const NodeReads& reads) {
  const auto offset = [](const ReadAxis& axis) {
    return axis.kind == ReadAxis::Kind::kAffine && axis.div == 1 && axis.offset.constant();
  };
  return reads.pieces.size() == 1 && reads.pieces.front().bounds.empty() &&
         std::all_of(reads.reads.begin(), reads.reads.end(), [&](const NodeRead& read) {
           return std::all_of(read.axes.begin(), read.axes.end(), [&](const ReadAxis& axis) {
             return axis.kind == ReadAxis::Kind::kOne || axis.kind == ReadAxis::Kind::kSame ||
                    offset(axis);
           });
         });
}

class FactFinder {
 public:
  FactFinder(const Graph& graph, int level, const LibraryRules& rules)
      : graph_(graph), level_(level), rules_(rules) {}

  absl::StatusOr<GraphAnalysis> Run() {
    analysis_.nodes.resize(graph_.nodes().size());
    for (size_t i = 0; i < graph_.values().size(); ++i)
      analysis_.root.push_back(ValueId{static_cast<int32_t>(i)});
    for (size_t i = 0; i < graph_.nodes().size(); ++i) KILN_RETURN_IF_ERROR(Classify(i));
    for (LibraryCall& call : FindLibraryCalls(graph_, level_, rules_)) {
      if (call.op.v < 0) continue;
      for (const NodeId id : call.nodes) {
        NodeAnalysis& analysis = analysis_.nodes[static_cast<size_t>(id.v)];
        analysis = {.kind = Group::Kind::kLibrary,
                    .call = static_cast<int>(analysis_.calls.size())};
      }
      analysis_.calls.push_back(std::move(call));
    }
    MarkLive();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const NodeAnalysis& analysis = analysis_.nodes[i];
      if (analysis.live && analysis.kind != Group::Kind::kView)
        AddEdges(NodeId{static_cast<int32_t>(i)});
    }
    return std::move(analysis_);
  }

 private:
  absl::Status Classify(size_t i) {
    const Node& node = graph_.nodes()[i];
    NodeAnalysis& analysis = analysis_.nodes[i];
    if (node.op->kind == OpKind::kComposite) {
      return absl::InvalidArgumentError(
          absl::StrCat("node \"", node.name, "\": composite \"", node.op->name,
                       "\" has no group; run pass expand_composites first"));
    }
    bool view = node.op->kind == OpKind::kIndex;
    for (const ValueId output : node.outputs) {
      const std::optional<ValueId> source = view ? ViewSource(graph_, output) : std::nullopt;
      view = view && source.has_value();
      if (source)
        analysis_.root[static_cast<size_t>(output.v)] =
            analysis_.root[static_cast<size_t>(source->v)];
    }
    analysis.kind = KindOf(node, view);
    analysis.reduces = node.op->kind == OpKind::kReduce;
    analysis.plain = node.op->kind == OpKind::kScalar;
    analysis.cost = analysis.plain ? CostOf(ScalarBodyOf(graph_, node)) : 1;
    // A reduction, and a scatter, computes for each element that it reads.
    const Shape& counted =
        analysis.reduces ? graph_.value(node.inputs[0]).shape : LoopShape(graph_, node.outputs[0]);
    analysis.elements = static_cast<double>(EstimatedElements(counted));
    return absl::OkStatus();
  }

  void MarkLive() {
    std::vector<bool> needed(graph_.values().size(), false);
    for (const Graph::Output& output : graph_.outputs())
      needed[static_cast<size_t>(output.value.v)] = true;
    for (size_t i = graph_.nodes().size(); i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      NodeAnalysis& analysis = analysis_.nodes[i];
      for (const ValueId output : node.outputs)
        analysis.live = analysis.live || needed[static_cast<size_t>(output.v)];
      if (!analysis.live) continue;
      if (analysis.call >= 0) {
        const LibraryCall& call = analysis_.calls[static_cast<size_t>(analysis.call)];
        for (const NodeId id : call.nodes) analysis_.nodes[static_cast<size_t>(id.v)].live = true;
        for (const StridedView& input : call.inputs) {
          if (input.base.valid()) needed[static_cast<size_t>(input.base.v)] = true;
        }
        continue;
      }
      for (const ValueId input : node.inputs) {
        if (input.valid()) needed[static_cast<size_t>(input.v)] = true;
      }
    }
  }

  void AddEdges(NodeId consumer) {
    const Node& node = graph_.node(consumer);
    std::vector<DataEdge> found;
    NodeAnalysis& analysis = analysis_.nodes[static_cast<size_t>(consumer.v)];
    if (analysis.kind == Group::Kind::kKernel) {
      for (const ValueId output : node.outputs) {
        absl::StatusOr<NodeReads> reads = ReadsOf(graph_, output);
        if (!reads.ok()) continue;  // lowering reports it
        for (const NodeRead& read : reads->reads) AddRead(consumer, output, read, found);
        if (node.op->kind == OpKind::kIndex && node.outputs.size() == 1 && OnlyMoves(*reads))
          analysis.moves = *std::move(reads);
      }
    } else {
      const int call = analysis.call;
      for (const ValueId input : node.inputs) {
        if (!input.valid()) continue;
        const ValueId read =
            call < 0 ? input
                     : ReadInstead(analysis_.calls[static_cast<size_t>(call)], consumer, input);
        AddEdge(consumer, read, DataEdge(), found);
      }
    }
    std::sort(found.begin(), found.end(),
              [](const DataEdge& a, const DataEdge& b) { return a.producer < b.producer; });
    analysis_.edges.insert(analysis_.edges.end(), found.begin(), found.end());
  }

  // What a call's node reads in place of `input`: operands may be strided views of others.
  ValueId ReadInstead(const LibraryCall& call, NodeId node, ValueId input) const {
    const std::vector<ValueId>& operands = graph_.node(call.op).inputs;
    for (size_t k = 0; node == call.op && k < operands.size(); ++k) {
      if (operands[k] == input) return call.inputs[k].base;
    }
    const auto reads = [&](ValueId base) {
      return std::any_of(call.inputs.begin() + static_cast<std::ptrdiff_t>(operands.size()),
                         call.inputs.end(),
                         [&](const StridedView& operand) { return operand.base == base; });
    };
    if (node == call.op || reads(input)) return input;
    const ValueId base = StridedOf(graph_, input).base;
    return reads(base) ? base : input;
  }

  void AddRead(NodeId consumer, ValueId output, const NodeRead& read,
               std::vector<DataEdge>& found) {
    if (!read.value.valid() || graph_.value(read.value).constant) return;
    DataEdge edge;
    const Shape& shape = LoopShape(graph_, output);
    if (!read.Runs()) return AddEdge(consumer, read.value, edge, found);
    std::vector<bool> covered(shape.size(), false);
    for (const ReadAxis& axis : read.axes) {
      if (axis.kind == ReadAxis::Kind::kSame) covered[static_cast<size_t>(axis.out_axis)] = true;
    }
    Shape repeated;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!covered[axis]) repeated.push_back(shape[axis]);
    }
    edge.repeats = EstimatedElements(repeated);
    AddEdge(consumer, read.value, edge, found);
  }

  // Enters the edge, or joins it with another read of the same value by the same consumer.
  void AddEdge(NodeId consumer, ValueId read, DataEdge edge, std::vector<DataEdge>& found) {
    edge.value = analysis_.root[static_cast<size_t>(read.v)];
    edge.producer = graph_.value(edge.value).producer;
    if (edge.producer.v < 0) return;
    edge.consumer = consumer;
    edge.viewed = edge.value != read;
    edge.bytes = EstimatedBytes(graph_.value(edge.value));
    for (DataEdge& other : found) {
      if (other.value != edge.value) continue;
      other.viewed = other.viewed || edge.viewed;
      other.repeats = std::max(other.repeats, edge.repeats);
      return;
    }
    found.push_back(edge);
  }

  const Graph& graph_;
  const int level_;
  const LibraryRules rules_;
  GraphAnalysis analysis_;
};

int64_t EstimatedExtent(const Dim& dim) {
  std::optional<int64_t> extent = dim.constant();
  if (!extent) {
    std::set<std::string> symbols;
    dim.CollectSymbols(symbols);
    SymbolValues values;
    for (const std::string& symbol : symbols) values[symbol] = kUnknownExtent;
    extent = dim.Evaluate(values).value_or(kUnknownExtent);
  }
  return std::max<int64_t>(0, *extent);
}

}  // namespace

int64_t EstimatedElements(const Shape& shape) {
  int64_t elements = 1;
  for (const Dim& dim : shape) {
    const int64_t extent = EstimatedExtent(dim);
    if (__builtin_mul_overflow(elements, extent, &elements)) return INT64_MAX >> 8;
  }
  return std::min(elements, INT64_MAX >> 8);
}

int64_t EstimatedBytes(const Value& value) {
  return EstimatedElements(value.shape) * static_cast<int64_t>(SizeOf(value.type));
}

bool HasOneElement(const Value& value) {
  return std::all_of(value.shape.begin(), value.shape.end(),
                     [](const Dim& extent) { return extent.IsConst(1); });
}

absl::StatusOr<GraphAnalysis> Analyse(const Graph& graph, int level, const LibraryRules& rules) {
  return FactFinder(graph, level, rules).Run();
}

}  // namespace kiln
