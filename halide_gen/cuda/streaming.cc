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

DeviceNest NestOf(const Kernel& kernel, const Streaming& streaming, int vector) {
  DeviceNest nest;
  nest.operands = OperandsFor(kernel, vector);
  const Expr length = nest.operands.extents[static_cast<size_t>(kernel.innermost())] / vector;
  const Var lane("plane"), x("px"), row("prow");
  const bool rows = kernel.num_iterated() > 1;
  const ExprEmitter emitter(kernel, nest.operands);
  Scope scope = RowScope(kernel, nest.operands, rows ? Expr(row) : Expr(), x * vector + lane);
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

  const Var block("pblock"), block_row("pblock_row"), thread("pthread"), thread_row("pthread_row");
  Func& func = nest.func;
  func.vectorize(lane);
  func.split(x, block, thread, static_cast<int>(streaming.columns), TailStrategy::GuardWithIf);
  if (rows) {
    func.split(row, block_row, thread_row, static_cast<int>(streaming.rows),
               TailStrategy::GuardWithIf)
        .reorder(lane, thread, thread_row, block, block_row)
        .fuse(block, block_row, block)
        .gpu_threads(thread, thread_row);
  } else {
    func.gpu_threads(thread);
  }
  func.gpu_blocks(block).never_partition_all();
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
