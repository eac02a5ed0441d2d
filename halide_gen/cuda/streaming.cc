// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/streaming.cc decides, this does.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "halide_gen/common/loop_nests.h"
#include "halide_gen/cuda/nests.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;

// What all rows read alike is read once by a thread, which walks down several.
std::vector<Func> KeepRows(const Kernel& kernel, const Operands& operands, const Var& lane,
                           const Var& x, int vector, ExprEmitter& emitter) {
  std::vector<Func> kept;
  const Expr length = operands.extents[static_cast<size_t>(kernel.innermost())] / vector;
  for (size_t k = 0; k < kernel.inputs.size(); ++k) {
    if (!IsRowOfAll(kernel, kernel.inputs[k])) continue;
    Func& row = kept.emplace_back(absl::StrCat("kept_in", k));
    row(lane, x) = operands.inputs[k](Halide::min(x, length - 1) * vector + lane);
    emitter.Copy(k, row);
  }
  return kept;
}

DeviceNest NestOf(const Kernel& kernel, const Streaming& streaming, int vector) {
  DeviceNest nest;
  nest.operands = OperandsFor(kernel, vector);
  const Expr length = nest.operands.extents[static_cast<size_t>(kernel.innermost())] / vector;
  const Var lane("plane"), x("px"), row("prow");
  const bool rows = kernel.num_iterated() > 1;
  // Rows that are no whole vectors are launched in a form that walks down none.
  const bool walks = streaming.walked > 1 && vector == streaming.vector;
  ExprEmitter emitter(kernel, nest.operands);
  std::vector<Func> kept;
  if (walks) kept = KeepRows(kernel, nest.operands, lane, x, vector, emitter);
  Scope scope = RowScope(kernel, nest.operands, rows ? Expr(row) : Expr(), x * vector + lane);
  if (walks) scope.copy_arguments = {lane, x};
  std::vector<size_t> all;
  for (size_t k = 0; k < kernel.outputs.size(); ++k) all.push_back(k);
  std::vector<Var> vars = {lane, x};
  std::vector<Expr> extents = {vector, length};
  if (rows) {
    vars.push_back(row);
    extents.push_back(RowCount(kernel, nest.operands));
  }
  nest.func = DefineOutputs(kernel, all, vars, emitter, scope);
  nest.results = ResultsOf(all);
  SetDenseVectors(nest, extents, vector);

  const Var block("pblock"), block_row("pblock_row"), thread("pthread"), thread_row("pthread_row"),
      step("pstep");
  Func& func = nest.func;
  func.vectorize(lane);
  func.split(x, block, thread, static_cast<int>(streaming.columns), TailStrategy::GuardWithIf);
  if (rows) {
    const int walked = walks ? static_cast<int>(streaming.walked) : 1;
    func.split(row, block_row, step, walked * static_cast<int>(streaming.rows),
               TailStrategy::GuardWithIf)
        .split(step, step, thread_row, static_cast<int>(streaming.rows))
        .reorder(lane, step, thread, thread_row, block, block_row)
        .fuse(block, block_row, block)
        .gpu_threads(thread, thread_row);
  } else {
    func.gpu_threads(thread);
  }
  func.gpu_blocks(block).never_partition_all();
  for (Func& row_of_all : kept)
    row_of_all.bound(lane, 0, vector).bound_extent(x, 1).vectorize(lane).compute_at(func, thread);
  return nest;
}

}  // namespace

DeviceNests BuildStreaming(const Kernel& kernel, const Schedule& schedule) {
  const auto& streaming = schedule.As<Streaming>();
  const int vector = static_cast<int>(streaming.vector);
  std::vector<DeviceNest> nests;
  if (vector > 1) {
    nests.push_back(NestOf(kernel, streaming, vector));
    nests.back().when = WhenAligned(kernel, vector);
  }
  nests.push_back(NestOf(kernel, streaming, 1));
  if (vector > 1) nests.back().when = absl::StrCat("(not ", nests.front().when, ")");
  return {std::move(nests)};
}

}  // namespace kiln
