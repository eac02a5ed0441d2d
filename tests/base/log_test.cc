// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/captured_log.h"
#include "tests/base/in_child.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(LogTest, PutsPiecesTogether) {
  CapturedLog sink;
  LogWarning("cache: ", 3, " of ", 4, " entries");
  EXPECT_THAT(sink.lines, ElementsAre(Pair(LogLevel::kWarning, "cache: 3 of 4 entries")));
}

TEST(LogTest, DropsLinesBelowTheLevel) {
  CapturedLog sink;
  SetLogLevel(LogLevel::kInfo);
  LogDebug("d");
  LogInfo("i");
  LogError("e");
  SetLogLevel(LogLevel::kOff);
  LogError("dropped");
  EXPECT_THAT(sink.lines, ElementsAre(Pair(LogLevel::kInfo, "i"), Pair(LogLevel::kError, "e")));
}

TEST(LogTest, WritesLinesToStderrWithoutASink) {
  SetLogLevel(LogLevel::kWarning);
  testing::internal::CaptureStderr();
  LogWarning("one");
  LogInfo("not this");
  LogError("two");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "kiln: warning: one\nkiln: error: two\n");
}

TEST(LogTest, LevelNamesReadBack) {
  for (int i = 0; i <= static_cast<int>(LogLevel::kOff); ++i) {
    const auto level = static_cast<LogLevel>(i);
    EXPECT_EQ(ParseLogLevel(Name(level)), level);
  }
  EXPECT_EQ(ParseLogLevel("loud"), std::nullopt);
}

// At its limit, stderr in a file would end the process by SIGXFSZ.
TEST(LogTest, TheLimitOfAFileIsNoSignal) {
  const TempDir dir;
  EXPECT_EQ(InChild(
                [&] {
                  const int file = open(dir.File("log").c_str(),
                                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
                  if (file < 0 || write(file, "1234567890", 10) != 10) return 1;
                  if (lseek(file, 0, SEEK_SET) != 0 || dup2(file, STDERR_FILENO) < 0) return 2;
                  if (!LimitFiles(10)) return 3;
                  LogLine(LogLevel::kError, "lost");
                  return 0;
                },
                10),
            0);
}

}  // namespace
}  // namespace kiln
