// SPDX-License-Identifier: Apache-2.0
// A helper program of Kiln that talks in frames (base/frames.h) over its stdin and stdout:
// kiln-codegen, kiln-validate.
#ifndef KILN_BASE_CHILD_PROCESS_H_
#define KILN_BASE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// The executable `name`: `wanted` if not empty, else $`variable`, else beside this program or the
// library, else in ../bin or ../libexec/kiln from there. kNotFound lists where it was looked for.
absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& wanted,
                                        const char* variable);

// A running process and our end of the socket that is its stdin and stdout. A socket rather than
// pipes, so that writing to a dead process is an error instead of a signal. The destructor ends
// the process.
class ChildProcess {
 public:
  // Starts `executable` without arguments, with PATH, TMPDIR and a plain locale as its whole
  // environment: nothing of the caller's can change what it does. kUnavailable.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& executable);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // As ReadFrame and WriteFrame. Time in which this process was stopped or frozen, and most likely
  // the other with it, does not count.
  absl::StatusOr<std::string> Read(int timeout_ms);
  absl::Status Write(absl::string_view payload);

  // Ends the process at once: who reads meanwhile, on another thread, reads an end.
  void Kill();

 private:
  ChildProcess() = default;
  pid_t pid_ = -1;
  int fd_ = -1;
};

}  // namespace kiln

#endif  // KILN_BASE_CHILD_PROCESS_H_
