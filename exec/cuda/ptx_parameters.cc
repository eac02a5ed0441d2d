// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/ptx_parameters.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kiln::cuda {
namespace {

constexpr absl::string_view kBlanks = " \t\r\n";
constexpr absl::string_view kEntry = ".entry";
constexpr int64_t kMostBytes = 32764;  // correctness: of all parameters, by the ISA

// Whether the text at `at`, behind ".entry", is this name and ends there.
bool IsName(absl::string_view rest, absl::string_view name) {
  if (rest.empty() || !absl::StrContains(kBlanks, rest[0])) return false;
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (!absl::ConsumePrefix(&rest, name)) return false;
  return rest.empty() || absl::StrContains(" \t\r\n({", rest[0]);
}

// Of one such as ".u64"; 0: it is no type.
int64_t BytesOfType(absl::string_view word) {
  int bits = 0;
  if (word.size() < 3 || word[0] != '.' || !absl::StrContains("busf", word[1])) return 0;
  if (!absl::SimpleAtoi(word.substr(2), &bits)) return 0;
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

bool IsIdentifier(absl::string_view word) {
  return !word.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(word[0])) &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '%';
         });
}

// Of ".param .u64 .ptr .global .align 16 name" or ".param .align 4 .b8 name[12]"; 0: it is none.
int64_t BytesOf(absl::string_view parameter) {
  int64_t bytes = 0, count = 1;
  if (const size_t open = parameter.find('['); open != absl::string_view::npos) {
    absl::string_view number = absl::StripAsciiWhitespace(parameter.substr(open + 1));
    if (!absl::ConsumeSuffix(&number, "]") || !absl::SimpleAtoi(number, &count)) return 0;
    if (count < 1 || count > kMostBytes) return 0;
    parameter = parameter.substr(0, open);
  }
  const std::vector<absl::string_view> words =
      absl::StrSplit(parameter, absl::ByAnyChar(kBlanks), absl::SkipEmpty());
  if (words.size() < 3 || words[0] != ".param" || !IsIdentifier(words.back())) return 0;
  for (size_t k = 1; k + 1 < words.size(); ++k) {
    const int64_t size = BytesOfType(words[k]);
    int alignment = 0;
    const bool aligns = words[k - 1] == ".align" && absl::SimpleAtoi(words[k], &alignment);
    const bool second = size > 0 && bytes > 0;
    if (second || (words[k][0] != '.' && !aligns)) return 0;
    bytes += size;
  }
  return bytes * count;
}

absl::Status Wrong(absl::string_view entry, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("PTX: function \"", entry, "\" ", what));
}

}  // namespace

absl::Status CheckPtx(absl::string_view ptx) {
  absl::ConsumeSuffix(&ptx, absl::string_view("\0", 1));
  if (absl::StripLeadingAsciiWhitespace(ptx).substr(0, 1) != ".")
    return absl::DataLossError("PTX: the text does not begin with a directive");
  for (const absl::string_view no : {absl::string_view("\0", 1), {"//"}, {"/*"}}) {
    if (const size_t at = ptx.find(no); at != absl::string_view::npos)
      return absl::DataLossError(
          absl::StrCat("PTX: has a ", no.size() == 2 ? "comment" : "zero", " at byte ", at));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> PtxParameters(absl::string_view ptx, absl::string_view entry) {
  size_t found = absl::string_view::npos;
  for (size_t at = ptx.find(kEntry); at != absl::string_view::npos;
       at = ptx.find(kEntry, at + kEntry.size())) {
    if (!IsName(ptx.substr(at + kEntry.size()), entry)) continue;
    if (found != absl::string_view::npos) return Wrong(entry, "stands there twice");
    found = at;
  }
  if (found == absl::string_view::npos) return Wrong(entry, "is not in the text");
  absl::string_view rest = ptx.substr(found);
  rest.remove_prefix(std::min(rest.find(entry) + entry.size(), rest.size()));
  rest = absl::StripLeadingAsciiWhitespace(rest);
  std::vector<int64_t> bytes;
  if (!absl::ConsumePrefix(&rest, "(")) return bytes;
  const size_t end = rest.find(')');
  if (end == absl::string_view::npos) return Wrong(entry, "has parameters without an end");
  const absl::string_view list = absl::StripAsciiWhitespace(rest.substr(0, end));
  if (list.empty()) return bytes;
  for (const absl::string_view parameter : absl::StrSplit(list, ',')) {
    bytes.push_back(BytesOf(parameter));
    if (bytes.back() == 0)
      return Wrong(entry, absl::StrCat("has parameter ", bytes.size() - 1, ", \"",
                                       absl::StripAsciiWhitespace(parameter).substr(0, 80),
                                       "\", which is not understood"));
  }
  return bytes;
}

}  // namespace kiln::cuda
