// SPDX-License-Identifier: Apache-2.0
// Ed25519 signatures of packs, and whom to believe.
//
// A signer keeps a private key in PEM form and gives out the public one, 64 hexadecimal digits:
//   openssl genpkey -algorithm ed25519 -out signing.pem
//   kiln cache pack app.kilnpack --model net.onnx --sign signing.pem      prints the public key
// A user names signers in a trust file, $XDG_CONFIG_HOME/kiln/trusted-signers, one a line:
//   # who       public key
//   acme-build  9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60
// The arithmetic is that of OpenSSL's libcrypto.so.3, which is loaded when something is signed or a
// signature is checked, and not before: kFailedPrecondition where it is not installed.
#ifndef KILN_PERSISTENT_CACHE_SIGNATURE_H_
#define KILN_PERSISTENT_CACHE_SIGNATURE_H_

#include <array>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/sha256.h"
#include "kiln/cache.h"

struct evp_pkey_st;  // OpenSSL's key

namespace kiln {

// PublicKey (kiln/cache.h): 32 bytes as a Sha256Digest, and the same text form.
using Signature = std::array<uint8_t, 64>;

class SigningKey {
 public:
  // kInvalidArgument unless `pem` holds an unencrypted Ed25519 private key.
  static absl::StatusOr<SigningKey> FromPem(absl::string_view pem);

  PublicKey public_key() const { return public_key_; }
  // Deterministic.
  absl::StatusOr<Signature> Sign(absl::string_view message) const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  explicit SigningKey(evp_pkey_st* key) : key_(key) {}

  std::unique_ptr<evp_pkey_st, Free> key_;
  PublicKey public_key_{};
};

// kDataLoss: `signature` is not that of `message` by `key`.
absl::Status CheckSignedBy(const PublicKey& key, absl::string_view message,
                           const Signature& signature);

// The lines of a trust file. kInvalidArgument names the line that cannot be read.
absl::StatusOr<std::map<PublicKey, std::string>> ParseTrustFile(absl::string_view text);

// The trust file at `path`: nobody where it is absent. kFailedPrecondition if others than root and
// we may write it.
absl::StatusOr<std::map<PublicKey, std::string>> ReadTrustFile(FileSystem& files,
                                                               absl::string_view path);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_SIGNATURE_H_
