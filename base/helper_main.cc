// SPDX-License-Identifier: Apache-2.0
#include "base/helper_main.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/frames.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr rlim_t kMostFileBytes = rlim_t{1} << 30;  // of a child, and of what it starts

// Address sanitizers reserve more than any limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsMemory = false;
#else
constexpr bool kLimitsMemory = true;
#endif

[[noreturn]] void WorkInChild(const ChildLimits& limits, const std::function<std::string()>& work,
                              int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);  // with what it starts
  const rlimit files{kMostFileBytes, kMostFileBytes};
  setrlimit(RLIMIT_FSIZE, &files);
  const rlimit time{limits.cpu_seconds, limits.cpu_seconds + 1}, no_core{0, 0};
  const rlimit memory{limits.memory_bytes, limits.memory_bytes};
  if (limits.cpu_seconds != 0) setrlimit(RLIMIT_CPU, &time);
  if (limits.memory_bytes != 0 && kLimitsMemory) setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &no_core);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1}) dup2(nothing, fd);
  const std::string answer = work();
  _exit(WriteFrame(out, answer).ok() ? 0 : 1);
}

bool StdinIsSocket() {
  struct stat file {};
  return fstat(STDIN_FILENO, &file) == 0 && S_ISSOCK(file.st_mode);
}

enum class Event { kAnswer, kLate, kHostGone };

Event WaitForAnswer(int from, int timeout_ms) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  // What is no socket may have ended long ago: a file of requests, a closed pipe.
  pollfd both[] = {{from, POLLIN, 0}, {StdinIsSocket() ? STDIN_FILENO : -1, POLLRDHUP, 0}};
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    const int ready = poll(both, 2, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready == 0) return Event::kLate;
    if (ready < 0) continue;
    if (both[0].revents != 0) return Event::kAnswer;
    if (both[1].revents != 0) return Event::kHostGone;
  }
}

}  // namespace

ChildAnswer AnswerInChild(const ChildLimits& limits, int timeout_ms,
                          const std::function<std::string()>& work) {
  ChildAnswer result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.not_started = absl::UnavailableError(absl::StrCat("no pipe, ", strerror(errno)));
    return result;
  }
  const pid_t child = fork();
  if (child == 0) WorkInChild(limits, work, ends[1]);
  const int error = errno;
  if (child > 0) setpgid(child, child);  // the child does so too, whoever is first
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    result.not_started =
        absl::UnavailableError(absl::StrCat("no child process, ", strerror(error)));
    return result;
  }
  const Event event = WaitForAnswer(ends[0], timeout_ms);
  result.host_gone = event == Event::kHostGone;
  if (event == Event::kAnswer) {
    absl::StatusOr<std::string> bytes = ReadFrame(ends[0], timeout_ms);
    result.late = absl::IsDeadlineExceeded(bytes.status());
    if (bytes.ok()) result.bytes = *std::move(bytes);
  }
  result.late = result.late || event == Event::kLate;
  close(ends[0]);
  if (result.late || result.host_gone) {
    kill(child, SIGKILL);
    kill(-child, SIGKILL);  // tools that it waits for
  }
  // One that has answered has nothing left to do but to end.
  while (!result.bytes.has_value() && waitpid(child, &result.wait_status, 0) < 0 &&
         errno == EINTR) {
  }
  return result;
}

int ServeRequests(absl::string_view hello,
                  const std::function<std::string(const std::string& request)>& serve,
                  const std::function<void()>& warm_up) {
  signal(SIGPIPE, SIG_IGN);
  umask(077);  // not the host's, which may forbid us our own files
  if (!WriteFrame(STDOUT_FILENO, hello).ok()) return 1;
  warm_up();
  while (true) {
    absl::StatusOr<std::string> frame = ReadFrame(STDIN_FILENO, -1);
    if (absl::IsNotFound(frame.status())) return 0;
    if (frame.ok() && frame->size() < kNumberBytes)
      frame = absl::DataLossError("request: it has no number");
    if (!frame.ok()) {
      std::fprintf(stderr, "%s\n", std::string(frame.status().message()).c_str());
      return 1;
    }
    while (waitpid(-1, nullptr, WNOHANG) > 0) {  // children that answered
    }
    const std::string number = frame->substr(0, kNumberBytes);
    const std::string answer = serve(frame->substr(kNumberBytes));
    if (!WriteFrame(STDOUT_FILENO, number + answer).ok()) return 1;
  }
}

bool IsFaultSignal(int signal) {
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  return std::find(std::begin(kFaults), std::end(kFaults), signal) != std::end(kFaults);
}

}  // namespace kiln
