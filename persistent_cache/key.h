// SPDX-License-Identifier: Apache-2.0
// The key of a cache entry: SHA-256 of a preimage, a list of named fields.
//
// Fields are length-prefixed, so "ab" + "c" and "a" + "bc" are different preimages:
//   preimage := "kiln-preimage 1\n" field*
//   field    := u32 length, name, u32 length, value        (little-endian)
// The preimage is stored in the entry and compared on a hit: equal keys of unequal preimages are a
// miss. It is also what tells why something missed: the first field that differs from a stored one.
#ifndef KILN_PERSISTENT_CACHE_KEY_H_
#define KILN_PERSISTENT_CACHE_KEY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sha256.h"

namespace kiln {

// 32 raw bytes.
using CacheKey = Sha256Digest;

class Preimage {
 public:
  // One that has these bytes, as a stored one has.
  static Preimage Of(std::string bytes);
  Preimage& Add(absl::string_view name, absl::string_view value);
  const std::string& bytes() const { return bytes_; }
  CacheKey Key() const { return Sha256(bytes_); }

 private:
  std::string bytes_ = "kiln-preimage 1\n";
};

using PreimageFields = std::vector<std::pair<std::string, std::string>>;

// The value of the first field `name`, "" if there is none or `bytes` is no preimage.
std::string FieldOf(absl::string_view bytes, absl::string_view name);

// The fields, in order; kDataLoss if `bytes` is no preimage.
absl::StatusOr<PreimageFields> ParsePreimage(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_KEY_H_
