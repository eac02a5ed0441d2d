// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM wait until a verb has written what it would lose.
#ifndef KILN_TOOLS_INTERRUPTS_H_
#define KILN_TOOLS_INTERRUPTS_H_

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>

namespace kiln {

// While one lives, SIGINT and SIGTERM are blocked in this thread; Kiln's own threads block all
// signals (base/thread.h).
class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  ~Interrupts() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  // The signal that has come, or 0.
  int Come() const {
    const timespec at_once = {};
    return std::max(sigtimedwait(&signals_, nullptr, &at_once), 0);
  }
  // Ends the process as the signal does.
  [[noreturn]] void End(int signal) const {
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    raise(signal);
    _exit(128 + signal);
  }

 private:
  sigset_t signals_ = {}, before_ = {};
};

}  // namespace kiln

#endif  // KILN_TOOLS_INTERRUPTS_H_
