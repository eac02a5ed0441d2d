// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/tiles.cc decides, this does.
#include "schedule/cuda/tiles.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "halide_gen/common/loop_nests.h"
#include "halide_gen/cuda/nests.h"
#include "halide_gen/cuda/shuffles.h"

namespace kiln {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

namespace {

constexpr auto kTile = static_cast<int>(kWarp);

// Blocks and threads of the outputs, and of the copies of what they read transposed.
void ScheduleTiles(Func& out, std::vector<Func>& copies, int rows) {
  const std::vector<Var> vars = out.args();
  const Var &x = vars[0], &y = vars[1], &q = vars[2], &p = vars[3];
  const Var block("pblock"), block_y("pblock_y"), thread("pthread"), in_tile("pin_tile");
  const Var in_turn("pin_turn"), row("prow");
  out.split(x, block, thread, kTile, TailStrategy::GuardWithIf)
      .split(y, block_y, in_tile, kTile, TailStrategy::GuardWithIf)
      .split(in_tile, in_turn, row, rows)
      .reorder(in_turn, thread, row, block, block_y, q, p);
  for (const Var& outer : {block_y, q, p}) out.fuse(block, outer, block);
  out.gpu_blocks(block).gpu_threads(thread, row).never_partition_all();
  for (Func& copy : copies) {
    copy.compute_at(out, block)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_extent(x, kTile)
        .bound_extent(y, kTile)
        .bound_extent(q, 1)
        .bound_extent(p, 1)
        .reorder_storage(y, x, q, p)
        .align_storage(y, static_cast<int>(kTileStride))
        .split(x, in_turn, row, rows)
        .reorder(in_turn, y, row, q, p)
        .gpu_threads(y, row);
  }
}

}  // namespace

// Dims before the one that tiles lie along, and those between it and the innermost, are one each.
DeviceNests BuildTiles(const Kernel& kernel, const Schedule& schedule) {
  const auto& tiles = schedule.As<Tiles>();
  const auto along = static_cast<int>(tiles.along), rows = static_cast<int>(tiles.rows);
  const auto x_dim = static_cast<size_t>(kernel.innermost()), y_dim = static_cast<size_t>(along);
  DeviceNest nest;
  nest.operands = OperandsFor(kernel);
  const Expr width = nest.operands.extents[x_dim], height = nest.operands.extents[y_dim];
  const Expr between = ExtentOf(nest.operands, along + 1, kernel.innermost());
  const Expr before = ExtentOf(nest.operands, 0, along);
  const Var x("px"), y("py"), q("pbetween"), p("pbefore");
  const auto scope_at = [&](const Expr& at_x, const Expr& at_y) {
    Scope scope;
    scope.coordinates.resize(kernel.dims.size());
    SetCoordinates(nest.operands, p, 0, along, scope);
    SetCoordinates(nest.operands, q, along + 1, kernel.innermost(), scope);
    scope.coordinates[x_dim] = at_x;
    scope.coordinates[y_dim] = at_y;
    scope.place = ((p * height + at_y) * between + q) * width + at_x;
    scope.copy_arguments = {x, y, q, p};
    return scope;
  };
  ExprEmitter emitter(kernel, nest.operands);
  std::vector<Func> copies;
  for (const int64_t k : tiles.Transposed(kernel)) {
    const auto input = static_cast<size_t>(k);
    const Scope scope = scope_at(Halide::min(x, width - 1), Halide::min(y, height - 1));
    copies.emplace_back(absl::StrCat("tile", k));
    copies.back()(x, y, q, p) = nest.operands.inputs[input](
        RowMajor(nest.operands, kernel.inputs[input].dims, scope.coordinates));
    emitter.Copy(input, copies.back());
  }
  std::vector<size_t> all;
  for (size_t k = 0; k < kernel.outputs.size(); ++k) all.push_back(k);
  Scope scope = scope_at(x, y);
  std::vector<Expr> values = OutputValues(kernel, all, emitter, scope), shared;
  for (const Func& copy : copies) shared.push_back(copy(x, y, q, p));
  values[0] = UsesShared(shared, values[0]);
  Func& out = nest.func = DefineOutputs(all, {x, y, q, p}, values);
  nest.results = ResultsOf(all);
  SetExtents(out, {width, height, between, before});
  for (size_t k = 0; k < all.size(); ++k) {
    int axis = 1;
    for (const Expr& stride : {between * width, width, height * between * width})
      TellStride(nest, k, axis++, stride);
  }

  ScheduleTiles(out, copies, rows);
  std::vector<DeviceNest> nests;
  nests.push_back(std::move(nest));
  return {std::move(nests)};
}

}  // namespace kiln
