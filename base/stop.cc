// SPDX-License-Identifier: Apache-2.0
#include "base/stop.h"

namespace kiln {
namespace {

thread_local const std::atomic<bool>* watched = nullptr;  // by this thread

}  // namespace

StopsWhen::StopsWhen(const std::atomic<bool>& gone) { watched = &gone; }
StopsWhen::~StopsWhen() { watched = nullptr; }

bool Stopped() { return watched != nullptr && watched->load(std::memory_order_relaxed); }

absl::Status CheckStopped() {
  return Stopped() ? absl::CancelledError("stopped: nobody waits for the result")
                   : absl::OkStatus();
}

}  // namespace kiln
