// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/pack.h"

#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "persistent_cache/settings.h"
#include "tests/persistent_cache/store_testing.h"

namespace kiln {
namespace {

using absl::StatusCode;

// RFC 8410, section 10.3, and the public key to it.
constexpr char kPem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
    "-----END PRIVATE KEY-----\n";
constexpr char kPublic[] = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";

class PackTest : public StoreTestBase {
 protected:
  std::string Write(const std::string& bytes) {
    remove(dir_.File("p.kilnpack").c_str());  // ext4 syncs a file that is cut and written again
    Overwrite(dir_.File("p.kilnpack"), bytes);
    return dir_.File("p.kilnpack");
  }
  static std::vector<Entry> Entries(int n) {
    std::vector<Entry> entries;
    for (int k = 0; k < n; ++k) entries.push_back(EntryOf(k));
    return entries;
  }
  static PackTrust Known() { return {{{*ParseHexDigest(kPublic), "example"}}, false}; }
  static PackTrust Anybody() { return {{}, true}; }
  absl::StatusOr<std::unique_ptr<Pack>> Open(const PackTrust& trust) {
    return Pack::Open(RealFileSystem(), dir_.File("p.kilnpack"), trust);
  }
};

TEST_F(PackTest, SignaturesAreThoseOfEd25519) {
  const auto key = SigningKey::FromPem(kPem);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(ToHex(key->public_key()), kPublic);
  Signature signature = *key->Sign("hello");
  EXPECT_TRUE(CheckSignedBy(key->public_key(), "hello", signature).ok());
  EXPECT_EQ(CheckSignedBy(key->public_key(), "hullo", signature).code(), StatusCode::kDataLoss);
  signature[5] ^= 1;
  EXPECT_EQ(CheckSignedBy(key->public_key(), "hello", signature).code(), StatusCode::kDataLoss);
  EXPECT_EQ(SigningKey::FromPem("no key").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PackTest, HoldsEveryEntryAndNoOther) {
  Write(*EncodePack(Entries(50), nullptr));
  const auto pack = Open(Anybody());
  ASSERT_TRUE(pack.ok()) << pack.status();
  EXPECT_EQ((*pack)->rows().size(), 50u);
  for (int k = 0; k < 50; ++k) {
    const auto entry = (*pack)->Read(PreimageOf(k).Key(), &PreimageOf(k).bytes());
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(*entry->Find("elf"), CodeOf(k));
  }
  EXPECT_EQ((*pack)->Read(PreimageOf(50).Key(), nullptr).status().code(), StatusCode::kNotFound);
}

TEST_F(PackTest, EqualEntriesGiveEqualBytes) {
  const auto key = SigningKey::FromPem(kPem);
  std::vector<Entry> reversed = Entries(9);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(*EncodePack(Entries(9), &*key), *EncodePack(reversed, &*key));
  reversed.push_back(EntryOf(3));
  EXPECT_EQ(EncodePack(reversed, nullptr).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PackTest, UnsignedAndUnknownSignersAreRefusedUnlessAsked) {
  Write(*EncodePack(Entries(3), nullptr));
  EXPECT_EQ(Open(Known()).status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(Open(Anybody()).ok());
  const auto key = SigningKey::FromPem(kPem);
  Write(*EncodePack(Entries(3), &*key));
  EXPECT_EQ(Open(PackTrust()).status().code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Open(PackTrust()).status().message().find(kPublic), absl::string_view::npos);
  const auto pack = Open(Known());
  ASSERT_TRUE(pack.ok()) << pack.status();
  EXPECT_EQ((*pack)->signer(), "example");
}

TEST_F(PackTest, EveryChangedByteIsNoticed) {
  const auto key = SigningKey::FromPem(kPem);
  const std::string good = *EncodePack(Entries(3), &*key);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    Write(bad);
    const auto pack = Open(Known());
    int wrong = pack.ok() ? 0 : 1;
    for (int k = 0; pack.ok() && k < 3; ++k) {
      const auto entry = (*pack)->Read(PreimageOf(k).Key(), nullptr);
      wrong += entry.ok() ? 0 : 1;
      if (entry.ok()) {
        EXPECT_EQ(*entry->Find("elf"), CodeOf(k)) << at;
      }
    }
    EXPECT_EQ(wrong, 1) << at;
  }
}

TEST_F(PackTest, EveryTruncationIsNoticedAndForgedIndexesStayInside) {
  const std::string good = *EncodePack(Entries(3), nullptr);
  for (size_t n = 0; n < good.size(); n += 7) {
    Write(good.substr(0, n));
    EXPECT_FALSE(Open(Anybody()).ok()) << n;
  }
  std::mt19937 random(3);
  const size_t index = good.size() - 128 - 3 * 80;
  for (int i = 0; i < 2000; ++i) {
    std::string forged = good;
    for (int k = 0; k < 3; ++k)
      forged[random() % 2 == 0 ? 8 + random() % 24 : index + random() % 240] =
          static_cast<char>(random());
    const Sha256Digest digest = Sha256(forged.substr(0, 32) + forged.substr(index, 240));
    forged.replace(index + 240, 32, reinterpret_cast<const char*>(digest.data()), 32);
    Write(forged);
    const auto pack = Open(Anybody());
    if (!pack.ok()) continue;
    for (const Pack::Row& row : (*pack)->rows()) (*pack)->Read(row.key, nullptr).IgnoreError();
  }
}

TEST_F(PackTest, StoreLooksIntoPacksFirstAndWorksWithoutADirectory) {
  const auto key = SigningKey::FromPem(kPem);
  StoreOptions options;
  const std::string link = dir_.File("current");
  ASSERT_EQ(symlink(Write(*EncodePack(Entries(3), &*key)).c_str(), link.c_str()), 0);
  options.packs = {link, dir_.File("absent")};
  options.trust = Known();
  const auto store = Store::Open(RealFileSystem(), options);  // no directory
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->Lookup(PreimageOf(2)).has_value());
  EXPECT_FALSE((*store)->Lookup(PreimageOf(3)).has_value());
  EXPECT_TRUE((*store)->List()->empty());
  EXPECT_FALSE((*store)->Publish(EntryOf(3)).ok());
  options.directory = Path();
  auto both = StoreTestBase::Open(options);
  ASSERT_TRUE(both->Publish(EntryOf(3)).ok());
  EXPECT_TRUE(both->Lookup(PreimageOf(3)).has_value());
  EXPECT_TRUE(both->Lookup(PreimageOf(1)).has_value());
}

TEST_F(PackTest, TrustFileNamesSignersAndMustBeOurs) {
  const std::string path = dir_.File("trusted");
  EXPECT_TRUE(ReadTrustFile(RealFileSystem(), path)->empty());
  Overwrite(path, std::string("# who  key\n\nexample  ") + kPublic + "  # RFC\n");
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(ReadTrustFile(RealFileSystem(), path)->at(*ParseHexDigest(kPublic)), "example");
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(ReadTrustFile(RealFileSystem(), path).status().code(), StatusCode::kFailedPrecondition);
  const absl::Status bad = ParseTrustFile("a\nb c\n").status();
  EXPECT_NE(bad.message().find("line 1"), absl::string_view::npos) << bad;
}

TEST(Settings, ReadsSizes) {
  EXPECT_EQ(*ParseByteSize("4096"), 4096);
  EXPECT_EQ(*ParseByteSize("2G"), int64_t{2} << 30);
  EXPECT_EQ(*ParseByteSize("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(*ParseByteSize("3KiB"), 3072);
  EXPECT_EQ(*ParseByteSize("0"), 0);
  for (const char* bad : {"", "G", "-1", "2g", "1.5M", "9999999999T", "3iB", "iB", "2GB"})
    EXPECT_FALSE(ParseByteSize(bad).ok()) << bad;
}

}  // namespace
}  // namespace kiln
