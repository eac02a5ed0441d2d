// SPDX-License-Identifier: Apache-2.0
#include "kiln/base/child_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
#include "kiln/base/status_macros.h"

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

// A descriptor above those of stdin, stdout and stderr, which a host may have closed: what others
// write to these must not get into a socket of ours.
int AboveStandard(int fd) {
  if (fd < 0 || fd > 2) return fd;
  const int higher = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return higher;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(AboveStandard(fd)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

uint64_t InodeOf(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode) ? file.st_ino : 0;
}

// Starts a program whose stdin and stdout are `socket`; an error of errno.
int Spawn(const std::string& executable, int socket, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroy_actions = [&] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_adddup2(&actions, socket, 0);
  posix_spawn_file_actions_adddup2(&actions, socket, 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy_attributes = [&] { posix_spawnattr_destroy(&attributes); };
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const char* const tmp = secure_getenv("TMPDIR");
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  std::string tmpdir = absl::StrCat("TMPDIR=", tmp != nullptr ? tmp : "/tmp");
  std::string locale = "LC_ALL=C";
  char* const environment[] = {path.data(), tmpdir.data(), locale.data(), nullptr};
  std::string program = executable;
  char* const arguments[] = {program.data(), nullptr};
  return posix_spawn(pid, program.c_str(), &actions, &attributes, arguments, environment);
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& wanted,
                                        const char* variable) {
  std::vector<std::string> places;
  const char* const named = secure_getenv(variable);
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
  Socket ours(ends[0]);
  const Socket theirs(ends[1]);
  if (ours.get() < 0 || theirs.get() < 0)
    return absl::UnavailableError(absl::StrCat("\"", executable, "\": no descriptor"));
  std::unique_ptr<ChildProcess> process(new ChildProcess);
  if (const int error = Spawn(executable, theirs.get(), &process->pid_); error != 0) {
    process->pid_ = -1;
    return absl::UnavailableError(
        absl::StrCat("\"", executable, "\": cannot start: ", strerror(error)));
  }
  process->socket_ = ours.Release();
  process->inode_ = InodeOf(process->socket_);
  process->process_ = AboveStandard(static_cast<int>(syscall(SYS_pidfd_open, process->pid_, 0)));
  return process;
}

ChildProcess::~ChildProcess() {
  constexpr int kGraceMs = 300;  // kiln-codegen removes its files meanwhile
  if (CheckSocket().ok()) {
    HangUp();
    close(socket_);
  }
  if (pid_ <= 0) return;
  if (!WaitForEnd(kGraceMs)) {
    Kill();
    WaitForEnd(-1);
  }
  if (process_ >= 0) close(process_);
}

void ChildProcess::InChild(bool) {
  if (socket_ >= 0) close(socket_);
  if (process_ >= 0) close(process_);
  socket_ = process_ = pid_ = -1;
}

absl::Status ChildProcess::CheckSocket() const {
  if (socket_ >= 0 && inode_ != 0 && InodeOf(socket_) == inode_) return absl::OkStatus();
  return absl::UnavailableError("helper process: its socket has been closed");
}

absl::StatusOr<std::string> ChildProcess::Read(int timeout_ms) {
  KILN_RETURN_IF_ERROR(CheckSocket());
  constexpr int kSliceMs = 250;  // a stop in the middle of one costs no more than this
  for (int left = timeout_ms; left > 0; left -= kSliceMs) {
    pollfd wait = {socket_, POLLIN, 0};
    if (poll(&wait, 1, std::min(left, kSliceMs)) > 0) return ReadFrame(socket_, timeout_ms);
  }
  return ReadFrame(socket_, std::min(timeout_ms, 0));
}

absl::Status ChildProcess::Write(absl::string_view payload, int timeout_ms) {
  KILN_RETURN_IF_ERROR(CheckSocket());
  return WriteFrame(socket_, payload, timeout_ms);
}

void ChildProcess::HangUp() {
  if (CheckSocket().ok()) shutdown(socket_, SHUT_RDWR);
}

// The host may have taken its status, or let the system take it: then it has ended, too.
bool ChildProcess::WaitForEnd(int timeout_ms) const {
  siginfo_t unused;
  if (process_ >= 0) {
    pollfd wait = {process_, POLLIN, 0};
    if (timeout_ms >= 0 && poll(&wait, 1, timeout_ms) == 0) return false;
    while (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_), &unused, WEXITED) !=
               0 &&
           errno == EINTR) {
    }
    return true;
  }
  constexpr int kStepMs = 2;
  for (int waited = 0; timeout_ms < 0 || waited <= timeout_ms; waited += kStepMs) {
    const pid_t ended = waitpid(pid_, nullptr, timeout_ms < 0 ? 0 : WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) return true;
    poll(nullptr, 0, kStepMs);
  }
  return false;
}

void ChildProcess::Kill() const {
  if (process_ >= 0) {
    syscall(SYS_pidfd_send_signal, process_, SIGKILL, nullptr, 0);
  } else {
    kill(pid_, SIGKILL);
  }
}

}  // namespace kiln
