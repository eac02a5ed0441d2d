// SPDX-License-Identifier: Apache-2.0
// AxisTable: which axes of which values run together.
//
// An axis of a value is an ordered list of *atoms*, future kernel dims: empty for extent 1, one
// atom at first. Making two axes equal joins atoms, and splits one where the other side has it in
// pieces, as a reshape from [n, 12] to [n, 3, 4] does. Atoms that were joined or split forward to
// others; Leaves follows that.
//
// Example: a = New(12), b = New(3), c = New(4); Unify({a}, {b, c}) makes Leaves({a}) = {b, c}.
#ifndef KILN_FUSION_AXES_H_
#define KILN_FUSION_AXES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kiln/dim.h"

namespace kiln {

using Atom = int32_t;
using Atoms = std::vector<Atom>;

class AxisTable {
 public:
  // A new atom of that extent, as an axis: no atom at all if the extent is known to be 1.
  Atoms New(const Dim& extent);

  // Makes the two axes, or runs of axes in row-major order, the same. kUnimplemented if neither of
  // two extents divides the other. Lists of one atom each are joined without looking at extents:
  // type inference has found them equal.
  absl::Status Unify(const Atoms& a, const Atoms& b);

  // The atoms that `axis` has come to, outermost first.
  Atoms Leaves(const Atoms& axis) const;
  const Dim& extent(Atom leaf) const { return atoms_[static_cast<size_t>(leaf)].extent; }

 private:
  struct Entry {
    Dim extent;
    Atoms forward;  // empty: a leaf
  };
  // The atom that `atom` was joined to, in amortised constant time: path halving shortens the ways
  // there, so that chains of a thousand values cost no more for each.
  Atom Joined(Atom atom) const;
  void AppendLeaves(Atom atom, Atoms& out) const;
  Atom Add(Dim extent);
  // Splits the first leaf of `of` into the first of `other` and a rest; false if that does not
  // divide it, or if the atom has extent 0 and stands in one of the two lists again.
  bool Split(const Atoms& of, const Atoms& other);

  mutable std::vector<Entry> atoms_;  // Joined writes: not for several threads, const or not
};

}  // namespace kiln

#endif  // KILN_FUSION_AXES_H_
