// SPDX-License-Identifier: Apache-2.0
// Dims under guards: what an expression is where they hold.
//
//   guards n - k >= 0:   min(n, k) is k, and max(0, n - k) is n - k.
#ifndef KILN_GRAPH_KNOWN_DIMS_H_
#define KILN_GRAPH_KNOWN_DIMS_H_

#include <span>
#include <vector>

#include "base/guard.h"
#include "kiln/dim.h"

namespace kiln {

class KnownDims {
 public:
  explicit KnownDims(std::span<const Guard> guards);

  // `dim` without the minima and maxima that the guards decide.
  Dim Simplify(const Dim& dim) const;
  // Whether `dim` >= 0 follows from one of the guards, or from extents being >= 0.
  bool NeverNegative(const Dim& dim) const;

 private:
  Dim Simplify(const Dim::Atom& atom) const;

  std::vector<Dim> at_least_zero_;
};

}  // namespace kiln

#endif  // KILN_GRAPH_KNOWN_DIMS_H_
