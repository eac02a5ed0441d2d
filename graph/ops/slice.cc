// SPDX-License-Identifier: Apache-2.0
// slice, with bounds that may be symbols: which of two cases holds is a guard, or both are kept.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/infer.h"
#include "graph/known_dims.h"
#include "graph/ops/ops.h"
#include "graph/rebuild.h"

namespace kiln::ops {
namespace {

size_t At(int i) { return static_cast<size_t>(i); }

struct AxisSlice {
  Dim start = 0;
  int64_t step = 1;
  Dim extent;
};

// No axis is longer (check_node.h).
constexpr int64_t kBeyondAxes = int64_t{1} << 40;
// Exporters write "to the end" as any large number.
constexpr int64_t kFar = 1'000'000'000;

// Whether `guard` holds for symbols of one of these sizes: x[:n] of 512 elements has n, not 512.
bool HoldsForSome(const Guard& guard) {
  constexpr int64_t kSizes[] = {3, 64, 1 << 20};
  return std::any_of(std::begin(kSizes), std::end(kSizes),
                     [&](int64_t size) { return HoldsWhereAllAre(size, guard); });
}

// Choices that extents make. While a node is added, what large extents say becomes a guard, unless
// the graph's inputs do not tell these extents: what such a slice gives may end up in a part of the
// program that the graph cannot be made again for, so both cases are kept as an expression. Guards
// that stand come first, those that this node has adopted among them. Of a node that is in a graph
// they alone decide: no other assumption is made again, whatever the graph's inputs tell by now.
class Choices {
 public:
  // With `adopted`, guards that are to be added to the graph; without, the graph's guards decide.
  Choices(const Graph& graph, std::vector<Guard>* adopted)
      : graph_(graph), known_(graph.guards()), adopted_(adopted) {}

  // Whether `yes` holds, whose opposite is `no`; nothing: both cases are to be kept.
  std::optional<bool> Decide(const Guard& yes, const Guard& no, bool prefers_yes) {
    if (const std::optional<bool> always = yes.Static()) return always;
    // What was assumed for this node comes before what follows from guards of others.
    if (Stands(yes) || Stands(no)) return Stands(yes);
    if (Follows(yes) || Follows(no)) return Follows(yes);
    if (adopted_ == nullptr || !IsTold(yes)) return std::nullopt;
    adopted_->push_back(prefers_yes ? yes : no);
    // What is decided next may follow from it, or contradict it.
    std::vector<Guard> guards = graph_.guards();
    guards.insert(guards.end(), adopted_->begin(), adopted_->end());
    known_ = KnownDims(guards);
    return prefers_yes;
  }

  // `dim`, which is to be at least `low`.
  Dim AtLeast(const Dim& dim, const Dim& low) {
    const std::optional<bool> holds = Holds(dim - low, dim.constant().has_value());
    return holds ? (*holds ? dim : low) : Dim::Max(dim, low);
  }
  Dim AtMost(const Dim& dim, const Dim& high) {
    const std::optional<bool> holds = Holds(high - dim, dim.constant().has_value());
    return holds ? (*holds ? dim : high) : Dim::Min(dim, high);
  }

 private:
  // Whether `distance` >= 0. `keep`: both cases where that is open.
  std::optional<bool> Holds(const Dim& distance, bool keep) {
    const Guard there = Guard::AtLeast(distance, 0);
    if (keep) return there.Static();
    return Decide(there, Guard::Less(distance, 0), HoldsForSome(there));
  }

  bool Stands(const Guard& guard) const {
    const auto has = [&](const std::vector<Guard>& guards) {
      return std::find(guards.begin(), guards.end(), guard) != guards.end();
    };
    return has(graph_.guards()) || (adopted_ != nullptr && has(*adopted_));
  }

  // Of a bound, kAtLeast or kLess: whether the guards that stand say it.
  bool Follows(const Guard& guard) const {
    return known_.NeverNegative(guard.kind == Guard::Kind::kAtLeast
                                    ? guard.left - guard.number
                                    : Dim(guard.number) - guard.left - 1);
  }

  bool IsTold(const Guard& guard) {
    if (told_.empty()) told_ = ToldByInputs(graph_);
    return IsOnlyAbout(guard, told_);
  }

  const Graph& graph_;
  KnownDims known_;  // from the guards of the graph and those that are adopted
  std::vector<Guard>* const adopted_;
  std::set<std::string> told_;
};

// The bounds of a slice along one axis.
class Bounds {
 public:
  Bounds(const Dim& extent, bool forwards, Choices& choices)
      : extent_(extent),
        choices_(choices),
        // Backwards, places run from extent - 1 down to -1, which is before the first.
        end_low_(forwards ? 0 : -1),
        high_(forwards ? extent : extent - 1) {}

  // A start before the first element is at it, in either direction; of an axis without elements
  // there is no first one.
  Dim Start(const Dim& bound) {
    return choices_.AtMost(choices_.AtLeast(Counted(bound), 0), high_);
  }
  Dim End(const Dim& bound) {
    return choices_.AtMost(choices_.AtLeast(Counted(bound), end_low_), high_);
  }

 private:
  // A bound as ONNX writes it: negative numbers count from the end.
  Dim Counted(const Dim& bound) {
    if (const auto number = bound.constant()) {
      if (*number <= -kFar)
        return Far(*number, Guard::Less(bound + extent_, 0), Guard::AtLeast(bound + extent_, 0),
                   Dim(-1));
      if (*number >= kFar)
        return Far(*number, Guard::AtLeast(bound - extent_, 0), Guard::Less(bound - extent_, 0),
                   extent_);
      return *number < 0 ? bound + extent_ : bound;
    }
    const Guard less = Guard::Less(bound, 0);
    const std::optional<bool> negative =
        choices_.Decide(less, Guard::AtLeast(bound, 0), HoldsForLarge(less));
    if (negative) return *negative ? bound + extent_ : bound;
    const Dim is_negative = Dim::Min(Dim::Max(Dim(0) - bound, 0), 1);
    return bound + is_negative * extent_;
  }

  // A number that is meant as "to the end": `end` if it is beyond the axis.
  Dim Far(int64_t number, const Guard& beyond, const Guard& within, const Dim& end) {
    if (number <= -kBeyondAxes || number >= kBeyondAxes) return end;
    if (choices_.Decide(beyond, within, true) == true) return end;
    return number < 0 ? Dim(number) + extent_ : Dim(number);
  }

  const Dim& extent_;
  Choices& choices_;
  const Dim end_low_;
  const Dim high_;
};

absl::StatusOr<AxisSlice> SliceAxis(const Dim& extent, const Dim& start, const Dim& end,
                                    int64_t step, Choices& choices) {
  if (step == 0) return absl::InvalidArgumentError("the step is 0");
  const bool forwards = step > 0;
  Bounds bounds(extent, forwards, choices);
  AxisSlice slice;
  slice.start = bounds.Start(start);
  const Dim way = forwards ? bounds.End(end) - slice.start : slice.start - bounds.End(end);
  if (step >= kBeyondAxes || step <= -kBeyondAxes) {
    // One element at most: any step does.
    slice.step = forwards ? 1 : -1;
    slice.extent = Dim::Min(way, 1);
  } else {
    const int64_t size = forwards ? step : -step;
    slice.step = step;
    slice.extent = (way + (size - 1)).FloorDiv(size);
  }
  // An order of the bounds that some extents would turn around is assumed, rather than carrying a
  // maximum along.
  slice.extent = choices.AtLeast(slice.extent, 0);
  return slice;
}

absl::StatusOr<std::vector<AxisSlice>> Slices(const Shape& shape, const Shape& starts,
                                              const Shape& ends, const std::vector<int64_t>& axes,
                                              const std::vector<int64_t>& steps, Choices& choices) {
  std::vector<AxisSlice> slices;
  for (const Dim& dim : shape) slices.push_back({0, 1, dim});
  if (starts.size() != ends.size() || starts.size() != axes.size() ||
      starts.size() != steps.size()) {
    return absl::InvalidArgumentError(absl::StrCat("has ", starts.size(), " starts, ", ends.size(),
                                                   " ends, ", axes.size(), " axes and ",
                                                   steps.size(), " steps"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    KILN_ASSIGN_OR_RETURN(const int axis, NormalAxis(axes[i], shape.size()));
    absl::StatusOr<AxisSlice> slice =
        SliceAxis(shape[At(axis)], starts[i], ends[i], steps[i], choices);
    if (!slice.ok()) return Annotate(slice.status(), absl::StrCat("axis ", axis));
    slices[At(axis)] = *std::move(slice);
  }
  return slices;
}

absl::StatusOr<std::vector<AxisSlice>> SlicesOf(const Node& node, const Shape& shape,
                                                const Shape& starts, const Shape& ends,
                                                Choices choices) {
  std::vector<int64_t> axes(starts.size());
  std::vector<int64_t> steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (HasAttr(node, "axes")) {
    KILN_ASSIGN_OR_RETURN(axes, Numbers(DimsAttr(node, "axes"), "axes"));
  }
  if (HasAttr(node, "steps")) {
    KILN_ASSIGN_OR_RETURN(steps, Numbers(DimsAttr(node, "steps"), "steps"));
  }
  return Slices(shape, starts, ends, axes, steps, choices);
}

absl::Status InferSlice(InferContext& c) {
  KILN_ASSIGN_OR_RETURN(const Shape starts, c.Dims("starts"));
  KILN_ASSIGN_OR_RETURN(const Shape ends, c.Dims("ends"));
  for (const char* name : {"axes", "steps"}) {  // known, or absent
    if (c.has_dims(name)) KILN_RETURN_IF_ERROR(c.Dims(name).status());
  }
  std::vector<Guard> guards;
  const bool is_new = !c.node().outputs[0].valid();
  KILN_ASSIGN_OR_RETURN(
      const std::vector<AxisSlice> slices,
      SlicesOf(c.node(), c.shape(0), starts, ends, Choices(c.graph(), is_new ? &guards : nullptr)));
  Shape shape;
  for (const AxisSlice& slice : slices) shape.push_back(slice.extent);
  for (Guard& guard : guards) c.Assume(std::move(guard));
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<IndexMap> IndexSlice(const Graph& graph, const Node& node, int) {
  const Shape& from = graph.value(node.inputs[0]).shape;
  KILN_ASSIGN_OR_RETURN(const std::vector<AxisSlice> slices,
                        SlicesOf(node, from, DimsAttr(node, "starts"), DimsAttr(node, "ends"),
                                 Choices(graph, nullptr)));
  IndexPiece piece;
  piece.input = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    piece.axes.push_back(
        {.out_axis = static_cast<int>(i), .coef = slices[i].step, .offset = slices[i].start});
  }
  IndexMap map;
  map.pieces.push_back(std::move(piece));
  return map;
}

constexpr AttrSpec kSliceAttrs[] = {
    {"starts", AttrKind::kDims, false, 0, nullptr, "first element; negative: from the end; clamped",
     1},
    {"ends", AttrKind::kDims, false, 0, nullptr,
     "one past the last; negative: from the end; clamped", 2},
    {"axes", AttrKind::kDims, false, 0, nullptr, "the axes that are sliced; absent: the first ones",
     3},
    {"steps", AttrKind::kDims, false, 0, nullptr, "not 0; negative: backwards; absent: 1", 4}};

constexpr OpDef kSliceOps[] = {
    {.name = "slice",
     .doc = "A range of elements of some axes, with a step.",
     .kind = OpKind::kIndex,
     .min_inputs = 1,
     .max_inputs = 5,
     .attrs = kSliceAttrs,
     .infer = InferSlice,
     .index = IndexSlice,
     .onnx = {{"Slice"}},
     .witness = "onnx node tests: slice"},
};

}  // namespace

std::span<const OpDef> SliceOps() { return kSliceOps; }

}  // namespace kiln::ops
