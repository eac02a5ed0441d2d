// SPDX-License-Identifier: Apache-2.0
// Little-endian integers in byte strings. Loads read the first bytes; the caller has checked that
// they are there.
#ifndef KILN_BASE_LITTLE_ENDIAN_H_
#define KILN_BASE_LITTLE_ENDIAN_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace kiln {

inline void AppendLittleEndian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}
inline void AppendU32(std::string& out, uint32_t value) { AppendLittleEndian(out, value, 4); }
inline void AppendU64(std::string& out, uint64_t value) { AppendLittleEndian(out, value, 8); }

inline uint64_t LoadLittleEndian(absl::string_view in, int bytes) {
  uint64_t value = 0;
  for (int i = bytes; i-- > 0;)
    value = value << 8 | static_cast<uint8_t>(in[static_cast<size_t>(i)]);
  return value;
}
inline uint32_t LoadU32(absl::string_view in) {
  return static_cast<uint32_t>(LoadLittleEndian(in, 4));
}
inline uint64_t LoadU64(absl::string_view in) { return LoadLittleEndian(in, 8); }

}  // namespace kiln

#endif  // KILN_BASE_LITTLE_ENDIAN_H_
