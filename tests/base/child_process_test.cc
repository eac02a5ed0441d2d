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

TEST(ChildProcess, OutputIsAllThatIsPrinted) {
  const TempDir dir;
  const std::string path = dir.File("echo");
  std::ofstream(path) << "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\"; done\n";
  chmod(path.c_str(), 0755);
  KILN_ASSERT_OK_AND_ASSIGN(const std::string printed, OutputOf({path, "a b", "c"}, 5000));
  EXPECT_EQ(printed, "<a b>\n<c>\n");
  EXPECT_FALSE(OutputOf({Slow(dir)}, 100).ok());
  EXPECT_FALSE(OutputOf({dir.File("none")}, 5000).ok());
}

TEST(FindTool, IsNamedOrOnThePathOrInItsFolder) {
  const TempDir dir;
  const std::string tool = Slow(dir);
  const std::string path = getenv("PATH");
  const auto found = [&](const char* named, const std::string& on_path, const std::string& folder) {
    setenv("KILN_TEST_TOOL", named, 1);
    setenv("PATH", on_path.c_str(), 1);
    return FindTool("slow", "KILN_TEST_TOOL", folder.c_str());
  };
  EXPECT_EQ(found("", "/nowhere:" + dir.path(), "/nowhere"), tool);
  EXPECT_EQ(found("", "/nowhere", dir.path()), tool);
  EXPECT_EQ(found("", "/nowhere", "/nowhere"), "");
  EXPECT_EQ(found("none", dir.path(), dir.path()), "");
  EXPECT_EQ(found(tool.c_str(), "", ""), tool);
  EXPECT_EQ(found((tool + "er").c_str(), dir.path(), dir.path()), "");
  setenv("PATH", path.c_str(), 1);
  unsetenv("KILN_TEST_TOOL");
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
