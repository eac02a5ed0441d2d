// SPDX-License-Identifier: Apache-2.0
// Small entries, and a store in a directory that goes with the test.
#ifndef KILN_TESTS_PERSISTENT_CACHE_STORE_TESTING_H_
#define KILN_TESTS_PERSISTENT_CACHE_STORE_TESTING_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "persistent_cache/store.h"
#include "tests/base/temp_dir.h"

namespace kiln {

inline constexpr int64_t kSecondNs = 1'000'000'000;
inline constexpr int64_t kHourNs = 3600 * kSecondNs;

inline Preimage PreimageOf(int k) {
  return Preimage().Add("kernel", absl::StrCat("kernel ", k)).Add("target", "x86-64-v3");
}

inline std::string CodeOf(int k, size_t bytes = 500) {
  return absl::StrCat("code of ", k, std::string(bytes, 'x'));
}

inline Entry EntryOf(int k, int wall_ms = 100, size_t bytes = 500) {
  Entry entry;
  entry.key = PreimageOf(k).Key();
  entry.Add("preimage", PreimageOf(k).bytes(), true);
  entry.Add("meta", FormatMeta({{"target", "x86-64-v3"}, {"wall_ms", absl::StrCat(wall_ms)}}),
            true);
  entry.Add("elf", CodeOf(k, bytes), true);
  return entry;
}

class StoreTestBase : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  std::unique_ptr<Store> Open(StoreOptions options = {}) { return Open(RealFileSystem(), options); }
  std::unique_ptr<Store> Open(FileSystem& files, StoreOptions options = {}) {
    if (options.directory.empty()) options.directory = Path();
    auto store = Store::Open(files, options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  StoreOptions ReadOnly() {
    StoreOptions options;
    options.read_only = true;
    return options;
  }
  std::string Path() { return absl::StrCat(dir_.path(), "/cache"); }
  StoreLayout Files() { return {Path() + "/v1"}; }
  std::string FileOf(int k) { return Files().FileOf(PreimageOf(k).Key()); }

  static void Overwrite(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  // Makes a file look as if it was used so long ago.
  static void Age(const std::string& path, int64_t ns) {
    const int64_t then = SystemNowNs() - ns;
    const timespec times[2] = {{0, UTIME_OMIT}, {then / kSecondNs, then % kSecondNs}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
  }

  TempDir dir_;
};

}  // namespace kiln

#endif  // KILN_TESTS_PERSISTENT_CACHE_STORE_TESTING_H_
