// SPDX-License-Identifier: Apache-2.0
#include "exec/plan_launches.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "exec/kernel_form.h"
#include "exec/kernel_operands.h"
#include "exec/strided_copy.h"
#include "exec/support/device.h"
#include "exec/support/non_temporal.h"
#include "exec/support/subdomains.h"
#include "exec/vm/vm.h"
#include "kernel/operands.h"

namespace kiln {
namespace {

bool AnyEmpty(const std::vector<ResolvedRef>& refs) {
  return std::any_of(refs.begin(), refs.end(),
                     [](const ResolvedRef& ref) { return ref.elements == 0; });
}

std::vector<OperandShape> ShapesOf(const std::vector<ResolvedRef>& inputs,
                                   const std::vector<ResolvedRef>& outputs) {
  std::vector<OperandShape> shapes;
  for (const auto* refs : {&inputs, &outputs}) {
    for (const ResolvedRef& ref : *refs)
      shapes.push_back({ref.shape, ref.strides, static_cast<int64_t>(SizeOf(ref.type))});
  }
  return shapes;
}

size_t SlotOf(PlanDraft& draft, const std::shared_ptr<KernelHandle>& handle) {
  std::vector<std::shared_ptr<KernelHandle>>& kernels = draft.kernels;
  const auto found = std::find(kernels.begin(), kernels.end(), handle);
  if (found != kernels.end()) return static_cast<size_t>(found - kernels.begin());
  kernels.push_back(handle);
  return kernels.size() - 1;
}

absl::Status PrepareKernel(PlanDraft& draft, size_t t) {
  const CheckedThunk& thunk = draft.program.thunks[t];
  Operands& operands = draft.operands[t];
  const auto k = static_cast<size_t>(thunk.kernel);
  KILN_RETURN_IF_ERROR(CheckKernelOperands(draft.program.kernels[k], operands));
  if (AllEmpty(operands.outputs)) return absl::OkStatus();
  const program::KernelDef& def = draft.program.variant->program.kernels(thunk.kernel);
  const std::optional<int> choice = ChooseForm(def, operands.dims);
  KernelLaunch launch;
  std::shared_ptr<KernelHandle> handle;  // none: no form is for these extents
  if (choice) {
    const program::KernelChoice& chosen = def.choices(*choice);
    const bool waits = RowsWait(draft.program.kernels[k], chosen.row_step(), operands.dims);
    for (int i = 0; i < chosen.in_place_size() && !waits; i += 2) {
      draft.problem.steps[t].in_place.emplace_back(chosen.in_place(i), chosen.in_place(i + 1));
    }
    handle = draft.program.variant->kernels[k][static_cast<size_t>(*choice)];
  }
  const Kernel& kernel = draft.program.kernels[k];
  const std::vector<OperandShape> shapes = ShapesOf(operands.inputs, operands.outputs);
  if (!FitsAtOnce(kernel, operands.dims, shapes)) {
    launch.pieces = PlanPieces(kernel, operands.dims, shapes);
    launch.large = !launch.pieces.has_value();
  }
  const bool on_device = !OnHost(thunk.device);
  if (launch.large && on_device)
    return absl::UnimplementedError("has more elements than a launch on a device counts");
  launch.nothing = ReducesNothing(kernel, operands.dims) || AnyEmpty(operands.inputs);
  // A package has no code of a kernel that could not be built, and knows it by its text alone.
  const bool other_vm =
      handle != nullptr && handle->Get()->vm && OnHost(handle->Get()->device) == on_device;
  if (handle == nullptr || other_vm || launch.large || launch.nothing) {
    KILN_ASSIGN_OR_RETURN(handle, OnVm(kernel, thunk.device, launch.large ? &RunLargeVm : nullptr));
  }
  if (!OnHost(handle->Get()->device) != on_device)
    return Invalid("its code is not for the device that its operands are on");
  launch.exceeds_cache = ExceedsCache(shapes, kernel.inputs.size());
  launch.slot = SlotOf(draft, handle);
  launch.inputs = kernel.inputs.size();
  launch.params = thunk.params;
  for (int64_t lane = 0; lane < draft.lanes[t]; ++lane) draft.launches[t].emplace_back(launch);
  return absl::OkStatus();
}

// A view is about memory: it covers all bytes of the new buffer, whatever shapes its ends are
// written with.
absl::Status PrepareView(PlanDraft& draft, size_t t) {
  PlacementProblem::Access &from = draft.problem.steps[t].reads[0],
                           &to = draft.problem.steps[t].writes[0];
  const int64_t bytes = draft.problem.buffers[static_cast<size_t>(to.buffer)].bytes;
  const int64_t offset = draft.operands[t].inputs[0].offset;
  const int64_t rest = draft.problem.buffers[static_cast<size_t>(from.buffer)].bytes - offset;
  if (bytes > rest) return Invalid("the view needs ", bytes, " bytes; its source has ", rest);
  draft.problem.steps[t].view = true;
  from = {from.buffer, offset, offset + bytes, true, 1};
  to = {to.buffer, 0, bytes, true, 1};
  return absl::OkStatus();
}

using Way = CopyLaunch::Way;

Way WayOf(const PlanDraft& draft, size_t t) {
  const auto on_device = [&](const ResolvedRef& ref) {
    return draft.problem.buffers[static_cast<size_t>(ref.buffer)].on_device;
  };
  const bool from = on_device(draft.operands[t].inputs[0]);
  const bool to = on_device(draft.operands[t].outputs[0]);
  return from ? (to ? Way::kOver : Way::kOut) : (to ? Way::kIn : Way::kHost);
}

// A dense copy into a part of a temporary or an output: what it copies may be written there.
bool IsPart(const PlanDraft& draft, size_t t) {
  if (WayOf(draft, t) == Way::kIn || WayOf(draft, t) == Way::kOut) return false;
  const PlacementProblem::Access &from = draft.problem.steps[t].reads[0],
                                 &to = draft.problem.steps[t].writes[0];
  const Operands& operands = draft.operands[t];
  const auto dense = [](const ResolvedRef& ref) { return ref.strides == DenseStrides(ref.shape); };
  return dense(operands.inputs[0]) && dense(operands.outputs[0]) && from.item == to.item &&
         to.end - to.begin < draft.problem.buffers[static_cast<size_t>(to.buffer)].bytes;
}

// Whether it would copy all of one buffer to all of another on the device: to or from a port that
// the caller has there.
bool IsWhole(const PlanDraft& draft, size_t t) {
  if (WayOf(draft, t) != Way::kOver) return false;
  const auto whole = [&](const PlacementProblem::Access& access) {
    return access.dense && access.begin == 0 &&
           access.end == draft.problem.buffers[static_cast<size_t>(access.buffer)].bytes;
  };
  return whole(draft.problem.steps[t].reads[0]) && whole(draft.problem.steps[t].writes[0]);
}

absl::Status PrepareCopy(PlanDraft& draft, size_t t) {
  Operands& operands = draft.operands[t];
  const ResolvedRef &from = operands.inputs[0], &to = operands.outputs[0];
  if (from.shape != to.shape) {
    return Invalid("copies [", absl::StrJoin(from.shape, ", "), "] to [",
                   absl::StrJoin(to.shape, ", "), "]");
  }
  if (to.elements == 0) return absl::OkStatus();
  if (IsPart(draft, t) || IsWhole(draft, t)) {
    draft.problem.steps[t].view = true;
    return absl::OkStatus();
  }
  CopyLaunch launch;
  launch.way = WayOf(draft, t);
  launch.bytes = to.bytes();
  launch.copy = StridedCopy(to.shape, from.strides, to.strides, SizeOf(to.type));
  draft.launches[t].emplace_back(std::move(launch));
  return absl::OkStatus();
}

absl::Status PrepareDims(PlanDraft& draft, size_t t) {
  Operands& operands = draft.operands[t];
  const ResolvedRef& to = operands.outputs[0];
  const auto count = static_cast<int64_t>(operands.dims.size());
  if (to.elements != count)
    return Invalid(count, " values for a tensor of ", to.elements, " elements");
  if (count == 0) return absl::OkStatus();
  DimsLaunch launch;
  KILN_ASSIGN_OR_RETURN(launch.bytes, BytesOf(operands.dims, to.type));
  launch.copy = StridedCopy(to.shape, DenseStrides(to.shape), to.strides, SizeOf(to.type));
  draft.launches[t].emplace_back(std::move(launch));
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareLaunch(PlanDraft& draft, size_t t) {
  switch (draft.program.thunks[t].kind) {
    case CheckedThunk::Kind::kKernel:
      return PrepareKernel(draft, t);
    case CheckedThunk::Kind::kView:
      return PrepareView(draft, t);
    case CheckedThunk::Kind::kCopy:
      return PrepareCopy(draft, t);
    case CheckedThunk::Kind::kHostDims:
      return PrepareDims(draft, t);
    case CheckedThunk::Kind::kLibrary:
      break;
  }
  return absl::InternalError("no launch of this thunk");
}

}  // namespace kiln
