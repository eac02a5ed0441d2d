// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/reduction.h"

#include <algorithm>

#include "halide_gen/common/expr_emitter.h"
#include "halide_gen/common/loop_nests.h"
#include "halide_gen/common/primitives.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;

constexpr int kLanes = static_cast<int>(kReduceLanes);
constexpr int kBlock = static_cast<int>(kReduceBlock);
constexpr int kOuterBlock = static_cast<int>(kOuterReduceBlock);
constexpr int kFolded = 16;  // speed

using Element = std::function<Expr(const Expr&)>;

std::vector<Expr> Arguments(const std::vector<Var>& vars) { return {vars.begin(), vars.end()}; }

std::vector<Expr> With(Expr first, const std::vector<Expr>& rest) {
  std::vector<Expr> all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

// values[i] with values[i + half], until one is left. Those that would change nothing are
// undefined.
Expr FoldByHalves(const ReductionSpec& spec, std::vector<Expr> values) {
  while (values.size() > 1) {
    const size_t half = values.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      if (!values[i + half].defined()) continue;
      values[i] = Accumulate(spec.op, spec.type, values[i], values[i + half]);
    }
    values.resize(half);
  }
  return values[0];
}

// The same of single values, as a vector of which each half is combined with the other: of single
// ones the compiler makes vectors of two, by more shuffles than there are steps.
Expr FoldVector(const ReductionSpec& spec, const std::vector<Expr>& values) {
  using Halide::Internal::Shuffle;
  Expr all = Shuffle::make_concat(values);
  for (int half = all.type().lanes() / 2; half > 1; half /= 2) {
    all = Accumulate(spec.op, spec.type, Shuffle::make_slice(all, 0, 1, half),
                     Shuffle::make_slice(all, half, 1, half));
  }
  return Accumulate(spec.op, spec.type, Shuffle::make_extract_element(all, 0),
                    Shuffle::make_extract_element(all, 1));
}

// `element`, said so that it depends on `step`: Halide drops a loop over which nothing varies, but
// a constant is to be added as often as there are elements. The condition always holds and is
// simplified away.
Expr DependentOn(const Halide::RVar& step, const Expr& element) {
  if (Halide::Internal::expr_uses_var(element, step.name())) return element;
  return select(step >= 0, element, Halide::Internal::make_zero(element.type()));
}

// Whether an expression takes at most so many operations, addresses aside. Expressions share
// operands, so counting all of them as a tree could take forever.
class Operations : public Halide::Internal::IRMutator {
 public:
  static bool AtMost(int most, const Expr& expr) {
    Operations operations(most);
    operations.mutate(expr);
    return operations.left_ >= 0;
  }

  Expr mutate(const Expr& expr) override {
    if (left_ >= 0) --left_;
    return left_ < 0 ? expr : IRMutator::mutate(expr);
  }
  using IRMutator::mutate;

 private:
  using IRMutator::visit;
  Expr visit(const Halide::Internal::Call* op) override {
    return IsLoad(*op) ? Expr(op) : IRMutator::visit(op);
  }

  explicit Operations(int most) : left_(most) {}

  int left_;
};

// Whether there may be enough elements for a step of all lanes.
bool HasSteps(const ReductionSpec& spec) { return spec.accumulators == kLanes; }

// The last `length` % 64 elements meet the lanes as one whole step, absent ones being the identity:
// so the lanes stay in registers, where a store of some of them would have to reach the memory
// before the fold could read it. Elements that are expensive are computed first, as many as there
// are.
void CombineRest(const ReductionSpec& spec, const Element& element, const std::vector<Expr>& at,
                 const Expr& length, ReductionLevel& level) {
  constexpr int kMostOperations = 16;  // speed
  const std::vector<Expr> lane = With(level.lane, at);
  const Expr rest = length % kLanes;
  const Expr present = level.lane < rest;
  Expr value = element(length / kLanes * kLanes + level.lane);
  if (Operations::AtMost(kMostOperations, value)) {
    value = LoadsIf(present, level.lane, value);
  } else {
    level.rest = Func(level.blocks.name() + "_rest");
    level.rest_extent = rest;
    level.rest(lane) = value;
    value = level.rest(lane);
  }
  const RDom some(0, Halide::min(rest, 1), level.blocks.name() + "_some");
  level.tail = some.x;
  value = select(present, value, StartValue(spec.op, spec.type));
  level.lanes(lane) = Accumulate(spec.op, spec.type, level.lanes(lane), DependentOn(some.x, value));
}

// The folds of several rows, step by step: a vector holds what is left of all of them.
void FoldBlockedRows(const ReductionSpec& spec, const std::vector<Expr>& rest,
                     ReductionLevel& level) {
  level.blocked_rows = spec.blocked_rows;
  level.row = spec.row;
  Func below = level.folded;
  for (int half = std::min(kFolded, spec.accumulators) / 2; half > 0; half /= 2) {
    Func step(level.blocks.name() + "_" + std::to_string(half));
    step(With(level.fold, rest)) = Accumulate(spec.op, spec.type, below(With(level.fold, rest)),
                                              below(With(level.fold + half, rest)));
    level.halves.push_back(step);
    below = step;
  }
  level.blocks(rest) = below(With(0, rest));
}

// `count` elements by the lane rule, block k = elements [4096k, 4096k + 4096); one block if
// `level.top`.
void BuildLanes(const ReductionSpec& spec, const Element& element, const Expr& count,
                ReductionLevel& level) {
  const std::string& name = level.blocks.name();
  level.lanes = Func(name + "_lanes");
  level.folded = Func(name + "_folded");
  std::vector<Expr> rest = Arguments(spec.vars);
  if (!level.top) rest = With(level.block, rest);
  const Expr begin = level.top ? Expr(0) : level.block * kBlock;
  const Expr length = level.top ? count : Halide::min(count - begin, kBlock);
  const Expr steps = length / kLanes;

  Func& lanes = level.lanes;
  const auto combine = [&](const Halide::RVar& loop, const Expr& lane, const Expr& index) {
    const std::vector<Expr> at = With(lane, rest);
    lanes(at) = Accumulate(spec.op, spec.type, lanes(at), DependentOn(loop, element(index)));
  };
  lanes(With(level.lane, rest)) = StartValue(spec.op, spec.type);
  const RDom step(0, level.top ? steps : Expr(kBlock / kLanes), name + "_step");
  const RDom tail(0, kLanes, name + "_tail");
  if (!level.top) {
    RDom(step).where(step.x < steps);
    RDom(tail).where(tail.x < length - steps * kLanes);
  }
  level.step = step.x;
  level.tail = tail.x;
  if (HasSteps(spec)) combine(step.x, level.lane, begin + step.x * kLanes + level.lane);
  if (level.top) {
    CombineRest(spec, element, rest, length, level);
  } else {
    combine(tail.x, tail.x, begin + steps * kLanes + tail.x);
  }

  std::vector<Expr> parts;
  level.accumulators = spec.accumulators;
  for (int i = 0; i < kLanes; i += kFolded) {
    const bool some = i < spec.accumulators;
    parts.push_back(some ? Expr(lanes(With(level.fold + i, rest))) : Expr());
  }
  level.folded(With(level.fold, rest)) = FoldByHalves(spec, parts);
  if (spec.blocked_rows > 0) {
    FoldBlockedRows(spec, rest, level);
    return;
  }
  parts.clear();
  for (int i = 0; i < std::min(kFolded, spec.accumulators); ++i)
    parts.push_back(level.folded(With(i, rest)));
  // Halide asks under which conditions a stage is needed, and may not find vectors of them there.
  // Of two values it makes a ramp, which is another number where their difference is rounded.
  const bool one_by_one =
      (spec.op != ReduceOp::kAdd && spec.op != ReduceOp::kMul) || parts.size() == 2;
  level.blocks(rest) = one_by_one ? FoldByHalves(spec, parts) : FoldVector(spec, parts);
}

// `count` elements of each of `values` by the rule of the other dims.
void BuildSequence(const ReductionSpec& spec, const std::vector<ReducedBeside>& values,
                   const Expr& count, ReductionLevel& level) {
  std::vector<Expr> at = Arguments(spec.vars);
  if (!level.top) at.push_back(level.block);
  const Expr begin = level.top ? Expr(0) : level.block * kOuterBlock;
  RDom step(0, level.top ? count : Expr(kOuterBlock), level.blocks.name() + "_step");
  if (!level.top) step.where(step.x < count - begin);
  level.step = step.x;
  std::vector<Expr> start, next;
  for (const ReducedBeside& value : values) start.push_back(StartValue(value.op, value.type));
  SetValues(level.blocks, at, start);
  for (size_t k = 0; k < values.size(); ++k) {
    const auto& [op, type, element] = values[k];
    next.push_back(Accumulate(op, type, ValueAt(level.blocks, at, k),
                              DependentOn(step.x, element(begin + step.x))));
  }
  SetValues(level.blocks, at, next);
}

// Lane rule: one row after the other.
void ScheduleRow(ReductionLevel& level, const Halide::LoopLevel& at) {
  constexpr int kTailLanes = 16;  // speed
  const auto stack = Halide::MemoryType::Stack;
  Func& lanes = level.lanes;
  const bool steps = level.accumulators == kLanes;
  lanes.compute_at(at).store_in(stack).bound(level.lane, 0, level.accumulators);
  lanes.vectorize(level.lane);
  if (steps) lanes.update(0).reorder(level.lane, level.step).vectorize(level.lane);
  level.folded.compute_at(at).store_in(stack).vectorize(level.fold);
  level.folded.bound(level.fold, 0, std::min(kFolded, level.accumulators));
  if (!level.top) {
    lanes.update(1).vectorize(level.tail, kTailLanes, TailStrategy::GuardWithIf);
    return;
  }
  lanes.update(steps ? 1 : 0).reorder(level.lane, level.tail).vectorize(level.lane);
  if (!level.rest.defined()) return;
  level.rest.compute_at(lanes, level.tail).store_in(stack);
  // Vectors are stored whole, also where there are fewer accumulators than elements in one.
  level.rest.bound(level.lane, 0, level.rest_extent)
      .bound_storage(level.lane, std::max(level.accumulators, kTailLanes));
  level.rest.vectorize(level.lane, kTailLanes, TailStrategy::PredicateLoads)
      .never_partition(level.lane);
}

}  // namespace

Expr ValueAt(const Func& func, const std::vector<Expr>& at, size_t k) {
  return func.outputs() == 1 ? Expr(func(at)) : Expr(func(at)[static_cast<int>(k)]);
}

Func ValueOf(const Func& func, const std::vector<Var>& vars, size_t k) {
  if (func.outputs() == 1) return func;
  Func value(func.name() + "_" + std::to_string(k));
  value(vars) = ValueAt(func, Arguments(vars), k);
  return value;
}

void BlockRows(Halide::Func& func, const Var& row, int blocked_rows) {
  func.bound_extent(row, blocked_rows).bound_storage(row, blocked_rows);
}

void ScheduleLanes(ReductionLevel& level, const Halide::LoopLevel& at) {
  ScheduleRow(level, at);
  if (level.blocked_rows == 0) return;
  level.lanes.compute_at(level.folded, level.row);
  BlockRows(level.folded, level.row, level.blocked_rows);
  level.folded.reorder(level.fold, level.row);
  int left = std::min(kFolded, level.accumulators) / 2;
  for (Func& half : level.halves) {
    const Var rows("prows"), inside("pinrows");
    half.compute_at(at).store_in(Halide::MemoryType::Stack).bound(level.fold, 0, left);
    BlockRows(half, level.row, level.blocked_rows);
    half.split(level.row, rows, inside, level.blocked_rows / left, TailStrategy::RoundUp);
    half.reorder(level.fold, inside, rows).vectorize(level.fold).vectorize(inside).unroll(rows);
    left /= 2;
  }
}

Reduction BuildReduction(const ReductionSpec& spec) {
  Reduction reduction;
  const auto if_inside = [&](const Expr& element) {
    return spec.inside.defined() ? LoadsIf(spec.inside, spec.vars[0], element) : element;
  };
  std::vector<ReducedBeside> values = {{spec.op, spec.type, spec.element}};
  values.insert(values.end(), spec.beside.begin(), spec.beside.end());
  for (ReducedBeside& value : values) {
    value.element = [if_inside, element = value.element](const Expr& index) {
      return if_inside(element(index));
    };
  }
  Expr count = spec.extent;
  const int block = spec.lanes ? kBlock : kOuterBlock;
  for (int i = 0; i < spec.levels; ++i) {
    ReductionLevel level;
    level.top = i + 1 == spec.levels;
    level.blocks = Func(spec.name + (level.top ? "_top" : "_blocks"));
    level.lane = Var("lane");
    level.fold = Var("fold");
    level.block = Var("block");
    if (spec.lanes) {
      BuildLanes(spec, values[0].element, count, level);
    } else {
      BuildSequence(spec, values, count, level);
    }
    for (size_t k = 0; k < values.size(); ++k) {
      values[k].element = [&spec, if_inside, blocks = level.blocks, k](const Expr& index) {
        std::vector<Expr> at = Arguments(spec.vars);
        at.insert(spec.lanes ? at.begin() : at.end(), index);
        return if_inside(ValueAt(blocks, at, k));
      };
    }
    count = (count + (block - 1)) / block;
    reduction.levels.push_back(std::move(level));
  }
  reduction.result = Func(spec.name);
  const std::vector<Expr> at = Arguments(spec.vars);
  std::vector<Expr> results;
  for (size_t k = 0; k < values.size(); ++k)
    results.push_back(ValueAt(reduction.levels.back().blocks, at, k));
  SetValues(reduction.result, at, results);
  return reduction;
}

Expr ReduceFew(const ReductionSpec& spec, int most) {
  const Expr start = StartValue(spec.op, spec.type);
  std::vector<Expr> values;
  for (int x = 0; x < most; ++x) {
    const Expr value = spec.element(Halide::max(Halide::min(x, spec.extent - 1), 0));
    values.push_back(select(x < spec.extent, value, start));
  }
  for (size_t half = kReduceLanes / 2; half > 0; half /= 2) {
    for (size_t x = 0; x + half < values.size(); ++x)
      values[x] = Accumulate(spec.op, spec.type, values[x], values[x + half]);
    values.resize(std::min(values.size(), half));
  }
  return values[0];
}

}  // namespace kiln
