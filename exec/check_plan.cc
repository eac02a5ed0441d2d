// SPDX-License-Identifier: Apache-2.0
#include "exec/check_plan.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/bound_plan.h"
#include "exec/launch_watch.h"
#include "exec/strided_copy.h"

namespace kiln {
namespace {

constexpr int64_t kGap = kArenaAlignment;  // before and after everything

uint8_t GapByte(int64_t i) { return static_cast<uint8_t>(0x5a + 37 * i); }

// Calls f with each range of bytes, as offsets from the view's first element, that elements fill.
void ForEachRun(const Tensor& view, absl::FunctionRef<void(int64_t begin, int64_t bytes)> f) {
  if (view.num_elements() == 0) return;
  const auto item = static_cast<int64_t>(SizeOf(view.dtype()));
  int64_t run = 1;  // elements that lie together
  int axis = view.rank() - 1;
  const auto extent = [&](int i) { return view.shape()[static_cast<size_t>(i)]; };
  const auto stride = [&](int i) { return view.strides()[static_cast<size_t>(i)]; };
  for (; axis >= 0 && (extent(axis) == 1 || stride(axis) == run); --axis) run *= extent(axis);
  std::vector<int64_t> at(static_cast<size_t>(axis + 1), 0);
  int64_t offset = 0;
  while (true) {
    f(offset * item, run * item);
    int i = axis;
    for (; i >= 0; --i) {
      // What is broadcast is there once.
      const int64_t last = stride(i) == 0 ? 0 : extent(i) - 1;
      int64_t& k = at[static_cast<size_t>(i)];
      if (k < last) {
        ++k, offset += stride(i);
        break;
      }
      offset -= k * stride(i), k = 0;
    }
    if (i < 0) return;
  }
}

uint64_t ChecksumOf(const Tensor& tensor) {
  uint64_t sum = 0;
  const auto* at = static_cast<const uint8_t*>(tensor.data());
  int64_t left = tensor.size_bytes();
  for (uint64_t word = 0; left > 0; at += sizeof word, left -= sizeof word) {
    word = 0;
    std::memcpy(&word, at, static_cast<size_t>(std::min<int64_t>(left, sizeof word)));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15U;
    sum ^= sum >> 29;
  }
  return sum;
}

// Bytes that belong together: a buffer, scratch, or a gap.
struct AreaPart {
  int64_t begin = 0, bytes = 0;  // of the area
  bool gap = false, scratch = false;
  std::string name;  // of a gap: what lies before or after it
};

// The arena, an input or an output, with gaps around and within, and its copy.
struct Area {
  Area(const std::shared_ptr<Runtime>& runtime, const std::shared_ptr<std::atomic<int64_t>>& count)
      : memory(runtime, count) {}

  absl::Status Reserve(int64_t bytes) {
    size = bytes + 2 * kGap;
    KILN_RETURN_IF_ERROR(memory.Reserve(size));
    data = static_cast<uint8_t*>(memory.data());
    for (int64_t i = 0; i < size; ++i) data[i] = GapByte(i);
    address = data;
    return absl::OkStatus();
  }
  // The same on a device; `data` is what Fetch has copied from there.
  absl::Status ReserveOn(DeviceQueue& on, int64_t bytes) {
    KILN_RETURN_IF_ERROR(Reserve(bytes));
    KILN_ASSIGN_OR_RETURN(void* const arena, on.Arena(size));
    address = static_cast<uint8_t*>(arena);
    queue = &on;
    KILN_RETURN_IF_ERROR(on.CopyIn(arena, data, static_cast<size_t>(size)));
    return on.Wait();
  }
  absl::Status Fetch() const {
    if (queue == nullptr) return absl::OkStatus();
    KILN_RETURN_IF_ERROR(queue->CopyOut(data, address, static_cast<size_t>(size)));
    return queue->WaitForCopies();
  }
  void* contents() const { return address + kGap; }
  bool Has(const void* at) const { return at >= address && at < address + size; }

  // Cuts the area into parts; `used` in order, from 0 on.
  void SetParts(const std::vector<AreaPart>& used) {
    int64_t end = 0;
    for (const AreaPart& part : used) {
      const int64_t begin = part.begin + kGap;
      const std::string beside =
          end == 0 ? absl::StrCat("before ", part.name) : absl::StrCat("after ", parts.back().name);
      parts.push_back({end, begin - end, true, false, beside});
      parts.push_back(part);
      parts.back().begin = begin;
      end = begin + part.bytes;
    }
    const std::string last = parts.empty() ? "in an empty arena" : "after " + parts.back().name;
    parts.push_back({end, size - end, true, false, last});
  }
  // The first byte of [begin, begin + bytes) that is not as in the copy.
  std::optional<int64_t> Changed(int64_t begin, int64_t bytes) const {
    if (std::memcmp(data + begin, copy.data() + begin, static_cast<size_t>(bytes)) == 0)
      return std::nullopt;
    int64_t i = begin;
    while (data[i] == copy[static_cast<size_t>(i)]) ++i;
    return i;
  }

  Memory memory;
  uint8_t* data = nullptr;
  uint8_t* address = nullptr;  // what launches are given
  DeviceQueue* queue = nullptr;
  int64_t size = 0;
  std::vector<uint8_t> copy;
  std::vector<AreaPart> parts;  // all bytes
};

// Memory for a run of the plan, and what is looked at around each launch.
class Sandbox final : public LaunchWatch {
 public:
  // `thorough`: everything is compared after each launch.
  Sandbox(std::shared_ptr<const ExecutionPlan> plan, bool thorough, DeviceQueue* queue)
      : plan_(std::move(plan)),
        program_(plan_->program()),
        bound_(plan_),
        thorough_(thorough),
        queue_(queue) {}

  absl::Status Run(const BoundTensors& inputs, Launcher& launcher,
                   const std::shared_ptr<Runtime>& runtime,
                   const std::shared_ptr<std::atomic<int64_t>>& count) {
    KILN_RETURN_IF_ERROR(Place(inputs, runtime, count));
    for (Area& area : areas_) area.copy.assign(area.data, area.data + area.size);
    for (size_t b = 0; b < program_.buffers.size(); ++b)
      if (const Tensor* constant = ConstantOf(b)) checksums_[b] = ChecksumOf(*constant);
    KILN_RETURN_IF_ERROR(bound_.Run(launcher, {}, nullptr, this));
    return CompareAll("the run");
  }

  // Whether the fault that was found may be another launch's than the one that is named.
  bool unclear() const { return unclear_; }

  absl::Status Before(const WatchedLaunch& launch) override {
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      if (!Differs(launch.inputs[i])) continue;
      unclear_ = true;
      return Fault(launch, absl::StrCat("reads ", NameOf(launch.step.operands[i]),
                                        ", which has changed since it was written"));
    }
    return absl::OkStatus();
  }

  bool sees_device() const override { return true; }

  absl::Status After(const WatchedLaunch& launch) override {
    for (const Area& area : areas_) KILN_RETURN_IF_ERROR(area.Fetch());
    for (const Tensor& output : launch.outputs) {
      Area* const area = AreaOf(output);
      if (area == nullptr) continue;
      const int64_t first = static_cast<uint8_t*>(output.data()) - area->address;
      ForEachRun(output, [&](int64_t begin, int64_t bytes) {
        std::memcpy(area->copy.data() + first + begin, area->data + first + begin,
                    static_cast<size_t>(bytes));
      });
    }
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      if (Differs(launch.inputs[i]) || ConstantChanged(launch.step.operands[i].buffer))
        return Fault(
            launch, absl::StrCat("writes to its input ", i, ", ", NameOf(launch.step.operands[i])));
    }
    for (const Area& area : areas_) {
      for (const AreaPart& part : area.parts) {
        const bool near = part.gap || thorough_ || IsWritten(launch, area, part);
        if (!near || part.scratch) continue;
        if (const std::optional<int64_t> at = area.Changed(part.begin, part.bytes))
          return Fault(launch, absl::StrCat("writes beyond its operands: byte ", *at - part.begin,
                                            part.gap ? " " : " of ", part.name));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Fault(const WatchedLaunch& launch, const std::string& what) const {
    return absl::InternalError(absl::StrCat("check_first_run: thunk ", launch.step.thunk, " \"",
                                            launch.name, "\" (", launch.kind, ") ", what));
  }

  std::string NameOf(int32_t buffer) const {
    const std::string& name = program_.buffers[static_cast<size_t>(buffer)].name;
    return absl::StrCat("buffer ", buffer, " \"", name, "\"");
  }
  std::string NameOf(const PlanOperand& operand) const { return NameOf(operand.buffer); }

  const Tensor* ConstantOf(size_t buffer) const {
    const CheckedBuffer& made = program_.buffers[buffer];
    if (made.kind != program::Buffer::CONSTANT) return nullptr;
    return &program_.variant->constants[static_cast<size_t>(made.index)];
  }
  bool ConstantChanged(int32_t buffer) const {
    const auto found = checksums_.find(static_cast<size_t>(buffer));
    return buffer >= 0 && found != checksums_.end() &&
           ChecksumOf(*ConstantOf(found->first)) != found->second;
  }

  Area* AreaOf(const Tensor& view) {
    for (Area& area : areas_)
      if (view.num_elements() > 0 && area.Has(view.data())) return &area;
    return nullptr;
  }

  // Whether elements are not as in the copy.
  bool Differs(const Tensor& view) {
    const Area* const area = AreaOf(view);
    if (area == nullptr) return false;
    const int64_t first = static_cast<const uint8_t*>(view.data()) - area->address;
    bool differs = false;
    ForEachRun(view, [&](int64_t begin, int64_t bytes) {
      differs = differs || area->Changed(first + begin, bytes).has_value();
    });
    return differs;
  }

  static bool IsWritten(const WatchedLaunch& launch, const Area& area, const AreaPart& part) {
    return std::any_of(launch.outputs.begin(), launch.outputs.end(), [&](const Tensor& output) {
      const auto* const at = static_cast<const uint8_t*>(output.data());
      return output.num_elements() > 0 && at >= area.address + part.begin &&
             at < area.address + part.begin + part.bytes;
    });
  }

  absl::Status CompareAll(const std::string& who) {
    for (const Area& area : areas_) {
      for (const AreaPart& part : area.parts) {
        if (part.scratch || !area.Changed(part.begin, part.bytes)) continue;
        unclear_ = true;
        return absl::InternalError(absl::StrCat("check_first_run: after ", who, " ", part.name,
                                                " is not what was written last"));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Area*> Add(int64_t bytes, const std::shared_ptr<Runtime>& runtime,
                            const std::shared_ptr<std::atomic<int64_t>>& count) {
    Area& area = areas_.emplace_back(runtime, count);
    KILN_RETURN_IF_ERROR(area.Reserve(bytes));
    return &area;
  }

  void SetRanges(Area& arena, const std::vector<ArenaRange>& ranges) const {
    std::vector<AreaPart> used;
    for (const ArenaRange& range : ranges) {
      const bool scratch = range.buffer < 0;
      used.push_back(
          {range.begin, range.bytes, false, scratch,
           scratch ? absl::StrCat("the scratch of thunk ", range.thunk) : NameOf(range.buffer)});
    }
    arena.SetParts(used);
  }

  absl::Status Place(const BoundTensors& inputs, const std::shared_ptr<Runtime>& runtime,
                     const std::shared_ptr<std::atomic<int64_t>>& count) {
    KILN_ASSIGN_OR_RETURN(Area * arena, Add(plan_->arena_bytes(), runtime, count));
    SetRanges(*arena, plan_->arena_ranges());
    bound_.SetArena(arena->contents());
    if (queue_ != nullptr) {
      Area& there = areas_.emplace_back(runtime, count);
      KILN_RETURN_IF_ERROR(there.ReserveOn(*queue_, plan_->device_arena_bytes()));
      SetRanges(there, plan_->device_ranges());
      bound_.SetDevice(queue_, there.contents());
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      const Tensor& input = *inputs[i];
      KILN_ASSIGN_OR_RETURN(Area * area, Add(input.size_bytes(), runtime, count));
      area->SetParts({{0, input.size_bytes(), false, false,
                       absl::StrCat("input \"", program_.inputs[i].name, "\"")}});
      StridedCopy(input.shape(), input.strides(), DenseStrides(input.shape()),
                  SizeOf(input.dtype()))
          .Run(input.data(), area->contents());
      bound_.SetInput(i, area->contents());
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const int64_t bytes = CheckedBytes(program_.outputs[i].type, plan_->output_shapes()[i]);
      KILN_ASSIGN_OR_RETURN(Area * area, Add(bytes, runtime, count));
      area->SetParts(
          {{0, bytes, false, false, absl::StrCat("output \"", program_.outputs[i].name, "\"")}});
      bound_.SetOutput(i, area->contents());
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const ExecutionPlan> plan_;
  const CheckedProgram& program_;
  BoundPlan bound_;
  const bool thorough_;
  DeviceQueue* const queue_;
  std::deque<Area> areas_;                // the arena, then ports
  std::map<size_t, uint64_t> checksums_;  // of constants, by buffer
  bool unclear_ = false;
};

}  // namespace

absl::Status CheckPlan(const std::shared_ptr<const ExecutionPlan>& plan, const BoundTensors& inputs,
                       Launcher& launcher, const std::shared_ptr<Runtime>& runtime,
                       const std::shared_ptr<std::atomic<int64_t>>& count, DeviceQueue* queue) {
  bool unclear = false;
  const auto run = [&](bool thorough) {
    Sandbox sandbox(plan, thorough, queue);
    const absl::Status status = sandbox.Run(inputs, launcher, runtime, count);
    unclear = sandbox.unclear();
    return status;
  };
  const absl::Status first = run(/*thorough=*/false);
  if (first.ok() || !unclear) return first;
  const absl::Status second = run(/*thorough=*/true);
  return second.ok() || unclear ? first : second;
}

}  // namespace kiln
