// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and its text form: 64 lower-case hexadecimal digits.
#ifndef KILN_BASE_SHA256_H_
#define KILN_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;  // OpenSSL's context

namespace kiln {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(absl::string_view bytes);

// The digest of bytes that come in pieces; how they are cut does not matter.
//   Sha256Hasher h;  h.Update("ab");  h.Update("c");  h.Finish() == Sha256("abc")
// Movable, not thread-safe.
class Sha256Hasher {
 public:
  Sha256Hasher();
  void Update(absl::string_view bytes);
  // Ends the computation: only a new object takes further bytes.
  Sha256Digest Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string ToHex(const Sha256Digest& digest);

// The inverse of ToHex; nothing for any other text, upper case included.
std::optional<Sha256Digest> ParseHexDigest(absl::string_view hex);

}  // namespace kiln

#endif  // KILN_BASE_SHA256_H_
