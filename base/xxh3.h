// SPDX-License-Identifier: Apache-2.0
// XXH3-128 of xxHash: a checksum that finds accidents at the speed of memory. Whoever wants to can
// make bytes with any checksum: what must withstand people has a SHA-256.
#ifndef KILN_BASE_XXH3_H_
#define KILN_BASE_XXH3_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace kiln {

// In canonical form: as `xxhsum -H128` prints it.
using Xxh3Digest = std::array<uint8_t, 16>;

Xxh3Digest Xxh3(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_BASE_XXH3_H_
