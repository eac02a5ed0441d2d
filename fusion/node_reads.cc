// SPDX-License-Identifier: Apache-2.0
#include "fusion/node_reads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/coordinate.h"

namespace kiln {
namespace {

using Kind = ReadAxis::Kind;

// An input that is broadcast to the output: axes count from the right.
NodeRead BroadcastRead(const Graph& graph, ValueId input, int out_rank) {
  NodeRead read{input, {}};
  if (!input.valid()) return read;
  const Shape& shape = graph.value(input).shape;
  const int shift = out_rank - static_cast<int>(shape.size());
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    ReadAxis& added = read.axes.emplace_back();
    if (shape[static_cast<size_t>(axis)].IsConst(1)) continue;
    added.kind = Kind::kSame;
    added.out_axis = axis + shift;
  }
  return read;
}

NodeRead ReduceRead(const Graph& graph, const Node& node) {
  NodeRead read{node.inputs[0], {}};
  const Shape& shape = graph.value(node.inputs[0]).shape;
  const int rank = static_cast<int>(shape.size());
  const bool keep = graph.value(node.outputs[0]).shape.size() == shape.size();
  std::vector<bool> reduced(shape.size(), false);
  const std::vector<int64_t> axes = IntsAttr(node, "axes");
  if (axes.empty()) reduced.assign(shape.size(), true);
  for (const int64_t axis : axes)
    reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  int next = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    ReadAxis& added = read.axes.emplace_back();
    const int out_axis = reduced[axis] && !keep ? -1 : next++;
    if (reduced[axis]) {
      added.kind = Kind::kReduced;
    } else if (!shape[axis].IsConst(1)) {
      added.kind = Kind::kSame;
      added.out_axis = out_axis;
    }
  }
  return read;
}

// Indices [.., depth] are read once for each coordinate.
void AddScatterReads(const Graph& graph, const Node& node, NodeReads& reads) {
  const int rank = static_cast<int>(graph.value(node.inputs[1]).shape.size());
  reads.reads.push_back(BroadcastRead(graph, node.inputs[1], rank));
  const Shape& indices = graph.value(node.inputs[0]).shape;
  const int64_t depth = indices.back().constant().value_or(0);
  for (int64_t k = 0; k < depth; ++k) {
    NodeRead& read = reads.reads.emplace_back(NodeRead{node.inputs[0], {}});
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      ReadAxis& added = read.axes.emplace_back();
      if (indices[axis].IsConst(1)) continue;
      const bool last = axis + 1 == indices.size();
      added.kind = last ? Kind::kAffine : Kind::kSame;
      added.out_axis = last ? -1 : static_cast<int>(axis);
      if (last) added.offset = k;
    }
  }
}

// Translates one piece of an index map. Reads that its loaded axes need are appended to `reads`.
class PieceReader {
 public:
  PieceReader(const Graph& graph, const Node& node, const Shape& out, NodeReads& reads)
      : graph_(graph), node_(node), out_(out), reads_(reads) {}

  absl::Status Add(const IndexPiece& piece) {
    if (piece.input == kCoordinate) {
      // A read of no value, whose only axis is the coordinate.
      ReadAxis axis;
      axis.kind = Kind::kSame;
      axis.out_axis = piece.axes[0].out_axis;
      reads_.pieces.push_back({static_cast<int>(reads_.reads.size()), {}});
      reads_.reads.push_back({ValueId{}, {axis}});
      return absl::OkStatus();
    }
    const ValueId input = node_.inputs[static_cast<size_t>(piece.input)];
    const Shape& shape = graph_.value(input).shape;
    NodeRead read{input, {}};
    std::vector<bool> used(out_.size(), false);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      KILN_ASSIGN_OR_RETURN(ReadAxis added, Axis(piece.axes[axis], shape[axis], used));
      read.axes.push_back(std::move(added));
    }
    NodeReads::Piece& added = reads_.pieces.emplace_back();
    added.read = static_cast<int>(reads_.reads.size());
    reads_.reads.push_back(std::move(read));
    for (const IndexPiece::Bound& bound : piece.bounds) {
      const std::optional<int64_t> lower = bound.lower.constant();
      const bool always =
          lower && *lower <= 0 && bound.upper == out_[static_cast<size_t>(bound.out_axis)];
      if (!always) added.bounds.push_back(bound);
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<ReadAxis> Axis(const IndexAxis& from, const Dim& extent, std::vector<bool>& used) {
    ReadAxis axis;
    if (extent.IsConst(1)) return axis;
    if (from.load_input >= 0) {
      axis.kind = Kind::kLoaded;
      axis.load = static_cast<int>(reads_.reads.size());
      reads_.reads.push_back(LoadRead(from));
      return axis;
    }
    const std::optional<int64_t> coef = from.coef.constant();
    if (!coef) {
      return absl::UnimplementedError(
          absl::StrCat("its step ", from.coef.ToString(), " is not a known number"));
    }
    axis.out_axis = *coef == 0 ? -1 : from.out_axis;
    axis.coef = *coef;
    axis.offset = from.offset;
    axis.div = from.div;
    axis.kind = Kind::kAffine;
    if (axis.out_axis < 0) return axis;
    const auto out_axis = static_cast<size_t>(axis.out_axis);
    if (*coef == 1 && from.div == 1 && from.offset.IsConst(0) && extent == out_[out_axis] &&
        !used[out_axis]) {
      axis.kind = Kind::kSame;
      used[out_axis] = true;
    }
    return axis;
  }

  NodeRead LoadRead(const IndexAxis& from) const {
    const ValueId input = node_.inputs[static_cast<size_t>(from.load_input)];
    NodeRead read{input, {}};
    const Shape& shape = graph_.value(input).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      ReadAxis& added = read.axes.emplace_back();
      if (shape[axis].IsConst(1) || from.load_axes[axis] < 0) continue;
      added.kind = Kind::kSame;
      added.out_axis = from.load_axes[axis];
    }
    return read;
  }

  const Graph& graph_;
  const Node& node_;
  const Shape& out_;
  NodeReads& reads_;
};

}  // namespace

const Shape& LoopShape(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  const bool sent = producer.v >= 0 && graph.node(producer).op->kind == OpKind::kScatter;
  return graph.value(sent ? graph.node(producer).inputs[1] : value).shape;
}

bool NodeRead::Runs() const {
  return std::all_of(axes.begin(), axes.end(), [](const ReadAxis& axis) {
    return axis.kind == Kind::kOne || axis.kind == Kind::kSame || axis.kind == Kind::kReduced;
  });
}

int OutputIndex(const Graph& graph, ValueId value) {
  const std::vector<ValueId>& outputs = graph.node(graph.value(value).producer).outputs;
  return static_cast<int>(std::find(outputs.begin(), outputs.end(), value) - outputs.begin());
}

absl::StatusOr<NodeReads> ReadsOf(const Graph& graph, ValueId value) {
  const Node& node = graph.node(graph.value(value).producer);
  const Shape& out = graph.value(value).shape;
  NodeReads reads;
  switch (node.op->kind) {
    case OpKind::kScalar:
      for (const ValueId input : node.inputs) {
        reads.reads.push_back(BroadcastRead(graph, input, static_cast<int>(out.size())));
      }
      return reads;
    case OpKind::kReduce:
      reads.reads.push_back(ReduceRead(graph, node));
      return reads;
    case OpKind::kScatter:
      AddScatterReads(graph, node, reads);
      return reads;
    case OpKind::kIndex: {
      KILN_ASSIGN_OR_RETURN(const IndexMap map,
                            node.op->index(graph, node, OutputIndex(graph, value)));
      if (map.view)
        return absl::UnimplementedError(
            absl::StrCat("\"", node.op->name, "\" is a view and has no kernel"));
      reads.fill = map.fill;
      PieceReader reader(graph, node, out, reads);
      for (const IndexPiece& piece : map.pieces) KILN_RETURN_IF_ERROR(reader.Add(piece));
      return reads;
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat("\"", node.op->name, "\" is no scalar, reduce, index or scatter operator"));
  }
}

std::optional<ValueId> ViewSource(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (producer.v < 0) return std::nullopt;
  const Node& node = graph.node(producer);
  if (node.op->kind != OpKind::kIndex) return std::nullopt;
  const absl::StatusOr<IndexMap> map = node.op->index(graph, node, OutputIndex(graph, value));
  if (!map.ok() || !map->view) return std::nullopt;
  return node.inputs[map->pieces.empty() ? 0 : static_cast<size_t>(map->pieces[0].input)];
}

}  // namespace kiln
