// SPDX-License-Identifier: Apache-2.0
// Progress of a long command on stderr: a bar on a terminal, else a line per step.
//
//   [########------------]  12/30  ETA 8 s  softmax+mul          (rewritten in place)
//   [12/30] built x86-64-v3 9f31c2a07b1e softmax+mul             (elsewhere)
#ifndef KILN_TOOLS_PROGRESS_H_
#define KILN_TOOLS_PROGRESS_H_

#include <chrono>
#include <cstddef>
#include <string>

#include "tools/common.h"

namespace kiln {

// Not thread-safe.
class Progress {
 public:
  // A bar if stderr is a terminal that can, and CI is not set; nothing under -q.
  Progress(const CommonOptions& options, size_t total);
  ~Progress();  // ends the bar

  // Step `done` has ended; `line` tells of it, `current` is what the bar shows.
  void Step(size_t done, const std::string& line, const std::string& current);

  // The bar as it would be drawn, at most `columns` wide.
  static std::string Bar(size_t done, size_t total, double seconds, const std::string& current,
                         size_t columns);

 private:
  const bool quiet_, bar_;
  const size_t total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool drawn_ = false;
};

}  // namespace kiln

#endif  // KILN_TOOLS_PROGRESS_H_
