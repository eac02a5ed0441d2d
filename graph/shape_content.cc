// SPDX-License-Identifier: Apache-2.0
#include "graph/shape_content.h"

#include "graph/coordinate.h"
#include "graph/op.h"

namespace kiln {
namespace {

using MaybeDim = std::optional<Dim>;

bool AtLeast(const Dim& dim, int64_t bound) {
  const std::optional<int64_t> low = dim.LowerBound();
  return low && *low >= bound;
}

// What depends on the sign of an expression is written with 0 and 1, so that the content holds for
// all extents and needs no guard: nothing that is assumed here could be taken back where the list
// has become an attribute.

// 1 where dim >= 0, else 0.
Dim IsNonNegative(const Dim& dim) { return Dim::Min(Dim::Max(dim + 1, 0), 1); }

Dim Not(const Dim& truth) { return Dim(1) - truth; }
Dim And(const Dim& a, const Dim& b) { return a * b; }
Dim Or(const Dim& a, const Dim& b) { return a + b - a * b; }

Dim IsEqual(const Dim& a, const Dim& b) {
  if (const std::optional<bool> always = Guard::Same(a, b).Static()) return *always ? 1 : 0;
  return And(IsNonNegative(a - b), IsNonNegative(b - a));
}

Dim Choose(const Dim& truth, const Dim& a, const Dim& b) {
  if (const std::optional<int64_t> known = truth.constant()) return *known != 0 ? a : b;
  return b + truth * (a - b);
}

// a / b rounded towards 0, for b >= 1.
Dim Truncated(const Dim& a, const Dim& b) {
  if (AtLeast(a, 0) || a.DivideExactly(b)) return a.FloorDiv(b);
  return Dim::Max(a, 0).FloorDiv(b) - Dim::Max(Dim(0) - a, 0).FloorDiv(b);
}

// C's division and remainder. Division by 0 gives 0, and its remainder is 0.
Dim Divide(const Dim& a, const Dim& b, bool remainder) {
  const auto x = a.constant();
  const auto y = b.constant();
  if (x && y) {
    if (*y == 0 || *y == -1) return *y == 0 ? Dim(0) : remainder ? Dim(0) : Dim(0) - a;
    return Dim(remainder ? *x % *y : *x / *y);
  }
  if (a == b) return remainder ? Dim(0) : Not(IsEqual(a, 0));
  if (y == INT64_MIN) return remainder ? a : Dim(0);  // nothing that describes a shape is so far
  if (AtLeast(b, 1) && remainder && AtLeast(a, 0)) return a.Mod(b);
  Dim quotient;
  if (AtLeast(b, 1)) {
    quotient = Truncated(a, b);
  } else if (AtLeast(b, 0)) {
    quotient = Truncated(a, Dim::Max(b, 1)) * Dim::Min(b, 1);
  } else {
    const Dim back = Dim(0) - b;
    quotient = IsNonNegative(b - 1) * Truncated(a, Dim::Max(b, 1)) -
               IsNonNegative(back - 1) * Truncated(a, Dim::Max(back, 1));
  }
  // By 0 the quotient is 0, but no remainder is left.
  return remainder ? Choose(IsEqual(b, 0), 0, a - quotient * b) : quotient;
}

// What is left of a division that rounds down, with the sign of the divisor; by 0 nothing is.
Dim FloorRemainder(const Dim& a, const Dim& b) {
  if (AtLeast(b, 1) || Guard::Less(b, 0).Static() == true) return a.Mod(b);
  return a.Mod(AtLeast(b, 0) ? Dim::Max(b, 1) : b + IsEqual(b, 0));
}

bool Fits(const Dim& dim, DType type) {
  if (type == DType::kI64) return true;
  const auto value = dim.constant();
  // Truths are 0 or 1, extents are far below 2^31.
  if (!value) return type == DType::kI32 || type == DType::kBool;
  return static_cast<int64_t>(ConstBits(type, static_cast<double>(*value))) == *value;
}

// Logic may be decided by one operand alone.
bool IsDecidedBy(const ExprNode& node, const MaybeDim& arg) {
  if (node.type != DType::kBool || !arg) return false;
  return (node.op == ScalarOp::kAnd && arg->IsConst(0)) ||
         (node.op == ScalarOp::kOr && arg->IsConst(1));
}

MaybeDim EvaluateSelect(const ExprNode& node, const std::vector<MaybeDim>& done) {
  const auto arg = [&](int k) { return done[static_cast<size_t>(node.args[k])]; };
  if (!arg(0)) return std::nullopt;
  // A choice that is made needs only the one that is chosen.
  if (const std::optional<int64_t> chosen = arg(0)->constant()) return arg(*chosen != 0 ? 1 : 2);
  if (!arg(1) || !arg(2)) return std::nullopt;
  return Choose(*arg(0), *arg(1), *arg(2));
}

MaybeDim EvaluateNode(const ExprNode& node, const std::vector<MaybeDim>& done) {
  if (node.op == ScalarOp::kSelect) return EvaluateSelect(node, done);
  Dim args[2];
  for (int k = 0; k < 2 && node.args[k] >= 0; ++k) {
    const MaybeDim& arg = done[static_cast<size_t>(node.args[k])];
    if (IsDecidedBy(node, arg)) return arg;
  }
  for (int k = 0; k < 2 && node.args[k] >= 0; ++k) {
    const MaybeDim& arg = done[static_cast<size_t>(node.args[k])];
    if (!arg) return std::nullopt;
    args[k] = *arg;
  }
  const Dim& a = args[0];
  const Dim& b = args[1];
  const bool logic = node.type == DType::kBool;
  switch (node.op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kNeg:
      return Dim(0) - a;
    case ScalarOp::kDiv:
      return Divide(a, b, false);
    case ScalarOp::kMod:
      return Divide(a, b, true);
    case ScalarOp::kMin:
      return Dim::Min(a, b);
    case ScalarOp::kMax:
      return Dim::Max(a, b);
    case ScalarOp::kAbs:
      return Dim::Max(a, Dim(0) - a);
    case ScalarOp::kEq:
      return IsEqual(a, b);
    case ScalarOp::kNe:
      return Not(IsEqual(a, b));
    case ScalarOp::kLt:
      return IsNonNegative(b - a - 1);
    case ScalarOp::kLe:
      return IsNonNegative(b - a);
    case ScalarOp::kCast:
      if (logic) return Not(IsEqual(a, 0));
      return IsInt(node.type) ? MaybeDim(a) : std::nullopt;
    case ScalarOp::kAnd:
      return logic ? MaybeDim(And(a, b)) : std::nullopt;
    case ScalarOp::kOr:
      return logic ? MaybeDim(Or(a, b)) : std::nullopt;
    case ScalarOp::kXor:
      return logic ? MaybeDim(a + b - a * b * 2) : std::nullopt;
    case ScalarOp::kNot:
      return logic ? MaybeDim(Not(a)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

// One element: `inputs` are the elements of the node's inputs there.
MaybeDim EvaluateBody(const ScalarExpr& body, const std::vector<Dim>& inputs) {
  std::vector<MaybeDim> done(body.nodes().size());
  for (size_t i = 0; i < body.nodes().size(); ++i) {
    const ExprNode& node = body.nodes()[i];
    if (IsFloat(node.type)) continue;
    if (node.op == ScalarOp::kConst) {
      done[i] = Dim(static_cast<int64_t>(node.imm));
    } else if (node.op == ScalarOp::kRead) {
      done[i] = inputs[static_cast<size_t>(node.ref)];
    } else {
      done[i] = EvaluateNode(node, done);
    }
    if (done[i] && !Fits(*done[i], node.type)) done[i].reset();
  }
  return done[static_cast<size_t>(body.root())];
}

// The element of an operator that is more on Dims than its body says; nothing: the body says it.
MaybeDim EvaluateWhole(const Node& node, DType type, const std::vector<Dim>& inputs) {
  const bool floors =
      absl::string_view(node.op->name) == "mod" && IntAttr(node, "fmod") == 0 && IsSigned(type);
  if (!floors || Constant(inputs)) return std::nullopt;
  const Dim rest = FloorRemainder(inputs[0], inputs[1]);
  return Fits(rest, type) ? MaybeDim(rest) : std::nullopt;
}

// What is known of a node's inputs: extents and elements. An absent input is empty.
struct Known {
  std::vector<int64_t> shape;
  Shape content;
};

std::optional<std::vector<Known>> KnownInputs(const Graph& graph, const Node& node) {
  std::vector<Known> known;
  for (const ValueId id : node.inputs) {
    Known& input = known.emplace_back();
    if (!id.valid()) continue;
    std::optional<Shape> content = ContentOf(graph.value(id));
    std::optional<std::vector<int64_t>> shape = Constant(graph.value(id).shape);
    if (!content || !shape) return std::nullopt;
    input = {*std::move(shape), *std::move(content)};
  }
  return known;
}

std::vector<int64_t> Coordinates(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    at[i] = flat % shape[i];
    flat /= shape[i];
  }
  return at;
}

// The element of `input` that broadcasting puts at `at`.
const Dim& Broadcast(const Known& input, const std::vector<int64_t>& at) {
  size_t flat = 0;
  const size_t skip = at.size() - input.shape.size();
  for (size_t i = 0; i < input.shape.size(); ++i) {
    flat = flat * static_cast<size_t>(input.shape[i]) +
           (input.shape[i] == 1 ? 0 : static_cast<size_t>(at[skip + i]));
  }
  return input.content[flat];
}

// The flat element that `piece` takes for the output element `at`: nothing if it does not count
// there or is not known.
std::optional<size_t> Find(const IndexPiece& piece, const std::vector<Known>& inputs,
                           const std::vector<int64_t>& at) {
  const Known& input = inputs[static_cast<size_t>(piece.input)];
  size_t flat = 0;
  for (size_t i = 0; i < piece.axes.size(); ++i) {
    const IndexAxis& axis = piece.axes[i];
    const int64_t extent = input.shape[i];
    std::optional<int64_t> c;
    if (axis.load_input >= 0) {
      std::vector<int64_t> load_at;
      for (const int a : axis.load_axes) load_at.push_back(a < 0 ? 0 : at[static_cast<size_t>(a)]);
      c = Broadcast(inputs[static_cast<size_t>(axis.load_input)], load_at).constant();
      if (c && *c < 0) c = *c + extent;
    } else {
      c = (axis.coef * (axis.out_axis < 0 ? 0 : at[static_cast<size_t>(axis.out_axis)]) +
           axis.offset)
              .FloorDiv(axis.div)
              .constant();
    }
    if (!c || *c < 0 || *c >= extent) return std::nullopt;
    flat = flat * static_cast<size_t>(extent) + static_cast<size_t>(*c);
  }
  return flat;
}

enum class InBounds { kYes, kNo, kUnknown };
InBounds Holds(const IndexPiece& piece, const std::vector<int64_t>& at) {
  for (const IndexPiece::Bound& bound : piece.bounds) {
    const auto lower = bound.lower.constant();
    const auto upper = bound.upper.constant();
    if (!lower || !upper) return InBounds::kUnknown;
    const int64_t c = at[static_cast<size_t>(bound.out_axis)];
    if (c < *lower || c >= *upper) return InBounds::kNo;
  }
  return InBounds::kYes;
}

// The element of a list at a place that is looked up and not known: all of them, each where the
// place is its own.
MaybeDim LookUp(const IndexPiece& piece, const std::vector<Known>& inputs,
                const std::vector<int64_t>& at) {
  const Shape& list = inputs[static_cast<size_t>(piece.input)].content;
  if (piece.axes.size() != 1 || piece.axes[0].load_input < 0 || list.empty() || list.size() > 16)
    return std::nullopt;
  std::vector<int64_t> load_at;
  for (const int a : piece.axes[0].load_axes)
    load_at.push_back(a < 0 ? 0 : at[static_cast<size_t>(a)]);
  const Dim& place = Broadcast(inputs[static_cast<size_t>(piece.axes[0].load_input)], load_at);
  const auto extent = static_cast<int64_t>(list.size());
  const Dim counted = Choose(IsNonNegative(place), place, place + extent);
  const Dim clamped = Dim::Min(Dim::Max(counted, 0), extent - 1);
  Dim sum;
  for (int64_t i = 0; i < extent; ++i)
    sum = sum + list[static_cast<size_t>(i)] * IsEqual(clamped, i);
  return sum;
}

MaybeDim Pick(const IndexMap& map, const std::vector<Known>& inputs,
              const std::vector<int64_t>& at) {
  for (const IndexPiece& piece : map.pieces) {
    const InBounds in = Holds(piece, at);
    if (in == InBounds::kUnknown) return std::nullopt;
    if (in == InBounds::kNo) continue;
    if (piece.input == kCoordinate) return Dim(at[static_cast<size_t>(piece.axes[0].out_axis)]);
    if (const std::optional<size_t> flat = Find(piece, inputs, at))
      return inputs[static_cast<size_t>(piece.input)].content[*flat];
    return LookUp(piece, inputs, at);
  }
  return Dim(static_cast<int64_t>(map.fill));
}

// A list reduced to one element: products of extents.
std::optional<Shape> Reduce(const ReduceRule& rule, const Known& input, int64_t results) {
  if (rule.before != nullptr || rule.after != nullptr || results != 1) return std::nullopt;
  if (input.content.empty() && rule.op == ReduceOp::kAdd) return Shape{0};
  if (input.content.empty() && rule.op == ReduceOp::kMul) return Shape{1};
  if (input.content.empty()) return std::nullopt;
  Dim sum = input.content[0];
  for (size_t i = 1; i < input.content.size(); ++i) {
    const Dim& next = input.content[i];
    switch (rule.op) {
      case ReduceOp::kAdd:
        sum = sum + next;
        break;
      case ReduceOp::kMul:
        sum = sum * next;
        break;
      case ReduceOp::kMax:
        sum = Dim::Max(sum, next);
        break;
      case ReduceOp::kMin:
        sum = Dim::Min(sum, next);
        break;
      default:
        return std::nullopt;
    }
  }
  return Shape{sum};
}

}  // namespace

std::optional<Shape> FollowContent(const Graph& graph, const Node& node, int k) {
  const Value& output = graph.value(node.outputs[static_cast<size_t>(k)]);
  if (IsFloat(output.type) || output.type == DType::kU64) return std::nullopt;
  const std::optional<std::vector<int64_t>> shape = Constant(output.shape);
  if (!shape || CheckedBytes(DType::kU8, *shape) > kMaxContent) return std::nullopt;
  const std::optional<std::vector<Known>> inputs = KnownInputs(graph, node);
  if (!inputs) return std::nullopt;

  const int64_t size = CheckedBytes(DType::kU8, *shape);
  if (node.op->kind == OpKind::kReduce) return Reduce(*node.op->reduce, (*inputs)[0], size);
  std::optional<IndexMap> map;
  ScalarExpr body;
  if (node.op->kind == OpKind::kIndex) {
    absl::StatusOr<IndexMap> made = node.op->index(graph, node, k);
    if (!made.ok()) return std::nullopt;
    if (made->view) return (*inputs)[0].content;
    map = *std::move(made);
  } else if (node.op->kind == OpKind::kScalar) {
    body = ScalarBodyOf(graph, node);
  } else {
    return std::nullopt;
  }
  Shape content;
  for (int64_t flat = 0; flat < size; ++flat) {
    const std::vector<int64_t> at = Coordinates(flat, *shape);
    MaybeDim element;
    if (map) {
      element = Pick(*map, *inputs, at);
    } else {
      std::vector<Dim> elements;
      for (const Known& input : *inputs)
        elements.push_back(input.content.empty() ? Dim() : Broadcast(input, at));
      element = EvaluateWhole(node, output.type, elements);
      if (!element) element = EvaluateBody(body, elements);
    }
    if (!element || element->is_error()) return std::nullopt;
    content.push_back(*std::move(element));
  }
  return content;
}

}  // namespace kiln
