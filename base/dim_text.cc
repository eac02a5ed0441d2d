// SPDX-License-Identifier: Apache-2.0
// The text form of Dim: printer, and a parser by recursive descent.
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/name.h"
#include "base/status_macros.h"
#include "kiln/dim.h"

namespace kiln {
namespace {

using Atom = Dim::Atom;
using Term = Dim::Term;

constexpr int kMaxNesting = 100;

// True if the text of `dim` can stand as an operand of `*`, `/` or `%`.
bool IsFactor(const Dim& dim) {
  if (const std::optional<int64_t> value = dim.constant()) return *value >= 0;
  if (dim.terms().size() != 1) return false;
  const Term& term = dim.terms()[0];
  return term.coef == 1 && term.atoms.size() == 1 && term.atoms[0].kind != Atom::Kind::kFloorDiv &&
         term.atoms[0].kind != Atom::Kind::kMod;
}

std::string Operand(const Dim& dim) {
  return IsFactor(dim) ? dim.ToString() : absl::StrCat("(", dim.ToString(), ")");
}

std::string PrintAtom(const Atom& atom) {
  if (atom.kind == Atom::Kind::kSymbol) {
    if (atom.symbol == "min" || atom.symbol == "max") return absl::StrCat("`", atom.symbol, "`");
    return PrintName(atom.symbol);
  }
  const Dim& a = atom.args[0];
  const Dim& b = atom.args[1];
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv:
      return absl::StrCat(Operand(a), "/", Operand(b));
    case Atom::Kind::kMod:
      return absl::StrCat(Operand(a), " % ", Operand(b));
    case Atom::Kind::kMin:
      return absl::StrCat("min(", a.ToString(), ", ", b.ToString(), ")");
    default:
      return absl::StrCat("max(", a.ToString(), ", ", b.ToString(), ")");
  }
}

// The term without its sign.
std::string PrintTerm(const Term& term) {
  const uint64_t size =
      term.coef < 0 ? 0 - static_cast<uint64_t>(term.coef) : static_cast<uint64_t>(term.coef);
  if (term.atoms.empty()) return absl::StrCat(size);
  const bool alone = size == 1 && term.atoms.size() == 1;
  std::string out;
  if (size != 1) absl::StrAppend(&out, size, "*");
  for (size_t i = 0; i < term.atoms.size(); ++i) {
    if (i > 0) out += "*";
    const Atom& atom = term.atoms[i];
    const bool loose = atom.kind == Atom::Kind::kFloorDiv || atom.kind == Atom::Kind::kMod;
    absl::StrAppend(&out,
                    loose && !alone ? absl::StrCat("(", PrintAtom(atom), ")") : PrintAtom(atom));
  }
  return out;
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : rest_(text) {}

  absl::StatusOr<Dim> All() {
    KILN_ASSIGN_OR_RETURN(Dim dim, Sum());
    if (!AtEnd()) return Wrong("something else");
    return dim;
  }

  absl::StatusOr<Shape> List() {
    if (!Take('[')) return Wrong("no \"[\"");
    Shape shape;
    if (!Take(']')) {
      do {
        KILN_ASSIGN_OR_RETURN(shape.emplace_back(), Sum());
      } while (Take(','));
      if (!Take(']')) return Wrong("no \"]\"");
    }
    if (!AtEnd()) return Wrong("something else");
    return shape;
  }

 private:
  void Skip() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }
  bool AtEnd() {
    Skip();
    return rest_.empty();
  }
  bool Take(char c) {
    Skip();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  absl::Status Wrong(absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimension expression: ", what, " before \"", rest_.substr(0, 40), "\""));
  }

  absl::StatusOr<Dim> Sum() {
    if (++depth_ > kMaxNesting) return Wrong("nested too deeply");
    const bool negative = Take('-');
    KILN_ASSIGN_OR_RETURN(Dim sum, Products(negative));
    while (true) {
      const bool minus = Take('-');
      if (!minus && !Take('+')) break;
      KILN_ASSIGN_OR_RETURN(const Dim term, Products(minus));
      sum = sum + term;
    }
    --depth_;
    return sum;
  }

  // A minus sign negates the whole product: -n/2 is -(n/2).
  absl::StatusOr<Dim> Products(bool negative) {
    Skip();
    if (negative && absl::ConsumePrefix(&rest_, "9223372036854775808")) {
      return ProductsFrom(Dim(INT64_MIN));  // its size alone does not fit
    }
    KILN_ASSIGN_OR_RETURN(const Dim first, Factor());
    KILN_ASSIGN_OR_RETURN(const Dim product, ProductsFrom(first));
    return negative ? Dim(0) - product : product;
  }

  absl::StatusOr<Dim> ProductsFrom(Dim product) {
    while (true) {
      if (Take('*')) {
        KILN_ASSIGN_OR_RETURN(const Dim factor, Factor());
        product = product * factor;
      } else if (Take('/')) {
        KILN_ASSIGN_OR_RETURN(const Dim factor, Factor());
        product = product.FloorDiv(factor);
      } else if (Take('%')) {
        KILN_ASSIGN_OR_RETURN(const Dim factor, Factor());
        product = product.Mod(factor);
      } else {
        return product;
      }
    }
  }

  absl::StatusOr<Dim> Factor() {
    Skip();
    if (rest_.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(rest_[0])))
      return Unsigned();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return Wrong("a number beyond 64 bits");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return Dim(value);
  }

  absl::StatusOr<Dim> Unsigned() {
    if (Take('?')) return Dim(INT64_MAX) * Dim(2);  // an error stays an error
    if (Take('(')) {
      KILN_ASSIGN_OR_RETURN(Dim inner, Sum());
      if (!Take(')')) return Wrong("no \")\"");
      return inner;
    }
    const bool quoted = !rest_.empty() && rest_[0] == '`';
    std::string name;
    if (!TakeName(rest_, name)) return Wrong("no number, name or \"(\"");
    if (quoted || (name != "min" && name != "max") || !Take('(')) return Dim::Symbol(name);
    KILN_ASSIGN_OR_RETURN(const Dim a, Sum());
    if (!Take(',')) return Wrong("no \",\"");
    KILN_ASSIGN_OR_RETURN(const Dim b, Sum());
    if (!Take(')')) return Wrong("no \")\"");
    return name == "min" ? Dim::Min(a, b) : Dim::Max(a, b);
  }

  absl::string_view rest_;
  int depth_ = 0;
};

}  // namespace

std::string Dim::ToString() const {
  if (overflow_) return "?";
  if (terms_.empty()) return "0";
  std::string out;
  for (const Term& term : terms_) {
    const bool first = out.empty();
    if (term.coef < 0) {
      out += first ? "-" : " - ";
    } else if (!first) {
      out += " + ";
    }
    out += PrintTerm(term);
  }
  return out;
}

absl::StatusOr<Dim> Dim::Parse(absl::string_view text) { return Parser(text).All(); }

std::string ToString(const Shape& shape) {
  return absl::StrCat(
      "[",
      absl::StrJoin(shape, ", ",
                    [](std::string* out, const Dim& dim) { out->append(dim.ToString()); }),
      "]");
}

absl::StatusOr<Shape> ParseShape(absl::string_view text) { return Parser(text).List(); }

}  // namespace kiln
