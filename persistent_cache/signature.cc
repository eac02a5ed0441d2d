// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/signature.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

void SigningKey::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

absl::StatusOr<SigningKey> SigningKey::FromPem(absl::string_view pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  // An encrypted key must not ask for its password on the terminal of a build machine.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  SigningKey key(
      bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  size_t size = key.public_key_.size();
  if (key.key_ == nullptr || EVP_PKEY_id(key.key_.get()) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key.key_.get(), key.public_key_.data(), &size) != 1) {
    return absl::InvalidArgumentError(
        "signing key: is no unencrypted Ed25519 private key in PEM form; make one with openssl "
        "genpkey -algorithm ed25519");
  }
  return key;
}

absl::StatusOr<Signature> SigningKey::Sign(absl::string_view message) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  Signature signature;
  size_t size = signature.size();
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), signature.data(), &size, Bytes(message), message.size()) != 1)
    return absl::InternalError("signing key: OpenSSL does not sign with it");
  return signature;
}

bool IsSignedBy(const PublicKey& key, absl::string_view message, const Signature& signature) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> public_key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()),
      EVP_PKEY_free);
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return public_key != nullptr && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.data(), signature.size(), Bytes(message),
                          message.size()) == 1;
}

absl::StatusOr<std::map<PublicKey, std::string>> ParseTrustFile(absl::string_view text) {
  std::map<PublicKey, std::string> signers;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view content = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(content, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const std::optional<PublicKey> key =
        words.size() == 2 ? ParseHexDigest(words[1]) : std::nullopt;
    if (!key.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("trust file: line ", number, " \"", line,
                       "\" is not a name and a public key of 64 lower-case hexadecimal digits"));
    }
    signers[*key] = std::string(words[0]);
  }
  return signers;
}

absl::StatusOr<std::map<PublicKey, std::string>> ReadTrustFile(FileSystem& files,
                                                               absl::string_view path) {
  constexpr int64_t kMaxBytes = 1 << 20;
  const auto file = files.OpenRead(path);
  if (absl::IsNotFound(file.status())) return std::map<PublicKey, std::string>();
  KILN_RETURN_IF_ERROR(file.status());
  const FileInfo& info = (*file)->info();
  if ((info.uid != 0 && info.uid != geteuid()) || (info.mode & 0022) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "trust file \"%s\": is owned by user %d with mode %04o; it must be ours or root's and "
        "writable by nobody else",
        path, info.uid, info.mode));
  }
  KILN_ASSIGN_OR_RETURN(const std::string text, (*file)->Read(0, kMaxBytes));
  return ParseTrustFile(text);
}

}  // namespace kiln
