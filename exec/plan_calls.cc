// SPDX-License-Identifier: Apache-2.0
#include "exec/plan_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/thread.h"
#include "exec/host_call.h"
#include "exec/library/post_ops.h"
#include "exec/support/device.h"

namespace kiln {
namespace {

// A thread is worth so many primitives.
constexpr size_t kCallsPerThread = 4;  // compile time

using Made = absl::StatusOr<std::unique_ptr<library::Primitive>>;

struct Call {
  size_t thunk = 0;
  library::Request request;
  std::vector<Made> primitives;  // per lane
};

const void* ConstantData(const CheckedProgram& program, const ResolvedRef& ref) {
  const CheckedBuffer& buffer = program.buffers[static_cast<size_t>(ref.buffer)];
  if (buffer.kind != program::Buffer::CONSTANT) return nullptr;
  const Tensor& tensor = program.variant->constants[static_cast<size_t>(buffer.index)];
  return static_cast<const uint8_t*>(tensor.data()) + ref.offset;
}

// Per buffer, the last step that reads it; -1: none.
std::vector<int64_t> LastReads(const PlacementProblem& problem) {
  std::vector<int64_t> last(problem.buffers.size(), -1);
  for (size_t t = 0; t < problem.steps.size(); ++t) {
    for (const PlacementProblem::Access& read : problem.steps[t].reads)
      last[static_cast<size_t>(read.buffer)] = static_cast<int64_t>(t);
  }
  return last;
}

library::Request RequestOf(const PlanDraft& draft, size_t t, const std::vector<int64_t>& last) {
  library::Request request;
  request.attributes = draft.program.thunks[t].attributes;
  request.post_ops = draft.program.thunks[t].post_ops;
  for (const ResolvedRef& ref : draft.operands[t].inputs) {
    if (ref.buffer < 0) {
      request.inputs.push_back({false, DType::kF32, {}, {}, nullptr});
    } else {
      // What moves from part to part is packed for none.
      const void* const constant = ref.part_bytes == 0 ? ConstantData(draft.program, ref) : nullptr;
      request.inputs.push_back({true, ref.type, ref.shape, ref.strides, constant});
    }
  }
  for (const ResolvedRef& ref : draft.operands[t].outputs)
    request.outputs.push_back({true, ref.type, ref.shape, ref.strides, nullptr});
  const std::vector<ResolvedRef>& inputs = draft.operands[t].inputs;
  for (size_t k = inputs.size() - library::CountOperands(request.post_ops); k < inputs.size();
       ++k) {
    const auto b = static_cast<size_t>(inputs[k].buffer);
    if (request.spent || inputs[k].buffer < 0 || last[b] != static_cast<int64_t>(t)) continue;
    if (draft.problem.buffers[b].space == PlacementProblem::Space::kTemporary) request.spent = k;
  }
  return request;
}

// Which of the step's reads input k is: those that are absent are none.
int32_t ReadOf(const PlanDraft& draft, size_t t, size_t k) {
  const std::vector<ResolvedRef>& inputs = draft.operands[t].inputs;
  return static_cast<int32_t>(
      std::count_if(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(k),
                    [](const ResolvedRef& ref) { return ref.buffer >= 0; }));
}

// A call of the device's library; of the host's, where it takes none.
Made MakeOnDevice(const library::Operator& op, const library::Request& request,
                  const std::shared_ptr<library::Session>& session, int64_t workspace_limit,
                  ComputeDevice& device) {
  if (const absl::Status status = library::CheckOperands(op, request); !status.ok())
    return Annotate(status, op.name);
  Made made = device.MakeCall(op.name, request);
  if (!absl::IsUnimplemented(made.status())) return made;
  const std::string refusal(made.status().message());
  made = library::Make(op, request, session, {"", false, workspace_limit});
  KILN_RETURN_IF_ERROR(made.status());
  std::vector<library::Considered> considered = (*made)->considered();
  considered.insert(considered.begin(), {"library of the device", refusal});
  considered.back().implementation += ", on copies in the host's memory";
  made = OnHostCopies(*std::move(made), request);
  (*made)->set_considered(std::move(considered));
  return made;
}

}  // namespace

absl::Status PrepareCalls(PlanDraft& draft,
                          const std::vector<std::shared_ptr<library::Session>>& sessions,
                          const library::Choosing& choosing, ComputeDevice* device) {
  std::vector<Call> calls;
  std::vector<std::pair<size_t, size_t>> jobs;  // (call, lane)
  int most = 1;
  const std::vector<int64_t> last = LastReads(draft.problem);
  for (size_t t = 0; t < sessions.size(); ++t) {
    if (sessions[t] == nullptr || AllEmpty(draft.operands[t].outputs)) continue;
    const auto lanes = static_cast<size_t>(draft.lanes[t]);
    for (size_t lane = 0; lane < lanes; ++lane) jobs.emplace_back(calls.size(), lane);
    Call& call = calls.emplace_back();
    call.thunk = t;
    call.request = RequestOf(draft, t, last);
    for (size_t lane = 0; lane < lanes; ++lane)
      call.primitives.emplace_back(absl::InternalError("not made"));
    most = std::max(most, sessions[t]->threads());
  }
  const bool measures = choosing.measured != nullptr && choosing.measured->measures();
  const size_t threads =
      measures ? 1 : std::min(static_cast<size_t>(most), 1 + jobs.size() / kCallsPerThread);
  ForEachInParallel(
      jobs.size(),
      [&](size_t k) {
        Call& call = calls[jobs[k].first];
        const CheckedThunk& thunk = draft.program.thunks[call.thunk];
        const auto& session = sessions[call.thunk];
        call.primitives[jobs[k].second] =
            OnHost(thunk.device)
                ? library::MakeChosen(*thunk.op, call.request, session, choosing)
                : MakeOnDevice(*thunk.op, call.request, session, choosing.workspace_limit, *device);
      },
      static_cast<int>(threads));
  for (Call& call : calls) {
    for (size_t lane = 0; lane < call.primitives.size(); ++lane) {
      Made& made = call.primitives[lane];
      if (!made.ok()) return OfThunk(draft.program, call.thunk, made.status());
      LibraryLaunch launch;
      launch.state = draft.states++;
      launch.primitive = *std::move(made);
      draft.problem.steps[call.thunk].scratch = launch.primitive->scratch_bytes();
      if (const auto k = launch.primitive->in_place(); k && lane == 0)
        draft.problem.steps[call.thunk].in_place.emplace_back(ReadOf(draft, call.thunk, *k), 0);
      if (lane == 0) draft.packed_bytes += launch.primitive->packed_bytes();
      draft.launches[call.thunk].emplace_back(std::move(launch));
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
