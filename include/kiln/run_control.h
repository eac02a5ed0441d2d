// SPDX-License-Identifier: Apache-2.0
// RunControl: how a run in progress is told to stop. It is looked at before every launch, and
// before every iteration of a loop; a launch that has begun goes on to its end.
//
//   kiln::RunControl control;
//   control.cancel = std::make_shared<std::atomic<bool>>(false);
//   control.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
//   context.Run(control);    // kCancelled once *control.cancel is true, kDeadlineExceeded
//
// What a run that was stopped had begun to write is not valid; memory and plans are as after any
// run, and the next one is right.
#ifndef KILN_RUN_CONTROL_H_
#define KILN_RUN_CONTROL_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "kiln/status.h"

namespace kiln {

struct RunControl {
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<const std::atomic<bool>> cancel;  // null: nobody cancels
  std::optional<Clock::time_point> deadline;
  // Of the device that the model runs on, such as a cudaStream_t; the CPU has none: null.
  void* stream = nullptr;

  absl::Status Check() const {
    if (stream != nullptr) return NoStream();
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Cancelled();
    if (deadline && Clock::now() >= *deadline) return Late();
    return absl::OkStatus();
  }

 private:
  static absl::Status NoStream() {
    return absl::InvalidArgumentError(
        "stream: the model runs on the CPU, which has no streams; leave it null");
  }
  static absl::Status Cancelled() {
    return absl::CancelledError("the run was cancelled before its end; its outputs are not valid");
  }
  static absl::Status Late() {
    return absl::DeadlineExceededError(
        "the deadline passed before the end of the run; its outputs are not valid");
  }
};

}  // namespace kiln

#endif  // KILN_RUN_CONTROL_H_
