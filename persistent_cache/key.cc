// SPDX-License-Identifier: Apache-2.0
#include "persistent_cache/key.h"

#include "absl/strings/strip.h"
#include "base/little_endian.h"

namespace kiln {
namespace {

constexpr char kHead[] = "kiln-preimage 1\n";

// Takes one length-prefixed string off the front of `rest`; false if it is cut short.
bool TakeString(absl::string_view& rest, absl::string_view& out) {
  if (rest.size() < 4) return false;
  const uint32_t length = LoadU32(rest);
  rest.remove_prefix(4);
  if (length > rest.size()) return false;
  out = rest.substr(0, length);
  rest.remove_prefix(length);
  return true;
}

}  // namespace

Preimage Preimage::Of(std::string bytes) {
  Preimage preimage;
  preimage.bytes_ = std::move(bytes);
  return preimage;
}

Preimage& Preimage::Add(absl::string_view name, absl::string_view value) {
  for (absl::string_view part : {name, value}) {
    AppendU32(bytes_, static_cast<uint32_t>(part.size()));
    bytes_.append(part.data(), part.size());
  }
  return *this;
}

std::string FieldOf(absl::string_view bytes, absl::string_view name) {
  absl::string_view found, value;
  if (!absl::ConsumePrefix(&bytes, kHead)) return "";
  while (TakeString(bytes, found) && TakeString(bytes, value)) {
    if (found == name) return std::string(value);
  }
  return "";
}

absl::StatusOr<PreimageFields> ParsePreimage(absl::string_view bytes) {
  if (!absl::ConsumePrefix(&bytes, kHead)) {
    return absl::DataLossError("preimage: does not start with \"kiln-preimage 1\"");
  }
  PreimageFields fields;
  while (!bytes.empty()) {
    absl::string_view name, value;
    if (!TakeString(bytes, name) || !TakeString(bytes, value)) {
      return absl::DataLossError("preimage: a field is cut short");
    }
    fields.emplace_back(name, value);
  }
  return fields;
}

}  // namespace kiln
