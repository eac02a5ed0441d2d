// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "persistent_cache/directory.h"
#include "persistent_cache/pack.h"
#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

using StoreTest = StoreTestBase;

TEST_F(StoreTest, FindsWhatWasPublishedAlsoInAnotherStore) {
  auto store = Open();
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  const auto found = Open()->Lookup(PreimageOf(1));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found->Find("elf"), *EntryOf(1).Find("elf"));
  EXPECT_EQ(store->counters().misses, 1u);
  EXPECT_EQ(store->counters().published, 1u);
}

TEST_F(StoreTest, EntryUnderAnotherKeyIsAMissAndSetAside) {
  auto store = Open();
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  fs::create_directories(fs::path(FileOf(2)).parent_path());
  fs::copy_file(FileOf(1), FileOf(2));
  EXPECT_FALSE(store->Lookup(PreimageOf(2)).has_value());
  EXPECT_EQ(store->counters().damaged, 1u);
  EXPECT_FALSE(fs::exists(FileOf(2)));
  ASSERT_TRUE(store->Publish(EntryOf(2)).ok());
  EXPECT_TRUE(store->Lookup(PreimageOf(2)).has_value());
}

TEST_F(StoreTest, DamagedEntriesAreMissesAndHealByPublishing) {
  auto store = Open();
  std::mt19937 random(7);
  const std::string good = EncodeEntry(EntryOf(1));
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    switch (i % 4) {
      case 0:
        bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
        break;
      case 1:
        bad.resize(random() % bad.size());
        break;
      case 2:
        bad += std::string(1 + random() % 64, 'j');
        break;
      default:
        bad.replace(random() % (bad.size() - 64), 64, std::string(64, '\0'));
        break;
    }
    if (bad == good) continue;
    Overwrite(FileOf(1), bad);
    EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value()) << i;
  }
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  EXPECT_TRUE(store->Lookup(PreimageOf(1)).has_value());
}

TEST_F(StoreTest, OddThingsInPlaceOfAnEntryAreMisses) {
  auto store = Open();
  const fs::path path = FileOf(1);
  fs::create_directories(path.parent_path());
  const auto missed = [&] { return !store->Lookup(PreimageOf(1)).has_value(); };
  fs::create_directory(path);
  EXPECT_TRUE(missed());
  fs::create_symlink("/etc/passwd", path);
  EXPECT_TRUE(missed());
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(missed());
  fs::remove(path);
  Overwrite(path, "");
  EXPECT_TRUE(missed());
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  EXPECT_FALSE(missed());
}

TEST_F(StoreTest, ReadOnlyStoreChangesNothing) {
  ASSERT_TRUE(Open()->Publish(EntryOf(1)).ok());
  Overwrite(FileOf(1), "junk");
  auto store = Open(ReadOnly());
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  EXPECT_EQ(Contents(FileOf(1)), "junk");
  EXPECT_EQ(store->Publish(EntryOf(2)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, ListsAndClears) {
  auto store = Open();
  for (int k = 0; k < 5; ++k) ASSERT_TRUE(store->Publish(EntryOf(k)).ok());
  Overwrite(absl::StrCat(Path(), "/v1/tmp/left-over"), "x");
  EXPECT_EQ(store->List()->size(), 5u);
  ASSERT_TRUE(store->Remove(PreimageOf(3).Key()).ok());
  EXPECT_EQ(*store->Clear(), 4);
  EXPECT_TRUE(store->List()->empty());
  EXPECT_TRUE(fs::is_empty(absl::StrCat(Path(), "/v1/tmp")));
}

TEST_F(StoreTest, PublishRefusesAnEntryThatIsNotItsKeys) {
  Entry entry = EntryOf(1);
  entry.key[0] ^= 1;
  EXPECT_EQ(Open()->Publish(entry).code(), absl::StatusCode::kDataLoss);
}

TEST_F(StoreTest, RefusesDirectoriesThatOthersCanWrite) {
  fs::create_directory(Path());
  ASSERT_EQ(chmod(Path().c_str(), 0777), 0);
  const auto store = Store::Open(RealFileSystem(), {Path(), false});
  ASSERT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(store.status().message().find("0777"), absl::string_view::npos) << store.status();
  ASSERT_EQ(chmod(Path().c_str(), 01777), 0);
  EXPECT_TRUE(Store::Open(RealFileSystem(), {Path(), false}).ok());
}

TEST_F(StoreTest, RefusesAWritableParentBehindALink) {
  const std::string open_dir = absl::StrCat(dir_.path(), "/open");
  fs::create_directories(absl::StrCat(open_dir, "/inner"));
  ASSERT_EQ(chmod(open_dir.c_str(), 0775), 0);
  fs::create_symlink(absl::StrCat(open_dir, "/inner"), Path());
  EXPECT_EQ(Store::Open(RealFileSystem(), {Path(), false}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, RefusesAForeignOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  fs::create_directory(Path());
  ASSERT_EQ(chown(Path().c_str(), 12345, 12345), 0);
  const auto store = Store::Open(RealFileSystem(), {Path(), false});
  EXPECT_NE(store.status().message().find("12345"), absl::string_view::npos) << store.status();
}

TEST_F(StoreTest, EntriesThatOthersMayWriteAreNotUsed) {
  ASSERT_TRUE(Open()->Publish(EntryOf(1)).ok());
  ASSERT_EQ(chmod(FileOf(1).c_str(), 0666), 0);
  EXPECT_FALSE(Open()->Lookup(PreimageOf(1)).has_value());
  EXPECT_FALSE(fs::exists(FileOf(1)));
}

TEST_F(StoreTest, AbsentDirectoryIsEmptyWhenReadOnlyAndStaysAbsent) {
  auto store = Open(ReadOnly());
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  EXPECT_TRUE(store->List()->empty());
  EXPECT_FALSE(fs::exists(Path()));
}

TEST_F(StoreTest, DirectoryRemovedWhileRunningIsMadeAgain) {
  auto store = Open();
  fs::remove_all(Path());
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  EXPECT_TRUE(store->LockKey(PreimageOf(1).Key(), absl::ZeroDuration()).held());
  fs::remove_all(Path());
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  EXPECT_TRUE(store->Lookup(PreimageOf(1)).has_value());
}

TEST_F(StoreTest, FileInPlaceOfAShardIsMovedAway) {
  auto store = Open();
  Overwrite(Files().ShardOf(PreimageOf(1).Key()), "not a directory");
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  EXPECT_TRUE(store->Lookup(PreimageOf(1)).has_value());
}

TEST_F(StoreTest, SharedDirectoryIsLookedIntoLastAndNeverWritten) {
  StoreOptions shared;
  shared.directory = dir_.File("shared");
  ASSERT_TRUE(Open(shared)->Publish(EntryOf(1)).ok());
  StoreOptions options;
  options.shared_directory = dir_.File("shared");
  auto store = Open(options);
  EXPECT_TRUE(store->Lookup(PreimageOf(1)).has_value());
  ASSERT_TRUE(store->Publish(EntryOf(2)).ok());
  EXPECT_EQ(Open(shared)->List()->size(), 1u);
  const std::string file = StoreLayout{dir_.File("shared/v1")}.FileOf(PreimageOf(1).Key());
  Overwrite(file, "junk");
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  EXPECT_EQ(Contents(file), "junk");
}

TEST_F(StoreTest, RemembersAFailureUntilItExpires) {
  std::atomic<int64_t> now = SystemNowNs();  // upkeep's thread reads it
  StoreOptions options;
  options.now_ns = [&now] { return now.load(); };
  auto store = Open(options);
  ASSERT_TRUE(store->PublishFailure(PreimageOf(1), "no such tile", {{"wall_ms", "7"}}).ok());
  const auto found = store->Lookup(PreimageOf(1));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found->Find("failure"), "no such tile");
  now += 25 * kHourNs;
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  now -= 400 * 24 * kHourNs;  // a clock that was set back does not make it last
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  EXPECT_NE(store->Lookup(PreimageOf(1))->Find("elf"), nullptr);
}

TEST_F(StoreTest, AFailureInAPackExpiresToo) {
  int64_t now = SystemNowNs();
  StoreOptions options;
  options.now_ns = [&now] { return now; };
  ASSERT_TRUE(Open(options)->PublishFailure(PreimageOf(1), "no such tile", {}).ok());
  const auto failure = Open(options)->Lookup(PreimageOf(1));
  ASSERT_TRUE(failure.has_value());
  const auto pack = EncodePack({*failure}, nullptr);
  ASSERT_TRUE(pack.ok());
  Overwrite(dir_.File("pack"), *pack);
  options.directory = dir_.File("elsewhere");
  options.packs = {dir_.File("pack")};
  options.trust.unsigned_too = true;
  auto store = Open(options);
  EXPECT_TRUE(store->Lookup(PreimageOf(1)).has_value());
  now += 25 * kHourNs;
  EXPECT_FALSE(store->Lookup(PreimageOf(1)).has_value());
}

TEST_F(StoreTest, WhoPublishesDoesNotPrune) {
  std::atomic<int> evicted{0};
  const std::thread::id publisher = std::this_thread::get_id();
  StoreOptions options;
  options.max_bytes = 8192;
  options.on_event = [&](const CacheEvent& event) {
    if (event.kind != CacheEvent::Kind::kEvicted) return;
    EXPECT_NE(std::this_thread::get_id(), publisher);
    ++evicted;
  };
  {
    auto old = Open();
    for (int k = 0; k < 8; ++k) {
      ASSERT_TRUE(old->Publish(EntryOf(k)).ok());
      Age(FileOf(k), 100 * kHourNs);
    }
  }
  RealFileSystem().Unlink(Files().PruneStamp()).IgnoreError();
  auto store = Open(options);
  ASSERT_TRUE(store->Publish(EntryOf(9)).ok());
  store->WaitUntilPruned();
  EXPECT_GT(evicted, 0);
}

TEST_F(StoreTest, HitRenewsTheTimeOfLastUseOnceAnHour) {
  auto store = Open();
  ASSERT_TRUE(store->Publish(EntryOf(1)).ok());
  const auto age = [&] { return SystemNowNs() - RealFileSystem().Stat(FileOf(1))->mtime_ns; };
  Age(FileOf(1), kHourNs / 2);
  ASSERT_TRUE(store->Lookup(PreimageOf(1)).has_value());
  EXPECT_GE(age(), kHourNs / 2);
  Age(FileOf(1), 2 * kHourNs);
  ASSERT_TRUE(store->Lookup(PreimageOf(1)).has_value());
  EXPECT_LT(age(), kHourNs / 2);
}

TEST_F(StoreTest, RefusesInnerDirectoriesThatOthersCanWrite) {
  Open().reset();
  ASSERT_EQ(chmod(Files().root.c_str(), 0777), 0);
  for (const bool read_only : {false, true}) {
    EXPECT_EQ(Store::Open(RealFileSystem(), {Path(), read_only}).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  StoreOptions options;
  options.directory = dir_.File("other");
  options.shared_directory = Path();
  EXPECT_FALSE(Open(options)->Lookup(PreimageOf(1)).has_value());
}

TEST_F(StoreTest, ALinkedHomeWorks) {
  fs::create_directory(dir_.File("real"));
  fs::create_symlink(dir_.File("real"), dir_.File("home"));
  StoreOptions options;
  options.directory = dir_.File("home/.cache/kiln");
  ASSERT_TRUE(Open(options)->Publish(EntryOf(1)).ok());
  options.directory = dir_.File("real/.cache/kiln");
  EXPECT_TRUE(Open(options)->Lookup(PreimageOf(1)).has_value());
}

}  // namespace
}  // namespace kiln
