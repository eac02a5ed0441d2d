// SPDX-License-Identifier: Apache-2.0
// A trace in the form of Chrome's trace events, which chrome://tracing and Perfetto show: the
// object with `traceEvents`, times in microseconds.
//
//   TraceFile trace;
//   const int64_t start = trace.Now();
//   ...
//   trace.Slice(TraceFile::Track::kCompile, "import", start, trace.Now(), {{"nodes", 55}});
//   WriteFileDurably(path, trace.Write());
//
// Slices of a track must be nested or disjoint. Names may be any bytes: what is no UTF-8 becomes
// U+FFFD.
#ifndef KILN_TOOLS_TRACE_FILE_H_
#define KILN_TOOLS_TRACE_FILE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace kiln {

// Not thread-safe.
class TraceFile {
 public:
  enum class Track : uint8_t { kCompile = 1, kKernels = 2, kCache = 3, kLaunches = 4 };

  // Nanoseconds since the trace began.
  int64_t Now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  void Slice(Track track, const std::string& name, int64_t begin, int64_t end,
             const nlohmann::json& args);
  void Instant(Track track, const std::string& name, int64_t at, const nlohmann::json& args);
  // `series`: an object of numbers.
  void Counter(Track track, const std::string& name, int64_t at, const nlohmann::json& series);

  // The text of the file.
  std::string Write() const;

 private:
  using Clock = std::chrono::steady_clock;
  nlohmann::json& Add(Track track, const std::string& name, const char* phase, int64_t at);

  const Clock::time_point start_ = Clock::now();
  std::vector<nlohmann::json> events_;
};

}  // namespace kiln

#endif  // KILN_TOOLS_TRACE_FILE_H_
