// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/device_stages.cc decides, this does.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "halide_gen/common/loop_nests.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cuda/nests.h"
#include "halide_gen/cuda/scratch.h"
#include "halide_gen/cuda/shuffles.h"
#include "schedule/reductions.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::TailStrategy;
using Halide::Var;
using Dims = std::vector<int32_t>;

constexpr int kRun = static_cast<int>(kOuterReduceBlock), kSteps = kReduceBlock / kReduceLanes;
constexpr int kThreads = 128;  // speed: of a block
constexpr LaneMap kMap{static_cast<int>(kWarp), false};

std::string ExtentText(const Dims& dims) {
  std::string product = "1";
  for (const int32_t dim : dims) product = absl::StrCat("(* ", product, " extent", dim, ")");
  return product;
}

// A level of a reduction along `dim`: elements that lie side by side, or in planes of `left`.
struct Level {
  size_t stage = 0;
  int32_t dim = 0;
  Dims left;            // the dims that remain, ascending
  bool inner = true;    // the lane rule
  int32_t from = -1;    // scratch with the elements; -1: the stage's expression has them
  bool pieces = false;  // they are those of the level before
  std::string length;   // how many, as in a recipe
  int number = 0;       // levels of the dim before it
};

int BlockOf(const Level& level) {
  return static_cast<int>(level.inner ? kReduceBlock : kOuterStep);
}

class StageNests {
 public:
  StageNests(const Kernel& kernel, const DeviceStages& stages)
      : kernel_(kernel), stages_(stages), stored_(kernel.stages.size(), -1) {}

  DeviceNests Run() {
    for (size_t i = 0; i < kernel_.stages.size(); ++i) {
      if (IsReduction(kernel_.stages[i])) {
        Reduce(i);
      } else if (std::count(stages_.stored.begin(), stages_.stored.end(), i) > 0) {
        const Stage& stage = kernel_.stages[i];
        stored_[i] = scratch_.Add(stage.type, ExtentText(stage.dims));
        AddElements(stage.dims, stage.expr, stage.type, ScratchOperand(stored_[i]));
      }
    }
    for (size_t k = 0; k < kernel_.outputs.size(); ++k) {
      const KernelOutput& output = kernel_.outputs[k];
      AddElements(output.dims, output.expr, output.type,
                  {LaunchOperand::Kind::kOutput, static_cast<int32_t>(k)});
    }
    return {std::move(nests_), std::move(scratch_.bytes)};
  }

 private:
  // A nest whose stages are those that nests before it have stored.
  DeviceNest& Begin();
  void Bind(DeviceNest& nest, ExprEmitter& emitter) const;

  void AddElements(const Dims& dims, const ScalarExpr& expr, DType type, LaunchOperand result);
  static void ScheduleFlat(Func& func, const std::vector<Var>& vars);
  void Reduce(size_t i);
  void AddLevel(const Level& level, LaunchOperand result);
  Expr Element(DeviceNest& nest, const ExprEmitter& emitter, const Level& level, const Expr& of,
               const Expr& at, const Expr& length) const;
  void AddInner(DeviceNest& nest, const ExprEmitter& emitter, const Level& level,
                const Expr& length);
  void AddOuter(DeviceNest& nest, const ExprEmitter& emitter, const Level& level,
                const Expr& length);

  const Kernel& kernel_;
  const DeviceStages& stages_;
  std::vector<int32_t> stored_;  // the scratch that has a stage; -1: none
  Scratch scratch_;
  std::vector<DeviceNest> nests_;
};

DeviceNest& StageNests::Begin() {
  DeviceNest& nest = nests_.emplace_back();
  nest.operands = OperandsFor(kernel_);
  return nest;
}

void StageNests::Bind(DeviceNest& nest, ExprEmitter& emitter) const {
  for (size_t i = 0; i < stored_.size(); ++i) {
    if (stored_[i] < 0) continue;
    const Dims& dims = kernel_.stages[i].dims;
    std::vector<Var> args;
    std::vector<Expr> place(kernel_.dims.size());
    for (size_t k = dims.size(); k-- > 0;) {
      args.emplace_back(absl::StrCat("pat", k));
      place[static_cast<size_t>(dims[k])] = args.back();
    }
    Func load(absl::StrCat("stored", i));
    load(args) = scratch_.Load(nest, stored_[i], RowMajor(nest.operands, dims, place));
    emitter.Store(static_cast<int32_t>(i), load);
  }
}

// A thread for each element of `dims`, in their order.
void StageNests::AddElements(const Dims& dims, const ScalarExpr& expr, DType type,
                             LaunchOperand result) {
  DeviceNest& nest = Begin();
  ExprEmitter emitter(kernel_, nest.operands);
  Bind(nest, emitter);
  Scope scope;
  scope.coordinates.resize(kernel_.dims.size());
  std::vector<Var> vars;
  std::vector<Expr> extents;
  for (size_t k = dims.size(); k-- > 0;) {
    const auto dim = static_cast<size_t>(dims[k]);
    vars.emplace_back(absl::StrCat("paxis", k));
    scope.coordinates[dim] = vars.back();
    extents.push_back(nest.operands.extents[dim]);
  }
  if (vars.empty()) {
    vars.emplace_back("pone");
    extents.emplace_back(1);
  }
  nest.func = Func(absl::StrCat("elements", nests_.size()));
  nest.func(vars) = emitter.Stored(expr, type, scope);
  nest.results = {result};
  SetExtents(nest.func, extents);
  const bool output = result.kind == LaunchOperand::Kind::kOutput;
  const Layout layout =
      output ? kernel_.outputs[static_cast<size_t>(result.number)].layout : Layout::kDense;
  if (layout == Layout::kStrided) nest.func.output_buffer().dim(0).set_stride(Expr());
  Expr stride = extents[0];
  for (size_t d = 1; d < extents.size() && layout == Layout::kDense; ++d) {
    TellStride(nest, 0, static_cast<int>(d), stride);
    stride = stride * extents[d];
  }
  ScheduleFlat(nest.func, vars);
}

// One launch for the loops `vars`, innermost first, as one.
void StageNests::ScheduleFlat(Func& func, const std::vector<Var>& vars) {
  const Var block("pblock"), thread("pthread");
  func.split(Fused(func, vars), block, thread, kThreads, TailStrategy::GuardWithIf)
      .gpu_blocks(block)
      .gpu_threads(thread)
      .never_partition_all();
}

// Dims innermost first, as kernel.h says; of each the levels that its extent may have.
void StageNests::Reduce(size_t i) {
  const Stage& stage = kernel_.stages[i];
  Level level;
  level.stage = i;
  Dims over = stage.over;
  while (!over.empty()) {
    level.dim = over.back();
    over.pop_back();
    level.left = stage.dims;
    level.left.insert(level.left.end(), over.begin(), over.end());
    std::sort(level.left.begin(), level.left.end());
    level.inner = level.dim == kernel_.innermost();
    level.pieces = false;
    level.length = absl::StrCat("extent", level.dim);
    const int64_t levels = level.inner ? stages_.levels : stages_.outer_levels;
    const int block = BlockOf(level);
    for (int64_t k = 0; k < levels; ++k) {
      level.number = static_cast<int>(k);
      const std::string pieces =
          absl::StrCat("(/ (+ ", level.length, " ", block - 1, ") ", block, ")");
      const int32_t next = scratch_.Add(
          stage.type, absl::StrCat("(* ", ExtentText(level.left), " (max 1 ", pieces, "))"));
      AddLevel(level, ScratchOperand(next));
      level.from = next;
      level.pieces = true;
      level.length = pieces;
    }
  }
  stored_[i] = level.from;
}

void StageNests::AddLevel(const Level& level, LaunchOperand result) {
  DeviceNest& nest = Begin();
  ExprEmitter emitter(kernel_, nest.operands);
  Bind(nest, emitter);
  nest.results = {result};
  Expr length = nest.operands.extents[static_cast<size_t>(level.dim)];
  for (int k = 0; k < level.number; ++k) length = (length + (BlockOf(level) - 1)) / BlockOf(level);
  if (level.inner) {
    AddInner(nest, emitter, level, length);
  } else {
    AddOuter(nest, emitter, level, length);
  }
}

// The element `at` of the result `of`, which is the row-major index of the dims that are left.
// Values of a dim that has been reduced whole lie as their dims do; pieces of the innermost dim lie
// side by side, pieces of another in planes.
Expr StageNests::Element(DeviceNest& nest, const ExprEmitter& emitter, const Level& level,
                         const Expr& of, const Expr& at, const Expr& length) const {
  const Stage& stage = kernel_.stages[level.stage];
  const Expr inside = Halide::clamp(at, 0, Halide::max(length - 1, 0));
  if (level.pieces) {
    const Expr place =
        level.inner ? of * length + inside : inside * ExtentOf(nest.operands, level.left) + of;
    return scratch_.Load(nest, level.from, place);
  }
  Scope scope;
  scope.coordinates.resize(kernel_.dims.size());
  SetCoordinates(nest.operands, of, level.left, scope);
  scope.coordinates[static_cast<size_t>(level.dim)] = inside;
  if (level.from < 0) return emitter.Stored(stage.expr, stage.type, scope);
  Dims dims = level.left;
  dims.insert(std::upper_bound(dims.begin(), dims.end(), level.dim), level.dim);
  return scratch_.Load(nest, level.from, RowMajor(nest.operands, dims, scope.coordinates));
}

// A warp for each result and block of 4096 elements.
void StageNests::AddInner(DeviceNest& nest, const ExprEmitter& emitter, const Level& level,
                          const Expr& length) {
  const Stage& stage = kernel_.stages[level.stage];
  const Var v("plane"), t("pthread_of_row"), i("presult"), first("pfirst"), thread("pthread");
  const Var block("pblock"), in_block("pin_block");
  const int each = static_cast<int>(kReduceBlock);
  const Expr pieces = Halide::max((length + (each - 1)) / each, 1);
  const Expr count = ExtentOf(nest.operands, level.left) * pieces;
  const Expr start = StartValue(stage.op, stage.type);
  const Expr own = Halide::min(i, count - 1);
  RDom step(0, kSteps, "pstep");
  const Expr at = own % pieces * each + step.x * static_cast<int>(kReduceLanes) + kMap.Lane(v, t);
  step.where(own % pieces * each + step.x * static_cast<int>(kReduceLanes) < length);
  const Expr element = Element(nest, emitter, level, own / pieces, at, length);
  Func lanes("lanes"), folded("folded");
  lanes(v, t, i) = start;
  lanes(v, t, i) =
      Accumulate(stage.op, stage.type, lanes(v, t, i), Halide::select(at < length, element, start));
  std::vector<Expr> values;
  for (int k = 0; k < kMap.each(); ++k) values.push_back(lanes(k, t, i));
  folded(t, i) = FoldLanes(stage.op, stage.type, kMap, std::move(values));
  nest.func = Func(absl::StrCat("inner", nests_.size()));
  nest.func(t, i) = folded(t, i);
  SetExtents(nest.func, {1, count});
  nest.func.output_buffer().dim(0).set_stride(0);
  nest.func.output_buffer().dim(1).set_stride(1);
  nest.func.split(t, first, thread, kMap.threads, TailStrategy::PredicateStores)
      .split(i, block, in_block, kThreads / kMap.threads, TailStrategy::PredicateStores)
      .reorder(thread, in_block, first, block)
      .gpu_blocks(first, block)
      .gpu_threads(thread, in_block)
      .never_partition_all();
  folded.compute_at(nest.func, thread).bound_extent(t, 1).bound_extent(i, 1);
  lanes.compute_at(nest.func, thread).bound_extent(t, 1).bound_extent(i, 1);
  lanes.bound(v, 0, kMap.each()).unroll(v);
  lanes.update().reorder(v, step.x).unroll(v);
}

// A thread for each result and block of 32 runs of 32 elements.
void StageNests::AddOuter(DeviceNest& nest, const ExprEmitter& emitter, const Level& level,
                          const Expr& length) {
  const Stage& stage = kernel_.stages[level.stage];
  const Var i("presult"), piece("ppiece"), run("prun");
  const Expr start = StartValue(stage.op, stage.type);
  const Expr results = ExtentOf(nest.operands, level.left);
  const auto each = static_cast<int>(kOuterStep);
  const Expr pieces = Halide::max((length + (each - 1)) / each, 1);
  RDom k(0, kRun, "pelement"), r(0, kRun, "pruns");
  const Expr at = piece * each + run * kRun + k.x;
  k.where(at < length);
  r.where(piece * each + r.x * kRun < length);
  Func of_run("of_run"), of_piece("of_piece");
  of_run(i, piece, run) = start;
  // Halide finds a domain by its use: an element that is the same at all places has none.
  const Expr element =
      Halide::select(at < length, Element(nest, emitter, level, i, at, length), start);
  of_run(i, piece, run) = Accumulate(stage.op, stage.type, of_run(i, piece, run), element);
  of_piece(i, piece) = start;
  of_piece(i, piece) = Accumulate(stage.op, stage.type, of_piece(i, piece), of_run(i, piece, r.x));
  nest.func = Func(absl::StrCat("outer", nests_.size()));
  nest.func(i, piece) = of_piece(i, piece);
  SetExtents(nest.func, {results, pieces});
  TellStride(nest, 0, 1, results);
  ScheduleFlat(nest.func, {i, piece});
  of_piece.compute_at(nest.func, Var("pthread")).bound_extent(i, 1).bound_extent(piece, 1);
  of_run.compute_at(of_piece, r.x).bound_extent(i, 1).bound_extent(piece, 1).bound_extent(run, 1);
}

}  // namespace

DeviceNests BuildDeviceStages(const Kernel& kernel, const Schedule& schedule) {
  return StageNests(kernel, schedule.As<DeviceStages>()).Run();
}

}  // namespace kiln
