// SPDX-License-Identifier: Apache-2.0
// What Kiln tells while it works: lines with a level, given to one replaceable sink.
//
//   LogWarning("cache: entry \"", key, "\" is damaged; it is set aside and compiled again");
//
// The pieces are put together as by absl::StrCat, and only when the level is on. Text follows the
// rules of error messages: lower case, names in double quotes, no full stop. Nothing here is for
// results: those go to stdout by the tools.
// The sink and the level are the host's: kiln/log.h. All functions are thread-safe.
#ifndef KILN_BASE_LOG_H_
#define KILN_BASE_LOG_H_

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kiln/log.h"

namespace kiln {

// "debug", "info", "warning", "error", "off", and back; nothing for any other text.
absl::string_view Name(LogLevel level);
std::optional<LogLevel> ParseLogLevel(absl::string_view name);

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
