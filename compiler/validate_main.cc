// SPDX-License-Identifier: Apache-2.0
// kiln-validate: frames with a ValidationRequest on stdin, frames with its validation on stdout
// (validator.h).
//
// Each request is served in a forked child with limits of time and memory, so that code which
// crashes, hangs or writes where it should not costs one kernel, and cannot touch the next
// validation.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "kiln/compiler/validator.h"
#include "kiln/halide_gen/protocol.h"

namespace kiln {
namespace {

constexpr rlim_t kSeconds = 20;
constexpr int kFrameTimeoutMs = 55'000;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr rlim_t kMostMemory = RLIM_INFINITY;  // sanitizers reserve more than any limit
#else
constexpr rlim_t kMostMemory = rlim_t{2} << 30;
#endif

[[noreturn]] void ValidateInChild(const std::string& frame, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit time{kSeconds, kSeconds + 1}, memory{kMostMemory, kMostMemory}, no_core{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &no_core);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2}) dup2(nothing, fd);
  const auto request = DecodeValidationRequest(frame);
  const std::string answer = EncodeValidation(
      request.ok() ? ValidateKernel(*request) : absl::StatusOr<std::string>(request.status()));
  _exit(WriteFrame(out, answer).ok() ? 0 : 1);
}

absl::Status Died(int status) {
  if (!WIFSIGNALED(status)) return absl::UnavailableError("validation: the child stopped");
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL) return absl::UnavailableError("validation: out of memory or killed");
  if (signal == SIGXCPU)
    return absl::DataLossError(absl::StrCat("the code does not end within ", kSeconds, " s"));
  return absl::DataLossError(absl::StrCat(
      "the code ends its process by SIG", sigabbrev_np(signal),
      signal == SIGSEGV || signal == SIGBUS ? ", as by memory beyond an operand" : ""));
}

std::string Serve(const std::string& frame) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return EncodeValidation(absl::UnavailableError("validation: no pipe"));
  const pid_t child = fork();
  if (child == 0) ValidateInChild(frame, ends[1]);
  close(ends[1]);
  absl::StatusOr<std::string> answer = absl::UnavailableError("validation: no child process");
  if (child > 0) answer = ReadFrame(ends[0], kFrameTimeoutMs);
  close(ends[0]);
  if (child < 0) return EncodeValidation(answer.status());
  if (absl::IsDeadlineExceeded(answer.status())) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return answer.ok() ? *answer : EncodeValidation(Died(status));
}

int ServeAll() {
  signal(SIGPIPE, SIG_IGN);
  setpriority(PRIO_PROCESS, 0, 10);  // kernels in the making come first
  if (!WriteFrame(1, ValidatorHello()).ok()) return 1;
  for (;;) {
    const auto frame = ReadFrame(0, -1);
    if (!frame.ok()) return absl::IsNotFound(frame.status()) ? 0 : 1;
    if (!WriteFrame(1, Serve(*frame)).ok()) return 1;
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char**) {
  if (argc > 1) {
    std::printf("%s\n", kiln::ValidatorHello().c_str());
    return 0;
  }
  return kiln::ServeAll();
}
