// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and its text form: 64 lower-case hexadecimal digits. By the processor's own
// instructions where it has them (SHA-NI), else portable. The code is ours, so that what only loads
// packages links no cryptographic library and a digest needs no memory.
#ifndef KILN_BASE_SHA256_H_
#define KILN_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(absl::string_view bytes);

// The digest of bytes that come in pieces; how they are cut does not matter.
//   Sha256Hasher h;  h.Update("ab");  h.Update("c");  h.Finish() == Sha256("abc")
// Copyable, not thread-safe.
class Sha256Hasher {
 public:
  Sha256Hasher() = default;
  // `instructions` false: as on a processor without instructions for it.
  explicit Sha256Hasher(bool instructions) : instructions_(instructions) {}
  void Update(absl::string_view bytes);
  // Ends the computation: only a new object takes further bytes.
  Sha256Digest Finish();

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};  // its first length_ % 64 bytes wait
  uint64_t length_ = 0;              // of all that came
  bool instructions_ = true;
};

std::string ToHex(const Sha256Digest& digest);

// The inverse of ToHex; nothing for any other text, upper case included.
std::optional<Sha256Digest> ParseHexDigest(absl::string_view hex);

}  // namespace kiln

#endif  // KILN_BASE_SHA256_H_
