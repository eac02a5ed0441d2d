// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/bound_programs.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/graph.h"
#include "kiln/graph.h"
#include "tests/compiler/draw.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/random_moves.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

class StateMaker {
 public:
  explicit StateMaker(uint64_t seed) : draw_(seed), b_("states") {}

  absl::StatusOr<BoundProgram> Run() {
    made_.kind = "states";
    type_ = draw_.Pick({DType::kF32, DType::kF32, DType::kF32, DType::kF64, DType::kF16,
                        DType::kBF16, DType::kI32});
    const int64_t rows = 1 + draw_.Below(24);
    const int64_t columns = draw_.OneIn(3) ? rows : 1 + draw_.Below(40);
    open_ = draw_.OneIn(3);
    shape_ = {open_ ? Dim::Symbol("n") : Dim(rows), Dim(columns)};
    extents_ = {rows, columns};
    for (int64_t i = 2 + draw_.Below(4); i > 0; --i) Input(shape_, extents_);
    if (draw_.OneIn(3)) Input({shape_[1]}, {columns});
    for (int64_t steps = 3 + draw_.Below(14); steps > 0; --steps) {
      const ValueId made = Step(State());
      if (!b_.status().ok()) return b_.status();
      if (b_.value(made).shape == shape_ && b_.value(made).type == type_) {
        states_.push_back(made);
      } else {
        others_.push_back(made);
      }
    }
    AddOutputs();
    KILN_ASSIGN_OR_RETURN(made_.graph, std::move(b_).Finish());
    return std::move(made_);
  }

 private:
  void Input(const Shape& shape, std::vector<int64_t> extents) {
    const ValueId id = b_.Input(absl::StrCat("x", made_.inputs.size()), type_, shape);
    (shape == shape_ ? states_ : rows_).push_back(id);
    made_.inputs.push_back(TypedNoise(type_, std::move(extents), draw_.bits()));
  }

  // Any of all states, so that inputs are read late too.
  ValueId State() {
    const size_t newest = std::min<size_t>(3, states_.size());
    if (draw_.OneIn(2)) return draw_.Of(states_);
    return states_[states_.size() - 1 - static_cast<size_t>(draw_.Below(newest))];
  }

  ValueId Step(ValueId x) {
    switch (draw_.Below(12)) {
      case 0:
      case 1:
        return b_.Op(draw_.Pick({"neg", "abs", "relu", "identity", "sign"}), {x});
      case 2:
      case 3:
      case 4:
        return b_.Op(Arithmetic(), {x, State()});
      case 5:
        return rows_.empty() ? Reduced(x) : b_.Op(Arithmetic(), {x, rows_[0]});
      case 6:
        return Reduced(x);
      case 7:
        return Shuffled(x);
      case 8:
        return Rolled(x);
      case 9:
        return Viewed(x);
      case 10:
        return Product(x);
      default:
        return IsFloat(type_) ? b_.Op(draw_.Pick({"softmax", "exp", "tanh"}), {x})
                              : b_.Op("where", {b_.Op("less", {x, State()}), x, State()});
    }
  }
  const char* Arithmetic() { return draw_.Pick({"add", "sub", "mul", "max", "min"}); }

  ValueId Reduced(ValueId x) {
    const Attrs over = {{"axes", std::vector<int64_t>{draw_.Below(2)}}, {"keepdims", int64_t{1}}};
    return b_.Op(Arithmetic(), {x, b_.Op(draw_.Pick({"reduce_sum", "reduce_max"}), {x}, over)});
  }

  // Columns, or rows where their number is known, in another order.
  ValueId Shuffled(ValueId x) {
    const int64_t axis = open_ ? 1 : draw_.Below(2);
    std::vector<int64_t> places(static_cast<size_t>(extents_[static_cast<size_t>(axis)]));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), draw_.bits());
    return b_.Op("gather", {x, b_.Ints(places)}, {{"axis", axis}});
  }

  // Two parts, of one state or two, that change places; rows are views and lie in the whole.
  ValueId Rolled(ValueId x) {
    const int64_t axis = open_ ? 1 : draw_.Below(2);
    const int64_t extent = extents_[static_cast<size_t>(axis)];
    const int64_t cut = draw_.OneIn(2) ? extent / 2 : draw_.Below(extent + 1);
    const ValueId other = draw_.OneIn(2) ? x : State();
    const ValueId along = b_.Ints({axis});
    ValueId front = b_.Op("slice", {other, b_.Ints({0}), b_.Ints({cut}), along});
    ValueId back = b_.Op("slice", {x, b_.Ints({cut}), b_.Ints({extent}), along});
    if (draw_.OneIn(2)) front = b_.Op(draw_.Pick({"neg", "relu"}), {front});
    if (draw_.OneIn(2)) back = b_.Op(draw_.Pick({"neg", "relu"}), {back});
    return b_.Op("concat", {back, front}, {{"axis", axis}});
  }

  // As many bytes in another shape or type, or back again.
  ValueId Viewed(ValueId x) {
    const Attrs transpose = {{"perm", std::vector<int64_t>{1, 0}}};
    switch (draw_.Below(4)) {
      case 0:
        return b_.Op("reshape", {x, b_.Ints({-1})});
      case 1:
        return b_.Op("transpose", {x}, transpose);
      case 2:
        return b_.Op("transpose", {b_.Op("relu", {b_.Op("transpose", {x}, transpose)})}, transpose);
      default: {
        const std::vector<int64_t> back = {-1, extents_[1]};
        if (open_) return b_.Op("reshape", {x, b_.Ints({-1})});
        return b_.Op("reshape",
                     {b_.Op("neg", {b_.Op("reshape", {x, b_.Ints({-1})})}), b_.Ints(back)});
      }
    }
  }

  ValueId Product(ValueId x) {
    const int64_t columns = extents_[1];
    if (type_ != DType::kF32) {
      constexpr DType kOfSize[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64};
      size_t size = 0;
      while ((size_t{1} << size) < SizeOf(type_)) ++size;
      return b_.Op("cast", {x}, {{"to", kOfSize[size]}});
    }
    if (!open_ && extents_[0] == columns && draw_.OneIn(2)) return b_.Op("matmul", {x, State()});
    Tensor weights = TypedNoise(type_, {columns, columns}, draw_.bits());
    return b_.Op("matmul", {x, b_.Constant(std::move(weights))});
  }

  void AddOutputs() {
    const int64_t count = 2 + draw_.Below(4);
    for (int64_t i = 0; i < count; ++i) {
      const bool newest = i == 0 || draw_.OneIn(3);
      const bool other = !others_.empty() && draw_.OneIn(3);
      const ValueId from = other ? draw_.Of(others_) : newest ? states_.back() : draw_.Of(states_);
      b_.Output(from, absl::StrCat("y", i));
    }
  }

  Draw draw_;
  GraphBuilder b_;
  BoundProgram made_;
  DType type_ = DType::kF32;
  bool open_ = false;
  Shape shape_;
  std::vector<int64_t> extents_;
  std::vector<ValueId> states_, rows_,
      others_;  // of shape_; that broadcast; of other shapes, types
};

class ImagesMaker {
 public:
  explicit ImagesMaker(uint64_t seed) : draw_(seed), b_("images") {}

  absl::StatusOr<BoundProgram> Run() {
    BoundProgram made;
    made.kind = "images";
    const std::vector<int64_t> extents = {8, 4, 160, 160};
    for (int64_t i = 0, count = 2 + draw_.Below(2); i < count; ++i) {
      states_.push_back(b_.Input(absl::StrCat("x", i), DType::kF32, ToShape(extents)));
      made.inputs.push_back(TypedNoise(DType::kF32, extents, draw_.bits()));
    }
    for (int64_t steps = 4 + draw_.Below(6); steps > 0; --steps)
      states_.push_back(Step(draw_.OneIn(3) ? draw_.Of(states_) : states_.back()));
    for (int64_t i = 0, count = 1 + draw_.Below(3); i < count; ++i)
      b_.Output(i == 0 ? states_.back() : draw_.Of(states_), absl::StrCat("y", i));
    KILN_ASSIGN_OR_RETURN(made.graph, std::move(b_).Finish());
    return made;
  }

 private:
  ValueId Step(ValueId x) {
    using L = std::vector<int64_t>;
    switch (draw_.Below(4)) {
      case 0:
        return b_.Op("max_pool", {x}, {{"kernel", L{3, 3}}, {"pads", L{1, 1, 1, 1}}});
      case 1: {
        Tensor weights = TypedNoise(DType::kF32, {4, 4, 1, 1}, draw_.bits());
        return b_.Op("conv", {x, b_.Constant(std::move(weights))});
      }
      case 2:
        return b_.Op(draw_.Pick({"neg", "relu", "abs"}), {x});
      default:
        return b_.Op(draw_.Pick({"add", "sub", "max"}), {x, draw_.Of(states_)});
    }
  }

  Draw draw_;
  GraphBuilder b_;
  std::vector<ValueId> states_;
};

// Further outputs as large as inputs are.
void AddEqualOutputs(Draw& draw, BoundProgram& program) {
  Graph& graph = program.graph;
  std::set<Shape> shapes;
  std::vector<ValueId> like;
  for (const ValueId input : graph.inputs()) shapes.insert(graph.value(input).shape);
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (!value.constant && shapes.count(value.shape) > 0)
      like.push_back(ValueId{static_cast<int32_t>(v)});
  }
  for (int64_t i = draw.Below(4); i > 0 && !like.empty(); --i)
    graph.AddOutput(draw.Of(like), absl::StrCat("like", i));
}

}  // namespace

absl::StatusOr<BoundProgram> MakeStateProgram(uint64_t seed) { return StateMaker(seed).Run(); }

absl::StatusOr<BoundProgram> MakeImagesProgram(uint64_t seed) { return ImagesMaker(seed).Run(); }

absl::StatusOr<BoundProgram> MakeBoundProgram(uint64_t seed) {
  Draw draw(seed ^ 0x9e3779b97f4a7c15);
  const int64_t kind = draw.Below(10);
  if (kind < 4) return MakeStateProgram(seed);
  if (kind < 7) return MakeControlProgram(seed);
  BoundProgram made;
  if (kind == 7) {
    KILN_ASSIGN_OR_RETURN(TypedGraph typed, MakeTypedGraph(seed));
    made = {"typed", std::move(typed.graph), std::move(typed.inputs)};
  } else if (kind == 8) {
    KILN_ASSIGN_OR_RETURN(RandomNet net, MakeRandomNet(seed, 600));
    made = {"net", std::move(net.graph), std::move(net.inputs)};
  } else {
    absl::StatusOr<RandomMoves> moves = MakeRandomMoves(seed);
    if (!moves.ok()) return MakeStateProgram(seed);  // some seeds give a graph that is refused
    made = {"moves", std::move(moves->graph), std::move(moves->inputs)};
  }
  AddEqualOutputs(draw, made);
  return made;
}

}  // namespace kiln
