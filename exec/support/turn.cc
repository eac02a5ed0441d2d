// SPDX-License-Identifier: Apache-2.0
#include "kiln/exec/support/turn.h"

namespace kiln {
namespace {

// For so long others may pass the one that waits first.
constexpr std::chrono::milliseconds kPatience(1);

}  // namespace

void Turnstile::WakeFirst() {
  if (first_ != nullptr && free_ >= first_->places) first_->wake.notify_one();
}

void Turnstile::Enter(int places) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (free_ >= places && (first_ == nullptr || Clock::now() - first_->since < kPatience)) {
    free_ -= places;
    return;
  }
  Waiter me{places, Clock::now(), {}};
  (last_ == nullptr ? first_ : last_->next) = &me;
  last_ = &me;
  me.wake.wait(lock, [&] { return first_ == &me && free_ >= places; });
  first_ = me.next;
  if (first_ == nullptr) last_ = nullptr;
  free_ -= places;
  WakeFirst();
}

void Turnstile::Leave(int places) {
  // Under the lock: the one woken may be gone the moment it can run.
  const std::lock_guard<std::mutex> lock(mutex_);
  free_ += places;
  WakeFirst();
}

}  // namespace kiln
