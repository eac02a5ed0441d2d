// SPDX-License-Identifier: Apache-2.0
// The threads of this process, as the system sees them.
#ifndef KILN_TESTS_BASE_THREADS_OF_PROCESS_H_
#define KILN_TESTS_BASE_THREADS_OF_PROCESS_H_

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace kiln {

inline int ThreadsOfProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// Threads but the calling one that have a processor or wait for one.
inline int RunnableThreads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream stat(task.path() / "stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');
    count += name_end != std::string::npos && text[name_end + 2] == 'R' ? 1 : 0;
  }
  return count;
}

}  // namespace kiln

#endif  // KILN_TESTS_BASE_THREADS_OF_PROCESS_H_
