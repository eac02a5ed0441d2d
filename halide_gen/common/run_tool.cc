// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/run_tool.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "halide_gen/common/files.h"

namespace kiln {
namespace {

// Runs a program of the system's search path with nothing but that path in its environment; its
// output goes to `log`.
absl::StatusOr<int> Run(const std::vector<std::string>& command, const std::string& log,
                        absl::string_view comes_with) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin", locale = "LC_ALL=C";
  char* environment[] = {path.data(), locale.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("\"", command[0], "\": cannot be run, ",
                                               strerror(error), "; install ", comes_with));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR)
      return absl::UnavailableError(absl::StrCat(command[0], ": ", strerror(errno)));
  }
  return status;
}

}  // namespace

absl::Status RunTool(const std::vector<std::string>& command, const std::string& log,
                     absl::string_view comes_with) {
  KILN_ASSIGN_OR_RETURN(const int status, Run(command, log, comes_with));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (!WIFEXITED(status)) {
    return absl::UnavailableError(absl::StrCat(command[0], ": ended by signal ", WTERMSIG(status)));
  }
  const auto words = ReadBytes(log);
  return RefusalOf(command[0], words.ok() ? *words : "");
}

absl::Status RefusalOf(absl::string_view tool, absl::string_view said) {
  constexpr absl::string_view kLacks[] = {"No space left",          "Disk quota exceeded",
                                          "Cannot allocate memory", "memory exhausted",
                                          "Too many open files",    "Input/output error"};
  bool lacks = said.empty() || said.back() != '\n';  // what it writes is on the same disk
  for (const absl::string_view what : kLacks) lacks |= absl::StrContains(said, what);
  if (lacks) {
    return absl::UnavailableError(
        absl::StrCat(tool, ": lacks space (disk of TMPDIR, memory): ", said.substr(0, 400)));
  }
  return absl::InternalError(absl::StrCat(tool, ": refuses the kernel: ", said.substr(0, 400)));
}

}  // namespace kiln
