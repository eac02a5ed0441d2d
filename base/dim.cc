// SPDX-License-Identifier: Apache-2.0
#include "kiln/dim.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/name.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

using Atom = Dim::Atom;
using Term = Dim::Term;

int Compare(const Dim& a, const Dim& b);

template <typename T>
int CompareValues(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

int Compare(const Atom& a, const Atom& b) {
  if (a.kind != b.kind) return CompareValues(a.kind, b.kind);
  if (a.kind == Atom::Kind::kSymbol) return a.symbol.compare(b.symbol);
  const int first = Compare(a.args[0], b.args[0]);
  return first != 0 ? first : Compare(a.args[1], b.args[1]);
}

// Graded: a monomial order, so that long division in DivideExactly ends.
int CompareMonomials(const Term& a, const Term& b) {
  if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size() ? -1 : 1;
  for (size_t i = 0; i < a.atoms.size(); ++i) {
    if (const int c = Compare(a.atoms[i], b.atoms[i]); c != 0) return c;
  }
  return 0;
}

int Compare(const Dim& a, const Dim& b) {
  if (a.is_error() != b.is_error()) return a.is_error() ? 1 : -1;
  const size_t n = std::min(a.terms().size(), b.terms().size());
  for (size_t i = 0; i < n; ++i) {
    const Term& x = a.terms()[i];
    const Term& y = b.terms()[i];
    if (const int c = CompareMonomials(x, y); c != 0) return c;
    if (x.coef != y.coef) return CompareValues(x.coef, y.coef);
  }
  return CompareValues(a.terms().size(), b.terms().size());
}

bool AtomLess(const Atom& a, const Atom& b) { return Compare(a, b) < 0; }

int Size(const Dim& dim);

int Size(const Atom& atom) {
  int size = 1;
  for (const Dim& arg : atom.args) size += Size(arg);
  return size;
}

int Size(const Dim& dim) {
  int size = 0;
  for (const Term& term : dim.terms()) {
    size += 1;
    for (const Atom& atom : term.atoms) size += Size(atom);
  }
  return size;
}

int64_t FloorDivide(int64_t a, int64_t b) {  // b > 0
  return a / b - (a % b < 0 ? 1 : 0);
}

int64_t FloorRemainder(int64_t a, int64_t b) {  // b > 0
  const int64_t r = a % b;
  return r < 0 ? r + b : r;
}

// What is known of a value: lower and upper bound, where there are any.
struct Range {
  std::optional<int64_t> low, high;
};

using Bound = std::optional<int64_t>;

Bound Map2(Bound a, Bound b, Bound (*f)(int64_t, int64_t)) {
  return a && b ? f(*a, *b) : std::nullopt;
}

Range RangeOf(const Dim& dim);

Range RangeOf(const Atom& atom) {
  if (atom.kind == Atom::Kind::kSymbol) return {0, std::nullopt};
  const Range a = RangeOf(atom.args[0]);
  const Range b = RangeOf(atom.args[1]);
  const std::optional<int64_t> divisor = atom.args[1].constant();
  switch (atom.kind) {
    case Atom::Kind::kFloorDiv: {
      if (!divisor || *divisor <= 0) return {};
      Range r;
      if (a.low) r.low = FloorDivide(*a.low, *divisor);
      if (a.high) r.high = FloorDivide(*a.high, *divisor);
      return r;
    }
    case Atom::Kind::kMod:
      if (divisor && *divisor > 0) return {0, *divisor - 1};
      return {};
    case Atom::Kind::kMin: {
      Range r;
      if (a.low && b.low) r.low = std::min(*a.low, *b.low);
      r.high = a.high && b.high ? std::min(*a.high, *b.high) : (a.high ? a.high : b.high);
      return r;
    }
    default: {
      Range r;
      if (a.high && b.high) r.high = std::max(*a.high, *b.high);
      r.low = a.low && b.low ? std::max(*a.low, *b.low) : (a.low ? a.low : b.low);
      return r;
    }
  }
}

// Products are bounded where all factors are known to be >= 0.
Range RangeOf(const Term& term) {
  Range r{1, 1};
  for (const Atom& atom : term.atoms) {
    const Range factor = RangeOf(atom);
    if (!factor.low || *factor.low < 0) return {};
    r.low = Map2(r.low, factor.low, CheckedMul);
    r.high = Map2(r.high, factor.high, CheckedMul);
    if (!r.low) return {};
  }
  if (term.coef < 0) std::swap(r.low, r.high);
  return {Map2(r.low, term.coef, CheckedMul), Map2(r.high, term.coef, CheckedMul)};
}

Range Sum(const std::vector<Term>& terms) {
  Range sum{0, 0};
  for (const Term& term : terms) {
    const Range r = RangeOf(term);
    sum.low = Map2(sum.low, r.low, CheckedAdd);
    sum.high = Map2(sum.high, r.high, CheckedAdd);
  }
  return sum;
}

// Sorted, with one term for each monomial; nothing if a coefficient does not fit.
std::optional<std::vector<Term>> Collected(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return CompareMonomials(a, b) < 0; });
  std::vector<Term> sum;
  for (Term& term : terms) {
    if (sum.empty() || CompareMonomials(sum.back(), term) != 0) {
      sum.push_back(std::move(term));
    } else if (__builtin_add_overflow(sum.back().coef, term.coef, &sum.back().coef)) {
      return std::nullopt;
    }
  }
  std::erase_if(sum, [](const Term& term) { return term.coef == 0; });
  return sum;
}

// `terms` with `dim` in the place of the k-th atom, which is a term of its own.
std::optional<std::vector<Term>> With(const std::vector<Term>& terms, size_t k, const Dim& dim) {
  std::vector<Term> out = terms;
  const int64_t coef = terms[k].coef;
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(k));
  if (dim.is_error()) return std::nullopt;
  for (Term term : dim.terms()) {
    if (__builtin_mul_overflow(term.coef, coef, &term.coef)) return std::nullopt;
    out.push_back(std::move(term));
  }
  return Collected(std::move(out));
}

// The bounds of the lesser, or the greater, of two.
Range OneOf(const Range& a, const Range& b, bool least) {
  const auto both = [](Bound x, Bound y, bool min) -> Bound {
    if (!x || !y) return std::nullopt;
    return min ? std::min(*x, *y) : std::max(*x, *y);
  };
  const auto either = [&](Bound x, Bound y, bool min) {
    return x && y ? both(x, y, min) : x ? x : y;
  };
  if (least) return {both(a.low, b.low, true), either(a.high, b.high, true)};
  return {either(a.low, b.low, false), both(a.high, b.high, false)};
}

// How many minima and maxima within a sum are looked at case by case: n - min(n, m) is the greater
// of 0 and n - m.
constexpr int kMaxCases = 3;

Range RangeOf(const std::vector<Term>& terms, int cases) {
  Range range = Sum(terms);
  if (cases == 0 || (range.low && range.high) || terms.size() < 2) return range;
  for (size_t k = 0; k < terms.size(); ++k) {
    if (terms[k].atoms.size() != 1) continue;
    const Atom& atom = terms[k].atoms[0];
    if (atom.kind != Atom::Kind::kMin && atom.kind != Atom::Kind::kMax) continue;
    const auto a = With(terms, k, atom.args[0]), b = With(terms, k, atom.args[1]);
    if (!a || !b) continue;
    const bool least = (atom.kind == Atom::Kind::kMin) == (terms[k].coef > 0);
    const Range found = OneOf(RangeOf(*a, cases - 1), RangeOf(*b, cases - 1), least);
    if (found.low && (!range.low || *found.low > *range.low)) range.low = found.low;
    if (found.high && (!range.high || *found.high < *range.high)) range.high = found.high;
    break;
  }
  return range;
}

Range RangeOf(const Dim& dim) {
  if (dim.is_error()) return {};
  return RangeOf(dim.terms(), kMaxCases);
}

bool NeverNegative(const Dim& dim) {
  const Bound low = RangeOf(dim).low;
  return low && *low >= 0;
}

// term / divisor, if divisor is a factor of it.
std::optional<Term> DivideTerm(const Term& term, const Term& divisor) {
  if (divisor.coef == 0 || (divisor.coef == -1 && term.coef == INT64_MIN) ||
      term.coef % divisor.coef != 0) {
    return std::nullopt;
  }
  Term quotient{term.coef / divisor.coef, term.atoms};
  for (const Atom& atom : divisor.atoms) {
    const auto at = std::find_if(quotient.atoms.begin(), quotient.atoms.end(),
                                 [&](const Atom& x) { return Compare(x, atom) == 0; });
    if (at == quotient.atoms.end()) return std::nullopt;
    quotient.atoms.erase(at);
  }
  return quotient;
}

// The parts of a sum whose coefficients `divisor` divides, divided; and the rest, with coefficients
// in [0, divisor). Terms of 0 are among them.
struct Parts {
  std::vector<Term> quotient, rest;
};
Parts SplitBy(const std::vector<Term>& sum, int64_t divisor) {
  Parts parts;
  for (const Term& term : sum) {
    parts.quotient.push_back({FloorDivide(term.coef, divisor), term.atoms});
    parts.rest.push_back({FloorRemainder(term.coef, divisor), term.atoms});
  }
  return parts;
}

absl::StatusOr<int64_t> EvaluateAtom(const Atom& atom, const SymbolValues& values) {
  if (atom.kind == Atom::Kind::kSymbol) {
    const auto found = values.find(atom.symbol);
    if (found == values.end()) {
      return absl::NotFoundError(
          absl::StrCat("dimension \"", atom.symbol, "\": has no value; give one"));
    }
    return found->second;
  }
  KILN_ASSIGN_OR_RETURN(const int64_t a, atom.args[0].Evaluate(values));
  KILN_ASSIGN_OR_RETURN(const int64_t b, atom.args[1].Evaluate(values));
  if (atom.kind == Atom::Kind::kMin) return std::min(a, b);
  if (atom.kind == Atom::Kind::kMax) return std::max(a, b);
  if (b == 0) {
    return absl::InvalidArgumentError(absl::StrCat("dimension \"", atom.args[0].ToString(),
                                                   "\": divided by \"", atom.args[1].ToString(),
                                                   "\", which is 0"));
  }
  if (b == -1) {
    if (atom.kind == Atom::Kind::kMod) return 0;
    if (a == INT64_MIN)
      return absl::InvalidArgumentError("dimension: quotient does not fit in 64 bits");
    return -a;
  }
  const int64_t quotient = a / b;
  const int64_t rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);
  if (atom.kind == Atom::Kind::kFloorDiv) return quotient - (adjust ? 1 : 0);
  return rest + (adjust ? b : 0);
}

}  // namespace

Dim::Dim(int64_t value) {
  if (value != 0) terms_.push_back({value, {}});
}

Dim Dim::Error() {
  Dim error;
  error.overflow_ = true;
  return error;
}

Dim Dim::FromAtom(Atom atom) {
  Dim dim;
  dim.terms_.push_back({1, {std::move(atom)}});
  return Size(dim) > kMaxDimSize ? Error() : dim;
}

Dim Dim::FromTerms(std::vector<Term> terms) {
  std::optional<std::vector<Term>> sum = Collected(std::move(terms));
  if (!sum) return Error();
  Dim dim;
  dim.terms_ = *std::move(sum);
  return Size(dim) > kMaxDimSize ? Error() : dim;
}

Dim Dim::Symbol(std::string name) {
  Atom atom;
  atom.symbol = std::move(name);
  return FromAtom(std::move(atom));
}

std::optional<int64_t> Dim::constant() const {
  if (overflow_) return std::nullopt;
  if (terms_.empty()) return 0;
  if (terms_.size() == 1 && terms_[0].atoms.empty()) return terms_[0].coef;
  return std::nullopt;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.overflow_ || b.overflow_) return Dim::Error();
  std::vector<Term> terms = a.terms_;
  terms.insert(terms.end(), b.terms_.begin(), b.terms_.end());
  return Dim::FromTerms(std::move(terms));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.IsConst(0) || b.IsConst(0)) return 0;
  if (a.overflow_ || b.overflow_ || Size(a) * Size(b) > 4 * kMaxDimSize) return Dim::Error();
  std::vector<Term> terms;
  for (const Term& x : a.terms_) {
    for (const Term& y : b.terms_) {
      Term term = x;
      if (__builtin_mul_overflow(x.coef, y.coef, &term.coef)) return Dim::Error();
      term.atoms.insert(term.atoms.end(), y.atoms.begin(), y.atoms.end());
      std::sort(term.atoms.begin(), term.atoms.end(), AtomLess);
      terms.push_back(std::move(term));
    }
  }
  return Dim::FromTerms(std::move(terms));
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

bool operator==(const Dim& a, const Dim& b) { return Compare(a, b) == 0; }
bool operator<(const Dim& a, const Dim& b) { return Compare(a, b) < 0; }

std::optional<Dim> Dim::DivideExactly(const Dim& divisor) const {
  if (overflow_ || divisor.overflow_ || divisor.terms_.empty()) return std::nullopt;
  Dim quotient;
  Dim rest = *this;
  while (!rest.terms_.empty()) {
    const std::optional<Term> term = DivideTerm(rest.terms_[0], divisor.terms_[0]);
    if (!term) return std::nullopt;
    const Dim part = FromTerms({*term});
    const size_t degree = rest.terms_[0].atoms.size();
    quotient = quotient + part;
    rest = rest - part * divisor;
    if (rest.overflow_ || quotient.overflow_) return std::nullopt;
    if (!rest.terms_.empty() && rest.terms_[0].atoms.size() > degree) return std::nullopt;
  }
  return quotient;
}

Dim Dim::FloorDiv(const Dim& divisor) const {
  if (overflow_ || divisor.overflow_) return Error();
  if (std::optional<Dim> exact = DivideExactly(divisor)) return *exact;
  const std::optional<int64_t> by = divisor.constant();
  if (by && *by < 0 && *by != INT64_MIN) return (*this * Dim(-1)).FloorDiv(-*by);
  if (!by || *by <= 0) return FromAtom({Atom::Kind::kFloorDiv, "", {*this, divisor}});

  // floor((q*by + rest) / by) = q + floor(rest / by)
  const Parts parts = SplitBy(terms_, *by);
  const Dim whole = FromTerms(parts.quotient);
  Dim rest = FromTerms(parts.rest);
  if (rest.constant()) return whole;
  // floor((g*a + k) / (g*d)) = floor((a + floor(k/g)) / d)
  int64_t common = *by;
  for (const Term& term : rest.terms_) {
    if (!term.atoms.empty()) common = std::gcd(common, term.coef);
  }
  int64_t small = *by / common;
  rest = FromTerms(SplitBy(rest.terms_, common).quotient);
  // floor((floor(x/c) + k) / d) = floor((x + k*c) / (c*d))
  const Term lead = rest.terms_[0];
  const Dim offset = rest - FromTerms({lead});
  if (lead.coef == 1 && lead.atoms.size() == 1 && lead.atoms[0].kind == Atom::Kind::kFloorDiv &&
      offset.constant()) {
    const std::optional<int64_t> inner = lead.atoms[0].args[1].constant();
    const Bound both = inner && *inner > 0 ? CheckedMul(*inner, small) : std::nullopt;
    if (both) return whole + (lead.atoms[0].args[0] + offset * *inner).FloorDiv(*both);
  }
  if (small == 1) return whole + rest;
  return whole + FromAtom({Atom::Kind::kFloorDiv, "", {rest, small}});
}

Dim Dim::Mod(const Dim& divisor) const {
  if (overflow_ || divisor.overflow_) return Error();
  if (DivideExactly(divisor)) return 0;
  const std::optional<int64_t> by = divisor.constant();
  if (!by || *by <= 0) {
    const std::optional<int64_t> value = constant();
    if (!by || *by == 0 || !value) return FromAtom({Atom::Kind::kMod, "", {*this, divisor}});
    const int64_t rest = *value % *by;
    return rest > 0 ? rest + *by : rest;
  }
  const Dim rest = FromTerms(SplitBy(terms_, *by).rest);
  if (rest.constant()) return rest;
  if (NeverNegative(rest)) {
    const Bound high = RangeOf(rest).high;
    if (high && *high < *by) return rest;
  }
  return FromAtom({Atom::Kind::kMod, "", {rest, divisor}});
}

Dim Dim::Min(const Dim& a, const Dim& b) {
  // The difference of two numbers may not fit.
  if (a.constant() && b.constant()) return std::min(*a.constant(), *b.constant());
  const Dim difference = a - b;
  if (difference.overflow_) return Error();
  if (NeverNegative(difference)) return b;
  if (NeverNegative(b - a)) return a;
  return FromAtom({Atom::Kind::kMin, "", a < b ? std::vector<Dim>{a, b} : std::vector<Dim>{b, a}});
}

Dim Dim::Max(const Dim& a, const Dim& b) {
  // The difference of two numbers may not fit.
  if (a.constant() && b.constant()) return std::max(*a.constant(), *b.constant());
  const Dim difference = a - b;
  if (difference.overflow_) return Error();
  if (NeverNegative(difference)) return a;
  if (NeverNegative(b - a)) return b;
  return FromAtom({Atom::Kind::kMax, "", a < b ? std::vector<Dim>{a, b} : std::vector<Dim>{b, a}});
}

std::optional<int64_t> Dim::LowerBound() const { return RangeOf(*this).low; }
std::optional<int64_t> Dim::UpperBound() const { return RangeOf(*this).high; }

absl::StatusOr<int64_t> Dim::Evaluate(const SymbolValues& values) const {
  const auto overflow = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("dimension \"", ToString(), "\": does not fit in 64 bits"));
  };
  if (overflow_) return overflow();
  int64_t sum = 0;
  for (const Term& term : terms_) {
    int64_t product = term.coef;
    for (const Atom& atom : term.atoms) {
      KILN_ASSIGN_OR_RETURN(const int64_t factor, EvaluateAtom(atom, values));
      if (__builtin_mul_overflow(product, factor, &product)) return overflow();
    }
    if (__builtin_add_overflow(sum, product, &sum)) return overflow();
  }
  return sum;
}

Dim Dim::Substitute(const std::map<std::string, Dim>& replacements) const {
  if (overflow_) return Error();
  Dim sum;
  for (const Term& term : terms_) {
    Dim product = term.coef;
    for (const Atom& atom : term.atoms) {
      if (atom.kind == Atom::Kind::kSymbol) {
        const auto found = replacements.find(atom.symbol);
        product = product * (found == replacements.end() ? Symbol(atom.symbol) : found->second);
        continue;
      }
      const Dim a = atom.args[0].Substitute(replacements);
      const Dim b = atom.args[1].Substitute(replacements);
      switch (atom.kind) {
        case Atom::Kind::kFloorDiv:
          product = product * a.FloorDiv(b);
          break;
        case Atom::Kind::kMod:
          product = product * a.Mod(b);
          break;
        case Atom::Kind::kMin:
          product = product * Min(a, b);
          break;
        default:
          product = product * Max(a, b);
          break;
      }
    }
    sum = sum + product;
  }
  return sum;
}

void Dim::CollectSymbols(std::set<std::string>& out) const {
  for (const Term& term : terms_) {
    for (const Atom& atom : term.atoms) {
      if (atom.kind == Atom::Kind::kSymbol) out.insert(atom.symbol);
      for (const Dim& arg : atom.args) arg.CollectSymbols(out);
    }
  }
}

Dim Product(const Shape& shape) {
  Dim product = 1;
  for (const Dim& dim : shape) product = product * dim;
  return product;
}

absl::StatusOr<std::vector<int64_t>> Evaluate(const Shape& shape, const SymbolValues& values) {
  std::vector<int64_t> extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape) {
    KILN_ASSIGN_OR_RETURN(extents.emplace_back(), dim.Evaluate(values));
  }
  return extents;
}

std::optional<std::vector<int64_t>> Constant(const Shape& shape) {
  std::vector<int64_t> extents;
  extents.reserve(shape.size());
  for (const Dim& dim : shape) {
    const std::optional<int64_t> value = dim.constant();
    if (!value) return std::nullopt;
    extents.push_back(*value);
  }
  return extents;
}

Shape ToShape(const std::vector<int64_t>& extents) { return Shape(extents.begin(), extents.end()); }

}  // namespace kiln
