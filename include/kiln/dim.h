// SPDX-License-Identifier: Apache-2.0
// Dim: an extent that is a number or an expression over named symbols, such as `batch`, `2*seq` or
// `(seq + 1)/2`.
//
// A Dim is kept in canonical form, a sum of products of atoms with integer coefficients: `a*(b +
// 2)` and `b*a + 2*a` are equal values. An atom is a symbol, or a floor division, remainder,
// minimum or maximum that does not simplify. Symbols stand for non-negative integers. Values are
// immutable; copying copies. A Dim whose constants overflow, or that has more than kMaxDimSize
// atoms, becomes an error that Evaluate reports ("?" in text); so no input makes one grow without
// bound.
//
// Text: `+ - * / %` (division rounds down, binds like `*`, left to right), `min(a, b)`, `max(a,
// b)`, numbers, and symbols, written between backquotes where they are no identifiers.
//
//   const Dim n = Dim::Symbol("n");
//   (n * 6).DivideExactly(n * 2);    // 3
//   (n + 1).FloorDiv(2).ToString();  // "(n + 1)/2"
#ifndef KILN_DIM_H_
#define KILN_DIM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kiln/status.h"

namespace kiln {

class Dim;
using Shape = std::vector<Dim>;
using SymbolValues = std::map<std::string, int64_t>;

class KILN_API Dim {
 public:
  Dim() = default;     // 0
  Dim(int64_t value);  // NOLINT: implicit, so that shapes read {batch, 3, 224}
  static Dim Symbol(std::string name);
  // Reads what ToString writes; kInvalidArgument otherwise.
  static absl::StatusOr<Dim> Parse(absl::string_view text);

  std::optional<int64_t> constant() const;  // the value, if no symbol is left
  bool IsConst(int64_t value) const { return constant() == value; }

  KILN_API friend Dim operator+(const Dim& a, const Dim& b);
  KILN_API friend Dim operator-(const Dim& a, const Dim& b);
  KILN_API friend Dim operator*(const Dim& a, const Dim& b);
  // Rounds towards minus infinity; by zero: an error on Evaluate.
  Dim FloorDiv(const Dim& divisor) const;
  Dim Mod(const Dim& divisor) const;  // sign of the divisor
  static Dim Min(const Dim& a, const Dim& b);
  static Dim Max(const Dim& a, const Dim& b);
  // a / b when b divides every term of a (b one product); else nothing.
  std::optional<Dim> DivideExactly(const Dim& divisor) const;

  // Structural; equal canonical forms. Two unequal Dims may still be equal for some or all values
  // of their symbols.
  KILN_API friend bool operator==(const Dim& a, const Dim& b);
  KILN_API friend bool operator<(const Dim& a,
                                 const Dim& b);  // a total order without meaning, for sorting

  // kNotFound names a symbol without a value; kInvalidArgument on division by zero or overflow.
  absl::StatusOr<int64_t> Evaluate(const SymbolValues& values) const;
  Dim Substitute(const std::map<std::string, Dim>& replacements) const;
  void CollectSymbols(std::set<std::string>& out) const;
  std::string ToString() const;

  // Bounds that hold for all values of the symbols, where the form shows them: n + 2 has the lower
  // bound 2.
  std::optional<int64_t> LowerBound() const;
  std::optional<int64_t> UpperBound() const;

  // The canonical form itself.
  struct Atom;
  struct Term {
    int64_t coef = 0;
    std::vector<Atom> atoms;  // sorted; repeated for powers
  };
  const std::vector<Term>& terms() const { return terms_; }
  bool is_error() const { return overflow_; }

 private:
  static Dim Error();
  static Dim FromTerms(std::vector<Term> terms);
  static Dim FromAtom(Atom atom);

  std::vector<Term> terms_;  // higher degree first, then by atoms; no zero coefficient; the
                             // constant term has no atoms
  bool overflow_ = false;
};

inline constexpr int kMaxDimSize = 500;

struct KILN_API Dim::Atom {
  enum class Kind : int { kSymbol, kFloorDiv, kMod, kMin, kMax };
  Kind kind = Kind::kSymbol;
  std::string symbol;     // kSymbol
  std::vector<Dim> args;  // two for all others; sorted for kMin and kMax
};

KILN_API std::string ToString(const Shape& shape);                  // "[n, 3, 224]"
KILN_API absl::StatusOr<Shape> ParseShape(absl::string_view text);  // the inverse
KILN_API Dim Product(const Shape& shape);                           // 1 for []
KILN_API absl::StatusOr<std::vector<int64_t>> Evaluate(const Shape& shape,
                                                       const SymbolValues& values);
KILN_API std::optional<std::vector<int64_t>> Constant(const Shape& shape);  // all extents known
KILN_API Shape ToShape(const std::vector<int64_t>& extents);

}  // namespace kiln

#endif  // KILN_DIM_H_
