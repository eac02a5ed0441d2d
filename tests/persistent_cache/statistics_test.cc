// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/statistics.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class StatisticsTest : public StoreTestBase {
 protected:
  size_t FileCount() {
    return static_cast<size_t>(std::distance(fs::directory_iterator(Files().Statistics()), {}));
  }
};

TEST_F(StatisticsTest, CountsPerTargetOverProcesses) {
  const int64_t start = SystemNowNs();
  for (int round = 0; round < 3; ++round) {
    auto store = Open();
    if (!store->Lookup(PreimageOf(1)).has_value()) {
      ASSERT_TRUE(store->Publish(EntryOf(1, 250)).ok());
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    Open()->Lookup(PreimageOf(1));
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const CacheStatistics all = Open()->Statistics();
  ASSERT_EQ(all.targets.count("x86-64-v3"), 1u);
  const CacheCounts counts = all.targets.at("x86-64-v3");
  EXPECT_EQ(counts.misses, 1u);
  EXPECT_EQ(counts.builds, 1u);
  EXPECT_EQ(counts.hits, 3u);
  EXPECT_EQ(counts.saved_ms, 750u);
  EXPECT_GE(all.since_ns, start);
}

TEST_F(StatisticsTest, ForkedCopyOfAStoreCountsNothingTwice) {
  auto store = Open();
  store->Lookup(PreimageOf(1));
  const pid_t child = fork();
  if (child == 0) {
    store.reset();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  store.reset();
  EXPECT_EQ(Open()->Statistics().Sum().misses, 1u);
}

TEST_F(StatisticsTest, CompactionKeepsTheCountsAlsoWhenItIsInterrupted) {
  for (int k = 0; k < 10; ++k) Open()->Lookup(PreimageOf(k));
  const std::string copy = dir_.File("copy");
  fs::copy(Files().Statistics(), copy);
  CompactStatistics(RealFileSystem(), Files());
  EXPECT_EQ(FileCount(), 1u);
  EXPECT_EQ(Open()->Statistics().Sum().misses, 10u);
  // As if it had died before removing the files that `total` holds.
  fs::copy(copy, Files().Statistics(), fs::copy_options::skip_existing);
  Open()->Lookup(PreimageOf(0));
  EXPECT_EQ(Open()->Statistics().Sum().misses, 11u);
  CompactStatistics(RealFileSystem(), Files());
  CompactStatistics(RealFileSystem(), Files());
  EXPECT_EQ(FileCount(), 1u);
  EXPECT_EQ(Open()->Statistics().Sum().misses, 11u);
}

TEST_F(StatisticsTest, ZeroStartsAgain) {
  auto store = Open();
  store->Lookup(PreimageOf(1));
  Open()->Lookup(PreimageOf(1));
  const int64_t before = SystemNowNs();
  ASSERT_TRUE(store->ZeroStatistics().ok());
  EXPECT_EQ(store->Statistics().Sum(), CacheCounts());
  EXPECT_GE(store->Statistics().since_ns, before);
}

TEST_F(StatisticsTest, DamagedFilesAreLeftOut) {
  Open()->Lookup(PreimageOf(1));
  Overwrite(Files().Statistics() + "/a.count", "kiln-statistics 1\nsince 5\nx hits 3");
  Overwrite(Files().Statistics() + "/b.count", "kiln-statistics 1\nx hits many\nend\n");
  fs::create_directory(Files().Statistics() + "/c.count");
  EXPECT_EQ(Open()->Statistics().Sum().misses, 1u);
  EXPECT_EQ(Open()->Statistics().Sum().hits, 0u);
}

TEST(Statistics, TextRoundTripsAndNamesAreTame) {
  CacheStatistics statistics;
  statistics.since_ns = 77;
  statistics.merged = {"a.count", "b.count"};
  statistics.targets["x86-64-v4"].hits = 3;
  const auto back = ParseStatistics(FormatStatistics(statistics));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->since_ns, 77);
  EXPECT_EQ(back->merged, statistics.merged);
  EXPECT_EQ(back->targets, statistics.targets);
  EXPECT_EQ(StatisticsName("a b\nc"), "a_b_c");
  EXPECT_EQ(StatisticsName(""), "-");
  EXPECT_EQ(StatisticsName("since"), "-");
}

}  // namespace
}  // namespace kiln
