// SPDX-License-Identifier: Apache-2.0
#include "base/name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

bool StartsName(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool ContinuesName(char c) {
  return StartsName(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.';
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool TakeQuoted(absl::string_view& rest, std::string& name) {
  std::string read;
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '`') {
      rest.remove_prefix(i + 1);
      name = std::move(read);
      return true;
    }
    if (rest[i] != '\\') {
      read.push_back(rest[i]);
      continue;
    }
    if (i + 3 >= rest.size() || rest[i + 1] != 'x') return false;
    const int high = HexDigit(rest[i + 2]);
    const int low = HexDigit(rest[i + 3]);
    if (high < 0 || low < 0) return false;
    read.push_back(static_cast<char>(high * 16 + low));
    i += 3;
  }
  return false;
}

}  // namespace

bool IsBareName(absl::string_view name) {
  if (name.empty() || !StartsName(name[0])) return false;
  for (const char c : name) {
    if (!ContinuesName(c)) return false;
  }
  return true;
}

std::string PrintName(absl::string_view name) {
  if (IsBareName(name)) return std::string(name);
  std::string out = "`";
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '`' || c == '\\' || absl::ascii_iscntrl(byte)) {
      absl::StrAppend(&out, "\\x", absl::Hex(byte, absl::kZeroPad2));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('`');
  return out;
}

bool TakeName(absl::string_view& rest, std::string& name) {
  if (rest.empty()) return false;
  if (rest[0] == '`') return TakeQuoted(rest, name);
  if (!StartsName(rest[0])) return false;
  size_t n = 1;
  while (n < rest.size() && ContinuesName(rest[n])) ++n;
  name = std::string(rest.substr(0, n));
  rest.remove_prefix(n);
  return true;
}

}  // namespace kiln
