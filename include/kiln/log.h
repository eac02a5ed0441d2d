// SPDX-License-Identifier: Apache-2.0
// Where what Kiln tells while it works goes: lines with a level, given to one replaceable sink.
//
//   class Mine : public kiln::LogSink {
//     void Write(kiln::LogLevel level, absl::string_view message) override { ... }
//   } mine;
//   kiln::SetLogSink(&mine);
//   kiln::SetLogLevel(kiln::LogLevel::kInfo);
//
// The first level that is on comes from the environment, KILN_LOG=debug|info|warning|error|off
// (default warning), until SetLogLevel says otherwise. Warnings are about what Kiln did without: a
// cache that it may not use, a kernel that stays on the VM. All functions are thread-safe.
#ifndef KILN_LOG_H_
#define KILN_LOG_H_

#include "absl/strings/string_view.h"
#include "kiln/status.h"

namespace kiln {

enum class LogLevel : int { kDebug, kInfo, kWarning, kError, kOff };

// Takes lines from any thread, also at once.
class KILN_API LogSink {
 public:
  virtual ~LogSink() = default;
  // `message` has no line end and is valid during the call only. What it throws is lost.
  virtual void Write(LogLevel level, absl::string_view message) = 0;
};

// Sends lines to `sink` from now on, or to stderr ("kiln: warning: ...") when it is null. The
// caller keeps the sink alive until it is replaced and no thread writes. Returns the sink before,
// null for stderr.
KILN_API LogSink* SetLogSink(LogSink* sink);

KILN_API void SetLogLevel(LogLevel level);

}  // namespace kiln

#endif  // KILN_LOG_H_
