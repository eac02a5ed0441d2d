// SPDX-License-Identifier: Apache-2.0
#include "exec/support/turnstile.h"

namespace kiln {
namespace {

// For so long others may pass the one that waits first.
constexpr std::chrono::milliseconds kPatience(1);  // speed

// Callers that come again and again work beside each other for so long after they met.
constexpr std::chrono::milliseconds kTogether(10);  // speed

}  // namespace

void Turnstile::WakeFirst() {
  if (first_ != nullptr && free_ >= first_->places) first_->wake.NotifyOne();
}

void Turnstile::Enter(int places) {
  const MutexLock lock(mutex_);
  if (free_ >= places && (first_ == nullptr || Clock::now() - first_->since < kPatience)) {
    free_ -= places;
    return;
  }
  contended_ = Clock::now();
  Waiter me{places, contended_};
  (last_ == nullptr ? first_ : last_->next) = &me;
  last_ = &me;
  while (first_ != &me || free_ < places) me.wake.Wait(mutex_);
  first_ = me.next;
  if (first_ == nullptr) last_ = nullptr;
  free_ -= places;
  WakeFirst();
}

bool Turnstile::TryEnter(int places) {
  const MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (free_ < places || first_ != nullptr) contended_ = now;
  if (now - contended_ < kTogether) return false;
  free_ -= places;
  return true;
}

void Turnstile::Leave(int places) {
  // Under the lock: the one woken may be gone the moment it can run.
  const MutexLock lock(mutex_);
  free_ += places;
  WakeFirst();
}

}  // namespace kiln
