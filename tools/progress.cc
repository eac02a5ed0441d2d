// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace kiln {
namespace {

bool TerminalWithBars() {
  const char* const term = secure_getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && secure_getenv("CI") == nullptr && term != nullptr &&
         std::string(term) != "dumb";
}

size_t Columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// In place of the terminal's line; not by std::cerr, which shows what moves the cursor.
void Draw(const std::string& line) { std::fputs(absl::StrCat("\r\033[K", line).c_str(), stderr); }

}  // namespace

Progress::Progress(const CommonOptions& options, size_t total)
    : quiet_(options.quiet), bar_(TerminalWithBars()), total_(total) {}

Progress::~Progress() {
  if (drawn_) Draw("");
}

void Progress::Step(size_t done, const std::string& line, const std::string& current) {
  if (quiet_) return;
  if (!bar_) {
    std::cerr << "[" << done << "/" << total_ << "] " << line << "\n";
    return;
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  Draw(Bar(done, total_, seconds, Printable(current), Columns() - 1));
  drawn_ = true;
}

std::string Progress::Bar(size_t done, size_t total, double seconds, const std::string& current,
                          size_t columns) {
  constexpr size_t kWidth = 20;
  const size_t filled = total == 0 ? kWidth : kWidth * done / total;
  const double left =
      done == 0 ? 0 : seconds / static_cast<double>(done) * static_cast<double>(total - done);
  std::string text =
      absl::StrCat("[", std::string(filled, '#'), std::string(kWidth - filled, '-'), "]  ", done,
                   "/", total, "  ETA ", static_cast<int64_t>(std::ceil(left)), " s  ", current);
  return text.substr(0, columns);
}

}  // namespace kiln
