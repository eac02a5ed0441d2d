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
#include "kiln/base/frames.h"
#include "kiln/exec/validate/validator.h"

namespace kiln {
namespace {

constexpr rlim_t kSeconds = 5;           // of processor time; a kernel takes some milliseconds
constexpr int kNiceness = 10;            // where nobody waits
constexpr int kFrameTimeoutMs = 20'000;  // of time, for code that waits
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
  if (request.ok() && request->nobody_waits) setpriority(PRIO_PROCESS, 0, kNiceness);
  const std::string answer = Encode(request.ok() ? ValidateKernel(*request)
                                                 : absl::StatusOr<Validation>(request.status()));
  _exit(WriteFrame(out, answer).ok() ? 0 : 1);
}

// What a child that gave no answer died of. A signal from elsewhere says nothing of the code.
absl::Status Died(int status) {
  if (!WIFSIGNALED(status)) return absl::UnavailableError("validation: the child stopped");
  const int signal = WTERMSIG(status);
  const absl::string_view name = sigabbrev_np(signal);
  switch (signal) {
    case SIGXCPU:
      return absl::DataLossError(absl::StrCat("the code does not end within ", kSeconds, " s"));
    case SIGSEGV:
    case SIGBUS:
      return absl::DataLossError(absl::StrCat("the code ends its process by SIG", name,
                                              ", as by memory beyond an operand"));
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
      return absl::DataLossError(absl::StrCat("the code ends its process by SIG", name));
    default:
      return absl::UnavailableError(
          absl::StrCat("validation: the child was ended by SIG", name, ", or had no memory"));
  }
}

std::string Failed(const absl::Status& status) {
  return Encode(absl::StatusOr<Validation>(status));
}

std::string Serve(const std::string& frame) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Failed(absl::UnavailableError("validation: no pipe"));
  const pid_t child = fork();
  if (child == 0) ValidateInChild(frame, ends[1]);
  close(ends[1]);
  absl::StatusOr<std::string> answer = absl::UnavailableError("validation: no child process");
  if (child > 0) answer = ReadFrame(ends[0], kFrameTimeoutMs);
  close(ends[0]);
  if (child < 0) return Failed(answer.status());
  const bool late = absl::IsDeadlineExceeded(answer.status());
  if (late) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (late)
    return Failed(absl::UnavailableError(
        absl::StrCat("validation: no answer within ", kFrameTimeoutMs / 1000, " s")));
  return answer.ok() ? *answer : Failed(Died(status));
}

int ServeAll() {
  signal(SIGPIPE, SIG_IGN);
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
