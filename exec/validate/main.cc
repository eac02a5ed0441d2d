// SPDX-License-Identifier: Apache-2.0
// kiln-validate: frames with a ValidationRequest on stdin, frames with its validation on stdout
// (validator.h).
//
// Each request is served in a forked child with limits of time and memory, so that code which
// crashes, hangs or writes where it should not costs one kernel, and cannot touch the next
// validation.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/helper_main.h"
#include "exec/validate/validator.h"

namespace kiln {
namespace {

// Seconds of processor time for one kernel, which takes some milliseconds.
constexpr uint64_t kSeconds = 5;                     // compile time
constexpr uint64_t kDeviceSeconds = 60;              // compile time: with its driver
constexpr int kDeviceTimeoutMs = 120'000;            // compile time
constexpr int kNiceness = 10;                        // correctness: where nobody waits
constexpr int kFrameTimeoutMs = 20'000;              // compile time: of time, for code that waits
constexpr uint64_t kMostMemory = uint64_t{2} << 30;  // compile time

std::string ValidateInChild(const std::string& frame) {
  const auto request = DecodeValidationRequest(frame);
  if (request.ok() && request->nobody_waits) setpriority(PRIO_PROCESS, 0, kNiceness);
  return Encode(request.ok() ? ValidateKernel(*request)
                             : absl::StatusOr<Validation>(request.status()));
}

// What a child that gave no answer died of. A signal from elsewhere says nothing of the code.
absl::Status Died(int status) {
  if (WIFEXITED(status)) {  // a child that has an answer gives it first
    return absl::DataLossError(
        absl::StrCat("the code ends its process by exit ", WEXITSTATUS(status)));
  }
  const int signal = WTERMSIG(status);
  const absl::string_view name = sigabbrev_np(signal);
  if (signal == SIGXCPU)
    return absl::DataLossError(absl::StrCat("the code does not end within ", kSeconds, " s"));
  if (!IsFaultSignal(signal)) {
    return absl::UnavailableError(
        absl::StrCat("validation: the child was ended by SIG", name, ", or had no memory"));
  }
  const bool memory = signal == SIGSEGV || signal == SIGBUS;
  return absl::DataLossError(absl::StrCat("the code ends its process by SIG", name,
                                          memory ? ", as by memory beyond an operand" : ""));
}

std::string Failed(const absl::Status& status) {
  return Encode(absl::StatusOr<Validation>(status));
}

std::string Serve(const std::string& frame) {
  // A driver of CUDA reserves more addresses than any machine has memory, and an emulated device
  // takes its time.
  const auto request = DecodeValidationRequest(frame);
  const bool on_device = request.ok() && !request->on.empty();
  const ChildLimits limits = {.cpu_seconds = on_device ? kDeviceSeconds : kSeconds,
                              .memory_bytes = on_device ? 0 : kMostMemory};
  const ChildAnswer answer = AnswerInChild(limits, on_device ? kDeviceTimeoutMs : kFrameTimeoutMs,
                                           [&] { return ValidateInChild(frame); });
  if (answer.bytes.has_value()) return *answer.bytes;
  const auto unavailable = [](absl::string_view why) {
    return Failed(absl::UnavailableError(absl::StrCat("validation: ", why)));
  };
  if (!answer.not_started.ok()) return unavailable(answer.not_started.message());
  if (answer.host_gone) return unavailable("nobody waits for it");
  if (answer.late)
    return unavailable(absl::StrCat("no answer within ", kFrameTimeoutMs / 1000, " s"));
  return Failed(Died(answer.wait_status));
}

}  // namespace
}  // namespace kiln

int main(int argc, char**) {
  if (argc > 1) {
    std::printf("%s\n", kiln::ValidatorHello().c_str());
    return 0;
  }
  return kiln::ServeRequests(kiln::ValidatorHello(), kiln::Serve);
}
