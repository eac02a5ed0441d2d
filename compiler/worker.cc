// SPDX-License-Identifier: Apache-2.0
#include "kiln/compiler/worker.h"

#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kiln/base/status_macros.h"
#include "kiln/halide_gen/build_id.h"

namespace kiln {
namespace {

constexpr int kHelloTimeoutMs = 20'000;
constexpr int kGraceMs =
    5'000;  // on top of a request's own time limit, which the worker keeps itself

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

absl::StatusOr<std::string> FindCodegen(const std::string& wanted) {
  std::vector<std::string> places;
  const char* const named = std::getenv("KILN_CODEGEN");
  if (!wanted.empty()) {
    places = {wanted};
  } else if (named != nullptr && named[0] != '\0') {
    places = {named};
  } else {
    std::vector<std::string> folders = {FolderOf(ExecutablePath())};
    Dl_info library{};
    if (dladdr(reinterpret_cast<const void*>(&FindCodegen), &library) != 0 &&
        library.dli_fname != nullptr) {
      folders.push_back(FolderOf(library.dli_fname));
    }
    for (const std::string& folder : folders) {
      places.push_back(absl::StrCat(folder, "/kiln-codegen"));
      places.push_back(absl::StrCat(folder, "/../bin/kiln-codegen"));
      places.push_back(absl::StrCat(folder, "/../../bin/kiln-codegen"));
      places.push_back(absl::StrCat(folder, "/../libexec/kiln/kiln-codegen"));
    }
  }
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return absl::NotFoundError(absl::StrCat("kernel compiler \"kiln-codegen\": not at ",
                                          absl::StrJoin(places, ", "),
                                          "; set KILN_CODEGEN, or run with --compile-mode never"));
}

// A running process and our end of the socket that is its stdin and stdout. A socket rather than
// pipes, so that writing to a dead worker is an error instead of a signal.
struct WorkerPool::Worker {
  pid_t pid = -1;
  int fd = -1;

  ~Worker() {
    if (fd >= 0) close(fd);
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
};

WorkerPool::WorkerPool(std::string executable, int size)
    : executable_(std::move(executable)), size_(size) {}
WorkerPool::~WorkerPool() = default;

absl::StatusOr<std::unique_ptr<WorkerPool::Worker>> WorkerPool::Start() const {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(absl::StrCat("kiln-codegen: no socket: ", strerror(errno)));
  }
  auto worker = std::make_unique<Worker>();
  worker->fd = ends[0];
  absl::Cleanup close_theirs = [&] { close(ends[1]); };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroy = [&] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  // Only what a compiler needs: nothing of the caller's environment can change the code.
  const char* const tmp = std::getenv("TMPDIR");
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  std::string tmpdir = absl::StrCat("TMPDIR=", tmp != nullptr ? tmp : "/tmp");
  std::string locale = "LC_ALL=C";
  char* const environment[] = {path.data(), tmpdir.data(), locale.data(), nullptr};
  std::string program = executable_;
  char* const arguments[] = {program.data(), nullptr};
  if (const int error =
          posix_spawn(&worker->pid, program.c_str(), &actions, nullptr, arguments, environment);
      error != 0) {
    worker->pid = -1;
    return absl::UnavailableError(
        absl::StrCat("kiln-codegen \"", executable_, "\": cannot start: ", strerror(error)));
  }
  std::move(close_theirs).Invoke();  // so that a worker that ends is the end of the file here
  KILN_ASSIGN_OR_RETURN(const std::string frame, ReadFrame(worker->fd, kHelloTimeoutMs));
  KILN_ASSIGN_OR_RETURN(const CodegenHello hello, DecodeHello(frame));
  if (hello.build_id != kCodegenBuildId) {
    return absl::FailedPreconditionError(
        absl::StrCat("kiln-codegen \"", executable_, "\": is build ", hello.build_id,
                     ", this library needs ", kCodegenBuildId, "; install both from one build"));
  }
  return worker;
}

absl::StatusOr<std::unique_ptr<WorkerPool::Worker>> WorkerPool::Acquire() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](WorkerPool* pool) ABSL_NO_THREAD_SAFETY_ANALYSIS {
          return !pool->idle_.empty() || pool->running_ < pool->size_;
        },
        this));
    KILN_RETURN_IF_ERROR(broken_);
    ++running_;
    if (!idle_.empty()) {
      std::unique_ptr<Worker> worker = std::move(idle_.back());
      idle_.pop_back();
      return worker;
    }
  }
  absl::StatusOr<std::unique_ptr<Worker>> worker = Start();
  {
    absl::MutexLock lock(&mutex_);
    if (worker.ok()) started_ = true;
    if (!worker.ok() && !started_) broken_ = worker.status();
    if (!worker.ok()) --running_;
  }
  return worker;
}

void WorkerPool::Release(std::unique_ptr<Worker> worker) {
  absl::MutexLock lock(&mutex_);
  --running_;
  if (worker != nullptr) idle_.push_back(std::move(worker));
}

absl::StatusOr<CodegenAnswer> WorkerPool::Compile(const CodegenRequest& request) {
  absl::Status last;
  for (int attempt = 0; attempt < 2; ++attempt) {
    KILN_ASSIGN_OR_RETURN(std::unique_ptr<Worker> worker, Acquire());
    last = WriteFrame(worker->fd, Encode(request));
    if (last.ok()) {
      absl::StatusOr<std::string> frame =
          ReadFrame(worker->fd, static_cast<int>(request.timeout_ms) + kGraceMs);
      if (frame.ok()) {
        Release(std::move(worker));
        return DecodeAnswer(*frame);
      }
      last = frame.status();
    }
    Release(nullptr);  // the worker is dead or out of step: it goes
    if (absl::IsDeadlineExceeded(last)) return last;
  }
  return absl::UnavailableError(
      absl::StrCat("kiln-codegen: died twice on one kernel: ", last.message()));
}

}  // namespace kiln
