// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "persistent_cache/pack.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

Entry MakeEntry(const std::string& name, const std::string& rounds, const std::string& content) {
  const Preimage preimage = Preimage().Add("artefact", "tune").Add("subject", name);
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta", rounds.empty() ? FormatMeta({}) : FormatMeta({{"rounds", rounds}}), true);
  entry.Add("tune", content, true);
  return entry;
}

TEST(StaysOver, MoreRoundsWinThenBytes) {
  const Entry few = MakeEntry("a", "9", "z"), many = MakeEntry("a", "10", "b");
  EXPECT_TRUE(StaysOver(many, few)) << "numbers, not texts, are compared";
  EXPECT_FALSE(StaysOver(few, many));
  const Entry same = MakeEntry("a", "9", "y");
  EXPECT_NE(StaysOver(few, same), StaysOver(same, few));
  EXPECT_FALSE(StaysOver(few, few));
  const Entry none = MakeEntry("a", "", "z"), junk = MakeEntry("a", "many", "z");
  EXPECT_TRUE(StaysOver(few, none));
  EXPECT_TRUE(StaysOver(few, junk));
}

TEST(MergeEntries, DoesNotDependOnTheOrder) {
  std::mt19937 random(7);
  std::vector<Entry> entries;
  for (const char* const name : {"a", "b", "c"}) {
    for (int k = 0; k < 4; ++k)
      entries.push_back(MakeEntry(name, std::to_string(random() % 3),
                                  std::string(1, static_cast<char>('a' + k))));
  }
  KILN_ASSERT_OK_AND_ASSIGN(const std::string first, EncodePack(MergeEntries(entries), nullptr));
  EXPECT_EQ(MergeEntries(entries).size(), 3u);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(entries.begin(), entries.end(), random);
    // In two steps, too.
    const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(random() % entries.size());
    std::vector<Entry> merged = MergeEntries({entries.begin(), middle});
    merged.insert(merged.end(), middle, entries.end());
    KILN_ASSERT_OK_AND_ASSIGN(const std::string again,
                              EncodePack(MergeEntries(std::move(merged)), nullptr));
    EXPECT_EQ(again, first);
  }
}

}  // namespace
}  // namespace kiln
