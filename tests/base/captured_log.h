// SPDX-License-Identifier: Apache-2.0
// Log lines of a test, while the object lives.
#ifndef KILN_TESTS_BASE_CAPTURED_LOG_H_
#define KILN_TESTS_BASE_CAPTURED_LOG_H_

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace kiln {

class CapturedLog : public LogSink {
 public:
  CapturedLog() : before_(SetLogSink(this)) {}
  ~CapturedLog() override {
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

}  // namespace kiln

#endif  // KILN_TESTS_BASE_CAPTURED_LOG_H_
