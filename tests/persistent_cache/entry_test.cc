// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/entry.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "persistent_cache/key.h"

namespace kiln {
namespace {

Entry Sample() {
  Preimage preimage;
  preimage.Add("kernel", "kernel v1 math 1\n").Add("target", "x86-64-v3");
  Entry entry;
  entry.key = preimage.Key();
  entry.Add("preimage", preimage.bytes(), true);
  entry.Add("meta", FormatMeta({{"wall_ms", "12"}, {"isa", "avx avx2"}}), true);
  entry.Add("elf",
            std::string("\x7f"
                        "ELF....\0..",
                        11),
            true);
  entry.Add("stmt", "", false);
  return entry;
}

TEST(Preimage, FieldsAreDelimited) {
  EXPECT_NE(Preimage().Add("ab", "c").bytes(), Preimage().Add("a", "bc").bytes());
  EXPECT_NE(Preimage().Add("a", "").Add("b", "").Key(), Preimage().Add("a", "b").Key());
}

TEST(Preimage, ParsesBackToItsFields) {
  const Preimage preimage = Preimage().Add("x", std::string("\0y\n", 3)).Add("", "z");
  const auto fields = ParsePreimage(preimage.bytes());
  ASSERT_TRUE(fields.ok());
  EXPECT_EQ(*fields, (PreimageFields{{"x", std::string("\0y\n", 3)}, {"", "z"}}));
  const std::string& bytes = preimage.bytes();
  EXPECT_FALSE(ParsePreimage(absl::string_view(bytes).substr(0, bytes.size() - 1)).ok());
  EXPECT_FALSE(ParsePreimage("other").ok());
}

TEST(Entry, RoundTripsAndIsDeterministic) {
  const Entry entry = Sample();
  const std::string file = EncodeEntry(entry);
  EXPECT_EQ(file, EncodeEntry(Sample()));
  const absl::StatusOr<Entry> back = DecodeEntry(file);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->key, entry.key);
  ASSERT_EQ(back->sections.size(), 4u);
  EXPECT_EQ(*back->Find("elf"), *entry.Find("elf"));
  EXPECT_EQ(back->Find("ptx"), nullptr);
  EXPECT_EQ(EncodeEntry(*back), file);
}

TEST(Entry, EveryBitFlipIsNoticed) {
  const std::string file = EncodeEntry(Sample());
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeEntry(flipped).ok()) << "bit " << bit;
  }
}

TEST(Entry, EveryTruncationAndExtensionIsNoticed) {
  const std::string file = EncodeEntry(Sample());
  for (size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(DecodeEntry(file.substr(0, n)).ok()) << n;
  for (size_t n = 1; n <= 64; ++n) EXPECT_FALSE(DecodeEntry(file + std::string(n, '\0')).ok()) << n;
}

// A forged file with a right checksum must still not lead outside of itself.
TEST(Entry, ForgedTablesAreRefused) {
  std::mt19937 random(1);
  const std::string file = EncodeEntry(Sample());
  int decoded = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string forged = file.substr(0, file.size() - 32);
    for (int k = 0; k < 3; ++k) forged[8 + random() % 200] = static_cast<char>(random());
    const Sha256Digest sum = Sha256(forged);
    forged.append(reinterpret_cast<const char*>(sum.data()), sum.size());
    const absl::StatusOr<Entry> entry = DecodeEntry(forged);
    if (!entry.ok()) continue;
    ++decoded;
    size_t bytes = 0;
    for (const Section& section : entry->sections) bytes += section.bytes.size();
    EXPECT_LE(bytes, forged.size());
  }
  EXPECT_LT(decoded, 20000);  // what is left changed the key or a tag only
}

TEST(Entry, UnknownCriticalSectionIsRefusedAndUnknownOptionalIsKept) {
  Entry entry = Sample();
  entry.Add("note", "x", false);
  EXPECT_TRUE(DecodeEntry(EncodeEntry(entry)).ok());
  entry.Add("future", "x", true);
  EXPECT_EQ(DecodeEntry(EncodeEntry(entry)).status().code(), absl::StatusCode::kUnimplemented);
}

// Nothing lies where nobody looks, even under a right checksum.
TEST(Entry, GapsBetweenSectionsAreZero) {
  Entry entry;
  entry.Add("preimage", "odd", true);
  entry.Add("meta", "a=b\n", true);
  std::string file = EncodeEntry(entry);
  ASSERT_TRUE(DecodeEntry(file).ok());
  const size_t gap = file.find("odd") + 3;
  ASSERT_EQ(file[gap], '\0');
  file[gap] = 'x';
  const Sha256Digest sum = Sha256(file.substr(0, file.size() - 32));
  std::memcpy(file.data() + file.size() - 32, sum.data(), 32);
  EXPECT_TRUE(absl::IsDataLoss(DecodeEntry(file).status()));
}

// What a compiler process says is one value, whatever is in it.
TEST(Meta, AValueCannotBeALineOfItsOwn) {
  const std::map<std::string, std::string> meta = {
      {"isa", "avx2\nvalidation=1:all\nexpires=9"}, {"schedule", "a\\nb\\"}, {"target", "x\\\ny"}};
  EXPECT_EQ(ParseMeta(FormatMeta(meta)), meta);
}

TEST(Meta, RoundTrips) {
  const std::map<std::string, std::string> meta = {{"a", "1=2"}, {"b", ""}};
  EXPECT_EQ(ParseMeta(FormatMeta(meta)), meta);
}

}  // namespace
}  // namespace kiln
