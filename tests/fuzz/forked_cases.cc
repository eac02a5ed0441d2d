// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/forked_cases.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
// Memory that is not to be had is an answer, not a fault of the program.
extern "C" const char* __asan_default_options();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace kiln {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr int kOutOfMemory = 77;           // exit code
constexpr uint64_t kCasesOfAChild = 1000;  // what one leaves in memory is no fault of the next
constexpr size_t kMostText = 4096;

// What parent and child share.
struct Progress {
  std::atomic<uint64_t> number;  // of the case that runs
  std::atomic<int64_t> since;    // ... on the steady clock, in nanoseconds
  std::atomic<int64_t> cpu;      // ... that the child had used by then
  char wrong[kMostText];         // what the case said before its child ended
};

template <typename T>
T* Shared() {
  void* const memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return new (memory) T();
}

int64_t Read(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void Start(Progress& progress, uint64_t number, int64_t cpu) {
  progress.since = Read(CLOCK_MONOTONIC);
  progress.cpu = cpu;
  progress.number = number;
}

// A busy machine is no reason to fail: what counts is processor time, but nothing may sleep long.
bool IsLate(pid_t child, const Progress& progress, std::chrono::nanoseconds limit) {
  constexpr int64_t kSleep = 30;
  clockid_t clock = 0;
  const int64_t cpu = clock_getcpuclockid(child, &clock) == 0 ? Read(clock) - progress.cpu : 0;
  return cpu > limit.count() || Read(CLOCK_MONOTONIC) - progress.since > kSleep * limit.count();
}

void EndForMemory() { _exit(kOutOfMemory); }

void LimitMemory(int64_t bytes) {
  if (kSanitized) return;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto most = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + bytes);
  const rlimit limit = {most, most};
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
}

[[noreturn]] void Serve(Progress& progress, uint64_t first, uint64_t end, const CaseLimits& limits,
                        const std::function<std::string(uint64_t)>& run) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  LimitMemory(limits.bytes);
  for (uint64_t number = first; number < end; ++number) {
    std::set_new_handler(limits.memory_may_be_refused ? nullptr : EndForMemory);
    Start(progress, number, Read(CLOCK_PROCESS_CPUTIME_ID));
    const std::string wrong = run(number);
    if (wrong.empty()) continue;
    std::strncpy(progress.wrong, wrong.c_str(), kMostText - 1);
    break;
  }
  std::fflush(nullptr);
  _exit(0);
}

// What ended the child, or "" after the last case.
std::string WaitFor(pid_t child, const Progress& progress, std::chrono::milliseconds time) {
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
      const int code = WEXITSTATUS(status);
      if (code == kOutOfMemory) return "more memory than the limit";
      return code == 0 ? progress.wrong : "exit code " + std::to_string(code);
    }
    if (IsLate(child, progress, time)) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "more than " + std::to_string(time.count()) + " ms";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

void ForgiveRefusedMemory() { std::set_new_handler(nullptr); }

std::vector<FailedCase> ForEachCase(uint64_t first, uint64_t count, const CaseLimits& limits,
                                    const std::function<std::string(uint64_t number)>& run) {
  auto* const progress = Shared<Progress>();
  std::vector<FailedCase> failed;
  const uint64_t end = first + count;
  for (uint64_t next = first; next < end && failed.size() < limits.failures;) {
    const uint64_t last = std::min(next + kCasesOfAChild, end) - 1;
    Start(*progress, next, 0);
    progress->wrong[0] = '\0';
    const pid_t child = fork();
    if (child == 0) Serve(*progress, next, last + 1, limits, run);
    if (child < 0) {
      failed.push_back({next, "no process"});
      break;
    }
    const std::string what = WaitFor(child, *progress, limits.time * (kSanitized ? 30 : 1));
    next = progress->number + 1;
    if (what.empty() && next == last + 1) continue;
    failed.push_back({progress->number, what.empty() ? "exit code 0" : what});
  }
  munmap(progress, sizeof(Progress));
  return failed;
}

SharedCount::SharedCount() : count_(Shared<std::atomic<uint64_t>>()) {}
SharedCount::~SharedCount() { munmap(count_, sizeof *count_); }

uint64_t FuzzNumber(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace kiln
