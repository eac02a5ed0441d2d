// SPDX-License-Identifier: Apache-2.0
#include "base/keyed_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/in_child.h"

namespace kiln {
namespace {

TEST(KeyedMutex, OneThreadAtATimeHoldsAKey) {
  KeyedMutex<int> mutex;
  int held[3] = {};  // each guarded by its key
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        const int key = (t + i) % 3;
        const KeyedMutexLock lock(mutex, key);
        if (++held[key] != 1) ++wrong;
        std::this_thread::yield();
        --held[key];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(KeyedMutex, NobodyWaitsForAnotherKey) {
  KeyedMutex<std::string> mutex;
  const KeyedMutexLock held(mutex, std::string("a"));
  bool got = false;
  std::thread b([&] {
    const KeyedMutexLock lock(mutex, std::string("b"));
    got = true;
  });
  b.join();
  EXPECT_TRUE(got);
}

TEST(KeyedMutex, IsFreeInAChild) {
  KeyedMutex<int> mutex;
  const KeyedMutexLock held(mutex, 7);
  EXPECT_EQ(InChild(
                [&] {
                  const KeyedMutexLock lock(mutex, 7);
                  return 0;
                },
                5),
            0);
}

}  // namespace
}  // namespace kiln
