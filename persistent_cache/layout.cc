// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/layout.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr absl::string_view kSuffix = ".entry";

// Eight digits that tell machines apart; a container has a host name of its own.
std::string HostTag() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return ToHex(Sha256(name)).substr(0, 8);
}

absl::Status WriteSynced(FileSystem& files, const std::string& path, absl::string_view bytes,
                         bool durable) {
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                        files.CreateExclusive(path, 0600));
  absl::Status done = file->Append(bytes);
  if (done.ok() && durable) done = file->Sync();
  const absl::Status closed = file->Close();
  return done.ok() ? closed : done;
}

}  // namespace

std::string StoreLayout::ShardOf(const CacheKey& key) const {
  return absl::StrCat(Entries(), "/", ToHex(key).substr(0, 2));
}

std::string StoreLayout::FileOf(const CacheKey& key) const {
  return absl::StrCat(ShardOf(key), "/", ToHex(key).substr(2), kSuffix);
}

std::string StoreLayout::LockFileOf(const CacheKey& key) const {
  return absl::StrCat(Locks(), "/", ToHex(key).substr(0, 2));
}

int64_t StoreLayout::LockOffsetOf(const CacheKey& key) {
  uint64_t bits = 0;
  for (size_t i = 1; i <= 8; ++i) bits = bits << 8 | key[i];
  return static_cast<int64_t>(bits >> 2);
}

std::optional<CacheKey> KeyOfFile(absl::string_view shard, absl::string_view name) {
  if (!absl::EndsWith(name, kSuffix)) return std::nullopt;
  return ParseHexDigest(absl::StrCat(shard, absl::StripSuffix(name, kSuffix)));
}

std::string UniqueName() {
  static std::atomic<uint64_t> count{0};
  return absl::StrCat(HostTag(), "-", getpid(), "-", SystemNowNs(), "-", count++);
}

bool MakerIsGone(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');
  pid_t pid = 0;
  if (parts.size() < 4 || parts[0] != HostTag() || !absl::SimpleAtoi(parts[1], &pid) || pid <= 0)
    return true;
  return kill(pid, 0) < 0 && errno == ESRCH;
}

int64_t SystemNowNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

absl::Status WriteWhole(FileSystem& files, const StoreLayout& layout, const std::string& to,
                        absl::string_view bytes, bool durable) {
  const std::string temporary = absl::StrCat(layout.Temporaries(), "/", UniqueName());
  absl::Status done = WriteSynced(files, temporary, bytes, durable);
  if (done.ok()) done = files.Rename(temporary, to);
  if (!done.ok()) files.Unlink(temporary).IgnoreError();
  return done;
}

}  // namespace kiln
