// SPDX-License-Identifier: Apache-2.0
// Work that a test does in a forked child, so that what it changes of the process ends with it.
//
//   EXPECT_EQ(InChild([&] { umask(0); return Works() ? 0 : 1; }, 60), 0);
#ifndef KILN_TESTS_BASE_IN_CHILD_H_
#define KILN_TESTS_BASE_IN_CHILD_H_

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace kiln {

// What `work` returns there, up to 255; -SIGNAL: what it died of, SIGALRM after `seconds`.
inline int InChild(const std::function<int()>& work, unsigned seconds) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    _exit(work());
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// There: files grow to `bytes`, and what begins to write beyond ends the process by SIGXFSZ.
inline bool LimitFiles(rlim_t bytes) {
  signal(SIGXFSZ, SIG_DFL);
  const rlimit limit = {bytes, bytes};
  return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

}  // namespace kiln

#endif  // KILN_TESTS_BASE_IN_CHILD_H_
