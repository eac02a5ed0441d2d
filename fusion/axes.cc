// SPDX-License-Identifier: Apache-2.0
#include "fusion/axes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {

Atom AxisTable::Add(Dim extent) {
  atoms_.push_back({std::move(extent), {}});
  return static_cast<Atom>(atoms_.size()) - 1;
}

Atoms AxisTable::New(const Dim& extent) {
  if (extent.IsConst(1)) return {};
  return {Add(extent)};
}

Atom AxisTable::Joined(Atom atom) const {
  const auto forward = [this](Atom of) -> Atoms& {
    return atoms_[static_cast<size_t>(of)].forward;
  };
  while (forward(atom).size() == 1) {
    const Atom next = forward(atom).front();
    if (forward(next).size() == 1) forward(atom) = forward(next);
    atom = next;
  }
  return atom;
}

void AxisTable::AppendLeaves(Atom atom, Atoms& out) const {
  atom = Joined(atom);
  const Entry& entry = atoms_[static_cast<size_t>(atom)];
  if (entry.forward.empty()) {
    out.push_back(atom);
    return;
  }
  for (const Atom next : entry.forward) AppendLeaves(next, out);
}

Atoms AxisTable::Leaves(const Atoms& axis) const {
  Atoms leaves;
  for (const Atom atom : axis) AppendLeaves(atom, leaves);
  return leaves;
}

bool AxisTable::Split(const Atoms& of, const Atoms& other) {
  const Atom whole = of.front(), head = other.front();
  if (extent(head).IsConst(0)) return false;
  const std::optional<Dim> rest = extent(whole).DivideExactly(extent(head));
  if (!rest || rest->IsConst(1)) return false;
  // What is left of any other extent is smaller, of 0 it is 0 again: an atom that stands further on
  // too, on either side, would be split without end.
  const auto again = [whole](const Atoms& atoms) {
    return std::count(atoms.begin(), atoms.end(), whole);
  };
  if (extent(whole).IsConst(0) && again(of) + again(other) > 1) return false;
  const Atom tail = Add(*rest);
  atoms_[static_cast<size_t>(whole)].forward = {head, tail};
  return true;
}

absl::Status AxisTable::Unify(const Atoms& a, const Atoms& b) {
  Atoms left = Leaves(a);
  Atoms right = Leaves(b);
  while (!left.empty() && !right.empty()) {
    const Atom x = left.front();
    const Atom y = right.front();
    const bool last = left.size() == 1 && right.size() == 1;
    if (x == y || last || extent(x) == extent(y)) {
      if (x != y) atoms_[static_cast<size_t>(y)].forward = {x};
      left.erase(left.begin());
      right.erase(right.begin());
    } else if (!Split(left, right) && !Split(right, left)) {
      return absl::UnimplementedError(absl::StrCat("a reshape cuts extents ", extent(x).ToString(),
                                                   " and ", extent(y).ToString(),
                                                   ", neither of which divides the other"));
    }
    left = Leaves(left);  // an atom that was just joined or split may stand again further on
    right = Leaves(right);
  }
  if (left.empty() != right.empty())
    return absl::UnimplementedError("a reshape moves extents that are not known to be 1");
  return absl::OkStatus();
}

}  // namespace kiln
