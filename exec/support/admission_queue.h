// SPDX-License-Identifier: Apache-2.0
// Slots of a pool for its callers: a caller takes as many as threads of the pool may work for it.
//
//   queue.Enter(4);  // waits until four are free
//   queue.Leave(4);
//
// First come, first served, but for callers that pass one who has waited for less than a
// millisecond. Admission (admission.h) takes them and gives them back.
#ifndef KILN_EXEC_SUPPORT_ADMISSION_QUEUE_H_
#define KILN_EXEC_SUPPORT_ADMISSION_QUEUE_H_

#include <chrono>

#include "base/mutex.h"

namespace kiln {

// Thread-safe.
class AdmissionQueue {
 public:
  explicit AdmissionQueue(int slots) : free_(slots) {}
  AdmissionQueue(const AdmissionQueue&) = delete;
  AdmissionQueue& operator=(const AdmissionQueue&) = delete;

  // Waits until there are `slots` free ones, at most as many as there are, and takes them.
  void Enter(int slots);
  // Takes them if they are free, nobody waits, and no caller has found too few in the last
  // milliseconds.
  bool TryEnter(int slots);
  void Leave(int slots);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    int slots;
    Clock::time_point since;
    CondVar wake{AtFork::kForget};
    Waiter* next = nullptr;
  };
  void WakeFirst();

  Mutex mutex_{AtFork::kForget};  // a pool in a child of a fork has a queue of its own
  int free_;
  Clock::time_point contended_;  // when a caller last found too few slots
  Waiter* first_ = nullptr;      // who waits, in the order they came
  Waiter* last_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_ADMISSION_QUEUE_H_
