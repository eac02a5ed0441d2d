// SPDX-License-Identifier: Apache-2.0
// schedule/cuda/device_scatter.cc decides, this does.
#include <string>
#include <utility>

#include "halide_gen/common/loop_nests.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cuda/nests.h"
#include "schedule/sums.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::RDom;
using Halide::RVar;
using Halide::TailStrategy;
using Halide::Var;

// A nest over the axes of the output, innermost first, `x` along the first, without values yet.
DeviceNest NestOver(const Kernel& kernel, const Var& x, std::vector<Var>& vars) {
  DeviceNest nest;
  nest.operands = OperandsFor(kernel);
  const std::vector<int32_t>& dims = kernel.outputs[0].dims;
  for (size_t axis = dims.size(); axis-- > 0;)
    vars.push_back(vars.empty() ? x : Var("paxis" + std::to_string(axis)));
  nest.results = ResultsOf({0});
  return nest;
}

void SetDenseOutput(const Kernel& kernel, DeviceNest& nest) {
  std::vector<Expr> extents;
  const std::vector<int32_t>& dims = kernel.outputs[0].dims;
  for (size_t axis = dims.size(); axis-- > 0;)
    extents.push_back(nest.operands.extents[static_cast<size_t>(dims[axis])]);
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
  const Var x("px"), all("pall"), block("pblock"), thread("pthread");
  std::vector<Var> vars;
  DeviceNest nest = NestOver(kernel, x, vars);
  nest.func = Func("out0");
  nest.func(vars) = Halide::cast(StorageType(kernel.outputs[0].type), 0);
  SetDenseOutput(kernel, nest);
  const Var fused = Fused(nest.func, vars);
  nest.func.split(fused, block, thread, static_cast<int>(kBlockThreads), TailStrategy::GuardWithIf)
      .gpu_blocks(block)
      .gpu_threads(thread)
      .never_partition_all();
  return nest;
}

DeviceNest Sums(const Kernel& kernel, const DeviceScatter& scatter) {
  const Var x("px"), block("pblock"), thread("pthread");
  std::vector<Var> vars;
  DeviceNest nest = NestOver(kernel, x, vars);
  const Operands& operands = nest.operands;
  const bool rows = AddsRows(kernel);
  const Expr count = ExtentOf(operands, 0, kernel.num_iterated() - (rows ? 1 : 0));
  const size_t divided = DividedAxis(kernel);
  const std::vector<int32_t>& dims = kernel.outputs[0].dims;
  const Expr extent = operands.extents[static_cast<size_t>(dims[divided])];
  const bool divides = !HasOnePlace(kernel);
  const Expr parts = divides ? Halide::clamp(extent, 1, static_cast<int>(scatter.parts)) : Expr(1);
  const Expr each = (extent + (parts - 1)) / parts;
  RDom places({{0, count}, {0, parts}}, "pplaces");
  const RVar at = places[0], part = places[1], part_block("ppart_block"), part_row("ppart_row");
  const AddedElement added = ElementToAdd(kernel, operands, at, x);
  const Expr place = added.places[dims.size() - 1 - divided];
  if (divides) places.where(place >= part * each && place < (part + 1) * each);
  nest.func = UndefinedOutputs(kernel, {0}, vars);
  nest.func(added.places) = nest.func(added.places) + added.value;
  SetDenseOutput(kernel, nest);
  Halide::Stage update = nest.func.update();
  update.allow_race_conditions();  // no element belongs to two parts
  update.split(part, part_block, part_row, static_cast<int>(scatter.rows),
               TailStrategy::GuardWithIf);
  if (rows) {
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
