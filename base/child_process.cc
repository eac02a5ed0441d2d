// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/frames.h"
#include "base/no_cancellation.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

// Folders of this program and of the shared library that Kiln is in. Only from the root: a
// library's name is what it was opened by, argv[0] for the program itself, and may be relative to a
// directory that anybody can write.
std::vector<std::string> ProgramFolders() {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& path) {
    if (path.empty() || path[0] != '/') return;
    std::string folder = path.substr(0, path.rfind('/'));
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  };
  char buffer[4096];
  const ssize_t n = readlink("/proc/self/exe", buffer, sizeof(buffer));
  add(std::string(buffer, static_cast<size_t>(std::max<ssize_t>(n, 0))));
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&FindProgram), &library) != 0 &&
      library.dli_fname != nullptr)
    add(library.dli_fname);
  return folders;
}

// The process that a pidfd names: "Pid:" of its fdinfo. -1: it has been waited for; 0: unknown,
// this system does not say.
pid_t ProcessOf(int pidfd) {
  char text[1024] = "";
  std::snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", pidfd);
  const int info = open(text, O_RDONLY | O_CLOEXEC);
  if (info < 0) return 0;
  const ssize_t n = read(info, text, sizeof(text) - 1);
  close(info);
  text[std::max<ssize_t>(n, 0)] = '\0';
  const char* const line = std::strstr(text, "\nPid:");
  return line == nullptr ? 0 : static_cast<pid_t>(std::strtol(line + 5, nullptr, 10));
}

// Starts a program whose stdin and stdout are `socket`; an error of errno.
int Spawn(const std::string& executable, const std::vector<std::string>& words, int socket,
          pid_t* pid) {
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
  std::vector<char*> arguments = {const_cast<char*>(executable.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  return posix_spawn(pid, executable.c_str(), &actions, &attributes, arguments.data(), environment);
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
  } else if (getauxval(AT_SECURE) == 0) {
    for (const std::string& folder : ProgramFolders()) {
      for (const char* below : {"/", "/../bin/", "/../../bin/", "/../libexec/kiln/"})
        places.push_back(absl::StrCat(folder, below, name));
    }
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  if (places.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "program \"", name,
        "\": this process has more rights than who started it; name it in CompileOptions"));
  }
  return absl::NotFoundError(absl::StrCat(
      "program \"", name, "\": not at ", absl::StrJoin(places, ", "),
      wanted.empty() ? absl::StrCat("; set ", variable, ", or name it in CompileOptions")
                     : ", where CompileOptions says; name where it is, or nothing"));
}

absl::StatusOr<std::string> FindModule(const std::string& name, const char* variable) {
  std::vector<std::string> places;
  const char* const named = secure_getenv(variable);
  if (named != nullptr && named[0] != '\0') {
    places = {named};
  } else if (getauxval(AT_SECURE) == 0) {
    for (const std::string& folder : ProgramFolders()) {
      for (const char* below : {"/", "/kiln/", "/../bin/", "/../../bin/", "/../lib/",
                                "/../lib/kiln/", "/../../lib/kiln/"})
        places.push_back(absl::StrCat(folder, below, name));
    }
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), R_OK) == 0) return place;
  }
  return absl::UnavailableError(absl::StrCat("library \"", name, "\": not at ",
                                             absl::StrJoin(places, ", "), "; install it, or set ",
                                             variable));
}

std::string FindTool(const std::string& name, const char* variable, const char* folder) {
  const char* const named = secure_getenv(variable);
  const char* const path = secure_getenv("PATH");
  std::vector<std::string> places;
  if (getauxval(AT_SECURE) != 0) return "";
  if (named != nullptr && named[0] != '\0') {
    places = {named};  // "none" is no path from the root
  } else {
    for (const absl::string_view one : absl::StrSplit(path != nullptr ? path : "", ':'))
      places.push_back(absl::StrCat(one, "/", name));
    places.push_back(absl::StrCat(folder, "/", name));
  }
  for (const std::string& place : places)
    if (place[0] == '/' && access(place.c_str(), X_OK) == 0) return place;
  return "";
}

absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& command, int timeout_ms) {
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child,
                        ChildProcess::Start(command[0], {command.begin() + 1, command.end()}));
  return child->ReadToEnd(timeout_ms);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::string& executable, const std::vector<std::string>& arguments) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::UnavailableError(
        absl::StrCat("\"", executable, "\": no socket: ", strerror(errno)));
  Descriptor ours(ends[0]);
  const Descriptor theirs(ends[1]);
  if (!ours || !theirs)
    return absl::UnavailableError(absl::StrCat("\"", executable, "\": no descriptor"));
  std::unique_ptr<ChildProcess> process(new ChildProcess);
  if (const int error = Spawn(executable, arguments, theirs.get(), &process->pid_); error != 0) {
    process->pid_ = -1;
    return absl::UnavailableError(
        absl::StrCat("\"", executable, "\": cannot start: ", strerror(error)));
  }
  process->socket_ = std::move(ours);
  process->process_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, process->pid_, 0)));
  return process;
}

ChildProcess::~ChildProcess() {
  const NoCancellation guard;
  End();
  Unlisten();
}

void ChildProcess::End() {
  constexpr int kGraceMs = 300;  // kiln-codegen removes its files meanwhile
  HangUp();
  socket_.Close();
  if (pid_ <= 0 || WaitForEnd(kGraceMs)) return;
  // A host that closed the pidfd closed the socket too, by which the helper knows that it is to
  // end.
  if (process_ && !NamesProcess()) return;
  Kill();
  WaitForEnd(-1);
}

void ChildProcess::InChild(bool) {
  socket_.Close();
  process_.Close();
  pid_ = -1;
}

absl::Status ChildProcess::CheckSocket() const {
  if (socket_.IsOurs()) return absl::OkStatus();
  return absl::UnavailableError("helper process: its socket has been closed");
}

bool ChildProcess::NamesProcess() const {
  if (!process_.IsOurs()) return false;
  const pid_t named = ProcessOf(process_.get());
  return named == pid_ || named == 0;
}

absl::StatusOr<std::string> ChildProcess::Read(int timeout_ms) {
  KILN_RETURN_IF_ERROR(CheckSocket());
  constexpr int kSliceMs = 250;  // a stop in the middle of one costs no more than this
  for (int left = timeout_ms; left > 0; left -= kSliceMs) {
    pollfd wait = {socket_.get(), POLLIN, 0};
    if (poll(&wait, 1, std::min(left, kSliceMs)) > 0) return ReadFrame(socket_.get(), timeout_ms);
  }
  return ReadFrame(socket_.get(), std::min(timeout_ms, 0));
}

absl::Status ChildProcess::Write(absl::string_view payload, int timeout_ms) {
  KILN_RETURN_IF_ERROR(CheckSocket());
  return WriteFrame(socket_.get(), payload, timeout_ms);
}

absl::StatusOr<std::string> ChildProcess::ReadToEnd(int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::string all;
  char buffer[4096];
  while (all.size() < sizeof(buffer)) {
    KILN_RETURN_IF_ERROR(CheckSocket());
    pollfd wait = {socket_.get(), POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    const int ready = poll(&wait, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return absl::UnavailableError("helper process: it does not end");
    const ssize_t n = read(socket_.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::UnavailableError(absl::StrCat("helper process: ", strerror(errno)));
    if (n == 0) break;
    all.append(buffer, static_cast<size_t>(n));
  }
  return all;
}

void ChildProcess::HangUp() {
  if (socket_.IsOurs()) shutdown(socket_.get(), SHUT_RDWR);
}

// The host may have taken its status, or let the system take it: then it has ended, too.
bool ChildProcess::WaitForEnd(int timeout_ms) const {
  siginfo_t unused;
  if (NamesProcess()) {
    pollfd wait = {process_.get(), POLLIN, 0};
    if (timeout_ms >= 0 && poll(&wait, 1, timeout_ms) == 0) return false;
    while (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_.get()), &unused,
                  WEXITED) != 0 &&
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
  if (process_) {
    syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
  } else {
    kill(pid_, SIGKILL);
  }
}

}  // namespace kiln
