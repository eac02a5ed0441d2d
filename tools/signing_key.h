// SPDX-License-Identifier: Apache-2.0
// The key that --sign names.
#ifndef KILN_TOOLS_SIGNING_KEY_H_
#define KILN_TOOLS_SIGNING_KEY_H_

#include <optional>
#include <string>

#include "persistent_cache/signature.h"

namespace kiln {

// Nothing for "". kInvalidArgument: the file holds no key; kNotFound and the like for the file.
absl::StatusOr<std::optional<SigningKey>> ReadSigningKey(const std::string& path);

// The public key in hexadecimal digits, or "".
std::string SignerOf(const std::optional<SigningKey>& key);

}  // namespace kiln

#endif  // KILN_TOOLS_SIGNING_KEY_H_
