// SPDX-License-Identifier: Apache-2.0
// What Kiln tells while it works: lines with a level, given to one replaceable sink.
//
//   LogWarning("cache: entry \"", key, "\" is damaged; it is set aside and compiled again");
//
// The pieces are put together as by absl::StrCat, and only when the level is on. Text follows the
// rules of error messages: lower case, names in double quotes, no full stop. Nothing here is for
// results: those go to stdout by the tools.
//
// The first level that is on comes from the environment, KILN_LOG=debug|info|warning|error|off
// (default warning), until SetLogLevel says otherwise. All functions are thread-safe.
#ifndef KILN_BASE_LOG_H_
#define KILN_BASE_LOG_H_

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kiln {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// "debug", "info", "warning", "error", "off", and back; nothing for any other text.
absl::string_view Name(LogLevel level);
std::optional<LogLevel> ParseLogLevel(absl::string_view name);

// Takes lines from any thread, also at once.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // `message` has no line end and is valid during the call only. What it throws is lost.
  virtual void Write(LogLevel level, absl::string_view message) = 0;
};

// Sends lines to `sink` from now on, or to stderr ("kiln: warning: ...") when it is null. The
// caller keeps the sink alive until it is replaced and no thread writes. Returns the sink before,
// null for stderr.
LogSink* SetLogSink(LogSink* sink);

void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);

// Writes a line if its level is on. Never throws: a line without memory is lost.
void LogLine(LogLevel level, absl::string_view message);

template <typename... Pieces>
void Log(LogLevel level, const Pieces&... pieces) {
  if (LogEnabled(level)) LogLine(level, absl::StrCat(pieces...));
}
template <typename... Pieces>
void LogDebug(const Pieces&... pieces) {
  Log(LogLevel::kDebug, pieces...);
}
template <typename... Pieces>
void LogInfo(const Pieces&... pieces) {
  Log(LogLevel::kInfo, pieces...);
}
template <typename... Pieces>
void LogWarning(const Pieces&... pieces) {
  Log(LogLevel::kWarning, pieces...);
}
template <typename... Pieces>
void LogError(const Pieces&... pieces) {
  Log(LogLevel::kError, pieces...);
}

}  // namespace kiln

#endif  // KILN_BASE_LOG_H_
