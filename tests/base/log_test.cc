// SPDX-License-Identifier: Apache-2.0
#include "kiln/base/log.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/captured_log.h"

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

}  // namespace
}  // namespace kiln
