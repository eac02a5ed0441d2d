// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/packages_fuzz_children.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"

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

constexpr auto kMostWall = std::chrono::seconds(60);  // of one case: it waits for ever
constexpr size_t kMostText = 4096;

// What a child tells its parent.
struct Shared {
  std::atomic<uint64_t> next;  // the case that runs
  char text[kMostText];        // of the case `next`, where it ended with a complaint
};

void* SharedMemory(size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

int64_t AddressSpace() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

void Limit(const ChildLimits& limits) {
  const rlimit core = {0, 0};
  setrlimit(RLIMIT_CORE, &core);
  if (limits.memory_bytes == 0) return;
  const auto bytes = static_cast<rlim_t>(AddressSpace() + limits.memory_bytes);
  const rlimit space = {bytes, bytes};
  setrlimit(RLIMIT_AS, &space);
}

// SIGPROF ends a child that works longer.
void SetTimer(double seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

[[noreturn]] void Serve(Shared& shared, uint64_t end, const ChildLimits& limits,
                        const std::function<std::string(uint64_t)>& run) {
  Limit(limits);
  for (; shared.next < end; ++shared.next) {
    SetTimer(limits.cpu_seconds);
    const std::string wrong = run(shared.next);
    SetTimer(0);
    if (wrong.empty()) continue;
    std::strncpy(shared.text, wrong.c_str(), kMostText - 1);
    _exit(1);
  }
  _exit(0);
}

// How the child ended; "" where it served all cases.
std::string Await(pid_t child, const Shared& shared) {
  uint64_t running = shared.next;
  auto since = std::chrono::steady_clock::now();
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
      if (WIFEXITED(status))
        return shared.text[0] != '\0' ? shared.text
                                      : absl::StrCat("exit with code ", WEXITSTATUS(status));
      if (WTERMSIG(status) == SIGPROF) return "too much processor time";
      return absl::StrCat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
    }
    const auto now = std::chrono::steady_clock::now();
    if (shared.next != running) {
      running = shared.next;
      since = now;
    } else if (now - since > kMostWall) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return "it does not end";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

ChildLimits FuzzLimits() {
  ChildLimits limits;
  if (kSanitized) limits.cpu_seconds = 30;
  if (kSanitized) limits.memory_bytes = 0;
  return limits;
}

std::vector<ChildFailure> RunInChildren(uint64_t first, uint64_t count, const ChildLimits& limits,
                                        const std::function<std::string(uint64_t)>& run) {
  auto* const shared = static_cast<Shared*>(SharedMemory(sizeof(Shared)));
  std::vector<ChildFailure> failures;
  shared->next = first;
  while (shared->next < first + count && failures.size() < limits.most_failures) {
    const uint64_t end = std::min(first + count, shared->next + limits.cases_per_child);
    std::memset(shared->text, 0, kMostText);
    const pid_t child = fork();
    if (child < 0) return {{first, "no child can be forked"}};
    if (child == 0) Serve(*shared, end, limits, run);
    const std::string how = Await(child, *shared);
    if (how.empty()) continue;
    failures.push_back({shared->next, how});
    ++shared->next;
  }
  munmap(shared, sizeof(Shared));
  return failures;
}

SharedCount::SharedCount()
    : count_(static_cast<std::atomic<uint64_t>*>(SharedMemory(sizeof(std::atomic<uint64_t>)))) {}
SharedCount::~SharedCount() { munmap(count_, sizeof *count_); }

uint64_t FuzzNumber(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace kiln
