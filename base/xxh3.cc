// SPDX-License-Identifier: Apache-2.0
#include "base/xxh3.h"

#include <cstring>

#define XXH_INLINE_ALL  // no library to link
#include <xxhash.h>

namespace kiln {

Xxh3Digest Xxh3(absl::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  Xxh3Digest digest;
  static_assert(sizeof canonical.digest == sizeof digest);
  std::memcpy(digest.data(), canonical.digest, sizeof digest);
  return digest;
}

}  // namespace kiln
