// SPDX-License-Identifier: Apache-2.0
// Canonicalize brings a Kernel as lowering writes it into the form whose text is the heart of the
// cache key.
//
// Sound: equal text means equal computation, to the bit. Best effort: equal computations get equal
// text. Steps:
//   1. literals other than 0, 1, -1, inf, -inf, nan, exponents 2 and 3 of pow, bools, and those in
//      arithmetic on coordinates and extents become parameters
//   2. neighbouring iterated dims are merged iff every input, stage and output uses them as a dense
//      pair, none of them is used by kIndex, kExtent or index arithmetic, and reductions take both
//      or neither. A reduction is then taken by the text that results: only that defines the bits
//      (lowering sees to it that this is what the operator says, fusion/reduction_runs.h). And if
//      the two innermost dims c and d are reduced together, and are no pair only because inputs
//      over c are read along them: those are read at (c d) / |d| then, if |d| is known
//   3. map stages are forgotten and chosen anew: a node is a stage if it is used more than once,
//      does not vary along each dim of the place it is used in, is read at other coordinates, or
//      keeps an expression from growing deeper than 200. Leaves, one cheap op on leaves, and
//      conditions on coordinates are written out instead; a read that may lie outside its operand
//      never leaves its guard. Equal stages are stored once; dead ones dropped
//   4. operands of commutative ops and outputs are ordered by structural hash; inputs, parameters,
//      stages and sizes are numbered by first use; dims keep their order
// Fails with kInvalidArgument if `raw` does not verify, kResourceExhausted if an expression under a
// guard shares so much that its text would explode.
#ifndef KILN_KERNEL_CANONICAL_H_
#define KILN_KERNEL_CANONICAL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernel/kernel.h"

namespace kiln {

struct CanonicalKernel {
  Kernel kernel;
  // Canonical input k is raw input inputs[k]; raw inputs that are never read are absent.
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;            // canonical output k is raw output outputs[k]
  std::vector<std::vector<int32_t>> dims;  // canonical dim k is the product of these raw dims
  struct ParamValue {
    int32_t raw = -1;   // the raw parameter, or -1:
    uint64_t bits = 0;  // a literal of the raw text, as kConst holds it
  };
  std::vector<ParamValue> params;
};

// `extents`: those of the raw dims that are known, else 0; empty if none is.
absl::StatusOr<CanonicalKernel> Canonicalize(const Kernel& raw,
                                             std::span<const int64_t> extents = {});

}  // namespace kiln

#endif  // KILN_KERNEL_CANONICAL_H_
