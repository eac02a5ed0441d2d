// SPDX-License-Identifier: Apache-2.0
#include "kiln/graph/known_dims.h"

#include <algorithm>

namespace kiln {
namespace {

bool AtLeastZero(const Dim& dim) { return dim.LowerBound().value_or(-1) >= 0; }

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
         std::any_of(at_least_zero_.begin(), at_least_zero_.end(),
                     [&](const Dim& known) { return AtLeastZero(dim - known); });
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
