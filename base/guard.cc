// SPDX-License-Identifier: Apache-2.0
#include "base/guard.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/name.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using Kind = Guard::Kind;

bool IsAboutInput(Kind kind) {
  return kind == Kind::kPresent || kind == Kind::kAbsent || kind == Kind::kValue;
}

absl::Status NoGuard(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("guard \"", text, "\": is none of the forms of base/guard.h"));
}

absl::StatusOr<Guard> ParseInput(Kind kind, absl::string_view rest, absl::string_view text) {
  rest = absl::StripLeadingAsciiWhitespace(rest);
  Guard guard;
  guard.kind = kind;
  if (!TakeName(rest, guard.input)) return NoGuard(text);
  rest = absl::StripAsciiWhitespace(rest);
  if (kind != Kind::kValue) return rest.empty() ? absl::StatusOr<Guard>(guard) : NoGuard(text);
  if (!absl::ConsumePrefix(&rest, "==")) return NoGuard(text);
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (rest.size() % 2 != 0 || rest.find_first_not_of("0123456789abcdef") != absl::string_view::npos)
    return NoGuard(text);
  guard.bytes = absl::HexStringToBytes(rest);
  return guard;
}

// `dim` is `a % c` for a number c.
bool IsRemainder(const Dim& dim, Dim& a, int64_t& c) {
  if (dim.terms().size() != 1 || dim.terms()[0].coef != 1 || dim.terms()[0].atoms.size() != 1)
    return false;
  const Dim::Atom& atom = dim.terms()[0].atoms[0];
  if (atom.kind != Dim::Atom::Kind::kMod || !atom.args[1].constant()) return false;
  a = atom.args[0];
  c = *atom.args[1].constant();
  return true;
}

// The first comparison outside backquotes.
size_t FindComparison(absl::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '`') quoted = !quoted;
    if (!quoted && (text[i] == '=' || text[i] == '!' || text[i] == '<' || text[i] == '>')) return i;
  }
  return absl::string_view::npos;
}

}  // namespace

Guard Guard::Same(Dim a, Dim b) {
  if (const auto value = b.constant()) return Equal(std::move(a), *value);
  if (const auto value = a.constant()) return Equal(std::move(b), *value);
  if (b < a) std::swap(a, b);
  return {Kind::kSame, std::move(a), std::move(b), 0, "", ""};
}

std::set<std::string> Guard::Symbols() const {
  std::set<std::string> symbols;
  left.CollectSymbols(symbols);
  right.CollectSymbols(symbols);
  return symbols;
}

std::string Guard::ToString() const {
  switch (kind) {
    case Kind::kEqual:
      return absl::StrCat(left.ToString(), " == ", number);
    case Kind::kNotEqual:
      return absl::StrCat(left.ToString(), " != ", number);
    case Kind::kDivisible: {
      const bool bare = left.terms().size() == 1 && left.terms()[0].coef == 1 &&
                        left.terms()[0].atoms.size() == 1 && left.terms()[0].atoms[0].args.empty();
      return bare ? absl::StrCat(left.ToString(), " % ", number, " == 0")
                  : absl::StrCat("(", left.ToString(), ") % ", number, " == 0");
    }
    case Kind::kSame:
      return absl::StrCat(left.ToString(), " == ", right.ToString());
    case Kind::kLess:
      return absl::StrCat(left.ToString(), " < ", number);
    case Kind::kAtLeast:
      return absl::StrCat(left.ToString(), " >= ", number);
    case Kind::kPresent:
      return absl::StrCat("present ", PrintName(input));
    case Kind::kAbsent:
      return absl::StrCat("absent ", PrintName(input));
    case Kind::kValue:
      return absl::StrCat("value ", PrintName(input), " == ", absl::BytesToHexString(bytes));
  }
  return "";
}

absl::StatusOr<Guard> Guard::Parse(absl::string_view text) {
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&rest, "present ")) return ParseInput(Kind::kPresent, rest, text);
  if (absl::ConsumePrefix(&rest, "absent ")) return ParseInput(Kind::kAbsent, rest, text);
  if (absl::ConsumePrefix(&rest, "value ")) return ParseInput(Kind::kValue, rest, text);

  const size_t at = FindComparison(rest);
  if (at == absl::string_view::npos) return NoGuard(text);
  KILN_ASSIGN_OR_RETURN(const Dim left, Dim::Parse(rest.substr(0, at)));
  rest.remove_prefix(at);
  const absl::string_view sign = rest.substr(0, rest[0] == '<' ? 1 : 2);
  rest.remove_prefix(sign.size());
  KILN_ASSIGN_OR_RETURN(const Dim right, Dim::Parse(rest));
  const std::optional<int64_t> number = right.constant();
  if (sign == "==") {
    if (!number) return Guard{Kind::kSame, left, right, 0, "", ""};
    Dim divided;
    int64_t divisor = 0;
    if (*number == 0 && IsRemainder(left, divided, divisor)) return Divisible(divided, divisor);
    return Equal(left, *number);
  }
  if (!number) return NoGuard(text);
  if (sign == "!=") return NotEqual(left, *number);
  if (sign == "<") return Less(left, *number);
  if (sign == ">=") return AtLeast(left, *number);
  return NoGuard(text);
}

absl::StatusOr<bool> Guard::Holds(const SymbolValues& values) const {
  if (IsAboutInput(kind)) {
    return absl::FailedPreconditionError(
        absl::StrCat("guard \"", ToString(), "\": is about an input, not about extents"));
  }
  KILN_ASSIGN_OR_RETURN(const int64_t value, left.Evaluate(values));
  switch (kind) {
    case Kind::kEqual:
      return value == number;
    case Kind::kNotEqual:
      return value != number;
    case Kind::kDivisible:
      return number == -1 || (number != 0 && value % number == 0);
    case Kind::kLess:
      return value < number;
    case Kind::kAtLeast:
      return value >= number;
    default:
      break;
  }
  KILN_ASSIGN_OR_RETURN(const int64_t other, right.Evaluate(values));
  return value == other;
}

std::optional<bool> Guard::Static() const {
  if (IsAboutInput(kind)) return std::nullopt;
  if (kind == Kind::kDivisible) {
    const std::optional<int64_t> rest = number == 0 ? std::nullopt : left.Mod(number).constant();
    return rest ? std::optional<bool>(*rest == 0) : std::nullopt;
  }
  const Dim difference = left - (kind == Kind::kSame ? right : Dim(number));
  const std::optional<int64_t> low = difference.LowerBound();
  const std::optional<int64_t> high = difference.UpperBound();
  const bool positive = low && *low > 0;
  const bool negative = high && *high < 0;
  switch (kind) {
    case Kind::kLess:
      if (negative) return true;
      if (low && *low >= 0) return false;
      return std::nullopt;
    case Kind::kAtLeast:
      if (low && *low >= 0) return true;
      if (negative) return false;
      return std::nullopt;
    default:
      break;
  }
  const bool same = kind != Kind::kNotEqual;
  if (difference.IsConst(0)) return same;
  if (positive || negative) return !same;
  return std::nullopt;
}

}  // namespace kiln
