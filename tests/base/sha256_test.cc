// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <string>

#include "gtest/gtest.h"

namespace kiln {
namespace {

// The vectors of FIPS 180-4's examples.
TEST(Sha256Test, GivesThePublishedDigests) {
  EXPECT_EQ(ToHex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ToHex(Sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Each way to end a block, as Python's hashlib computes it, by either code.
TEST(Sha256Test, AllLengthsGiveWhatAnotherImplementationDoes) {
  for (const bool instructions : {true, false}) {
    Sha256Hasher all(instructions);
    for (int n = 0; n < 300; ++n) {
      std::string bytes;
      for (int i = 0; i < n; ++i) bytes.push_back(static_cast<char>((7 * i + n) % 256));
      Sha256Hasher one(instructions);
      one.Update(bytes);
      const Sha256Digest digest = one.Finish();
      all.Update({reinterpret_cast<const char*>(digest.data()), digest.size()});
    }
    EXPECT_EQ(ToHex(all.Finish()),
              "d5238871a46ac4a1a75ac3fb19d645b0b3b9e5f35f5f720e2b240d605c6b694e")
        << instructions;
  }
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWhole) {
  const std::string bytes("kiln\0kiln", 9);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Sha256Hasher hasher;
    hasher.Update(bytes.substr(0, cut));
    hasher.Update(bytes.substr(cut));
    EXPECT_EQ(hasher.Finish(), Sha256(bytes)) << cut;
  }
}

TEST(Sha256Test, HexReadsBack) {
  const Sha256Digest digest = Sha256("abc");
  const std::string hex = ToHex(digest);
  EXPECT_EQ(ParseHexDigest(hex), digest);
  EXPECT_EQ(ParseHexDigest(hex.substr(1)), std::nullopt);
  EXPECT_EQ(ParseHexDigest(hex + "0"), std::nullopt);
  EXPECT_EQ(ParseHexDigest("B" + hex.substr(1)), std::nullopt);
  EXPECT_EQ(ParseHexDigest("g" + hex.substr(1)), std::nullopt);
}

}  // namespace
}  // namespace kiln
