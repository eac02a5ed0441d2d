// SPDX-License-Identifier: Apache-2.0
// LaunchWatch: somebody who looks at every launch of a run, as a user's function does
// (RunOptions::on_thunk) or the check of a plan (check_plan.h).
//
//   class Count : public LaunchWatch {
//     absl::Status After(const WatchedLaunch&) override { return ++count, absl::OkStatus(); }
//   };
//   bound.Run(launcher, control, nullptr, &count);     // of a plan made with PlanOptions::watched
//
// A run that is watched takes the lanes of a batch tiling one after the other, all on the caller's
// thread, and launches on a device one by one. One that is not pays nothing.
#ifndef KILN_EXEC_LAUNCH_WATCH_H_
#define KILN_EXEC_LAUNCH_WATCH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/catch_exceptions.h"
#include "base/tensor.h"
#include "exec/plan.h"
#include "kiln/model.h"

namespace kiln {

struct WatchedLaunch {
  const PlanStep& step;
  size_t lane = 0;  // of its tiling
  const char* kind = "";
  const std::string& name;
  // Views of this launch's part, in the order of step.operands; absent inputs are empty.
  std::vector<Tensor> inputs, outputs;
};

class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  // Whether it is shown operands on a device where they lie (Tensor::device); else After is shown
  // copies of them.
  virtual bool sees_device() const { return false; }
  // An error ends the run.
  virtual absl::Status Before(const WatchedLaunch& /*launch*/) { return absl::OkStatus(); }
  virtual absl::Status After(const WatchedLaunch& launch) = 0;
};

// For a user's function.
class ThunkWatch final : public LaunchWatch {
 public:
  explicit ThunkWatch(const ThunkFn& see) : see_(see) {}
  absl::Status After(const WatchedLaunch& launch) override {
    return CatchExceptions("on_thunk", [&] {
      return see_({launch.kind, launch.name, launch.inputs, launch.outputs});
    });
  }

 private:
  const ThunkFn& see_;
};

// "kernel", "library", "copy" or "host".
const char* KindOf(const PlanLaunch& launch);

}  // namespace kiln

#endif  // KILN_EXEC_LAUNCH_WATCH_H_
