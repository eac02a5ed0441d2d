// SPDX-License-Identifier: Apache-2.0
#include "tests/compiler/bound_programs.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kiln/base/status_macros.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/tensors.h"
#include "kiln/graph/text.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/random_moves.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t Below(int64_t high) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(std::max<int64_t>(high, 1)));
  }
  bool OneIn(int64_t n) { return Below(n) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[static_cast<size_t>(Below(static_cast<int64_t>(values.size())))];
  }
  template <typename T>
  T Pick(std::initializer_list<T> of) {
    return of.begin()[Below(static_cast<int64_t>(of.size()))];
  }
  std::mt19937_64& bits() { return random_; }

 private:
  std::mt19937_64 random_;
};

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
    const Attrs turn = {{"perm", std::vector<int64_t>{1, 0}}};
    switch (draw_.Below(4)) {
      case 0:
        return b_.Op("reshape", {x, b_.Ints({-1})});
      case 1:
        return b_.Op("transpose", {x}, turn);
      case 2:
        return b_.Op("transpose", {b_.Op("relu", {b_.Op("transpose", {x}, turn)})}, turn);
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

// Text: bodies stand before the nodes that own them.
class ControlMaker {
 public:
  explicit ControlMaker(uint64_t seed) : draw_(seed) {}

  absl::StatusOr<BoundProgram> Run() {
    BoundProgram made;
    made.kind = "control";
    const std::vector<int64_t> extents = {1 + draw_.Below(6), 1 + draw_.Below(5)};
    shape_ = draw_.OneIn(2) ? absl::StrCat("[n, ", extents[1], "]")
                            : absl::StrCat("[", absl::StrJoin(extents, ", "), "]");
    text_ = "graph control\ninput c : bool []\ninput m : i64 []\n";
    made.inputs = {FilledTensor(DType::kBool, {}, static_cast<double>(draw_.Below(2))),
                   FilledTensor(DType::kI64, {}, static_cast<double>(draw_.Below(4)))};
    for (int64_t i = 0, count = 2 + draw_.Below(3); i < count; ++i) {
      values_.push_back(absl::StrCat("x", i));
      absl::StrAppend(&text_, "input ", values_.back(), " : f32 ", shape_, "\n");
      made.inputs.push_back(TypedNoise(DType::kF32, extents, draw_.bits()));
    }
    absl::StrAppend(&text_, "flipped : bool [] = not(c)\ndoubled : i64 [] = add(m, m)\n",
                    "half : i64 [] = sub(doubled, m)\n");
    for (int64_t steps = 2 + draw_.Below(7); steps > 0; --steps) Step();
    AddOutputs();
    KILN_ASSIGN_OR_RETURN(made.graph, ParseGraph(text_));
    return made;
  }

 private:
  const std::string& Any() { return draw_.OneIn(2) ? draw_.Of(values_) : values_.back(); }
  std::string Name() { return absl::StrCat("v", names_++); }
  std::string Element(const std::vector<std::string>& of) {
    if (draw_.OneIn(3))
      return absl::StrCat(draw_.Pick({"neg", "relu", "abs"}), "(", draw_.Of(of), ")");
    const char* op = draw_.Pick({"add", "sub", "mul", "max", "min"});
    return absl::StrCat(op, "(", draw_.Of(of), ", ", draw_.Of(of), ")");
  }
  static std::string Line(const std::vector<std::string>& made, const std::string& node) {
    return absl::StrCat(absl::StrJoin(made, ", "), " = ", node, "\n");
  }
  std::string Extents(size_t count) const {
    const std::string inner = shape_.substr(1, shape_.size() - 2);
    return absl::StrCat("[", absl::StrJoin(std::vector<std::string>(count, inner), ", "), "]");
  }

  // A body that takes `states` states behind `ports` and gives `results` behind `first`, some of
  // them inputs of it as they are.
  std::string Body(const std::string& name, const std::string& ports, const std::string& first,
                   size_t states, size_t results, bool nest) {
    std::string text = absl::StrCat("body ", name, "\n", ports);
    std::vector<std::string> known;
    for (size_t k = 0; k < states; ++k) {
      known.push_back(absl::StrCat("s", k));
      absl::StrAppend(&text, "input ", known.back(), " : f32 ", shape_, "\n");
    }
    for (int64_t steps = draw_.Below(4); steps > 0; --steps) {
      const std::string made = Name();
      text += Line({made}, Element(known));
      known.push_back(made);
    }
    if (nest) {
      const std::string made = Name();
      const std::vector<std::string> operands = {draw_.Of(known), draw_.Of(known)};
      text += Branches(made, 1) + Line({made}, IfNode(first, made, operands, 1));
      known.push_back(made);
    }
    if (!first.empty()) absl::StrAppend(&text, "output ", first, "\n");
    for (size_t k = 0; k < results; ++k)
      absl::StrAppend(&text, "output o", k, " = ", draw_.Of(known), "\n");
    return text + "end\n";
  }
  // Two bodies of two states each.
  std::string Branches(const std::string& name, size_t results) {
    std::string text = Body(name + "a", "", "", 2, results, false);
    return text += Body(name + "b", "", "", 2, results, false);
  }
  std::string IfNode(const std::string& condition, const std::string& name,
                     const std::vector<std::string>& operands, size_t results) const {
    return absl::StrCat("if(", condition, ", ", absl::StrJoin(operands, ", "),
                        ") {else_branch = ", name, "b, extents = ", Extents(results),
                        ", then_branch = ", name, "a}");
  }

  void Step() {
    std::vector<std::string> made = {Name()};
    switch (draw_.Below(8)) {
      case 0:
      case 1:
        text_ += Line(made, Element(values_));
        break;
      case 2: {
        if (draw_.OneIn(2)) made.push_back(Name());
        const std::string condition = draw_.Pick({"c", "flipped"});
        const std::vector<std::string> operands = {Any(), Any()};
        text_ += Branches(made[0], made.size()) +
                 Line(made, IfNode(condition, made[0], operands, made.size()));
        break;
      }
      case 3:
        text_ += Line(made, absl::StrCat("softmax(", Any(), ") {axis = ", draw_.Below(2), "}"));
        break;
      case 4:
        return Found(made[0]);
      default:
        Loop(made);
        break;
    }
    values_.insert(values_.end(), made.begin(), made.end());
  }

  // Carries one or two states, reads another, and may stack a result of its turns.
  void Loop(std::vector<std::string>& made) {
    if (draw_.OneIn(2)) made.push_back(Name());
    const size_t carried = made.size();
    const bool stacks = draw_.OneIn(3);
    const std::string body = made[0] + "l";
    text_ += Body(body, "input i : i64 []\ninput go : bool []\n", "go", carried + 1,
                  carried + (stacks ? 1 : 0), draw_.OneIn(3));
    std::vector<std::string> operands = {draw_.Pick({"m", "doubled", "half"}),
                                         draw_.Pick({"_", "c"})};
    for (size_t k = 0; k <= carried; ++k) operands.push_back(Any());
    std::vector<std::string> results = made;
    std::string extents = Extents(carried);
    if (stacks) {
      results.push_back(Name());
      others_.push_back(results.back());
      extents.pop_back();
      absl::StrAppend(&extents, ", t", results.back(), ", ", Extents(1).substr(1));
    }
    text_ += Line(results, absl::StrCat("loop(", absl::StrJoin(operands, ", "), ") {body = ", body,
                                        ", carried = ", carried, ", extents = ", extents, "}"));
  }

  // Elements that are not 0, as many as there are.
  void Found(const std::string& name) {
    const std::string count = absl::StrCat("k", name);
    absl::StrAppend(&text_, name, "f = reshape(", Any(), ") {shape = [-1]}\n");
    absl::StrAppend(&text_, name, "p = relu(", name, "f)\n");
    absl::StrAppend(&text_, name, "z : i64 [1, ", count, "] = nonzero(", name, "p) {extents = [1, ",
                    count, "]}\n");
    absl::StrAppend(&text_, name, "i = reshape(", name, "z) {shape = [-1]}\n");
    absl::StrAppend(&text_, name, " : f32 [", count, "] = gather(", name, "f, ", name,
                    "i) {axis = 0}\n");
    others_.push_back(name);
  }

  void AddOutputs() {
    std::vector<std::string> from = {values_.back(), draw_.Of(values_)};
    for (int64_t i = draw_.Below(3); i > 0; --i) from.push_back(draw_.Of(values_));
    if (!others_.empty() && draw_.OneIn(2)) from.push_back(draw_.Of(others_));
    for (const char* small : {"flipped", "doubled", "half"}) {
      if (draw_.OneIn(4)) from.emplace_back(small);
    }
    for (size_t i = 0; i < from.size(); ++i)
      absl::StrAppend(&text_, "output y", i, " = ", from[i], "\n");
  }

  Draw draw_;
  std::string shape_, text_;
  int names_ = 0;
  std::vector<std::string> values_, others_;  // of the common shape; of others
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

absl::StatusOr<BoundProgram> MakeControlProgram(uint64_t seed) { return ControlMaker(seed).Run(); }

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
