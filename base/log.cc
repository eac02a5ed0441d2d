// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/catch_exceptions.h"
#include "base/descriptor.h"
#include "base/printable.h"

namespace kiln {
namespace {

constexpr std::array<absl::string_view, 5> kNames = {"debug", "info", "warning", "error", "off"};

LogLevel LevelFromEnvironment() {
  const char* value = secure_getenv("KILN_LOG");
  if (value == nullptr || *value == '\0') return LogLevel::kWarning;
  if (const std::optional<LogLevel> level = ParseLogLevel(value)) return *level;
  std::fprintf(stderr,
               "kiln: warning: KILN_LOG: no level \"%s\"; use debug, info, warning, error or off\n",
               value);
  return LogLevel::kWarning;
}

std::atomic<LogLevel>& CurrentLevel() {
  static std::atomic<LogLevel> level(LevelFromEnvironment());
  return level;
}

std::atomic<LogSink*>& CurrentSink() {
  static std::atomic<LogSink*> sink(nullptr);
  return sink;
}

}  // namespace

absl::string_view Name(LogLevel level) { return kNames[static_cast<size_t>(level)]; }

std::optional<LogLevel> ParseLogLevel(absl::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

LogSink* SetLogSink(LogSink* sink) { return CurrentSink().exchange(sink); }

void SetLogLevel(LogLevel level) { CurrentLevel() = level; }

bool LogEnabled(LogLevel level) { return level != LogLevel::kOff && level >= CurrentLevel(); }

void LogLine(LogLevel level, absl::string_view message) {
  if (!LogEnabled(level)) return;
  CatchExceptions("log", [&] {
    if (LogSink* sink = CurrentSink()) {
      sink->Write(level, message);
      return absl::OkStatus();
    }
    // One write, so that the lines of threads and processes do not mix.
    const std::string line = Printable(absl::StrCat("kiln: ", Name(level), ": ", message, "\n"));
    if (IsWithinFileLimit(STDERR_FILENO, line.size()))
      std::fwrite(line.data(), 1, line.size(), stderr);
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace kiln
