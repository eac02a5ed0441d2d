// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: JSON of one fixed shape, read by a parser for just that shape.
// Nothing nests deeper than it does, no number is anything but a count, no key stands twice.
//
//   {"__metadata__": {"step": "7"},
//    "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
#ifndef KILN_BASE_SAFETENSORS_HEADER_H_
#define KILN_BASE_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

struct SafetensorsHeader {
  struct Entry {
    std::string name, dtype;
    std::vector<int64_t> shape;
    int64_t begin = 0, end = 0;  // bytes behind the header
  };
  std::map<std::string, std::string> metadata;
  std::vector<Entry> entries;  // as they stand
};

inline constexpr size_t kMaxSafetensors = size_t{1} << 17;  // tensors of a file
inline constexpr size_t kMaxSafetensorsRank = 16;

// kDataLoss names the byte and what is wrong with it; kResourceExhausted: more tensors or axes than
// the limits. Takes time and memory in proportion to the bytes.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json);
// The other way, without white space; names and metadata must be UTF-8.
std::string PrintSafetensorsHeader(const SafetensorsHeader& header);

// Whether the bytes are UTF-8, without surrogates and overlong forms.
bool IsUtf8(absl::string_view bytes);

}  // namespace kiln

#endif  // KILN_BASE_SAFETENSORS_HEADER_H_
