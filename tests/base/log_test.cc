// SPDX-License-Identifier: Apache-2.0
#include "kiln/base/log.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::Pair;

class CapturingSink : public LogSink {
 public:
  CapturingSink() : before_(SetLogSink(this)) {}
  ~CapturingSink() override {
    SetLogSink(before_);
    SetLogLevel(LogLevel::kWarning);
  }
  void Write(LogLevel level, absl::string_view message) override {
    lines.emplace_back(level, std::string(message));
  }
  std::vector<std::pair<LogLevel, std::string>> lines;

 private:
  LogSink* before_;
};

TEST(LogTest, PutsPiecesTogether) {
  CapturingSink sink;
  LogWarning("cache: ", 3, " of ", 4, " entries");
  EXPECT_THAT(sink.lines, ElementsAre(Pair(LogLevel::kWarning, "cache: 3 of 4 entries")));
}

TEST(LogTest, DropsLinesBelowTheLevel) {
  CapturingSink sink;
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
