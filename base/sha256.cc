// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace kiln {
namespace {

constexpr absl::string_view kDigits = "0123456789abcdef";

}  // namespace

Sha256Digest Sha256(absl::string_view bytes) {
  Sha256Hasher hasher;
  hasher.Update(bytes);
  return hasher.Finish();
}

void Sha256Hasher::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

// OpenSSL's calls fail only when there is no memory or no SHA-256 in the library at all. Unless the
// program itself has started OpenSSL it is not taken down at exit: a Model in a variable of static
// duration hashes what it keeps after that.
Sha256Hasher::Sha256Hasher() {
  KILN_CHECK(OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1);
  context_.reset(EVP_MD_CTX_new());
  KILN_CHECK(context_ != nullptr);
  KILN_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256Hasher::Update(absl::string_view bytes) {
  KILN_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256Hasher::Finish() {
  Sha256Digest digest;
  unsigned size = 0;
  KILN_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1 &&
             size == digest.size());
  return digest;
}

std::string ToHex(const Sha256Digest& digest) {
  std::string hex;
  hex.reserve(2 * digest.size());
  for (const uint8_t byte : digest) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

std::optional<Sha256Digest> ParseHexDigest(absl::string_view hex) {
  Sha256Digest digest;
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const size_t high = kDigits.find(hex[2 * i]);
    const size_t low = kDigits.find(hex[2 * i + 1]);
    if (high == absl::string_view::npos || low == absl::string_view::npos) return std::nullopt;
    digest[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

}  // namespace kiln
