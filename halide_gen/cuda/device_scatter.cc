// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/device_scatter.cc decides, this does.
#include <vector>

#include "halide_gen/common/loop_nests.h"
#include "halide_gen/common/ordered_sums.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cuda/nests.h"
#include "schedule/sums.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;

DeviceNest NestOf(const Kernel& kernel) {
  DeviceNest nest;
  nest.operands = OperandsFor(kernel);
  nest.results = ResultsOf({0});
  return nest;
}

void SetDenseOutput(const std::vector<Expr>& extents, DeviceNest& nest) {
  SetExtents(nest.func, extents);
  Halide::OutputImageParam buffer = nest.func.output_buffers().front();
  buffer.dim(0).set_stride(1);
  Expr stride = 1;
  for (size_t d = 1; d < extents.size(); ++d) {
    stride = stride * extents[d - 1];
    TellStride(nest, 0, static_cast<int>(d), stride);
  }
}

DeviceNest Zeros(const Kernel& kernel) {
  const Var x("px"), block("pblock"), thread("pthread");
  DeviceNest nest = NestOf(kernel);
  const OutputAxes axes = AxesOfSums(kernel, nest.operands, x);
  nest.func = Func("out0");
  nest.func(axes.vars) = Halide::cast(StorageType(kernel.outputs[0].type), 0);
  SetDenseOutput(axes.extents, nest);
  const Var fused = Fused(nest.func, axes.vars);
  nest.func.split(fused, block, thread, static_cast<int>(kBlockThreads), TailStrategy::GuardWithIf)
      .gpu_blocks(block)
      .gpu_threads(thread)
      .never_partition_all();
  return nest;
}

DeviceNest Sums(const Kernel& kernel, const DeviceScatter& scatter) {
  const Var x("px"), block("pblock"), thread("pthread");
  DeviceNest nest = NestOf(kernel);
  const OutputAxes axes = AxesOfSums(kernel, nest.operands, x);
  const Expr extent = DividedExtent(kernel, nest.operands);
  const Expr parts =
      HasOnePlace(kernel) ? Expr(1) : Halide::clamp(extent, 1, static_cast<int>(scatter.parts));
  const AddedElements added = ElementsToAdd(kernel, nest.operands, x, parts);
  nest.func = UndefinedOutputs(kernel, {0}, axes.vars);
  nest.func(added.where) = nest.func(added.where) + added.value;
  SetDenseOutput(axes.extents, nest);
  Halide::Stage update = nest.func.update();
  update.allow_race_conditions();  // no element belongs to two parts
  const RVar at = added.places[0], part_block("ppart_block"), part_row("ppart_row");
  update.split(added.places[1], part_block, part_row, static_cast<int>(scatter.rows),
               TailStrategy::GuardWithIf);
  if (AddsRows(kernel)) {
    update.split(x, block, thread, static_cast<int>(scatter.columns), TailStrategy::GuardWithIf)
        .reorder(at, thread, part_row, block, part_block)
        .gpu_threads(thread, part_row)
        .gpu_blocks(block, part_block);
  } else {
    update.reorder(at, part_row, part_block).gpu_threads(part_row).gpu_blocks(part_block);
  }
  return nest;
}

}  // namespace

DeviceNests BuildDeviceScatter(const Kernel& kernel, const Schedule& schedule) {
  DeviceNests made;
  made.nests.push_back(Zeros(kernel));
  made.nests.push_back(Sums(kernel, schedule.As<DeviceScatter>()));
  return made;
}

}  // namespace kiln
