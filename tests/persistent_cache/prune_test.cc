// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/prune.h"

#include <filesystem>
#include <set>

#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class PruneTest : public StoreTestBase {
 protected:
  void SetUp() override {
    StoreTestBase::SetUp();
    store_ = Open();
  }
  // Entry k of 8 KiB on disk, last used so many hours ago.
  void Add(int k, int hours, int wall_ms = 100) {
    ASSERT_TRUE(store_->Publish(EntryOf(k, wall_ms, 7000)).ok());
    store_->WaitUntilPruned();  // two at once: the later one finds the lock taken and does nothing
    Age(FileOf(k), hours * kHourNs);
  }
  std::set<int> Left() {
    std::set<int> left;
    for (int k = 0; k < 100; ++k) {
      if (fs::exists(FileOf(k))) left.insert(k);
    }
    return left;
  }
  size_t Count(const std::string& folder) {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
  }

  std::unique_ptr<Store> store_;
};

TEST_F(PruneTest, RemovesTheLongestIdleDownToNineTenths) {
  for (int k = 0; k < 20; ++k) Add(k, 1 << (k / 2));
  const int64_t before = store_->Prune(0, true)->bytes;
  const auto report = store_->Prune(before - 1, false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->evicted.size(), 3u);
  EXPECT_EQ(store_->Prune(0, true)->bytes, before - report->evicted_bytes);
  EXPECT_LE(before - report->evicted_bytes, before / 10 * 9);
  EXPECT_EQ(Left().count(19) + Left().count(18), 0u);
  EXPECT_EQ(store_->Statistics().Sum().evictions, 3u);
}

TEST_F(PruneTest, AmongEquallyIdleTheCheapestToBuildGoesFirst) {
  Add(1, 10, 5000);
  Add(2, 9, 20);
  Add(3, 11, 9000);
  const int64_t bytes = store_->Prune(0, true)->bytes;
  ASSERT_EQ(store_->Prune(bytes - 1, false)->evicted.size(), 1u);
  EXPECT_EQ(Left(), (std::set<int>{1, 3}));
}

TEST_F(PruneTest, KeepsWhatIsYoungerThanAMinute) {
  for (int k = 0; k < 4; ++k) Add(k, 0);
  EXPECT_TRUE(store_->Prune(1, false)->evicted.empty());
  EXPECT_EQ(Left().size(), 4u);
}

TEST_F(PruneTest, TimesAheadOfTheClockNeitherLiveForEverNorGoAtOnce) {
  Add(1, -24 * 365);
  EXPECT_TRUE(store_->Prune(1, false)->evicted.empty());
  EXPECT_LT(RealFileSystem().Stat(FileOf(1))->mtime_ns, SystemNowNs() + kHourNs);
}

TEST_F(PruneTest, DryRunOnlyTells) {
  for (int k = 0; k < 4; ++k) Add(k, 5);
  Overwrite(Files().Temporaries() + "/x", "left over");
  Age(Files().Temporaries() + "/x", 30 * kHourNs);
  const auto report = store_->Prune(1, true);
  EXPECT_EQ(report->evicted.size(), 4u);
  EXPECT_EQ(report->temporaries, 1);
  EXPECT_EQ(Left().size(), 4u);
  EXPECT_EQ(store_->Prune(1, false)->evicted.size(), 4u);
}

TEST_F(PruneTest, OneAtATime) {
  Add(1, 5);
  const auto lock = RealFileSystem().TryLock(Files().UpkeepLock(), kPruneLock);
  ASSERT_TRUE(lock.ok() && *lock != nullptr);
  EXPECT_TRUE(store_->Prune(1, false)->busy);
  EXPECT_EQ(Left().size(), 1u);
}

TEST_F(PruneTest, SweepsTemporariesOfTheDeadOnly) {
  const auto leave = [&](const std::string& name, int64_t age) {
    Overwrite(Files().Temporaries() + "/" + name, "half an ent");
    Age(Files().Temporaries() + "/" + name, age);
  };
  const std::string mine = UniqueName();  // of a live process
  const std::string foreign = "00000000-1-1-1";
  leave(mine, 2 * kHourNs);
  leave(foreign + "a", 2 * kHourNs);
  leave(foreign + "b", kHourNs / 2);
  leave(UniqueName(), 25 * kHourNs);
  EXPECT_EQ(store_->Prune(0, false)->temporaries, 2);
  EXPECT_TRUE(fs::exists(Files().Temporaries() + "/" + mine));
  EXPECT_TRUE(fs::exists(Files().Temporaries() + "/" + foreign + "b"));
}

TEST_F(PruneTest, QuarantineIsBounded) {
  for (int k = 0; k < 100; ++k) {
    fs::create_directories(fs::path(FileOf(k)).parent_path());
    Overwrite(FileOf(k), "junk");
    EXPECT_FALSE(store_->Lookup(PreimageOf(k)).has_value());
  }
  EXPECT_EQ(Count(Files().Quarantine()), 64u);
  for (const auto& file : fs::directory_iterator(Files().Quarantine()))
    Age(file.path(), 8 * 24 * kHourNs);
  EXPECT_EQ(store_->Prune(0, false)->quarantined, 64);
  EXPECT_EQ(Count(Files().Quarantine()), 0u);
}

TEST_F(PruneTest, PublishingPrunesAtMostOnceAMinute) {
  int64_t now = SystemNowNs();
  StoreOptions options;
  options.max_bytes = 20 * 8192;
  options.now_ns = [&now] { return now; };
  store_ = Open(options);
  for (int k = 0; k < 40; ++k) {
    ASSERT_TRUE(store_->Publish(EntryOf(k, 100, 7000)).ok());
    store_->WaitUntilPruned();
    Age(FileOf(k), 5 * kHourNs);
  }
  EXPECT_EQ(Left().size(), 40u);
  now += 61 * kSecondNs;
  ASSERT_TRUE(store_->Publish(EntryOf(40, 100, 7000)).ok());
  store_->WaitUntilPruned();
  EXPECT_LE(Left().size(), 20u);
  EXPECT_EQ(Left().count(40), 1u);
}

}  // namespace
}  // namespace kiln
