// SPDX-License-Identifier: Apache-2.0
// kiln::Cache as an application uses it.
#include "kiln/cache.h"
#include "persistent_cache/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

class CacheApiTest : public StoreTestBase {
 protected:
  std::shared_ptr<Cache> OpenCache(CacheSettings settings = {}) {
    if (settings.directory.empty()) settings.directory = Path();
    auto cache = Cache::Open(std::move(settings));
    EXPECT_TRUE(cache.ok()) << cache.status();
    return cache.ok() ? *std::move(cache) : nullptr;
  }
};

TEST_F(CacheApiTest, SnapshotCountsThisObjectOnly) {
  const auto one = OpenCache();
  const auto other = OpenCache();
  EXPECT_FALSE(one->store()->Lookup(PreimageOf(1)).has_value());
  ASSERT_TRUE(one->store()->Publish(EntryOf(1, /*wall_ms=*/70)).ok());
  EXPECT_TRUE(other->store()->Lookup(PreimageOf(1)).has_value());
  EXPECT_EQ(one->Snapshot().misses, 1u);
  EXPECT_EQ(one->Snapshot().published, 1u);
  EXPECT_EQ(one->Snapshot().hits, 0u);
  EXPECT_EQ(other->Snapshot().hits, 1u);
  EXPECT_EQ(other->Snapshot().saved_ms, 70u);
}

TEST_F(CacheApiTest, CachesOfSeveralDirectoriesDoNotMeet) {
  CacheSettings elsewhere;
  elsewhere.directory = dir_.File("elsewhere");
  const auto one = OpenCache();
  const auto other = OpenCache(elsewhere);
  ASSERT_TRUE(one->store()->Publish(EntryOf(1)).ok());
  EXPECT_FALSE(other->store()->Lookup(PreimageOf(1)).has_value());
  EXPECT_NE(one->directory(), other->directory());
}

TEST_F(CacheApiTest, EventsTellWhatHappenedToWhichEntry) {
  std::map<CacheEvent::Kind, int> seen;
  CacheSettings settings;
  std::shared_ptr<Cache> cache;
  settings.on_event = [&](const CacheEvent& event) {
    ++seen[event.kind];
    EXPECT_EQ(event.key, PreimageOf(1).Key());
    cache->Snapshot();  // a callback may use the cache
  };
  cache = OpenCache(std::move(settings));
  cache->store()->Lookup(PreimageOf(1));
  ASSERT_TRUE(cache->store()->Publish(EntryOf(1)).ok());
  cache->store()->Lookup(PreimageOf(1));
  Overwrite(FileOf(1), "no entry");
  cache->store()->Lookup(PreimageOf(1));
  EXPECT_EQ(seen[CacheEvent::Kind::kMiss], 2);
  EXPECT_EQ(seen[CacheEvent::Kind::kPublished], 1);
  EXPECT_EQ(seen[CacheEvent::Kind::kHit], 1);
  EXPECT_EQ(seen[CacheEvent::Kind::kDamaged], 1);
  ASSERT_TRUE(cache->store()->Publish(EntryOf(1)).ok());
  cache->store()->WaitUntilPruned();
  Age(FileOf(1), 5 * kHourNs);
  ASSERT_TRUE(cache->store()->Prune(1, /*dry_run=*/false).ok());
  EXPECT_EQ(seen[CacheEvent::Kind::kEvicted], 1);
  EXPECT_EQ(cache->Snapshot().evictions, 1u);
}

TEST_F(CacheApiTest, AnUnsafeDirectoryIsRefusedWithTheReason) {
  CacheSettings settings;
  settings.directory = "/proc/nonsense";
  EXPECT_FALSE(Cache::Open(settings).ok());
}

TEST_F(CacheApiTest, UsesAreCountedPerEntryOverProcesses) {
  ASSERT_TRUE(Open()->Publish(EntryOf(1)).ok());
  for (int k = 0; k < 3; ++k) Open()->Lookup(PreimageOf(1));
  Open()->Lookup(PreimageOf(2));
  CompactStatistics(RealFileSystem(), Files());
  const CacheStatistics statistics = Open()->Statistics();
  ASSERT_EQ(statistics.uses.size(), 1u);
  EXPECT_EQ(statistics.uses.at(PreimageOf(1).Key()), 3u);
  // An entry that is gone is forgotten.
  ASSERT_TRUE(Open()->Remove(PreimageOf(1).Key()).ok());
  CompactStatistics(RealFileSystem(), Files());
  EXPECT_TRUE(Open()->Statistics().uses.empty());
}

}  // namespace
}  // namespace kiln
