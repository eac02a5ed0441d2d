// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/signature.h"

#include <dlfcn.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
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

// What is called of libcrypto, which is never unloaded. Its types come from its headers.
struct Crypto {
  decltype(&::BIO_new_mem_buf) bio_new_mem_buf = nullptr;
  decltype(&::BIO_free) bio_free = nullptr;
  decltype(&::PEM_read_bio_PrivateKey) read_private_key = nullptr;
  decltype(&::EVP_PKEY_get_id) key_id = nullptr;
  decltype(&::EVP_PKEY_get_raw_public_key) get_public_key = nullptr;
  decltype(&::EVP_PKEY_new_raw_public_key) new_public_key = nullptr;
  decltype(&::EVP_PKEY_free) key_free = nullptr;
  decltype(&::EVP_MD_CTX_new) context_new = nullptr;
  decltype(&::EVP_MD_CTX_free) context_free = nullptr;
  decltype(&::EVP_DigestSignInit) sign_init = nullptr;
  decltype(&::EVP_DigestSign) sign = nullptr;
  decltype(&::EVP_DigestVerifyInit) verify_init = nullptr;
  decltype(&::EVP_DigestVerify) verify = nullptr;
  std::string error;  // "" where all of it is there
};

template <typename Function>
void Find(void* library, const char* name, Function& function, std::string& error) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && error.empty()) error = absl::StrCat("it has no ", name);
}

Crypto Load() {
  Crypto crypto;
  void* const library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    crypto.error = why != nullptr ? why : "it cannot be loaded";
    return crypto;
  }
  // A process that has not started OpenSSL itself: it is not taken down at exit.
  decltype(&::OPENSSL_init_crypto) init = nullptr;
  Find(library, "OPENSSL_init_crypto", init, crypto.error);
  if (init != nullptr) init(OPENSSL_INIT_NO_ATEXIT, nullptr);
  Find(library, "BIO_new_mem_buf", crypto.bio_new_mem_buf, crypto.error);
  Find(library, "BIO_free", crypto.bio_free, crypto.error);
  Find(library, "PEM_read_bio_PrivateKey", crypto.read_private_key, crypto.error);
  Find(library, "EVP_PKEY_get_id", crypto.key_id, crypto.error);
  Find(library, "EVP_PKEY_get_raw_public_key", crypto.get_public_key, crypto.error);
  Find(library, "EVP_PKEY_new_raw_public_key", crypto.new_public_key, crypto.error);
  Find(library, "EVP_PKEY_free", crypto.key_free, crypto.error);
  Find(library, "EVP_MD_CTX_new", crypto.context_new, crypto.error);
  Find(library, "EVP_MD_CTX_free", crypto.context_free, crypto.error);
  Find(library, "EVP_DigestSignInit", crypto.sign_init, crypto.error);
  Find(library, "EVP_DigestSign", crypto.sign, crypto.error);
  Find(library, "EVP_DigestVerifyInit", crypto.verify_init, crypto.error);
  Find(library, "EVP_DigestVerify", crypto.verify, crypto.error);
  return crypto;
}

absl::StatusOr<const Crypto*> LoadedCrypto() {
  static const Crypto* const crypto = new Crypto(Load());  // usable in other destructors
  if (crypto->error.empty()) return crypto;
  return absl::FailedPreconditionError(absl::StrCat(
      "signature: OpenSSL's libcrypto.so.3 is needed: ", crypto->error, "; install libssl3"));
}

using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

// Who has a key has loaded the library.
void SigningKey::Free::operator()(evp_pkey_st* key) const { (*LoadedCrypto())->key_free(key); }

absl::StatusOr<SigningKey> SigningKey::FromPem(absl::string_view pem) {
  KILN_ASSIGN_OR_RETURN(const Crypto* const crypto, LoadedCrypto());
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      crypto->bio_new_mem_buf(pem.data(), static_cast<int>(pem.size())), crypto->bio_free);
  // An encrypted key must not ask for its password on the terminal of a build machine.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  SigningKey key(bio == nullptr
                     ? nullptr
                     : crypto->read_private_key(bio.get(), nullptr, no_password, nullptr));
  size_t size = key.public_key_.size();
  if (key.key_ == nullptr || crypto->key_id(key.key_.get()) != EVP_PKEY_ED25519 ||
      crypto->get_public_key(key.key_.get(), key.public_key_.data(), &size) != 1) {
    return absl::InvalidArgumentError(
        "signing key: is no unencrypted Ed25519 private key in PEM form; make one with openssl "
        "genpkey -algorithm ed25519");
  }
  return key;
}

absl::StatusOr<Signature> SigningKey::Sign(absl::string_view message) const {
  KILN_ASSIGN_OR_RETURN(const Crypto* const crypto, LoadedCrypto());
  const Context context(crypto->context_new(), crypto->context_free);
  Signature signature;
  size_t size = signature.size();
  if (context == nullptr ||
      crypto->sign_init(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      crypto->sign(context.get(), signature.data(), &size, Bytes(message), message.size()) != 1)
    return absl::InternalError("signing key: OpenSSL does not sign with it");
  return signature;
}

absl::Status CheckSignedBy(const PublicKey& key, absl::string_view message,
                           const Signature& signature) {
  KILN_ASSIGN_OR_RETURN(const Crypto* const crypto, LoadedCrypto());
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> public_key(
      crypto->new_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()), crypto->key_free);
  const Context context(crypto->context_new(), crypto->context_free);
  if (public_key != nullptr && context != nullptr &&
      crypto->verify_init(context.get(), nullptr, nullptr, nullptr, public_key.get()) == 1 &&
      crypto->verify(context.get(), signature.data(), signature.size(), Bytes(message),
                     message.size()) == 1)
    return absl::OkStatus();
  return absl::DataLossError("its signature is wrong");
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
