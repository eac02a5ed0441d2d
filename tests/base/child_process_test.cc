// SPDX-License-Identifier: Apache-2.0
#include "base/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

// A program that answers "ok" after 0.4 s: its length in four bytes, then the bytes.
std::string Slow(const TempDir& dir) {
  const std::string path = dir.File("slow");
  std::ofstream(path) << "#!/bin/sh\nsleep 0.4\nprintf '\\002\\000\\000\\000ok'\nsleep 5\n";
  chmod(path.c_str(), 0755);
  return path;
}

TEST(ChildProcess, GivesUpAfterTheTime) {
  const TempDir dir;
  KILN_ASSERT_OK_AND_ASSIGN(const auto process, ChildProcess::Start(Slow(dir)));
  EXPECT_FALSE(process->Read(100).ok());
  KILN_ASSERT_OK_AND_ASSIGN(const std::string answer, process->Read(5000));
  EXPECT_EQ(answer, "ok");
}

// A group of processes that is stopped, or frozen with its machine, has not waited.
TEST(ChildProcess, TimeInWhichAllAreStoppedDoesNotCount) {
  const TempDir dir;
  const std::string path = Slow(dir);
  const pid_t reader = fork();
  if (reader == 0) {
    setpgid(0, 0);
    const auto process = ChildProcess::Start(path);
    _exit(process.ok() && (*process)->Read(1200).ok() ? 0 : 1);
  }
  setpgid(reader, reader);
  absl::SleepFor(absl::Milliseconds(150));
  ASSERT_EQ(kill(-reader, SIGSTOP), 0);
  absl::SleepFor(absl::Milliseconds(1500));
  // The reader wakes first.
  kill(reader, SIGCONT);
  absl::SleepFor(absl::Milliseconds(150));
  kill(-reader, SIGCONT);
  int status = -1;
  waitpid(reader, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace kiln
