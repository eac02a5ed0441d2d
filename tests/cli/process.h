// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end, or for a while, and keeps what it printed.
#ifndef KILN_TESTS_CLI_PROCESS_H_
#define KILN_TESTS_CLI_PROCESS_H_

#include <signal.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct ProcessResult {
  int exit = -1;    // exit status; -signal if a signal ended it
  std::string out;  // stdout
  std::string err;  // stderr
  double seconds = 0;
  int64_t peak_kib = 0;  // most memory that it had at once
};

struct ProcessOptions {
  std::vector<std::pair<std::string, std::string>> environment =
      {};                      // set over this process's own; an empty value unsets
  std::string directory = {};  // working directory; empty: this one's
  int kill_after_us = -1;      // a signal to the process and its children after this long
  int signal = SIGKILL;        // which; SIGINT is what Ctrl-C on a terminal does
};

// arguments[0] is the program's path.
ProcessResult RunProcess(const std::vector<std::string>& arguments,
                         const ProcessOptions& options = {});

// The built `kiln`, and a run of it.
std::string KilnPath();
ProcessResult Kiln(std::vector<std::string> arguments, const ProcessOptions& options = {});

}  // namespace kiln

#endif  // KILN_TESTS_CLI_PROCESS_H_
