// SPDX-License-Identifier: Apache-2.0
// What a store survives: files changed at random, every call of the file system failing in every
// way, and crowds. After each: a lookup gives what was published or nothing, and the next run
// heals. KILN_FAULT_ROUNDS multiplies the random ones.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>

#include "absl/time/clock.h"
#include "tests/base/fault_injecting_file_system.h"
#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

int Rounds() {
  const char* const rounds = std::getenv("KILN_FAULT_ROUNDS");
  return rounds != nullptr ? std::max(1, std::atoi(rounds)) : 1;
}

class CacheFaultTest : public StoreTestBase {
 protected:
  // That entry k is a miss or what was published; true if it is there.
  static bool RightOrMiss(Store& store, int k) {
    const std::optional<Entry> entry = store.Lookup(PreimageOf(k));
    if (!entry.has_value()) return false;
    const std::string* const elf = entry->Find("elf");
    EXPECT_TRUE(elf != nullptr && *elf == CodeOf(k)) << "entry " << k;
    return true;
  }
  void Replace(const std::string& path, const std::string& bytes) {
    fs::remove_all(path);
    Overwrite(path, bytes);
  }
};

TEST_F(CacheFaultTest, RandomMutationsAreReportedAndNeverLoaded) {
  auto store = Open();
  constexpr int kEntries = 8;
  std::vector<std::string> good;
  for (int k = 0; k < kEntries; ++k) {
    ASSERT_TRUE(store->Publish(EntryOf(k)).ok());
    good.push_back(Contents(FileOf(k)));
  }
  std::mt19937 random(17);
  std::map<int, int> kinds;
  for (int i = 0; i < 2000 * Rounds(); ++i) {
    const int k = static_cast<int>(random() % kEntries);
    const int other = (k + 1) % kEntries;
    const std::string path = FileOf(k);
    std::string bytes = good[k];
    const int kind = static_cast<int>(random() % 12);
    ++kinds[kind];
    fs::remove_all(path);
    if (kind == 0) bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
    if (kind == 1) bytes.resize(random() % bytes.size());
    if (kind == 2) bytes.replace(random() % (bytes.size() - 1), 4096, std::string(4096, '\0'));
    if (kind == 3) bytes = good[other];
    if (kind == 4) bytes.replace(24, 32, good[other].substr(24, 32));  // wrong key
    if (kind == 5) bytes[8] = static_cast<char>(2 + random() % 200);   // other version
    if (kind == 6) bytes.clear();
    if (kind == 7) bytes.append(1 + random() % 64, 'j');
    if (kind <= 7) Overwrite(path, bytes);
    if (kind == 8) fs::create_directory(path);
    if (kind == 9) mkfifo(path.c_str(), 0600);
    if (kind == 10) fs::create_symlink(FileOf(other), path);
    if (kind == 11) {
      Replace(FileOf(other), good[other]);
      fs::create_hard_link(FileOf(other), path);
    }
    const uint64_t damaged = store->counters().damaged;
    if (kind <= 7 && bytes == good[k]) continue;
    EXPECT_FALSE(RightOrMiss(*store, k)) << "kind " << kind;
    EXPECT_EQ(store->counters().damaged, damaged + 1) << "kind " << kind;
    EXPECT_FALSE(fs::exists(path)) << "kind " << kind;
    for (int heal : {k, other}) Replace(FileOf(heal), good[heal]);
    EXPECT_TRUE(RightOrMiss(*store, k)) << "kind " << kind;
  }
  EXPECT_EQ(kinds.size(), 12u);
}

// A miss, a build and a publication, then a hit, an expired one, quarantine, statistics, pruning:
// everything a store does, ignoring errors as clients do.
void LiveThrough(FileSystem& files, const std::string& path) {
  StoreOptions options;
  options.directory = path;
  options.max_bytes = 4 * 4096;
  auto store = Store::Open(files, options);
  if (!store.ok()) return;
  for (int k = 0; k < 3; ++k) {
    if ((*store)->Lookup(PreimageOf(k)).has_value()) continue;
    const KeyLock lock = (*store)->LockKey(PreimageOf(k).Key(), absl::Milliseconds(10));
    if ((*store)->LookupAgain(PreimageOf(k)).has_value()) continue;
    (*store)->Publish(EntryOf(k)).IgnoreError();
  }
  (*store)->PublishFailure(PreimageOf(7), "no", {}).IgnoreError();
  (*store)->Lookup(PreimageOf(7));
  (*store)->Prune(3 * 4096, false).status().IgnoreError();
  (*store)->Statistics();
}

// Runs `life` with each of its calls failing in turn, each time in a new directory that `prepare`
// has filled, and checks what is left.
class EveryCallTest : public CacheFaultTest {
 protected:
  void Sweep(const std::function<void(FaultInjectingFileSystem&, int)>& arm) {
    const std::string start = dir_.File("start");
    Prepare(start);
    int calls = 0;
    for (int k = -1; k < calls; ++k) {  // the first time nothing fails
      const std::string path = dir_.File(absl::StrCat("sweep", k));
      CopyWithTimes(start, path);
      FaultInjectingFileSystem faults(RealFileSystem());
      faults.TearAppends(100);
      if (k >= 0) arm(faults, k);
      if (k >= 0 && in_child_) {
        const pid_t child = fork();
        if (child == 0) {
          LiveThrough(faults, path);
          _exit(0);
        }
        waitpid(child, nullptr, 0);
      } else {
        LiveThrough(faults, path);
      }
      if (k < 0) calls = faults.calls();
      faults.LoseUnsyncedData();
      CheckAfter(path, k);
      fs::remove_all(path);
    }
    EXPECT_GT(calls, 60);
  }
  bool in_child_ = false;  // lives in a child process, so that it may die

  // One good entry, one damaged, one long unused.
  void Prepare(const std::string& path) {
    StoreOptions options;
    options.directory = path;
    auto store = Open(options);
    for (int j : {0, 1, 20}) ASSERT_TRUE(store->Publish(EntryOf(j)).ok());
    const StoreLayout layout = store->layout();
    Overwrite(layout.FileOf(PreimageOf(1).Key()), "junk");
    Age(layout.FileOf(PreimageOf(20).Key()), 50 * kHourNs);
    Age(layout.FileOf(PreimageOf(0).Key()), 2 * kHourNs);
  }
  static void CopyWithTimes(const std::string& from, const std::string& to) {
    fs::copy(from, to, fs::copy_options::recursive);
    for (const auto& file : fs::recursive_directory_iterator(from)) {
      if (file.is_regular_file())
        fs::last_write_time(to / fs::relative(file.path(), from), file.last_write_time());
    }
  }
  void CheckAfter(const std::string& path, int call) {
    StoreOptions options;
    options.directory = path;
    auto store = Open(options);
    ASSERT_NE(store, nullptr) << "call " << call;
    for (int k = 0; k < 3; ++k) {
      if (!RightOrMiss(*store, k)) {
        const KeyLock lock = store->LockKey(PreimageOf(k).Key(), absl::ZeroDuration());
        EXPECT_TRUE(lock.held()) << "call " << call;
        ASSERT_TRUE(store->Publish(EntryOf(k)).ok()) << "call " << call;
      }
      EXPECT_TRUE(RightOrMiss(*store, k)) << "call " << call << " entry " << k;
    }
  }
};

TEST_F(EveryCallTest, MayFailForWantOfSpace) {
  Sweep([](FaultInjectingFileSystem& faults, int k) { faults.FailCall(k, ENOSPC); });
}

TEST_F(EveryCallTest, MayFailForADiskError) {
  Sweep([](FaultInjectingFileSystem& faults, int k) { faults.FailCall(k, EIO); });
}

TEST_F(EveryCallTest, MayBeInterruptedOrFindNothing) {
  Sweep([](FaultInjectingFileSystem& faults, int k) {
    faults.FailCall(k, k % 2 == 0 ? EINTR : ENOENT);
  });
}

TEST_F(EveryCallTest, MayBeCutShort) {
  Sweep([](FaultInjectingFileSystem& faults, int k) {
    faults.SetHook([k](const FaultInjectingFileSystem::Call& call) {
      return call.index == k ? FaultInjectingFileSystem::kShort : 0;
    });
  });
}

TEST_F(EveryCallTest, MayBeTheLastBeforeThePowerGoes) {
  Sweep([](FaultInjectingFileSystem& faults, int k) { faults.CrashAtCall(k); });
}

TEST_F(EveryCallTest, MayBeWhereTheProcessIsKilled) {
  in_child_ = true;
  Sweep([](FaultInjectingFileSystem& faults, int k) {
    faults.SetHook([k](const FaultInjectingFileSystem::Call& call) {
      if (call.index == k) raise(SIGKILL);
      return 0;
    });
  });
}

TEST_F(EveryCallTest, MayBeTheOneADirectoryIsMadeUnwritableBefore) {
  Sweep([](FaultInjectingFileSystem& faults, int k) {
    faults.SetHook([k](const FaultInjectingFileSystem::Call& call) {
      const bool writes = call.op != "OpenRead" && call.op != "Read" && call.op != "Stat" &&
                          call.op != "ListDir" && call.op != "ReadFile" && call.op != "Disk";
      return call.index >= k && writes ? EROFS : 0;
    });
  });
}

TEST_F(CacheFaultTest, NearlyFullDiskIsNotFilledUp) {
  class FullDisk : public FaultInjectingFileSystem {
   public:
    FullDisk() : FaultInjectingFileSystem(RealFileSystem()) {}
    absl::StatusOr<DiskInfo> Disk(absl::string_view) override {
      return DiskInfo{int64_t{1} << 40, 1000, "ext4", false};
    }
  };
  FullDisk full;
  auto store = Open(full);
  const absl::Status done = store->Publish(EntryOf(1));
  EXPECT_EQ(done.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store->counters().publish_failures, 1u);
}

// 16 processes want the same 64 kernels, which take a while to build; each is built once. Beside
// them one process evicts and reads.
class CrowdTest : public CacheFaultTest {
 protected:
  static constexpr int kProcesses = 16;
  static constexpr int kKeys = 64;

  // What one process does; its exit status is how many errors it saw.
  void Work(int process) {
    auto store = Open();
    int errors = store == nullptr ? 1 : 0;
    for (int i = 0; errors == 0 && i < kKeys; ++i) {
      const int k = (i + process * 4) % kKeys;
      const std::optional<Entry> found = store->Lookup(PreimageOf(k));
      if (found.has_value()) {
        errors += *found->Find("elf") == CodeOf(k) ? 0 : 1;
        continue;
      }
      const KeyLock lock = store->LockKey(PreimageOf(k).Key(), absl::Seconds(60));
      if (store->LookupAgain(PreimageOf(k)).has_value()) continue;
      errors += lock.held() ? 0 : 1;
      const auto built = RealFileSystem().CreateExclusive(
          dir_.File(absl::StrCat("built.", k, ".", getpid())), 0600);
      absl::SleepFor(absl::Milliseconds(3));
      errors += built.ok() && store->Publish(EntryOf(k)).ok() ? 0 : 1;
    }
    store.reset();
    _exit(errors);
  }
  void EvictAndRead() {
    auto store = Open();
    for (int i = 0;; i = (i + 1) % kKeys) {
      if (i == 0 && !store->Prune(4096, false).ok()) _exit(1);
      RightOrMiss(*store, i);
    }
  }
  int Built() {
    int built = 0;
    for (const auto& file : fs::directory_iterator(dir_.path()))
      built += file.path().filename().string().rfind("built.", 0) == 0 ? 1 : 0;
    return built;
  }
};

TEST_F(CrowdTest, BuildsEachKernelOnce) {
  for (int round = 0; round < Rounds(); ++round) {
    fs::remove_all(dir_.path());
    fs::create_directory(dir_.path());
    std::vector<pid_t> workers;
    const pid_t evictor = fork();
    if (evictor == 0) EvictAndRead();
    for (int p = 0; p < kProcesses; ++p) {
      workers.push_back(fork());
      if (workers.back() == 0) Work(p);
    }
    for (const pid_t worker : workers) {
      int status = 0;
      ASSERT_EQ(waitpid(worker, &status, 0), worker);
      EXPECT_EQ(status, 0) << "round " << round;
    }
    kill(evictor, SIGKILL);
    waitpid(evictor, nullptr, 0);
    EXPECT_EQ(Built(), kKeys) << "round " << round;
    auto store = Open();
    EXPECT_EQ(store->Statistics().Sum().builds, static_cast<uint64_t>(kKeys));
    for (int k = 0; k < kKeys; ++k) EXPECT_TRUE(RightOrMiss(*store, k)) << k;
  }
}

TEST_F(CrowdTest, KilledBuildersBlockNoKey) {
  std::mt19937 random(5);
  for (int i = 0; i < 100 * Rounds(); ++i) {
    const pid_t child = fork();
    if (child == 0) Work(i);
    absl::SleepFor(absl::Microseconds(random() % 30000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  auto store = Open();
  for (int k = 0; k < kKeys; ++k) {
    EXPECT_TRUE(store->LockKey(PreimageOf(k).Key(), absl::ZeroDuration()).held()) << k;
    if (!RightOrMiss(*store, k)) {
      ASSERT_TRUE(store->Publish(EntryOf(k)).ok());
    }
    EXPECT_TRUE(RightOrMiss(*store, k)) << k;
  }
  EXPECT_EQ(store->counters().damaged, 0u);
}

}  // namespace
}  // namespace kiln
