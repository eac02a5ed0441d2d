// SPDX-License-Identifier: Apache-2.0
#include "exec/support/admission_queue.h"

namespace kiln {
namespace {

// For so long others may pass the one that waits first.
constexpr std::chrono::milliseconds kPatience(1);  // speed

// Callers that come again and again work beside each other for so long after they met.
constexpr std::chrono::milliseconds kTogether(10);  // speed

}  // namespace

void AdmissionQueue::WakeFirst() {
  if (first_ != nullptr && free_ >= first_->slots) first_->wake.NotifyOne();
}

void AdmissionQueue::Enter(int slots) {
  const MutexLock lock(mutex_);
  if (free_ >= slots && (first_ == nullptr || Clock::now() - first_->since < kPatience)) {
    free_ -= slots;
    return;
  }
  contended_ = Clock::now();
  Waiter me{slots, contended_};
  (last_ == nullptr ? first_ : last_->next) = &me;
  last_ = &me;
  while (first_ != &me || free_ < slots) me.wake.Wait(mutex_);
  first_ = me.next;
  if (first_ == nullptr) last_ = nullptr;
  free_ -= slots;
  WakeFirst();
}

bool AdmissionQueue::TryEnter(int slots) {
  const MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (free_ < slots || first_ != nullptr) contended_ = now;
  if (now - contended_ < kTogether) return false;
  free_ -= slots;
  return true;
}

void AdmissionQueue::Leave(int slots) {
  // Under the lock: the one woken may be gone the moment it can run.
  const MutexLock lock(mutex_);
  free_ += slots;
  WakeFirst();
}

}  // namespace kiln
