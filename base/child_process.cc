// SPDX-License-Identifier: Apache-2.0
#include "kiln/base/child_process.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kiln/base/frames.h"

namespace kiln {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string ExecutablePath() {
  char buffer[4096];
  const ssize_t n = readlink("/proc/self/exe", buffer, sizeof(buffer));
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "";
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& wanted,
                                        const char* variable) {
  std::vector<std::string> places;
  const char* const named = std::getenv(variable);
  if (!wanted.empty()) {
    places = {wanted};
  } else if (named != nullptr && named[0] != '\0') {
    places = {named};
  } else {
    std::vector<std::string> folders = {FolderOf(ExecutablePath())};
    Dl_info library{};
    if (dladdr(reinterpret_cast<const void*>(&FindProgram), &library) != 0 &&
        library.dli_fname != nullptr) {
      folders.push_back(FolderOf(library.dli_fname));
    }
    for (const std::string& folder : folders) {
      for (const char* below : {"/", "/../bin/", "/../../bin/", "/../libexec/kiln/"})
        places.push_back(absl::StrCat(folder, below, name));
    }
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return absl::NotFoundError(absl::StrCat("program \"", name, "\": not at ",
                                          absl::StrJoin(places, ", "), "; set ", variable));
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::string& executable) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::UnavailableError(
        absl::StrCat("\"", executable, "\": no socket: ", strerror(errno)));
  std::unique_ptr<ChildProcess> process(new ChildProcess);
  process->fd_ = ends[0];
  const absl::Cleanup close_theirs = [&] {
    close(ends[1]);
  };  // so that its end is that of the file
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroy = [&] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const char* const tmp = std::getenv("TMPDIR");
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  std::string tmpdir = absl::StrCat("TMPDIR=", tmp != nullptr ? tmp : "/tmp");
  std::string locale = "LC_ALL=C";
  char* const environment[] = {path.data(), tmpdir.data(), locale.data(), nullptr};
  std::string program = executable;
  char* const arguments[] = {program.data(), nullptr};
  const int error =
      posix_spawn(&process->pid_, program.c_str(), &actions, nullptr, arguments, environment);
  if (error == 0) return process;
  process->pid_ = -1;
  return absl::UnavailableError(
      absl::StrCat("\"", executable, "\": cannot start: ", strerror(error)));
}

ChildProcess::~ChildProcess() {
  if (fd_ >= 0) close(fd_);
  if (pid_ > 0) {
    Kill();
    waitpid(pid_, nullptr, 0);
  }
}

absl::StatusOr<std::string> ChildProcess::Read(int timeout_ms) {
  constexpr int kSliceMs = 250;  // a stop in the middle of one costs no more than this
  for (int left = timeout_ms; left > 0; left -= kSliceMs) {
    pollfd wait = {fd_, POLLIN, 0};
    if (poll(&wait, 1, std::min(left, kSliceMs)) > 0) return ReadFrame(fd_, timeout_ms);
  }
  return ReadFrame(fd_, std::min(timeout_ms, 0));
}

absl::Status ChildProcess::Write(absl::string_view payload) { return WriteFrame(fd_, payload); }

void ChildProcess::Kill() { kill(pid_, SIGKILL); }

}  // namespace kiln
