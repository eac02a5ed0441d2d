// SPDX-License-Identifier: Apache-2.0
// Arrays and traces of several threads, and of children of a process.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "kiln/trace_ops.h"
#include "tests/trace/arrays.h"

namespace kiln {
namespace {

// A child of a fork has none of the threads that have used arrays in its parent, nor their stacks.
TEST(TraceThreads, AChildHasArraysWithoutTheThreadsOfItsParent) {
  std::atomic<bool> used{false}, done{false};
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) ValuesOf(Of({1, 2}) * 2.0f);
    used = true;
    while (!done) std::this_thread::yield();
  });
  while (!used) std::this_thread::yield();
  const auto waits_for = [](pid_t child) {
    int status = 1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  const pid_t child = fork();
  if (child == 0) {
    // Threads of the child get the stacks that were those of the parent's.
    for (int i = 0; i < 4; ++i) std::thread([] { ValuesOf(Of({3}) + 1.0f); }).join();
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(ValuesOf(Of({1}) + 1.0f) == Floats{2} ? 0 : 1);
    _exit(waits_for(grandchild) ? 0 : 1);
  }
  EXPECT_TRUE(waits_for(child));
  done = true;
  other.join();
}

// A thread, or a process, that ends does not wait until what it traced is compiled.
TEST(TraceThreads, ACompilationEndsWithItsThread) {
  std::atomic<bool> begun{false}, leaves{false}, grouped{false};
  std::thread([&] {
    TraceOptions options = Plain();
    options.compile.compile_mode = CompileMode::kBackground;
    options.compile.dump = [&](const std::string& kind, const std::string&, const std::string&) {
      if (kind == "groups") grouped = true;
      begun = true;
      while (!leaves) std::this_thread::yield();
    };
    auto traced = trace(
        [](const Array& x) {
          Array y = x;
          for (int i = 0; i < 400; ++i) y = sin(y * (2.0f + static_cast<float>(i)));
          return y;
        },
        options);
    const Array x = Of({1, 2});
    while (!begun) EXPECT_EQ(traced(x).status(), absl::OkStatus());
    leaves = true;
  }).join();
  EXPECT_FALSE(grouped);
}

TEST(TraceThreads, ForgetOfAnotherThreadFailsNoCall) {
  auto traced = trace([](const Array& x) { return x * 2.0f; }, Plain());
  const Array x = Of({1, 2});
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) traced.forget();
  });
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(traced(x).status(), absl::OkStatus());
  done = true;
  other.join();
}

}  // namespace
}  // namespace kiln
