// SPDX-License-Identifier: Apache-2.0
// A pack: many entries in one read-only file, to ship with an application (docs/cache_format.md).
//
//   pack    := head | entries | index | trailer
//   head    := magic "KILNPAK\n" | u32 version | u32 entries | u64 offset of the index | u64 length
//   index   := row*, by key            row := key (32) | u64 offset | u64 length | digest (32)
//   trailer := digest (32) | public key (32) | signature (64)
//
// Entries lie in the order of their keys without gaps. A row's digest is the checksum that ends the
// entry's file; the trailer's is SHA-256 of head and index, and what is signed. So opening reads
// the index only, and still every byte of an entry that is ever used is covered by the signature.
// Zeros in place of key and signature: not signed.
#ifndef KILN_PERSISTENT_CACHE_PACK_H_
#define KILN_PERSISTENT_CACHE_PACK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"
#include "persistent_cache/signature.h"

namespace kiln {

inline constexpr uint32_t kPackVersion = 1;
inline constexpr uint32_t kMaxPackEntries = 1'000'000;

// A pack of these entries, sorted by key; signed unless `key` is null. The same entries and key
// give the same bytes. kInvalidArgument: two entries of one key, or too many.
absl::StatusOr<std::string> EncodePack(std::vector<Entry> entries, const SigningKey* key);

// An open pack. Thread-safe.
class Pack {
 public:
  struct Row {
    CacheKey key{};
    int64_t offset = 0, length = 0;
    Sha256Digest digest{};
  };

  // Reads and checks head, index and signature. kDataLoss: damaged; kPermissionDenied: not signed,
  // or by nobody in `trust`; kUnimplemented: another version.
  static absl::StatusOr<std::unique_ptr<Pack>> Open(FileSystem& files, absl::string_view path,
                                                    const PackTrust& trust);

  // The same of a file that is open; `path` is its name, which errors leave to the caller. `trust`
  // null: its signature is not looked at.
  static absl::StatusOr<std::unique_ptr<Pack>> Open(std::unique_ptr<ReadableFile> file,
                                                    absl::string_view path, const PackTrust* trust);

  const std::vector<Row>& rows() const { return rows_; }  // by key
  const std::string& path() const { return path_; }
  // Who signed it, as the trust file calls him; "" if nobody known did.
  const std::string& signer() const { return signer_; }
  // The key that it says it is signed with, believed or not; nothing if it is not signed.
  std::optional<PublicKey> public_key() const;

  // The entry of `key`, checked in full. kNotFound, kDataLoss, or an error of the disk.
  absl::StatusOr<Entry> Read(const CacheKey& key, const std::string* preimage) const;

 private:
  Pack() = default;
  absl::Status ReadIndex();
  absl::Status CheckSigner(const PackTrust& trust);

  std::string path_, signer_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<Row> rows_;
  std::string trailer_;
};

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_PACK_H_
