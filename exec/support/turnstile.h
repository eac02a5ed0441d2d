// SPDX-License-Identifier: Apache-2.0
// Places for the callers of a pool: who works on it has as many as threads of it may work for him.
//
//   turnstile.Enter(4);  // waits until there are four
//   turnstile.Leave(4);
//
// First come, first served, but for callers that pass one who has waited for less than a
// millisecond. Turn (turn.h) takes them and gives them back.
#ifndef KILN_EXEC_SUPPORT_TURNSTILE_H_
#define KILN_EXEC_SUPPORT_TURNSTILE_H_

#include <chrono>

#include "base/mutex.h"

namespace kiln {

// Thread-safe.
class Turnstile {
 public:
  explicit Turnstile(int places) : free_(places) {}
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;

  // Waits until there are `places` free ones, at most as many as there are, and takes them.
  void Enter(int places);
  // Takes them if they are free, nobody waits, and no caller has found too few in the last
  // milliseconds.
  bool TryEnter(int places);
  void Leave(int places);

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiter {
    int places;
    Clock::time_point since;
    CondVar wake{AtFork::kForget};
    Waiter* next = nullptr;
  };
  void WakeFirst();

  Mutex mutex_{AtFork::kForget};  // a pool in a child of a fork has a turnstile of its own
  int free_;
  Clock::time_point contended_;  // when a caller last found too few places
  Waiter* first_ = nullptr;      // who waits, in the order they came
  Waiter* last_ = nullptr;
};

}  // namespace kiln

#endif  // KILN_EXEC_SUPPORT_TURNSTILE_H_
