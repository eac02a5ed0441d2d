// SPDX-License-Identifier: Apache-2.0
#include "graph/gradient/sum_of_parts.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::gradient {
namespace {

// What a pad with zeros along one axis puts where.
struct Part {
  ValueId value;
  size_t axis;
  int64_t begin, end;
};

std::optional<Part> PartOf(const Nodes& m, ValueId padded) {
  const Graph& graph = m.builder().graph();
  const NodeId maker = graph.value(padded).producer;
  if (maker.v < 0) return std::nullopt;
  const Node& node = graph.node(maker);
  if (node.op->name != absl::string_view("pad") || node.inputs.size() != 1 ||
      FloatAttr(node, "value") != 0 || HasAttr(node, "axes"))
    return std::nullopt;
  const std::optional<Ints> pads = Constant(DimsAttr(node, "pads"));
  const size_t rank = graph.value(padded).shape.size();
  if (!pads || pads->size() != 2 * rank) return std::nullopt;
  std::optional<size_t> along;
  for (size_t i = 0; i < rank; ++i) {
    if ((*pads)[i] < 0 || (*pads)[rank + i] < 0) return std::nullopt;
    if ((*pads)[i] == 0 && (*pads)[rank + i] == 0) continue;
    if (along) return std::nullopt;
    along = i;
  }
  if (!along) return std::nullopt;
  const auto extent = graph.value(node.inputs[0]).shape[*along].constant();
  if (!extent) return std::nullopt;
  const int64_t begin = (*pads)[*along];
  return Part{node.inputs[0], *along, begin, begin + *extent};
}

// The concat of parts that fill an axis, in any order; nothing if they do not.
std::optional<ValueId> Filled(Nodes& m, const Ids& padded) {
  std::vector<Part> parts;
  for (const ValueId value : padded) {
    const std::optional<Part> part = PartOf(m, value);
    if (!part) return std::nullopt;
    parts.push_back(*part);
    if (part->axis != parts[0].axis) return std::nullopt;
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t end = 0;
  Ids values;
  for (const Part& part : parts) {
    if (part.begin != end) return std::nullopt;
    end = part.end;
    values.push_back(part.value);
  }
  const size_t axis = parts[0].axis;
  if (!m.ShapeOf(padded[0])[axis].IsConst(end)) return std::nullopt;
  return m.Op("concat", std::move(values), {{"axis", static_cast<int64_t>(axis)}});
}

}  // namespace

void SumOfParts::Add(Nodes& m, ValueId part) {
  if (m.ok() && PartOf(m, part)) {
    parts_.push_back(part);
    return;
  }
  AddParts(m);
  sum_ = sum_.valid() ? m.Add(sum_, part) : part;
}

ValueId SumOfParts::Value(Nodes& m) {
  AddParts(m);
  return sum_;
}

void SumOfParts::AddParts(Nodes& m) {
  if (parts_.empty()) return;
  if (m.ok() && parts_.size() > 1) {
    if (const std::optional<ValueId> whole = Filled(m, parts_)) parts_ = {*whole};
  }
  for (const ValueId part : parts_) sum_ = sum_.valid() ? m.Add(sum_, part) : part;
  parts_.clear();
}

}  // namespace kiln::gradient
