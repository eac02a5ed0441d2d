// SPDX-License-Identifier: Apache-2.0
#include "tools/jobserver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// The pipe of a make with these further tokens.
class Pipe {
 public:
  explicit Pipe(const std::string& tokens) {
    EXPECT_EQ(pipe(fds_), 0);
    EXPECT_EQ(write(fds_[1], tokens.data(), tokens.size()), static_cast<ssize_t>(tokens.size()));
  }
  ~Pipe() {
    close(fds_[0]);
    close(fds_[1]);
  }
  std::string flags() const {
    return absl::StrCat(" -j4 --jobserver-auth=", fds_[0], ",", fds_[1],
                        " -- A=--jobserver-auth=x");
  }
  // What is in it, sorted.
  std::string Tokens() {
    fcntl(fds_[0], F_SETFL, O_NONBLOCK);
    char bytes[64];
    const ssize_t n = read(fds_[0], bytes, sizeof bytes);
    std::string all(bytes, bytes + std::max<ssize_t>(n, 0));
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  int fds_[2] = {-1, -1};
};

// The most that ran at once of many jobs on eight threads.
int MostAtOnce(Jobserver& server) {
  std::atomic<int> now{0}, most{0};
  ForEachInParallel(
      200,
      [&](size_t) {
        const Jobserver::Token token = server.Acquire();
        const int running = ++now;
        int known = most;
        while (running > known && !most.compare_exchange_weak(known, running)) {
        }
        usleep(500);
        --now;
      },
      8);
  return most;
}

TEST(Jobserver, RunsAsManyJobsAsThereAreTokensAndOne) {
  for (const std::string tokens : {"", "a", "+-x"}) {
    Pipe pipe(tokens);
    {
      const auto server = Jobserver::Open(pipe.flags());
      ASSERT_TRUE(server.ok()) << server.status();
      ASSERT_NE(*server, nullptr);
      EXPECT_EQ(MostAtOnce(**server), static_cast<int>(tokens.size()) + 1);
    }
    EXPECT_EQ(pipe.Tokens(), tokens) << "the very bytes go back";
  }
}

TEST(Jobserver, AFifoIsOneToo) {
  TempDir dir;
  const std::string path = dir.File("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int fd = open(path.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_EQ(write(fd, "ab", 2), 2);
  {
    const auto server = Jobserver::Open(absl::StrCat("w -j3 --jobserver-auth=fifo:", path));
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ(MostAtOnce(**server), 3);
  }
  char bytes[4];
  EXPECT_EQ(read(fd, bytes, 4), 2);
  close(fd);
}

TEST(Jobserver, OthersMayTakeTokensMeanwhile) {
  Pipe pipe("abcd");
  {
    const auto one = Jobserver::Open(pipe.flags()), other = Jobserver::Open(pipe.flags());
    ASSERT_TRUE(one.ok() && other.ok());
    const absl::StatusOr<Thread> beside = Thread::Start([&] { MostAtOnce(**other); });
    EXPECT_GE(MostAtOnce(**one), 1);
  }
  EXPECT_EQ(pipe.Tokens(), "abcd");
}

TEST(Jobserver, ThereIsNoneOrItIsOutOfReach) {
  EXPECT_EQ(*Jobserver::Open(""), nullptr);
  EXPECT_EQ(*Jobserver::Open("k -- V=--jobserver-auth=3,4"), nullptr);
  for (const char* const flags :
       {"--jobserver-auth=900,901", "--jobserver-auth=-2,-2", "--jobserver-fds=0",
        "--jobserver-auth=", "--jobserver-auth=fifo:/nonexistent",
        "--jobserver-auth=fifo:/dev/null"}) {
    const auto server = Jobserver::Open(flags);
    if (std::string(flags) == "--jobserver-auth=") {
      EXPECT_TRUE(server.ok() && *server == nullptr);
      continue;
    }
    EXPECT_TRUE(absl::IsFailedPrecondition(server.status())) << flags;
    EXPECT_THAT(std::string(server.status().message()), HasSubstr("\"+\"")) << flags;
  }
}

TEST(Jobserver, ASignalEndsTheProcessWhenItsTokensAreBack) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Pipe pipe("xyz"), told("");
    const pid_t child = fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);
      auto server = Jobserver::Open(pipe.flags());
      std::vector<Jobserver::Token> tokens;
      for (int k = 0; k < 3; ++k) tokens.push_back((*server)->Acquire());
      kill(getpid(), signal);
      for (;;) pause();
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(pipe.Tokens(), "xyz");
  }
}

class UnderMakeTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/bin/make", X_OK) != 0) GTEST_SKIP() << "no make";
    for (const char* const name : {"a", "b"}) {
      std::ofstream(dir_.File(absl::StrCat(name, ".graph")))
          << "graph g\ninput x : f32 [n, 32]\ne = exp(x)\nt = tanh(x)\noutput e\noutput t\n";
    }
    // Says when a compiler is started, and is one.
    const std::string worker = dir_.File("worker");
    std::ofstream(worker)
        << "#!/bin/sh\necho $PPID >> " << dir_.File("workers") << "\nexec "
        << std::filesystem::path(KilnPath()).replace_filename("kiln-codegen").string() << "\n";
    std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  }
  ProcessResult Make(const std::string& jobs, const std::string& prefix) {
    std::ofstream(dir_.File("Makefile"))
        << "all: a.kiln b.kiln\n%.kiln: %.graph\n\t" << prefix << KilnPath()
        << " compile $< -o $@ -O0 -j 4 --cache-dir " << dir_.File("cache.") << "$@\n";
    return RunProcess({"/usr/bin/make", jobs},
                      {.environment = {{"KILN_CODEGEN", dir_.File("worker")}, {"MAKEFLAGS", ""}},
                       .directory = dir_.path()});
  }
  int Workers() const {
    const std::string all = Contents(dir_.File("workers"));
    return static_cast<int>(std::count(all.begin(), all.end(), '\n'));
  }
  TempDir dir_;
};

// make itself counts the tokens when it ends, and complains where one is missing.
TEST_F(UnderMakeTest, NoMoreCompilersRunThanMakeHasJobsAndAllTokensComeBack) {
  const ProcessResult made = Make("-j2", "+");  // both are of the recipes
  EXPECT_EQ(made.exit, 0) << made.err;
  EXPECT_THAT(made.err, testing::Not(HasSubstr("jobserver")));
  EXPECT_TRUE(std::filesystem::exists(dir_.File("a.kiln")));
  EXPECT_TRUE(std::filesystem::exists(dir_.File("b.kiln")));
  EXPECT_GE(Workers(), 2);
  EXPECT_LE(Workers(), 3) << "one more when the other recipe has ended";
}

TEST_F(UnderMakeTest, WithoutAJobserverOneKernelIsBuiltAtATime) {
  const ProcessResult made = Make("-j2", "");
  EXPECT_EQ(made.exit, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("begin the recipe's line with \"+\""));
  EXPECT_EQ(Workers(), 2);
}

}  // namespace
}  // namespace kiln
