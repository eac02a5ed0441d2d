// SPDX-License-Identifier: Apache-2.0
// The inside of a helper program (child_process.h): it says hello and answers requests, one at a
// time, until its host hangs up.
//
//   int main() {
//     return ServeRequests("hello", [](const std::string& request) {
//       const ChildAnswer answer = AnswerInChild({.cpu_seconds = 5}, 20'000, [&] { return ...; });
//       return answer.bytes.value_or("...");
//     });
//   }
#ifndef KILN_BASE_HELPER_MAIN_H_
#define KILN_BASE_HELPER_MAIN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Writes `hello`, calls `warm_up`, then reads requests and writes what `serve` makes of them, each
// behind the number of its request (helper_pool.h). Returns the exit status: 0 when stdin ends.
int ServeRequests(
    absl::string_view hello, const std::function<std::string(const std::string& request)>& serve,
    const std::function<void()>& warm_up = [] {});

struct ChildLimits {
  uint64_t cpu_seconds = 0;   // 0: none
  uint64_t memory_bytes = 0;  // of address space; 0: none. None under sanitizers
};

struct ChildAnswer {
  std::optional<std::string> bytes;  // what `work` returned
  absl::Status not_started;          // there was no process to do it
  bool late = false;                 // it took longer than the time, and was ended
  bool host_gone = false;            // nobody waits for an answer any more; it was ended
  int wait_status = 0;               // of a child without an answer, as waitpid
};

// Whether a child that ended by `signal` did so by what it computed: every time, then. Other
// signals come from elsewhere, or from a limit of this machine.
bool IsFaultSignal(int signal);

// Calls `work` in a forked child, so that its death or a hang costs nothing else. In the child
// stdin and stdout lead nowhere, and it ends with this process.
ChildAnswer AnswerInChild(const ChildLimits& limits, int timeout_ms,
                          const std::function<std::string()>& work);

}  // namespace kiln

#endif  // KILN_BASE_HELPER_MAIN_H_
