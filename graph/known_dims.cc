// SPDX-License-Identifier: Apache-2.0
#include "graph/known_dims.h"

#include <algorithm>

namespace kiln {
namespace {

bool AtLeastZero(const Dim& dim) { return dim.LowerBound().value_or(-1) >= 0; }

// How often `known` goes into `dim`, by their first terms; 1 where that is no small number.
int64_t Times(const Dim& dim, const Dim& known) {
  constexpr int64_t kMax = 1 << 20;
  if (dim.terms().empty() || known.terms().empty()) return 1;
  const int64_t whole = dim.terms()[0].coef, part = known.terms()[0].coef;
  if (whole < -kMax || whole > kMax || whole % part != 0) return 1;
  return std::max<int64_t>(whole / part, 1);
}

}  // namespace

KnownDims::KnownDims(std::span<const Guard> guards) {
  for (const Guard& guard : guards) {
    switch (guard.kind) {
      case Guard::Kind::kAtLeast:
        at_least_zero_.push_back(guard.left - guard.number);
        break;
      case Guard::Kind::kLess:
        at_least_zero_.push_back(Dim(guard.number) - guard.left - 1);
        break;
      case Guard::Kind::kEqual:
      case Guard::Kind::kSame: {
        const Dim right = guard.kind == Guard::Kind::kSame ? guard.right : Dim(guard.number);
        at_least_zero_.push_back(guard.left - right);
        at_least_zero_.push_back(right - guard.left);
        break;
      }
      default:
        break;
    }
  }
}

bool KnownDims::NeverNegative(const Dim& dim) const {
  return AtLeastZero(dim) ||
         std::any_of(at_least_zero_.begin(), at_least_zero_.end(), [&](const Dim& known) {
           if (AtLeastZero(dim - known)) return true;
           const int64_t times = Times(dim, known);
           return times > 1 && AtLeastZero(dim - known * times);
         });
}

Dim KnownDims::Simplify(const Dim::Atom& atom) const {
  using Kind = Dim::Atom::Kind;
  if (atom.kind == Kind::kSymbol) return Dim::Symbol(atom.symbol);
  const Dim a = Simplify(atom.args[0]), b = Simplify(atom.args[1]);
  if (atom.kind == Kind::kFloorDiv) return a.FloorDiv(b);
  if (atom.kind == Kind::kMod) return a.Mod(b);
  const bool least = atom.kind == Kind::kMin;
  if (NeverNegative(a - b)) return least ? b : a;
  if (NeverNegative(b - a)) return least ? a : b;
  return least ? Dim::Min(a, b) : Dim::Max(a, b);
}

Dim KnownDims::Simplify(const Dim& dim) const {
  if (dim.is_error()) return dim;
  Dim sum;
  for (const Dim::Term& term : dim.terms()) {
    Dim product = term.coef;
    for (const Dim::Atom& atom : term.atoms) product = product * Simplify(atom);
    sum = sum + product;
  }
  return sum;
}

}  // namespace kiln
