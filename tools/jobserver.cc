// SPDX-License-Identifier: Apache-2.0
#include "tools/jobserver.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kiln {
namespace {

// Those that end this process; whoever started it may have had some ignored.
sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) sigaddset(&set, signal);
  }
  return set;
}

// What the last of such words says; "": there is none.
std::string AuthOf(absl::string_view makeflags) {
  std::string auth;
  for (absl::string_view word : absl::StrSplit(makeflags, ' ', absl::SkipEmpty())) {
    if (word == "--") break;  // variables follow
    if (absl::ConsumePrefix(&word, "--jobserver-auth=") ||
        absl::ConsumePrefix(&word, "--jobserver-fds="))
      auth = std::string(word);
  }
  return auth;
}

// Opened anew, so that no other process sees that reads of it do not wait.
Descriptor OpenAnew(int fd, int flags) {
  struct stat file;
  if (fd < 0 || fstat(fd, &file) != 0 || !S_ISFIFO(file.st_mode)) return Descriptor();
  return Descriptor(open(absl::StrCat("/proc/self/fd/", fd).c_str(), flags | O_CLOEXEC));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Jobserver>> Jobserver::Open(absl::string_view makeflags) {
  const std::string auth = AuthOf(makeflags);
  if (auth.empty()) return nullptr;
  Descriptor read, write;
  absl::string_view path = auth;
  if (absl::ConsumePrefix(&path, "fifo:")) {
    // For both, or there would have to be a writer now.
    read = Descriptor(open(std::string(path).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    write = OpenAnew(read.get(), O_WRONLY);
  } else {
    const std::pair<std::string, std::string> ends = absl::StrSplit(auth, ',');
    int fds[2] = {-1, -1};
    if (absl::SimpleAtoi(ends.first, &fds[0]) && absl::SimpleAtoi(ends.second, &fds[1])) {
      read = OpenAnew(fds[0], O_RDONLY | O_NONBLOCK);
      write = OpenAnew(fds[1], O_WRONLY);
    }
  }
  if (!read || !write) {
    return absl::FailedPreconditionError(
        absl::StrCat("make's jobserver \"", auth,
                     "\" cannot be reached: kernels are built one at a time; begin the recipe's "
                     "line with \"+\""));
  }
  std::unique_ptr<Jobserver> server(new Jobserver(std::move(read), std::move(write)));
  if (!server->own_job_ || !server->stop_)
    return absl::FailedPreconditionError("make's jobserver: no descriptor is to be had");
  server->WatchSignals();
  return server;
}

Jobserver::Jobserver(Descriptor read, Descriptor write)
    : own_job_(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      read_(std::move(read)),
      write_(std::move(write)) {}

Jobserver::~Jobserver() {
  if (!signals_) return;
  (void)eventfd_write(stop_.get(), 1);
  watching_.Join();
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

Jobserver::Token Jobserver::Acquire() {
  for (;;) {
    pollfd ready[] = {{own_job_.get(), POLLIN, 0}, {read_.get(), POLLIN, 0}};
    if (poll(ready, 2, -1) < 0) continue;
    eventfd_t own = 0;
    if (eventfd_read(own_job_.get(), &own) == 0) return Token(this, std::nullopt);
    if (const std::optional<char> byte = TryRead()) return Token(this, byte);
  }
}

std::optional<char> Jobserver::TryRead() {
  const MutexLock lock(mutex_);
  char byte = 0;
  if (ending_ || read(read_.get(), &byte, 1) != 1) return std::nullopt;
  held_ += byte;
  return byte;
}

void Jobserver::Release(std::optional<char> byte) {
  if (!byte) {
    (void)eventfd_write(own_job_.get(), 1);
    return;
  }
  const MutexLock lock(mutex_);
  const size_t at = held_.find(*byte);
  if (at == std::string::npos) return;  // the process ends, and it is back
  held_.erase(at, 1);
  GiveBack(*byte);
}

void Jobserver::GiveBack(char byte) {
  while (write(write_.get(), &byte, 1) < 0 && errno == EINTR) {
  }
}

void Jobserver::WatchSignals() {
  const sigset_t set = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // threads that start later have that too
  signals_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  const auto watch = [this, set] {
    signalfd_siginfo told{};
    for (;;) {
      pollfd ready[] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      if (poll(ready, 2, -1) < 0) continue;
      if (read(signals_.get(), &told, sizeof told) == sizeof told) break;
      if (ready[1].revents != 0) return;
    }
    {
      const MutexLock lock(mutex_);
      ending_ = true;
      for (const char byte : held_) GiveBack(byte);
      held_.clear();
    }
    raise(static_cast<int>(told.ssi_signo));  // of this thread
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  };
  absl::StatusOr<Thread> started = Thread::Start(watch);
  if (started.ok()) watching_ = *std::move(started);
  if (started.ok() && signals_) return;
  signals_ = Descriptor();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace kiln
