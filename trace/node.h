// SPDX-License-Identifier: Apache-2.0
// Node: what an Array is a handle of. It is made by an operation of a log, which has a share in it
// until the operation has run; then it has a value, or an error.
//
// `refs` and `state` may be touched by any thread, `log` and `id` by the thread of the log alone
// (others compare `log` and go no further), all else is written before `state` says so and never
// again. Nodes that nobody has any more are kept by their thread for the next ones.
#ifndef KILN_TRACE_NODE_H_
#define KILN_TRACE_NODE_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "kiln/tensor.h"
#include "trace/value_type.h"

namespace kiln::tracing {

class Log;

struct Node {
  enum class State : uint8_t {
    kPending,
    kReady,
    kError,
    kTypeOnly,  // well computed, but never run: `error` is what a use of its value gives
  };
  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> record_refs{0};  // those of `refs` that are records' (record.h)
  std::atomic<State> state{State::kPending};
  std::atomic<const Log*> log{nullptr};  // the log that has it as value `id`
  uint32_t id = 0;
  ValueType type;
  Tensor tensor;       // kReady
  absl::Status error;  // kError, kTypeOnly

  bool ready() const { return state.load(std::memory_order_acquire) == State::kReady; }
  bool failed() const { return state.load(std::memory_order_acquire) == State::kError; }
  // Whether there is no value, and will be none.
  bool never_ready() const {
    const State now = state.load(std::memory_order_acquire);
    return now == State::kError || now == State::kTypeOnly;
  }
  // Nodes are used again: a copy of a tensor of no more axes than they had takes no memory.
  void SetTensor(const Tensor& value) {
    tensor = value;
    state.store(State::kReady, std::memory_order_release);
  }
  // `none`: a tensor without memory. Vectors of the node's keep theirs.
  void DropTensor(const Tensor& none) { tensor = none; }
  void SetError(absl::Status status) {
    error = std::move(status);
    state.store(State::kError, std::memory_order_release);
  }
  void SetTypeOnly(absl::Status why) {
    error = std::move(why);
    state.store(State::kTypeOnly, std::memory_order_release);
  }
};

// With one count, kPending.
Node* NewNode();
// Where there is no memory, a node with kResourceExhausted.
Node* NewErrorNode(absl::Status status) noexcept;
void FreeNode(Node* node);

inline Node* Share(Node* node) {
  if (node != nullptr) node->refs.fetch_add(1, std::memory_order_relaxed);
  return node;
}
inline void Release(Node* node) {
  if (node != nullptr && node->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) FreeNode(node);
}

}  // namespace kiln::tracing

#endif  // KILN_TRACE_NODE_H_
