// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "exec/launch_watch.h"
#include "exec/plan.h"

namespace kiln {
namespace {

const char* KindName(program::Buffer::Kind kind) {
  switch (kind) {
    case program::Buffer::INPUT:
      return "input";
    case program::Buffer::OUTPUT:
      return "output";
    case program::Buffer::CONSTANT:
      return "constant";
    default:
      return "temporary";
  }
}

const char* ShareName(Admission::Share share) {
  switch (share) {
    case Admission::Share::kShared:
      return "serial";
    case Admission::Share::kOpportunistic:
      return "serial, parallel with threads that are awake";
    default:
      return "parallel";
  }
}

std::string Refs(const std::vector<CheckedRef>& refs) {
  return absl::StrJoin(refs, ", ", [](std::string* out, const CheckedRef& ref) {
    if (ref.buffer < 0) {
      *out += "absent";
      return;
    }
    absl::StrAppend(out, "b", ref.buffer, " ", Name(ref.type), ToString(ref.shape));
    if (!ref.strides.empty()) absl::StrAppend(out, " strides ", ToString(ref.strides));
    if (ref.offset.constant() != 0) absl::StrAppend(out, " at ", ref.offset.ToString());
  });
}

std::string WhatOf(const PlanStep& step, const CheckedProgram& program) {
  const CheckedThunk& thunk = program.thunks[step.thunk];
  switch (step.launch.index()) {
    case 0: {
      const auto& launch = std::get<KernelLaunch>(step.launch);
      return absl::StrCat(
          "kernel ", program.variant->program.kernels(thunk.kernel).name(),
          launch.pieces ? absl::StrCat(" in ", launch.pieces->subdomains, " pieces") : "",
          launch.large ? " on the VM with 64-bit indices" : "");
    }
    case 1:
      return absl::StrCat("library ", thunk.op->name);
    case 2:
      return "copy";
    default:
      return "dims";
  }
}

}  // namespace

const char* KindOf(const PlanLaunch& launch) {
  static constexpr const char* kKinds[] = {"kernel", "library", "copy", "host"};
  return kKinds[launch.index()];
}

std::vector<PlannedCall> ExecutionPlan::LibraryCalls() const {
  std::vector<PlannedCall> calls;
  for (const PlanStep& step : steps_) {
    const auto* launch = std::get_if<LibraryLaunch>(&step.launch);
    if (launch == nullptr) continue;
    const CheckedThunk& thunk = program_->thunks[step.thunk];
    const library::Primitive& primitive = *launch->primitive;
    calls.push_back({thunk.name, thunk.op->name,
                     absl::StrJoin(thunk.post_ops, ", ",
                                   [](std::string* out, const library::PostOp& op) {
                                     absl::StrAppend(out, op.name);
                                   }),
                     primitive.considered(), primitive.description(), primitive.packed_bytes()});
  }
  return calls;
}

int64_t ExecutionPlan::device_constant_bytes() const {
  int64_t bytes = 0;
  for (size_t k = 0; k < uploads_.size(); ++k)
    if (uploads_[k] != nullptr) bytes += program_->variant->constants[k].size_bytes();
  return bytes;
}

// A device's arena is shown behind the host's.
std::string ExecutionPlan::ToString() const {
  std::string text = absl::StrCat("arena ", report_.arena, " bytes, lower bound ",
                                  report_.lower_bound, ", sum ", report_.sum, "; constants ",
                                  constant_bytes_, " bytes; ", ShareName(share_), "\n");
  for (size_t b = 0; b < program_->buffers.size(); ++b) {
    const CheckedBuffer& buffer = program_->buffers[b];
    const Placement::Place& place = placement_.places[b];
    absl::StrAppend(&text, "b", b, " ", KindName(buffer.kind));
    if (buffer.kind != program::Buffer::TEMPORARY) absl::StrAppend(&text, " ", buffer.index);
    absl::StrAppend(&text, " \"", buffer.name, "\" ", buffer_bytes_[b], " bytes");
    if (place.root != static_cast<int32_t>(b)) {
      absl::StrAppend(&text, " in b", place.root, " at ", place.offset);
    } else if (placement_.arena_offset[b] >= 0) {
      absl::StrAppend(&text, " in the arena at ",
                      placement_.arena_offset[b] + (on_device_[b] ? placement_.memory.peak : 0));
      if (placement_.arena_step[b] > 0)
        absl::StrAppend(&text, ", lanes ", placement_.arena_step[b], " apart");
    }
    text += "\n";
  }
  size_t number = 0;
  for (const PlanStep& step : steps_) {
    const CheckedThunk& thunk = program_->thunks[step.thunk];
    absl::StrAppend(&text, number++, " ", WhatOf(step, *program_), " \"", thunk.name,
                    "\": ", Refs(thunk.inputs), " -> ", Refs(thunk.outputs), "; ", step.bytes,
                    " bytes");
    if (step.times > 1) absl::StrAppend(&text, " in ", step.times, " parts");
    if (!step.others.empty()) absl::StrAppend(&text, " on ", step.others.size() + 1, " lanes");
    if (placement_.scratch_offset[step.thunk] >= 0)
      absl::StrAppend(&text, ", scratch at ", placement_.scratch_offset[step.thunk]);
    text += "\n";
  }
  return text;
}

bool ExecutionPlan::ReadsEndBeforeWrites(size_t input, size_t output) const {
  const int32_t buffer = program_->inputs[input].buffer;
  return buffer < 0 || donations_.ReadsEndBeforeWrites(buffer, program_->outputs[output].buffer);
}

bool ExecutionPlan::WritesInPlace(size_t input, size_t output) const {
  const int32_t buffer = program_->inputs[input].buffer;
  return buffer >= 0 && donations_.WritesInPlace(buffer, program_->outputs[output].buffer);
}

int64_t ExecutionPlan::bytes() const {
  size_t bytes = sizeof *this + arguments_.bytes();
  const auto add = [&](const PlanLaunch& launch) {
    const auto* kernel = std::get_if<KernelLaunch>(&launch);
    if (kernel == nullptr) return;
    bytes += kernel->dims.size() * sizeof(BufferDim) + kernel->extents.size() * sizeof(int32_t) +
             kernel->params.size() * sizeof(uint64_t) +
             kernel->large_dims.size() * sizeof(LargeDim) +
             kernel->large_extents.size() * sizeof(int64_t);
  };
  for (const PlanStep& step : steps_) {
    bytes += sizeof step + step.others.size() * sizeof(PlanLaunch);
    add(step.launch);
    for (const PlanLaunch& other : step.others) add(other);
  }
  return static_cast<int64_t>(bytes);
}

void ExecutionPlan::MakeReport() {
  for (const MemoryPlan* memory : {&placement_.memory, &placement_.device_memory}) {
    report_.arena += memory->peak;
    report_.lower_bound += memory->lower_bound;
    report_.sum += memory->sum;
  }
  report_.constants = constant_bytes_;
  for (const PlanStep& step : steps_) {
    report_.bytes_moved += step.bytes;
    if (std::holds_alternative<KernelLaunch>(step.launch)) {
      report_.kernel_launches += step.times;
    } else if (std::holds_alternative<LibraryLaunch>(step.launch)) {
      report_.library_launches += step.times;
    } else {
      report_.other_launches += step.times;
    }
  }
}

}  // namespace kiln
