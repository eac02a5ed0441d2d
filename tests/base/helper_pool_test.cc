// SPDX-License-Identifier: Apache-2.0
#include "base/helper_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using std::chrono::steady_clock;

HelperProgram TestHelper() {
  return {"test helper", [] { return std::string(KILN_TEST_BIN_DIR "/test_helper"); },
          [](absl::string_view hello) {
            return hello == "test helper" ? absl::OkStatus() : absl::NotFoundError(hello);
          }};
}

pid_t PidOf(HelperPool& pool) {
  const absl::StatusOr<std::string> pid = pool.Ask("pid", 5000);
  EXPECT_TRUE(pid.ok()) << pid.status();
  return pid.ok() ? std::stoi(*pid) : -1;
}

// The state in /proc: "S", "T", "Z"; empty: there is no such process.
std::string StateOf(pid_t pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string number, name, state;
  stat >> number >> name;
  while (!name.empty() && name.back() != ')' && stat) {  // a name may have spaces
    std::string more;
    stat >> more;
    name += more;
  }
  stat >> state;
  return state;
}

bool GoneWithin(pid_t pid, std::chrono::milliseconds time) {
  const auto end = steady_clock::now() + time;
  while (steady_clock::now() < end) {
    if (StateOf(pid).empty()) return true;
    usleep(10'000);
  }
  return StateOf(pid).empty();
}

// As in_child.h, within this time.
int InChild(const std::function<int()>& work) { return kiln::InChild(work, 60); }

TEST(HelperPoolTest, OneThatIsIdleEndsAfterTwoSeconds) {
  HelperPool pool(TestHelper(), 2);
  const pid_t pid = PidOf(pool);
  usleep(1'000'000);
  EXPECT_EQ(PidOf(pool), pid) << "within the time it is kept";
  EXPECT_TRUE(GoneWithin(pid, std::chrono::seconds(3)));
  EXPECT_NE(PidOf(pool), pid);
}

TEST(HelperPoolTest, AllThatArePreparedGreetAndAreUsed) {
  HelperPool pool(TestHelper(), 3);
  pool.PrepareAll(3);
  std::mutex mutex;
  std::set<std::string> pids;
  ForEachInParallel(
      3,
      [&](size_t) {
        EXPECT_TRUE(pool.Ask("sleep 100", 5000).ok());
        const std::string pid = std::to_string(PidOf(pool));
        const std::lock_guard<std::mutex> lock(mutex);
        pids.insert(pid);
      },
      3);
  pool.PrepareAll(3);
  EXPECT_TRUE(pids.contains(std::to_string(PidOf(pool)))) << "there are as many";
}

TEST(HelperPoolTest, PreparingWhatDoesNotGreetSaysNothing) {
  HelperProgram silent = TestHelper();
  silent.find = [] { return std::string("/bin/cat"); };
  silent.hello_timeout_ms = 100;
  HelperPool pool(silent, 2);
  pool.PrepareAll(2);
  EXPECT_EQ(pool.Ask("pid", 5000).status().code(), absl::StatusCode::kNotFound);
}

// A caller that may start no thread: nobody could end a process later.
TEST(HelperPoolTest, WithoutThreadsOneLastsAsLongAsItIsKept) {
  const NoThreads scope(true);
  HelperPool pool(TestHelper(), 2);
  const pid_t alone = PidOf(pool);
  EXPECT_NE(PidOf(pool), alone) << "it ends with its answer";
  pid_t kept = -1;
  {
    const HelperPool::Keeping keeping(pool);
    kept = PidOf(pool);
    {
      const HelperPool::Keeping within(pool);
      EXPECT_EQ(PidOf(pool), kept);
    }
    EXPECT_EQ(PidOf(pool), kept);
    const pid_t child = fork();
    if (child == 0) _exit(PidOf(pool) != kept ? 0 : 1);  // whose helpers are its own
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(PidOf(pool), kept);
  }
  EXPECT_EQ(StateOf(kept), "") << "ended, and waited for";
  EXPECT_NE(PidOf(pool), kept);
}

TEST(HelperPoolTest, OneThatDiesIdleHarmsNobody) {
  HelperPool pool(TestHelper(), 2);
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = PidOf(pool);
    kill(pid, SIGKILL);
    usleep(i * 500);
    KILN_ASSERT_OK_AND_ASSIGN(const std::string answer, pool.Ask("x", 5000));
    EXPECT_EQ(answer, "answer to x");
  }
}

TEST(HelperPoolTest, AnAnswerToAnotherRequestIsNone) {
  const TempDir dir;
  const std::string path = dir.File("helper");
  // Says hello, reads a whole request (a length, a number, "x") and answers number ~0.
  std::ofstream(path)
      << "#!/bin/sh\nprintf '\\013\\000\\000\\000test helper'\n"
         "dd bs=1 count=13 of=/dev/null 2>/dev/null\n"
         "printf '\\013\\000\\000\\000\\377\\377\\377\\377\\377\\377\\377\\377yes'\n"
         "cat >/dev/null\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  HelperProgram program = TestHelper();
  program.find = [path] { return path; };
  HelperPool pool(program, 1);
  const absl::StatusOr<std::string> answer = pool.Ask("x", 5000);
  EXPECT_FALSE(answer.ok()) << *answer;
  EXPECT_TRUE(absl::StrContains(answer.status().message(), "not asked")) << answer.status();
}

// Helpers die at any moment; no answer is another's, and no request goes unanswered for ever.
TEST(HelperPoolTest, AnswersAreRightWhileHelpersAreKilledAtRandom) {
  HelperPool pool(TestHelper(), 3);
  PidOf(pool);
  std::atomic<bool> stop{false};
  absl::StatusOr<Thread> killer = Thread::Start([&] {
    std::minstd_rand random(7);
    while (!stop) {
      if (const auto pid = pool.Ask("pid", 5000); pid.ok()) {
        usleep(random() % 4000);
        kill(std::stoi(*pid), SIGKILL);
      }
    }
  });
  ASSERT_TRUE(killer.ok());
  std::atomic<int> right{0}, none{0};
  ForEachInParallel(
      400,
      [&](size_t i) {
        const std::string request = i % 3 == 0 ? absl::StrCat("sleep ", i % 5) : absl::StrCat(i);
        const absl::StatusOr<std::string> answer = pool.Ask(request, 5000);
        EXPECT_EQ(answer.value_or("answer to " + request), "answer to " + request);
        EXPECT_TRUE(answer.ok() || absl::IsUnavailable(answer.status())) << answer.status();
        ++(answer.ok() ? right : none);
      },
      4);
  stop = true;
  killer->Join();
  EXPECT_GT(right, 200) << none << " without an answer";
}

TEST(HelperPoolTest, OneThatIsStoppedIsGivenUpInTime) {
  HelperPool pool(TestHelper(), 1);
  const pid_t pid = PidOf(pool);
  const auto begun = steady_clock::now();
  const absl::StatusOr<std::string> answer = pool.Ask("stop", 300);
  EXPECT_FALSE(answer.ok());
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(4));
  EXPECT_TRUE(GoneWithin(pid, std::chrono::seconds(3)));
}

// Its socket is full long before all of the request is written.
TEST(HelperPoolTest, WritingToOneThatIsStoppedEndsInTime) {
  HelperPool pool(TestHelper(), 1);
  kill(PidOf(pool), SIGSTOP);
  const auto begun = steady_clock::now();
  EXPECT_FALSE(pool.Ask(std::string(8 << 20, 'x'), 300).ok());
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(4));
}

TEST(HelperPoolTest, ThereAreNoMoreThanAsked) {
  HelperPool pool(TestHelper(), 2);
  std::vector<std::string> pids(40);
  ForEachInParallel(
      40, [&](size_t i) { pids[i] = pool.Ask(i % 2 == 0 ? "pid" : "sleep 3", 5000).value_or("?"); },
      8);
  std::set<std::string> distinct;
  for (size_t i = 0; i < pids.size(); i += 2) distinct.insert(pids[i]);
  EXPECT_LE(distinct.size(), 2u);
}

TEST(HelperPoolTest, AChildOfAForkHasHelpersOfItsOwn) {
  HelperPool pool(TestHelper(), 2);
  const pid_t ours = PidOf(pool);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(InChild([&] {
                const pid_t own = PidOf(pool);
                return own > 0 && own != ours ? 0 : 1;
              }),
              0);
  }
  EXPECT_EQ(PidOf(pool), ours) << "the child ended its parent's";
}

TEST(HelperPoolTest, AForkWhileRequestsAreUnderWay) {
  HelperPool pool(TestHelper(), 2);
  std::atomic<bool> stop{false};
  absl::StatusOr<Thread> asks = Thread::Start([&] {
    while (!stop) EXPECT_EQ(pool.Ask("sleep 2", 5000).value_or("none"), "answer to sleep 2");
  });
  ASSERT_TRUE(asks.ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(InChild([&] {
                return pool.Ask("in child", 5000).value_or("") == "answer to in child" ? 0 : 1;
              }),
              0);
  }
  stop = true;
}

TEST(HelperPoolTest, InheritsNeitherDescriptorsNorSignals) {
  EXPECT_EQ(InChild([] {
              const int listening = socket(AF_UNIX, SOCK_STREAM, 0);  // without CLOEXEC
              dup2(listening, 100);
              signal(SIGTERM, SIG_IGN);
              signal(SIGPIPE, SIG_IGN);
              signal(SIGCHLD, SIG_IGN);
              sigset_t blocked;
              sigfillset(&blocked);
              sigprocmask(SIG_BLOCK, &blocked, nullptr);
              HelperPool pool(TestHelper(), 1);
              const pid_t pid = PidOf(pool);
              int faults = 0;
              for (const auto& entry :
                   std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"))) {
                if (std::stoi(entry.path().filename()) > 2) ++faults;
              }
              // SIGPIPE it ignores itself; 32 and 33 are the C library's own.
              constexpr uint64_t kIgnored = uint64_t{1} << (SIGPIPE - 1), kInternal = 0x180000000;
              std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
              for (std::string line; std::getline(status, line);) {
                if (line.rfind("SigBlk:", 0) != 0 && line.rfind("SigIgn:", 0) != 0) continue;
                const uint64_t set = std::stoull(line.substr(8), nullptr, 16) & ~kInternal;
                if (set != (line.rfind("SigIgn:", 0) == 0 ? kIgnored : 0)) ++faults;
              }
              return faults;
            }),
            0);
}

TEST(HelperPoolTest, WorksInAHostWithoutStandardDescriptors) {
  EXPECT_EQ(InChild([] {
              for (int fd = 0; fd < 3; ++fd) close(fd);
              HelperPool pool(TestHelper(), 1);
              return pool.Ask("x", 5000).value_or("") == "answer to x" ? 0 : 1;
            }),
            0);
}

// A daemon closes all descriptors, also those that are not its own, and opens files in their place.
TEST(HelperPoolTest, WritesToNoFileThatTookTheNumberOfItsSocket) {
  EXPECT_EQ(InChild([] {
              HelperPool pool(TestHelper(), 1);
              if (pool.Ask("x", 5000).value_or("") != "answer to x") return 1;
              FILE* const file = std::tmpfile();
              for (int fd = 3; fd < 64; ++fd) {
                if (fd != fileno(file)) dup2(fileno(file), fd);
              }
              const auto answer = pool.Ask("y", 2000);
              if (answer.ok() && *answer != "answer to y") return 2;
              return lseek(fileno(file), 0, SEEK_END) == 0 ? 0 : 3;
            }),
            0);
}

// ... or children of its own: what has their numbers is neither closed nor killed.
TEST(HelperPoolTest, HarmsNothingThatTookItsNumbers) {
  EXPECT_EQ(InChild([] {
              const pid_t own = fork();
              if (own == 0) {
                pause();
                _exit(0);
              }
              const int named = static_cast<int>(syscall(SYS_pidfd_open, own, 0));
              if (named < 0) return 0;  // there are none
              {
                HelperPool pool(TestHelper(), 1);
                if (pool.Ask("x", 5000).value_or("") != "answer to x") return 1;
                for (int fd = 3; fd < 64; ++fd) {
                  if (fd != named) dup2(named, fd);
                }
                // The helper's end is told of by the socket, which is closed now.
                const pid_t forked = fork();
                if (forked == 0) {
                  for (int fd = 3; fd < 64; ++fd) {
                    if (fcntl(fd, F_GETFD) < 0) _exit(1);
                  }
                  _exit(0);
                }
                int status = 0;
                if (waitpid(forked, &status, 0) != forked || status != 0) return 2;
              }
              for (int fd = 3; fd < 64; ++fd) {
                if (fcntl(fd, F_GETFD) < 0) return 3;
              }
              int status = 0;
              if (waitpid(own, &status, WNOHANG) != 0) return 4;
              kill(own, SIGKILL);
              return waitpid(own, &status, 0) == own ? 0 : 5;
            }),
            0);
}

TEST(HelperPoolTest, WithoutProcessesThereIsAnError) {
  EXPECT_EQ(InChild([] {
              const rlimit one = {1, 1};
              if (setrlimit(RLIMIT_NPROC, &one) != 0) return 1;
              // Root is not limited.
              if (geteuid() == 0 && setresuid(65'534, 65'534, 65'534) != 0) return 2;
              HelperPool pool(TestHelper(), 2);
              const absl::Status status = pool.Ask("x", 5000).status();
              return absl::IsUnavailable(status) || absl::IsNotFound(status) ? 0 : 3;
            }),
            0);
}

TEST(HelperPoolTest, StoppingEndsARequestUnderWay) {
  HelperPool pool(TestHelper(), 1);
  PidOf(pool);
  absl::StatusOr<Thread> stops = Thread::Start([&] {
    usleep(100'000);
    pool.Stop();
  });
  ASSERT_TRUE(stops.ok());
  const auto begun = steady_clock::now();
  EXPECT_TRUE(absl::IsCancelled(pool.Ask("sleep 20000", 30'000).status()));
  EXPECT_LT(steady_clock::now() - begun, std::chrono::seconds(5));
}

}  // namespace
}  // namespace kiln
