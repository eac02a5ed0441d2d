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
// moves seldom. Runs of the same shapes allocate nothing.
#ifndef KILN_EXEC_STATE_BUFFERS_H_
#define KILN_EXEC_STATE_BUFFERS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exec/plan.h"
#include "exec/plan_cache.h"
#include "exec/runtime_state.h"
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

  bool HasInput(size_t input) const;
  bool HasOutput(size_t output) const;

  // Binds the inputs. kFailedPrecondition: a state has no value yet, or lost it.
  absl::Status Begin(BoundTensors& inputs);
  // Binds the outputs for a run of this plan; null: of a script, which gives tensors of its own.
  absl::Status Place(const ExecutionPlan* plan, BoundTensors& outputs);
  // Before the first launch: what is written in place is lost, unless the end is good.
  void BeginWriting();
  // After the run. `outputs`: what it computed.
  void End(const absl::Status& status, const std::vector<Tensor>& outputs);

  // Of the state that `input` is; its name is for the error that it is none.
  absl::StatusOr<Tensor> Get(size_t input, absl::string_view name) const;
  absl::Status Set(size_t input, absl::string_view name, const Tensor& value);
  absl::Status Reset();
  bool moved() const { return moved_; }  // a port is bound to other memory than in the last run

 private:
  struct Slot {
    StatePorts ports;
    std::string name;
    DType type = DType::kF32;
    std::optional<std::vector<int64_t>> shape;  // at the beginning, where it is known
    std::array<std::shared_ptr<Memory>, 2> memory;
    int at = 0;  // which of the two has the state, unless a script gave a tensor
    std::optional<Tensor> value;
    Tensor next;  // where the run in progress writes
    bool in_place = false;
    bool lost = false;
  };
  const Slot* Find(size_t input) const;
  absl::StatusOr<Tensor> BufferFor(Slot& slot, int which, const std::vector<int64_t>& shape);
  absl::Status Zero(Slot& slot);
  absl::Status NoState(absl::string_view name) const;

  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<std::atomic<int64_t>> count_;
  std::vector<Slot> slots_;
  bool moved_ = false;
};

}  // namespace kiln

#endif  // KILN_EXEC_STATE_BUFFERS_H_
