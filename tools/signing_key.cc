// SPDX-License-Identifier: Apache-2.0
#include "tools/signing_key.h"

#include <utility>

#include "base/file_system.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr int64_t kMaxPemBytes = 1 << 16;

}  // namespace

absl::StatusOr<std::optional<SigningKey>> ReadSigningKey(const std::string& path) {
  if (path.empty()) return std::nullopt;
  KILN_ASSIGN_OR_RETURN(const std::string pem, RealFileSystem().ReadFile(path, kMaxPemBytes));
  KILN_ASSIGN_OR_RETURN(SigningKey key, SigningKey::FromPem(pem));
  return std::optional<SigningKey>(std::move(key));
}

std::string SignerOf(const std::optional<SigningKey>& key) {
  return key.has_value() ? ToHex(key->public_key()) : "";
}

}  // namespace kiln
