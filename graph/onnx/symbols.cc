// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/symbols.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln::onnx {
namespace {

std::string Sanitized(absl::string_view text) {
  std::string out;
  if (text.empty() || absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) out = "d";
  for (const char c : text)
    out.push_back(absl::ascii_isalnum(static_cast<unsigned char>(c)) ? c : '_');
  return out;
}

// False for words that mean something in the text form of a Dim.
bool ReadsAsSymbol(const std::string& name) {
  const absl::StatusOr<Dim> parsed = Dim::Parse(name);
  return parsed.ok() && *parsed == Dim::Symbol(name);
}

}  // namespace

bool Symbols::IsNoName(absl::string_view name) {
  name = absl::StripAsciiWhitespace(name);
  int64_t number = 0;
  return name.empty() || name == "?" || name == "*" || name == "None" || name == "none" ||
         absl::StartsWith(name, "unk__") || absl::EqualsIgnoreCase(name, "unknown") ||
         (absl::SimpleAtoi(name, &number) && number < 0);
}

std::string Symbols::Unique(absl::string_view wish) {
  const std::string stem = Sanitized(wish);
  std::string name = stem;
  int& tried = tried_[stem];
  for (; used_.contains(name) || !ReadsAsSymbol(name); ++tried)
    name = absl::StrCat(stem, "_", tried + 2);
  used_.insert(name);
  return name;
}

void Symbols::Reserve(const Dim& dim) { dim.CollectSymbols(used_); }

Dim Symbols::Named(const std::string& name) {
  std::string& symbol = named_[name];
  if (symbol.empty()) symbol = Unique(name);
  return Dim::Symbol(symbol);
}

Dim Symbols::Fresh(absl::string_view wish) { return Dim::Symbol(Unique(wish)); }

}  // namespace kiln::onnx
