// SPDX-License-Identifier: Apache-2.0
// The state buffers of a context (StateBuffer in kiln/model.h): memory that is an input of a run
// and becomes what the run computes as an output.
//
//   states.Begin(inputs);             // inputs are what the last run left
//   states.Place(bound, outputs);     // where the outputs go: in place, or the other buffer
//   states.BeginWriting();
//   ...run...
//   states.End(status, outputs);      // the outputs are the state now
//
// A state has memory for the next power of two of its bytes, so that one that grows from run to run
// moves seldom. Runs of the same shapes allocate nothing. Where the model runs on a device states
// lie there (MoveTo), and are copied to the host only for who asks (Get).
#ifndef KILN_EXEC_STATE_BUFFERS_H_
#define KILN_EXEC_STATE_BUFFERS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/plan.h"
#include "exec/plan_cache.h"
#include "exec/port_places.h"
#include "exec/runtime_state.h"
#include "exec/support/compute_device.h"
#include "kiln/model.h"

namespace kiln {

// The ports of a state.
struct StatePorts {
  size_t input = 0, output = 0;
};

// kNotFound, kInvalidArgument: names no port, or one twice, or two that do not go together.
absl::StatusOr<std::vector<StatePorts>> FindStatePorts(const std::vector<StateBuffer>& states,
                                                       const std::vector<PortInfo>& inputs,
                                                       const std::vector<PortInfo>& outputs);

// Belongs to one caller at a time.
class StateBuffers {
 public:
  StateBuffers(const std::vector<StatePorts>& ports, const std::vector<PortInfo>& inputs,
               std::shared_ptr<Runtime> runtime, const std::shared_ptr<MemoryCounts>& counts);
  StateBuffers(const StateBuffers&) = delete;
  StateBuffers& operator=(const StateBuffers&) = delete;

  // All states go to memory of the runtime's device, or back to the host's: by copies in this
  // queue. Errors leave them where they are.
  absl::Status MoveToDevice(DeviceQueue& queue);
  absl::Status MoveToHost(DeviceQueue& queue);
  bool on_device() const { return on_device_; }
  // Adds the ports of states that lie on the device.
  void AddPlaces(PortPlaces& places) const;

  bool HasInput(size_t input) const;
  bool HasOutput(size_t output) const;

  // Binds the inputs. kFailedPrecondition: a state has no value yet, or lost it.
  absl::Status Begin(BoundTensors& inputs, DeviceQueue* queue);
  // Binds the outputs for a run of this plan; null: of a script, which gives tensors of its own.
  absl::Status Place(const ExecutionPlan* plan, BoundTensors& outputs);
  // Before the first launch: what is written in place is lost, unless the end is good.
  void BeginWriting();
  // After the run. `outputs`: what it computed.
  void End(const absl::Status& status, const std::vector<Tensor>& outputs);

  // Of the state that `input` is, in memory of the host; its name is for the error that it is none.
  // `queue`: null unless states are on the device.
  absl::StatusOr<Tensor> Get(size_t input, absl::string_view name, DeviceQueue* queue);
  absl::Status Set(size_t input, absl::string_view name, const Tensor& value, DeviceQueue* queue);
  absl::Status Reset(DeviceQueue* queue);
  // The input of the state whose output this is.
  std::optional<size_t> InputOf(size_t output) const;
  bool moved() const { return moved_; }  // a port is bound to other memory than in the last run

 private:
  struct DeviceBlock {
    std::shared_ptr<void> memory;
    int64_t bytes = 0;
  };
  struct Slot {
    StatePorts ports;
    std::string name;
    DType type = DType::kF32;
    std::optional<std::vector<int64_t>> shape;  // at the beginning, where it is known
    std::array<std::shared_ptr<Memory>, 2> memory;
    std::array<DeviceBlock, 2> on_device;
    std::optional<Tensor> host;  // a copy of the value on the device, for who has asked
    int at = 0;                  // which of the two has the state, unless a script gave a tensor
    std::optional<Tensor> value;
    Tensor next;  // where the run in progress writes
    bool in_place = false;
    bool lost = false;
  };
  const Slot* Find(size_t input) const;
  absl::StatusOr<Tensor> BufferFor(Slot& slot, int which, const std::vector<int64_t>& shape);
  absl::StatusOr<Tensor> DeviceBufferFor(Slot& slot, int which, const std::vector<int64_t>& shape);
  absl::Status Zero(Slot& slot, DeviceQueue* queue);
  // The other side's memory has the values of all slots; what this side had is given up.
  absl::Status Move(bool to_device, DeviceQueue& queue);
  void CountDeviceBytes();
  absl::Status NoState(absl::string_view name) const;

  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<std::atomic<int64_t>> count_;
  CountedBytes device_bytes_;
  std::vector<Slot> slots_;
  bool moved_ = false;
  bool on_device_ = false;
};

}  // namespace kiln

#endif  // KILN_EXEC_STATE_BUFFERS_H_
