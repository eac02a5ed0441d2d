// SPDX-License-Identifier: Apache-2.0
// One key, one builder: between threads, between processes, and when the builder dies or hangs.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/base/fault_injecting_file_system.h"
#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

using LockTest = StoreTestBase;

const CacheKey kKey = PreimageOf(1).Key();

TEST_F(LockTest, ExcludesAnotherThreadAndNotAnotherKey) {
  auto store = Open();
  const KeyLock mine = store->LockKey(kKey, absl::ZeroDuration());
  ASSERT_TRUE(mine.held());
  std::thread([&] {
    EXPECT_FALSE(store->LockKey(kKey, absl::ZeroDuration()).held());
    EXPECT_TRUE(store->LockKey(PreimageOf(2).Key(), absl::ZeroDuration()).held());
  }).join();
}

TEST_F(LockTest, WaitsNoLongerThanItWasTold) {
  auto store = Open();
  const KeyLock mine = store->LockKey(kKey, absl::ZeroDuration());
  const absl::Time start = absl::Now();
  EXPECT_FALSE(Open()->LockKey(kKey, absl::Milliseconds(60)).held());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(60));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST_F(LockTest, DeadHolderIsNoHolder) {
  auto store = Open();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const KeyLock held = Open()->LockKey(kKey, absl::Seconds(1));
    if (write(ready[1], held.held() ? "y" : "n", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char held = 'n';
  ASSERT_EQ(read(ready[0], &held, 1), 1);
  ASSERT_EQ(held, 'y');
  EXPECT_FALSE(store->LockKey(kKey, absl::Milliseconds(5)).held());
  kill(child, SIGSTOP);  // one that hangs is waited for only so long
  EXPECT_FALSE(store->LockKey(kKey, absl::Milliseconds(5)).held());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(store->LockKey(kKey, absl::Seconds(5)).held());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(LockTest, WithoutLocksEverybodyBuildsForHimself) {
  FaultInjectingFileSystem faults(RealFileSystem());
  auto store = Open(faults);
  for (const int error : {ENOLCK, EOPNOTSUPP, EACCES}) {
    faults.FailAll("TryLock", error);
    EXPECT_FALSE(store->LockKey(kKey, absl::Seconds(60)).held());
    EXPECT_TRUE(store->Publish(EntryOf(1)).ok());
  }
  EXPECT_FALSE(Open(ReadOnly())->LockKey(kKey, absl::Seconds(60)).held());
}

// A FileSystem on NFS, as far as Disk() is concerned.
class NetworkDisk : public FaultInjectingFileSystem {
 public:
  NetworkDisk() : FaultInjectingFileSystem(RealFileSystem()) {}
  absl::StatusOr<DiskInfo> Disk(absl::string_view path) override {
    absl::StatusOr<DiskInfo> disk = FaultInjectingFileSystem::Disk(path);
    if (disk.ok()) disk->network = true;
    return disk;
  }
};

TEST_F(LockTest, TakesNoLocksOnANetworkDisk) {
  NetworkDisk network;
  auto store = Open(network);
  EXPECT_FALSE(store->LockKey(kKey, absl::Seconds(60)).held());
  for (const auto& call : network.log()) EXPECT_NE(call.op, "TryLock");
}

TEST_F(LockTest, WhoLooksAgainCountsAHitInsteadOfAMiss) {
  auto store = Open();
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  EXPECT_FALSE(store->LookupAgain(PreimageOf(1)).has_value());
  ASSERT_TRUE(Open()->Publish(EntryOf(1)).ok());
  EXPECT_TRUE(store->LookupAgain(PreimageOf(1)).has_value());
  EXPECT_EQ(store->counters().hits, 1u);
  EXPECT_EQ(store->counters().misses, 0u);
}

TEST_F(LockTest, ThreadsShareAStore) {
  auto store = Open();
  constexpr int kKeys = 20;
  std::atomic<int> built{0};
  const auto work = [&](int start) {
    for (int i = 0; i < kKeys; ++i) {
      const Preimage preimage = PreimageOf((start + i) % kKeys);
      if (store->Lookup(preimage).has_value()) continue;
      const KeyLock lock = store->LockKey(preimage.Key(), absl::Seconds(30));
      if (store->LookupAgain(preimage).has_value()) continue;
      ++built;
      EXPECT_TRUE(store->Publish(EntryOf((start + i) % kKeys)).ok());
      store->Statistics();
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(built, kKeys);
  EXPECT_EQ(store->counters().published, static_cast<uint64_t>(kKeys));
  EXPECT_EQ(store->counters().hits + store->counters().misses, static_cast<uint64_t>(8 * kKeys));
}

}  // namespace
}  // namespace kiln
