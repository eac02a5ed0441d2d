// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include "absl/strings/str_cat.h"

namespace kiln {

std::string Printable(absl::string_view text) {
  std::string out;
  for (size_t k = 0; k < text.size(); ++k) {
    const auto c = static_cast<unsigned char>(text[k]);
    const auto next = static_cast<unsigned char>(k + 1 < text.size() ? text[k + 1] : '\0');
    if (c == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      absl::StrAppend(&out, "\\x", absl::Hex(next, absl::kZeroPad2));
      ++k;
    } else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
      absl::StrAppend(&out, "\\x", absl::Hex(c, absl::kZeroPad2));
    } else {
      out += text[k];
    }
  }
  return out;
}

}  // namespace kiln
