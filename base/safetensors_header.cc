// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors_header.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/checked.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr char kMetadata[] = "__metadata__";

void AppendUtf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (code >> shift & 63)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view json) : json_(json) {}

  absl::StatusOr<SafetensorsHeader> Parse() {
    SafetensorsHeader header;
    if (!IsUtf8(json_)) return Wrong("bytes that are no UTF-8");
    KILN_RETURN_IF_ERROR(Object([&](std::string key) -> absl::Status {
      if (key == kMetadata) return Metadata(header.metadata);
      if (header.entries.size() == kMaxSafetensors)
        return absl::ResourceExhaustedError(
            absl::StrCat("header: more than ", kMaxSafetensors, " tensors"));
      SafetensorsHeader::Entry& entry = header.entries.emplace_back();
      entry.name = std::move(key);
      return Tensor(entry);
    }));
    SkipSpace();
    if (at_ != json_.size()) return Wrong("bytes behind the last brace");
    return header;
  }

 private:
  absl::Status Wrong(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("header, byte ", at_, ": ", what));
  }

  void SkipSpace() {
    while (at_ < json_.size() && absl::string_view(" \t\r\n").find(json_[at_]) != json_.npos) ++at_;
  }
  // Whether `c` is next, which is then behind.
  bool Take(char c) {
    SkipSpace();
    if (at_ == json_.size() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char c) {
    return Take(c) ? absl::OkStatus() : Wrong(absl::StrCat("expected ", std::string(1, c)));
  }

  // `value` reads the value of each key.
  template <typename Value>
  absl::Status Object(Value&& value) {
    std::set<std::string> keys;
    KILN_RETURN_IF_ERROR(Expect('{'));
    if (Take('}')) return absl::OkStatus();
    do {
      KILN_ASSIGN_OR_RETURN(std::string key, String());
      if (!keys.insert(key).second)
        return Wrong(absl::StrCat("key \"", Printable(key), "\" stands twice"));
      KILN_RETURN_IF_ERROR(Expect(':'));
      KILN_RETURN_IF_ERROR(value(std::move(key)));
    } while (Take(','));
    return Expect('}');
  }

  absl::Status Metadata(std::map<std::string, std::string>& metadata) {
    return Object([&](std::string key) -> absl::Status {
      KILN_ASSIGN_OR_RETURN(metadata[std::move(key)], String());
      return absl::OkStatus();
    });
  }

  absl::Status Tensor(SafetensorsHeader::Entry& entry) {
    int known = 0;
    KILN_RETURN_IF_ERROR(Object([&](const std::string& key) -> absl::Status {
      ++known;
      if (key == "dtype") {
        KILN_ASSIGN_OR_RETURN(entry.dtype, String());
        return absl::OkStatus();
      }
      if (key == "shape") return Counts(entry.shape);
      if (key != "data_offsets") return Wrong(absl::StrCat("key \"", Printable(key), "\""));
      std::vector<int64_t> offsets;
      KILN_RETURN_IF_ERROR(Counts(offsets));
      if (offsets.size() != 2)
        return Wrong(absl::StrCat(offsets.size(), " data_offsets, expected 2"));
      entry.begin = offsets[0];
      entry.end = offsets[1];
      return absl::OkStatus();
    }));
    if (known == 3) return absl::OkStatus();
    return Wrong(absl::StrCat("tensor \"", Printable(entry.name),
                              "\" has not all of dtype, shape and data_offsets"));
  }

  absl::Status Counts(std::vector<int64_t>& counts) {
    KILN_RETURN_IF_ERROR(Expect('['));
    if (Take(']')) return absl::OkStatus();
    do {
      if (counts.size() == kMaxSafetensorsRank)
        return absl::ResourceExhaustedError(
            absl::StrCat("header, byte ", at_, ": more than ", kMaxSafetensorsRank, " axes"));
      KILN_ASSIGN_OR_RETURN(const int64_t count, Count());
      counts.push_back(count);
    } while (Take(','));
    return Expect(']');
  }

  absl::StatusOr<int64_t> Count() {
    SkipSpace();
    const size_t first = at_;
    int64_t count = 0;
    while (at_ < json_.size() && json_[at_] >= '0' && json_[at_] <= '9') {
      const std::optional<int64_t> shifted = CheckedMul(count, 10);
      const std::optional<int64_t> next =
          shifted ? CheckedAdd(*shifted, json_[at_] - '0') : std::nullopt;
      if (!next) return Wrong("a number of more than 63 bits");
      count = *next;
      ++at_;
    }
    if (at_ == first) return Wrong("expected a count");
    if (json_[first] == '0' && at_ - first > 1) return Wrong("a count with a leading zero");
    return count;
  }

  absl::StatusOr<std::string> String() {
    KILN_RETURN_IF_ERROR(Expect('"'));
    std::string text;
    while (at_ < json_.size()) {
      const char c = json_[at_++];
      if (c == '"') return text;
      if (static_cast<unsigned char>(c) < 0x20) return Wrong("a control character in a string");
      if (c != '\\') {
        text.push_back(c);
      } else {
        KILN_RETURN_IF_ERROR(Escape(text));
      }
    }
    return Wrong("a string without an end");
  }

  absl::Status Escape(std::string& text) {
    constexpr absl::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (at_ == json_.size()) return Wrong("a string without an end");
    const char c = json_[at_++];
    if (c != 'u') {
      const size_t which = kFrom.find(c);
      if (which == kFrom.npos) return Wrong("an unknown escape in a string");
      text.push_back(kTo[which]);
      return absl::OkStatus();
    }
    KILN_ASSIGN_OR_RETURN(uint32_t code, Hex());
    if (code >= 0xDC00 && code < 0xE000) return Wrong("half of a surrogate pair");
    if (code >= 0xD800 && code < 0xDC00) {
      if (json_.substr(at_, 2) != "\\u") return Wrong("half of a surrogate pair");
      at_ += 2;
      KILN_ASSIGN_OR_RETURN(const uint32_t low, Hex());
      if (low < 0xDC00 || low >= 0xE000) return Wrong("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    AppendUtf8(text, code);
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Hex() {
    constexpr absl::string_view kDigits = "0123456789abcdef";
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < json_.size() ? json_[at_] : ' ';
      const size_t digit = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit == kDigits.npos) return Wrong("expected four hexadecimal digits");
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return code;
  }

  const absl::string_view json_;
  size_t at_ = 0;
};

void AppendString(std::string& out, absl::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppend(&out, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

}  // namespace

bool IsUtf8(absl::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  for (size_t i = 0; i < bytes.size();) {
    const unsigned lead = byte(i);
    const size_t length = lead < 0x80       ? 1
                          : lead >> 5 == 6  ? 2
                          : lead >> 4 == 14 ? 3
                          : lead >> 3 == 30 ? 4
                                            : 0;
    if (length == 0 || length > bytes.size() - i) return false;
    uint32_t code = length == 1 ? lead : lead & (0x7F >> length);
    for (size_t k = 1; k < length; ++k) {
      if (byte(i + k) >> 6 != 2) return false;
      code = code << 6 | (byte(i + k) & 63);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    i += length;
  }
  return true;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json) {
  return HeaderParser(json).Parse();
}

std::string PrintSafetensorsHeader(const SafetensorsHeader& header) {
  std::string out = "{";
  const auto separate = [&] {
    if (out.back() != '{') out.push_back(',');
  };
  if (!header.metadata.empty()) {
    absl::StrAppend(&out, "\"", kMetadata, "\":{");
    for (const auto& [key, value] : header.metadata) {
      separate();
      AppendString(out, key);
      out.push_back(':');
      AppendString(out, value);
    }
    out.push_back('}');
  }
  for (const SafetensorsHeader::Entry& entry : header.entries) {
    separate();
    AppendString(out, entry.name);
    absl::StrAppend(&out, ":{\"dtype\":\"", entry.dtype, "\",\"shape\":[",
                    absl::StrJoin(entry.shape, ","), "],\"data_offsets\":[", entry.begin, ",",
                    entry.end, "]}");
  }
  out.push_back('}');
  return out;
}

}  // namespace kiln
