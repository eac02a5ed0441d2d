// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/pack.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr absl::string_view kMagic("KILNPAK\n", 8);
constexpr int64_t kHeadBytes = 8 + 4 + 4 + 8 + 8;
constexpr int64_t kRowBytes = 32 + 8 + 8 + 32;
constexpr int64_t kTrailerBytes = 32 + 32 + 64;

template <typename Array>
void AppendBytes(std::string& out, const Array& bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

template <typename Array>
Array LoadBytes(absl::string_view in) {
  Array bytes;
  std::memcpy(bytes.data(), in.data(), bytes.size());
  return bytes;
}

// The SHA-256 that ends an entry's file.
absl::string_view ChecksumOf(absl::string_view file) {
  return file.substr(file.size() - std::min<size_t>(file.size(), 32));
}

// What is signed: no other use of the key says the same.
std::string Statement(absl::string_view digest) { return absl::StrCat("kiln pack 1\n", digest); }

}  // namespace

absl::StatusOr<std::string> EncodePack(std::vector<Entry> entries, const SigningKey* key) {
  if (entries.size() > kMaxPackEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat("pack: ", entries.size(), " entries are more than ", kMaxPackEntries));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
  std::string body, index;
  for (size_t k = 0; k < entries.size(); ++k) {
    if (k > 0 && entries[k].key == entries[k - 1].key) {
      return absl::InvalidArgumentError(
          absl::StrCat("pack: two entries of key ", ToHex(entries[k].key)));
    }
    const std::string file = EncodeEntry(entries[k]);
    AppendBytes(index, entries[k].key);
    AppendU64(index, static_cast<uint64_t>(kHeadBytes) + body.size());
    AppendU64(index, file.size());
    absl::StrAppend(&index, ChecksumOf(file));
    body += file;
  }
  const uint64_t index_at = static_cast<uint64_t>(kHeadBytes) + body.size();
  std::string head(kMagic);
  AppendU32(head, kPackVersion);
  AppendU32(head, static_cast<uint32_t>(entries.size()));
  AppendU64(head, index_at);
  AppendU64(head, index_at + index.size() + static_cast<uint64_t>(kTrailerBytes));
  std::string trailer;
  AppendBytes(trailer, Sha256(absl::StrCat(head, index)));
  if (key != nullptr) {
    KILN_ASSIGN_OR_RETURN(const Signature signature, key->Sign(Statement(trailer)));
    AppendBytes(trailer, key->public_key());
    AppendBytes(trailer, signature);
  }
  trailer.resize(kTrailerBytes, '\0');
  return absl::StrCat(head, body, index, trailer);
}

absl::StatusOr<std::unique_ptr<Pack>> Pack::Open(FileSystem& files, absl::string_view path,
                                                 const PackTrust& trust) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenRead(path));
  auto pack = Open(std::move(file), path, &trust);
  if (!pack.ok()) return Annotate(pack.status(), absl::StrCat("pack \"", path, "\""));
  return pack;
}

absl::StatusOr<std::unique_ptr<Pack>> Pack::Open(std::unique_ptr<ReadableFile> file,
                                                 absl::string_view path, const PackTrust* trust) {
  std::unique_ptr<Pack> pack(new Pack());
  pack->path_ = std::string(path);
  pack->file_ = std::move(file);
  KILN_RETURN_IF_ERROR(pack->ReadIndex());
  if (trust != nullptr) KILN_RETURN_IF_ERROR(pack->CheckSigner(*trust));
  return pack;
}

absl::Status Pack::ReadIndex() {
  const int64_t size = file_->info().size;
  KILN_ASSIGN_OR_RETURN(const std::string head, file_->Read(0, kHeadBytes));
  if (static_cast<int64_t>(head.size()) < kHeadBytes || head.substr(0, 8) != kMagic)
    return absl::DataLossError("does not start with \"KILNPAK\"");
  const absl::string_view fields = head;
  if (const uint32_t version = LoadU32(fields.substr(8)); version != kPackVersion) {
    return absl::UnimplementedError(absl::StrCat("version ", version, ", expected ", kPackVersion));
  }
  const int64_t count = LoadU32(fields.substr(12));
  const uint64_t index_at = LoadU64(fields.substr(16));
  const uint64_t length = LoadU64(fields.substr(24));
  if (count > kMaxPackEntries || length != static_cast<uint64_t>(size) ||
      size < kHeadBytes + count * kRowBytes + kTrailerBytes ||
      index_at != static_cast<uint64_t>(size - kTrailerBytes - count * kRowBytes))
    return absl::DataLossError(absl::StrCat(size, " bytes do not fit its head"));
  const auto start = static_cast<int64_t>(index_at);
  KILN_ASSIGN_OR_RETURN(const std::string tail, file_->Read(start, size - start));
  if (static_cast<int64_t>(tail.size()) != size - start) return absl::DataLossError("cut short");
  const absl::string_view index = absl::string_view(tail).substr(0, tail.size() - kTrailerBytes);
  trailer_ = tail.substr(index.size());
  const Sha256Digest digest = Sha256(absl::StrCat(head, index));
  if (std::memcmp(digest.data(), trailer_.data(), digest.size()) != 0)
    return absl::DataLossError("checksum of the index differs");
  rows_.reserve(static_cast<size_t>(count));
  int64_t end = kHeadBytes;
  for (absl::string_view rest = index; !rest.empty(); rest.remove_prefix(kRowBytes)) {
    const Row row{LoadBytes<CacheKey>(rest), static_cast<int64_t>(LoadU64(rest.substr(32))),
                  static_cast<int64_t>(LoadU64(rest.substr(40))),
                  LoadBytes<Sha256Digest>(rest.substr(48))};
    if (row.offset != end || row.length < 0 || row.length > std::min(start - end, kMaxEntryBytes) ||
        (!rows_.empty() && !(rows_.back().key < row.key)))
      return absl::DataLossError(absl::StrCat("row ", rows_.size(), " of its index is wrong"));
    rows_.push_back(row);
    end += row.length;
  }
  if (end != start) return absl::DataLossError("bytes between the last entry and the index");
  return absl::OkStatus();
}

std::optional<PublicKey> Pack::public_key() const {
  const absl::string_view signature = absl::string_view(trailer_).substr(32);
  if (signature.find_first_not_of('\0') == absl::string_view::npos) return std::nullopt;
  return LoadBytes<PublicKey>(signature);
}

absl::Status Pack::CheckSigner(const PackTrust& trust) {
  const absl::string_view trailer = trailer_;
  const std::string statement = Statement(trailer.substr(0, 32));
  const auto key = LoadBytes<PublicKey>(trailer.substr(32));
  const auto signature = LoadBytes<Signature>(trailer.substr(64));
  const bool is_signed = public_key().has_value();
  const auto known = trust.signers.find(key);
  if (is_signed) KILN_RETURN_IF_ERROR(CheckSignedBy(key, statement, signature));
  if (is_signed && known != trust.signers.end()) {
    signer_ = known->second;
    return absl::OkStatus();
  }
  if (trust.unsigned_too) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      is_signed ? absl::StrCat("signed with ", ToHex(key), ", which is not a trusted signer")
                : "is not signed",
      "; code in it would run as you: ",
      is_signed ? "add the key to the trust file" : "have it signed (--sign)"));
}

absl::StatusOr<Entry> Pack::Read(const CacheKey& key, const std::string* preimage) const {
  const auto row = std::lower_bound(rows_.begin(), rows_.end(), key,
                                    [](const Row& a, const CacheKey& b) { return a.key < b; });
  if (row == rows_.end() || row->key != key)
    return absl::NotFoundError(absl::StrCat("pack \"", path_, "\": has no key ", ToHex(key)));
  KILN_ASSIGN_OR_RETURN(const std::string bytes, file_->Read(row->offset, row->length));
  if (ChecksumOf(bytes) != absl::string_view(reinterpret_cast<const char*>(row->digest.data()), 32))
    return absl::DataLossError(absl::StrCat("pack \"", path_, "\": entry differs from its digest"));
  return DecodeEntryOf(bytes, key, preimage);
}

}  // namespace kiln
