// SPDX-License-Identifier: Apache-2.0
#include "fusion/emit.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fusion/literal.h"
#include "fusion/rounding.h"
#include "graph/op.h"

namespace kiln {
namespace {

using Kind = ReadAxis::Kind;

// Where an axis of a value is read: at its own dims, or at an index.
struct AxisAt {
  bool own = true;
  IndexExpr index;
};
using At = std::vector<AxisAt>;

bool AllOwn(const At& at) {
  return std::all_of(at.begin(), at.end(), [](const AxisAt& axis) { return axis.own; });
}

void AddTerm(IndexExpr& index, IndexExpr::Term term) {
  const auto key = [](const IndexExpr::Term& t) { return std::pair(t.extent, t.dim); };
  auto it = std::lower_bound(index.terms.begin(), index.terms.end(), term,
                             [&](const auto& a, const auto& b) { return key(a) < key(b); });
  if (it == index.terms.end() || key(*it) != key(term)) {
    index.terms.insert(it, term);
  } else if ((it->coef += term.coef) == 0) {
    index.terms.erase(it);
  }
}

// An expression under construction, and what has been computed in place in it, by value and
// position.
struct Scope {
  ScalarExpr expr;
  std::map<std::string, ExprId> inlined;
};

std::string Key(ValueId value, const At& at) {
  std::string key = absl::StrCat(value.v);
  for (const AxisAt& axis : at) {
    absl::StrAppend(&key, axis.own ? ";own" : ";", axis.index.offset, "/", axis.index.div, "l",
                    axis.index.load);
    for (const IndexExpr::Term& term : axis.index.terms)
      absl::StrAppend(&key, ",", term.dim, "x", term.extent, "x", term.coef);
  }
  return key;
}

// What a reduction of bools is called in kernels.
ReduceOp LogicalOp(ReduceOp op) {
  return op == ReduceOp::kMax || op == ReduceOp::kOr || op == ReduceOp::kAdd ? ReduceOp::kOr
                                                                             : ReduceOp::kAnd;
}

class Emitter {
 public:
  explicit Emitter(const GroupAxes& group) : group_(group), graph_(group.graph()) {}

  absl::StatusOr<EmittedGroup> Run(const std::vector<ValueId>& outputs) {
    for (const ValueId output : outputs) {
      if (NodeOf(output).op->kind == OpKind::kScatter) {
        if (outputs.size() > 1)
          return absl::UnimplementedError(
              "sums at places that data choose are a kernel's only output");
        KILN_RETURN_IF_ERROR(AddSums(output));
        continue;
      }
      KILN_ASSIGN_OR_RETURN(const int32_t stage, StageOf(output));
      KernelOutput& added = result_.kernel.outputs.emplace_back();
      added.type = graph_.value(output).type;
      added.dims = Flatten(group_.Axes(output));
      added.expr.set_root(Stored(stage, added.type, added.expr));
    }
    return std::move(result_);
  }

 private:
  // A scatter's output: loaded axes first, then those of the slices.
  absl::Status AddSums(ValueId value) {
    KernelOutput& added = result_.kernel.outputs.emplace_back();
    const Shape& shape = graph_.value(value).shape;
    const std::vector<Atoms> axes = group_.Axes(value);
    const size_t depth = group_.reads(value).reads.size() - 1;
    Scope scope;
    const At own(axes.size());
    std::vector<IndexExpr> index;
    const auto load = [&](const Dim& extent, Ex place) {
      int copy = 0;
      while (std::count(added.dims.begin(), added.dims.end(), Size(extent, copy)) > 0) ++copy;
      added.dims.push_back(Size(extent, copy));
      index.push_back(IndexExpr::Load(place.id));
    };
    for (size_t k = 0; k < depth; ++k) {
      KILN_ASSIGN_OR_RETURN(const Ex place,
                            ReadElement(value, static_cast<int>(k) + 1, own, scope));
      load(shape[k], place);
    }
    if (depth == 0) load(1, Literal(scope.expr, DType::kI64, 0));  // all slices go to one
    for (size_t k = depth; k < shape.size(); ++k) {
      for (const Atom atom : axes[axes.size() - shape.size() + k]) {
        added.dims.push_back(atom);
        index.push_back(IndexExpr::Dim(atom));
      }
    }
    KILN_ASSIGN_OR_RETURN(const Ex slice, ReadElement(value, 0, own, scope));
    added.type = graph_.value(value).type;
    const Ex root = AddAt(slice, std::move(index));
    added.expr = std::move(scope.expr);
    added.expr.set_root(root.id);
    added.expr.Prune();
    result_.summed = Flatten(axes);
    return absl::OkStatus();
  }

  Ex ReadStage(int32_t stage, ScalarExpr& expr) const {
    const Stage& from = result_.kernel.stages[static_cast<size_t>(stage)];
    std::vector<IndexExpr> index;
    for (const int32_t dim : from.dims) index.push_back(IndexExpr::Dim(dim));
    return Read(expr, from.type, ReadSource::kStage, stage, std::move(index));
  }

  // What is stored as an output of `type`: the stage, less the rounding that storing does.
  ExprId Stored(int32_t stage, DType type, ScalarExpr& expr) const {
    const Stage& from = result_.kernel.stages[static_cast<size_t>(stage)];
    const ExprNode& root = from.expr.node(from.expr.root());
    const bool rounds =
        from.kind == Stage::Kind::kMap && root.op == ScalarOp::kRoundTo && root.aux == type;
    if (!rounds) return ReadStage(stage, expr).id;
    const auto copy = [](ExprId, const std::vector<ExprId>&) -> ExprId { return -1; };
    return CopyExpr(from.expr, root.args[0], expr, copy);
  }

  // `value`, computed for a value of `type` of the graph, which has it as one of that type.
  Ex Rounded(Ex value, DType type) const {
    return RoundedTo(value, type, [this](const ExprNode& read) {
      const auto ref = static_cast<size_t>(read.ref);
      return read.source == ReadSource::kInput ? result_.kernel.inputs[ref].type : holds_[ref];
    });
  }

  // Takes the expression out of `scope`; values of it end with that.
  int32_t AddStage(Stage stage, Scope& scope, Ex root) {
    stage.type = root.type();
    stage.expr = std::move(scope.expr);
    stage.expr.set_root(root.id);
    stage.expr.Prune();
    holds_.push_back(stage.type);
    result_.kernel.stages.push_back(std::move(stage));
    result_.runs.emplace_back();
    return static_cast<int32_t>(result_.kernel.stages.size()) - 1;
  }

  // The runs of reduced axes of a reduction's operand that have dims, outermost first.
  static std::vector<ReducedRun> RunsOf(const NodeRead& read, const std::vector<Atoms>& axes) {
    std::vector<ReducedRun> runs;
    bool reduced_before = false;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      const bool reduced = read.axes[axis].kind == Kind::kReduced;
      if (reduced && !reduced_before) runs.emplace_back();
      reduced_before = reduced;
      if (!reduced) continue;
      runs.back().dims.insert(runs.back().dims.end(), axes[axis].begin(), axes[axis].end());
      runs.back().by_lanes = axis + 1 == axes.size();
    }
    std::erase_if(runs, [](const ReducedRun& run) { return run.dims.empty(); });
    return runs;
  }

  // The stage that computes `value` over its own dims.
  absl::StatusOr<int32_t> StageOf(ValueId value) {
    if (const auto it = stages_.find(value); it != stages_.end()) return it->second;
    const bool reduce = NodeOf(value).op->kind == OpKind::kReduce;
    KILN_ASSIGN_OR_RETURN(const int32_t stage, reduce ? ReduceStages(value) : MapStage(value));
    stages_[value] = stage;
    holds_[static_cast<size_t>(stage)] = graph_.value(value).type;
    return stage;
  }

  absl::StatusOr<int32_t> MapStage(ValueId value) {
    Scope scope;
    const At own(graph_.value(value).shape.size());
    KILN_ASSIGN_OR_RETURN(const Ex root, Body(value, own, scope));
    Stage stage;
    stage.dims = Flatten(group_.Axes(value));
    return AddStage(std::move(stage), scope, root);
  }

  absl::StatusOr<int32_t> ReduceStages(ValueId value) {
    const ReduceRule& rule = *NodeOf(value).op->reduce;
    const NodeRead& read = group_.reads(value).reads[0];
    const std::vector<Atoms> axes = group_.ReadAxes(value, 0);
    Stage stage;
    stage.kind = Stage::Kind::kReduce;
    stage.op = rule.op;
    stage.dims = Flatten(group_.Axes(value));
    Dim count = 1;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (read.axes[axis].kind != Kind::kReduced) continue;
      stage.over.insert(stage.over.end(), axes[axis].begin(), axes[axis].end());
      count = count * graph_.value(read.value).shape[axis];
    }
    Scope scope;
    const At own(graph_.value(value).shape.size());
    KILN_ASSIGN_OR_RETURN(Ex element, ReadElement(value, 0, own, scope));
    if (rule.before != nullptr) element = rule.before(element);
    if (element.type() == DType::kBool) stage.op = LogicalOp(rule.op);
    const DType type = graph_.value(value).type;
    if (stage.over.empty()) {  // one element: itself
      stage.kind = Stage::Kind::kMap;
      if (rule.after != nullptr) element = rule.after(element, element.Like(1));
      return AddStage(std::move(stage), scope, Rounded(element, type));
    }
    // Accumulators are f32, and are rounded when all is done; the largest is one of the elements.
    const bool one_of = rule.op == ReduceOp::kMax || rule.op == ReduceOp::kMin;
    const bool holds = one_of && Rounded(element, type).id == element.id;
    const std::vector<int32_t> dims = stage.dims;
    const int32_t reduced = AddStage(std::move(stage), scope, element);
    result_.runs.back() = RunsOf(read, axes);
    if (holds) holds_[static_cast<size_t>(reduced)] = type;
    Scope after;
    const Ex result = ReadStage(reduced, after.expr);
    Ex root = result;
    if (rule.after != nullptr)
      root = rule.after(result, Cast(Extent(after.expr, Size(count)), result.type()));
    root = Rounded(root, type);
    if (root.id == result.id) return reduced;
    Stage map;
    map.dims = dims;
    return AddStage(std::move(map), after, root);
  }

  // One element of a computed value.
  absl::StatusOr<Ex> Element(ValueId value, const At& at, Scope& scope) {
    if (AllOwn(at)) {
      KILN_ASSIGN_OR_RETURN(const int32_t stage, StageOf(value));
      return ReadStage(stage, scope.expr);
    }
    if (NodeOf(value).op->kind == OpKind::kReduce) {
      return absl::UnimplementedError(
          "a reduction's result is read at other elements than the kernel's own");
    }
    std::string key = Key(value, at);
    if (const auto it = scope.inlined.find(key); it != scope.inlined.end())
      return Ex{&scope.expr, it->second};
    KILN_ASSIGN_OR_RETURN(const Ex element, Body(value, at, scope));
    scope.inlined[std::move(key)] = element.id;
    return element;
  }

  // The formula of a scalar or index node at `at`.
  absl::StatusOr<Ex> Body(ValueId value, const At& at, Scope& scope) {
    const Node& node = NodeOf(value);
    const NodeReads& reads = group_.reads(value);
    const DType type = graph_.value(value).type;
    if (node.op->kind == OpKind::kIndex) {
      KILN_ASSIGN_OR_RETURN(const Ex moved, IndexBody(value, at, scope));
      return Rounded(moved, type);
    }
    std::vector<Ex> inputs;
    for (size_t k = 0; k < reads.reads.size(); ++k) {
      KILN_ASSIGN_OR_RETURN(const Ex input, ReadElement(value, static_cast<int>(k), at, scope));
      inputs.push_back(input);
    }
    ScalarBody body(scope.expr, std::move(inputs), node, type);
    return Rounded(node.op->scalar(body), type);
  }

  absl::StatusOr<Ex> IndexBody(ValueId value, const At& at, Scope& scope) {
    const NodeReads& reads = group_.reads(value);
    const DType type = ComputeType(graph_.value(value).type);
    std::optional<Ex> result;
    for (size_t i = reads.pieces.size(); i-- > 0;) {
      const NodeReads::Piece& piece = reads.pieces[i];
      if (const NodeRead& read = reads.reads[static_cast<size_t>(piece.read)];
          !read.value.valid()) {  // the coordinate itself
        const auto axis = static_cast<size_t>(read.axes[0].out_axis);
        KILN_ASSIGN_OR_RETURN(result, Position(group_.Axes(value)[axis], at[axis], scope));
        continue;
      }
      KILN_ASSIGN_OR_RETURN(const Ex element, ReadElement(value, piece.read, at, scope));
      std::optional<Ex> condition;
      for (const IndexPiece::Bound& bound : piece.bounds) {
        KILN_RETURN_IF_ERROR(AddBound(value, at, bound, scope, condition));
      }
      if (!condition) {
        result = element;
      } else {
        result = Guarded(*condition, element,
                         result ? *result : LiteralBits(scope.expr, type, reads.fill));
      }
    }
    return result ? *result : LiteralBits(scope.expr, type, reads.fill);
  }

  absl::Status AddBound(ValueId value, const At& at, const IndexPiece::Bound& bound, Scope& scope,
                        std::optional<Ex>& condition) {
    const auto axis = static_cast<size_t>(bound.out_axis);
    KILN_ASSIGN_OR_RETURN(const Ex position, Position(group_.Axes(value)[axis], at[axis], scope));
    const auto require = [&](Ex holds) { condition = condition ? *condition && holds : holds; };
    const std::optional<int64_t> lower = bound.lower.constant();
    if (!lower || *lower > 0) require(SumValue(BoundParts(value, bound.lower), scope) <= position);
    if (!(bound.upper == graph_.value(value).shape[axis]))
      require(position < SumValue(BoundParts(value, bound.upper), scope));
    return absl::OkStatus();
  }

  // The coordinate along an axis, as a value.
  absl::StatusOr<Ex> Position(const Atoms& own, const AxisAt& at, Scope& scope) {
    ScalarExpr& expr = scope.expr;
    if (!at.own) return IndexValue(at.index, scope);
    if (own.empty()) return Literal(expr, DType::kI64, 0);
    Ex position = Coordinate(expr, own[0]);
    for (size_t i = 1; i < own.size(); ++i) {
      position = position * Extent(expr, own[i]) + Coordinate(expr, own[i]);
    }
    return position;
  }

  absl::StatusOr<Ex> IndexValue(const IndexExpr& index, Scope& scope) {
    if (index.load >= 0 || index.div != 1 || index.mod != 0) {
      return absl::UnimplementedError("a bound is checked on an index that is loaded or divided");
    }
    Ex sum = Literal(scope.expr, DType::kI64, static_cast<double>(index.offset));
    bool first = index.offset == 0;
    for (const IndexExpr::Term& term : index.terms) {
      Ex part = term.extent ? Extent(scope.expr, term.dim) : Coordinate(scope.expr, term.dim);
      if (term.coef != 1)
        part = part * LiteralBits(scope.expr, DType::kI64, static_cast<uint64_t>(term.coef));
      sum = first ? part : sum + part;
      first = false;
    }
    return sum;
  }

  // Read `k` of the node that computes `value`, for the element of `value` at `at`. An absent input
  // gives id -1.
  absl::StatusOr<Ex> ReadElement(ValueId value, int k, const At& at, Scope& scope) {
    const NodeRead& read = group_.reads(value).reads[static_cast<size_t>(k)];
    if (!read.value.valid()) return Ex{&scope.expr, -1};
    const Value& source = graph_.value(read.value);
    if (const std::optional<uint64_t> bits = LiteralOf(source)) {
      return LiteralBits(scope.expr, ComputeType(source.type), *bits);
    }
    At there(read.axes.size());
    for (size_t i = 0; i < read.axes.size(); ++i) {
      KILN_ASSIGN_OR_RETURN(there[i], ReadAt(value, read.axes[i], source.shape[i], at, scope));
    }
    if (group_.Inside(read.value)) return InsideElement(read.value, there, scope);
    return InputElement(value, k, there, scope);
  }

  // The coordinate along an axis of `extent` elements.
  absl::StatusOr<AxisAt> ReadAt(ValueId value, const ReadAxis& axis, const Dim& extent,
                                const At& at, Scope& scope) {
    switch (axis.kind) {
      case Kind::kOne:
      case Kind::kReduced:
        return AxisAt{};
      case Kind::kSame:
        return at[static_cast<size_t>(axis.out_axis)];
      case Kind::kLoaded: {
        KILN_ASSIGN_OR_RETURN(const Ex loaded, ReadElement(value, axis.load, at, scope));
        return AxisAt{false, IndexExpr::Load(loaded.id)};
      }
      case Kind::kAffine:
        break;
    }
    AxisAt result{false, {}};
    if (axis.out_axis >= 0) {
      const auto out_axis = static_cast<size_t>(axis.out_axis);
      KILN_ASSIGN_OR_RETURN(const IndexExpr from,
                            IndexOf(group_.Axes(value)[out_axis], at[out_axis]));
      if (from.load >= 0 || from.div != 1) {
        // A loaded index counts from the end of the axis that it is of, and is clamped to it.
        const bool same_end = from.load < 0 || extent == graph_.value(value).shape[out_axis];
        if (same_end && axis.coef == 1 && axis.div == 1 && axis.offset.IsConst(0))
          return AxisAt{false, from};
        return absl::UnimplementedError(
            "an index is computed from an index that is loaded or divided");
      }
      result.index.offset = from.offset * axis.coef;
      for (IndexExpr::Term term : from.terms) {
        term.coef *= axis.coef;
        AddTerm(result.index, term);
      }
    }
    // Sizes are extents, which keep numbers out of the text.
    for (const auto& [part, times] : BoundParts(value, Dim(0) - axis.offset))
      AddTerm(result.index, {Size(part), true, -times});
    result.index.div = axis.div;
    return result;
  }

  absl::StatusOr<IndexExpr> IndexOf(const Atoms& own, const AxisAt& at) {
    if (!at.own) return at.index;
    IndexExpr index;
    int64_t stride = 1;
    for (size_t i = own.size(); i-- > 0;) {
      AddTerm(index, {own[i], false, stride});
      const std::optional<int64_t> extent = group_.extent(own[i]).constant();
      if (i > 0 && (!extent || *extent == 0 || __builtin_mul_overflow(stride, *extent, &stride))) {
        return absl::UnimplementedError(
            "an index is computed over an axis that a reshape splits by unknown extents");
      }
    }
    return index;
  }

  // A value inside the group, through the views that lead to it.
  absl::StatusOr<Ex> InsideElement(ValueId value, const At& at, Scope& scope) {
    if (group_.Computes(value)) return Element(value, at, scope);
    const ValueId source = group_.ViewedBy(value);
    const std::vector<Atoms> view_axes = group_.Axes(value);
    const std::vector<Atoms> source_axes = group_.Axes(source);
    At there(source_axes.size());
    for (size_t i = 0; i < view_axes.size(); ++i) {
      if (at[i].own) continue;
      const auto same = std::find(source_axes.begin(), source_axes.end(), view_axes[i]);
      if (same == source_axes.end()) {
        return absl::UnimplementedError(
            "a reshaped value is read at other elements than the kernel's own");
      }
      there[static_cast<size_t>(same - source_axes.begin())] = at[i];
    }
    return InsideElement(source, there, scope);
  }

  // A value from outside: its memory, with as many axes as its reads have dims.
  absl::StatusOr<Ex> InputElement(ValueId value, int k, const At& at, Scope& scope) {
    const NodeRead& read = group_.reads(value).reads[static_cast<size_t>(k)];
    const Value& source = graph_.value(read.value);
    const std::vector<Atoms> axes = group_.ReadAxes(value, k);
    KernelInput input;
    input.type = source.type;
    std::vector<IndexExpr> index;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (source.shape[axis].IsConst(1)) continue;
      if (!at[axis].own) {
        // Two axes of one extent are two axes of the operand: its dims are distinct.
        int32_t size = Size(source.shape[axis]);
        for (int copy = 1;
             std::find(input.dims.begin(), input.dims.end(), size) != input.dims.end(); ++copy) {
          size = Size(source.shape[axis], copy);
        }
        input.dims.push_back(size);
        index.push_back(at[axis].index);
        continue;
      }
      for (const Atom atom : axes[axis]) {
        input.dims.push_back(atom);
        index.push_back(IndexExpr::Dim(atom));
      }
    }
    const int32_t ref = Input(read.value, std::move(input));
    return Read(scope.expr, ComputeType(source.type), ReadSource::kInput, ref, std::move(index));
  }

  int32_t Input(ValueId value, KernelInput input) {
    std::vector<KernelInput>& inputs = result_.kernel.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (result_.inputs[i] == value && inputs[i] == input) return static_cast<int32_t>(i);
    }
    inputs.push_back(std::move(input));
    result_.inputs.push_back(value);
    return static_cast<int32_t>(inputs.size()) - 1;
  }

  // The size dim of that extent; the same each time for the same `copy`.
  int32_t Size(const Dim& extent, int copy = 0) {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (sizes_[i].first == copy && sizes_[i].second == extent)
        return kFirstSize + static_cast<int32_t>(i);
    }
    sizes_.emplace_back(copy, extent);
    result_.sizes.push_back(extent);
    return kFirstSize + static_cast<int32_t>(sizes_.size()) - 1;
  }

  // How many times each of several sizes, none of which is negative.
  using Sum = std::vector<std::pair<Dim, int64_t>>;

  Ex SumValue(const Sum& parts, Scope& scope) {
    std::optional<Ex> sum;
    for (const auto& [part, times] : parts) {
      Ex size = Extent(scope.expr, Size(part));
      if (const auto most = static_cast<uint64_t>(std::abs(times)); most > 1)
        size = size * LiteralBits(scope.expr, DType::kI64, most);
      if (!sum) {
        sum = times > 0 ? size : -size;
      } else {
        sum = times > 0 ? *sum + size : *sum - size;
      }
    }
    return sum ? *sum : Literal(scope.expr, DType::kI64, 0);
  }

  // A place on an axis of `value`. Bounds of its pieces are sums of the extents before them: that
  // shows their order, so that rows can be run piece by piece (schedule/index_split.h).
  Sum BoundParts(ValueId value, const Dim& place) {
    const auto [it, added] = bounds_.try_emplace(value);
    std::map<Dim, Sum>& known = it->second;
    if (added) {
      for (const NodeReads::Piece& piece : group_.reads(value).pieces) {
        for (const IndexPiece::Bound& bound : piece.bounds) AddBoundParts(bound, known);
      }
    }
    const auto found = known.find(place);
    return found == known.end() ? Parts(place) : found->second;
  }

  static void AddBoundParts(const IndexPiece::Bound& bound, std::map<Dim, Sum>& known) {
    const Sum& lower = known.try_emplace(bound.lower, Parts(bound.lower)).first->second;
    const Sum extent = Parts(bound.upper - bound.lower);
    const bool positive =
        std::all_of(extent.begin(), extent.end(), [](const auto& part) { return part.second > 0; });
    if (!positive) return;
    Sum upper = lower;
    for (const auto& part : extent) {
      const auto same = std::find_if(upper.begin(), upper.end(),
                                     [&](const auto& own) { return own.first == part.first; });
      if (same == upper.end()) {
        upper.push_back(part);
      } else {
        same->second += part.second;
      }
    }
    std::erase_if(upper, [](const auto& part) { return part.second == 0; });
    known.try_emplace(bound.upper, std::move(upper));
  }

  // Sizes are from 0 on, so what is negative is subtracted.
  static Sum Parts(const Dim& dim) {
    SymbolValues zeros;
    std::set<std::string> symbols;
    dim.CollectSymbols(symbols);
    for (const std::string& symbol : symbols) zeros[symbol] = 0;
    // The part without symbols is kept apart, so that `n - 1` is not negative for n = 0.
    const int64_t constant = dim.Evaluate(zeros).value_or(0);
    const Dim rest = dim - Dim(constant);
    Sum parts;
    if (!rest.IsConst(0)) {
      const Dim back = Dim(0) - rest;
      if (NeverNegative(rest)) {
        parts.emplace_back(rest, 1);
      } else if (NeverNegative(back)) {
        parts.emplace_back(back, -1);
      } else {  // one of the two is 0, and extents decide which
        parts.emplace_back(Dim::Max(rest, 0), 1);
        parts.emplace_back(Dim::Max(back, 0), -1);
      }
    }
    if (constant != 0)
      parts.emplace_back(Dim(constant < 0 ? -constant : constant), constant < 0 ? -1 : 1);
    return parts;
  }

  static bool NeverNegative(const Dim& dim) {
    const std::optional<int64_t> low = dim.LowerBound();
    return low && *low >= 0;
  }

  const Node& NodeOf(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  const GroupAxes& group_;
  const Graph& graph_;
  EmittedGroup result_;
  std::vector<std::pair<int, Dim>> sizes_;
  std::map<ValueId, int32_t> stages_;
  std::vector<DType> holds_;  // by stage: of which type's values it is one, a 16-bit float's too
  std::map<ValueId, std::map<Dim, Sum>> bounds_;
};

}  // namespace

absl::StatusOr<EmittedGroup> EmitGroup(const GroupAxes& group,
                                       const std::vector<ValueId>& outputs) {
  return Emitter(group).Run(outputs);
}

}  // namespace kiln
