// SPDX-License-Identifier: Apache-2.0
#include "kiln/persistent_cache/key.h"

#include "absl/strings/match.h"
#include "kiln/persistent_cache/little_endian.h"

namespace kiln {
namespace {

constexpr char kHead[] = "kiln-preimage 1\n";

// Takes one length-prefixed string off the front of `rest`; false if it is cut short.
bool TakeString(absl::string_view& rest, std::string& out) {
  if (rest.size() < 4) return false;
  const uint32_t length = LoadU32(rest);
  rest.remove_prefix(4);
  if (length > rest.size()) return false;
  out.assign(rest.data(), length);
  rest.remove_prefix(length);
  return true;
}

}  // namespace

Preimage& Preimage::Add(absl::string_view name, absl::string_view value) {
  for (absl::string_view part : {name, value}) {
    AppendU32(bytes_, static_cast<uint32_t>(part.size()));
    bytes_.append(part.data(), part.size());
  }
  return *this;
}

absl::StatusOr<PreimageFields> ParsePreimage(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kHead)) {
    return absl::DataLossError("preimage: does not start with \"kiln-preimage 1\"");
  }
  bytes.remove_prefix(sizeof(kHead) - 1);
  PreimageFields fields;
  while (!bytes.empty()) {
    auto& [name, value] = fields.emplace_back();
    if (!TakeString(bytes, name) || !TakeString(bytes, value)) {
      return absl::DataLossError("preimage: a field is cut short");
    }
  }
  return fields;
}

}  // namespace kiln
