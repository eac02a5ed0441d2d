// SPDX-License-Identifier: Apache-2.0
// A helper program of Kiln that talks in frames (base/frames.h) over its stdin and stdout:
// kiln-codegen, kiln-validate. HelperPool (helper_pool.h) is how the rest of Kiln uses them.
//
// It inherits what every child does (working directory, limits, process group, credentials), but no
// descriptor, no signal mask, no ignored signals, and no environment beyond PATH, TMPDIR and a
// plain locale; what it writes to stderr goes nowhere. The host may wait for any child, ignore
// SIGCHLD, or close descriptors that are not its own and open files of its own under their numbers:
// a process is named by a pidfd, and a descriptor that is ours no longer is neither used nor
// closed.
#ifndef KILN_BASE_CHILD_PROCESS_H_
#define KILN_BASE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/descriptor.h"
#include "base/fork.h"

namespace kiln {

// The executable `name`: `wanted` if not empty, else $`variable`, else beside this program or the
// shared library that holds this function, else in ../bin, ../../bin or ../libexec/kiln from there.
// Never in the working directory; and only `wanted` in a process that has more rights than who
// started it (set-uid, capabilities). kNotFound lists where it was looked for.
absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& wanted,
                                        const char* variable);

// A program that is not Kiln's: $`variable`, else in the folders of $PATH that begin at the root,
// else in `folder`. Empty: it is nowhere, $`variable` is "none", or this process has more rights
// than who started it.
std::string FindTool(const std::string& name, const char* variable, const char* folder);

// What such a program prints on stdout until it ends, a page at most. kUnavailable, also where it
// takes longer.
absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& command, int timeout_ms);

// The shared library `name`, as FindProgram: $`variable`, else beside this program or the shared
// library that holds this function, else in kiln, ../bin, ../../bin, ../lib, ../lib/kiln or
// ../../lib/kiln from there.
absl::StatusOr<std::string> FindModule(const std::string& name, const char* variable);

// A running process and our end of the socket that is its stdin and stdout. A socket rather than
// pipes, so that writing to a dead process is an error instead of a signal. The destructor ends
// the process: it hangs up, and kills what has not ended soon after. In a child of a fork it is
// neither: the socket is closed, and the process is its parent's.
class ChildProcess final : private ForkListener {
 public:
  // kUnavailable.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::string& executable, const std::vector<std::string>& arguments = {});
  ~ChildProcess();

  // As ReadFrame and WriteFrame. Time in which this process was stopped or frozen, and most likely
  // the other with it, does not count.
  absl::StatusOr<std::string> Read(int timeout_ms);
  absl::Status Write(absl::string_view payload, int timeout_ms);
  // What it writes until it closes its stdout, without frames.
  absl::StatusOr<std::string> ReadToEnd(int timeout_ms);

  // Hangs up at once: who reads meanwhile, on another thread, reads an end, and the process ends
  // what it does.
  void HangUp();

 private:
  ChildProcess() { Listen(); }
  // What the destructor does.
  void End();
  void InChild(bool) override;
  // kUnavailable: somebody has closed our descriptor, or it is another file now.
  absl::Status CheckSocket() const;
  // Whether there is a pidfd, and it still is that of our process.
  bool NamesProcess() const;
  // Whether it has ended, and is waited for, within the time.
  bool WaitForEnd(int timeout_ms) const;
  void Kill() const;

  pid_t pid_ = -1;
  Descriptor process_;  // a pidfd; none where the system has none
  Descriptor socket_;
};

}  // namespace kiln

#endif  // KILN_BASE_CHILD_PROCESS_H_
