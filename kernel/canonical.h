// SPDX-License-Identifier: Apache-2.0
// Canonicalize brings a Kernel as lowering writes it into the form whose text is the heart of the
// cache key.
//
// Sound: equal text means equal computation, to the bit. Best effort: equal computations get equal
// text. Steps:
//   1. literals other than 0, 1, -1, inf, -inf, nan become parameters (integer literals inside
//   index arithmetic stay);
//      bool literals stay
//   2. neighbouring iterated dims are merged iff every input, stage and output uses them as a dense
//   pair and none of them is
//      used by kIndex, kExtent or index arithmetic, and reductions take both or neither (then also:
//      the meaning of the reduction must stay the one of the text that results, since merging
//      happens before the text defines the bits)
//   3. stages that are single-use maps, or cheap, are inlined; equal stages are stored once; dead
//   ones dropped
//   4. operands of commutative ops are ordered by structural hash; inputs, parameters, stages, dims
//   and sizes are numbered and
//      named by first use (dims keep their order)
#ifndef KILN_KERNEL_CANONICAL_H_
#define KILN_KERNEL_CANONICAL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kiln/kernel/kernel.h"

namespace kiln {

struct CanonicalKernel {
  Kernel kernel;
  std::vector<int32_t>
      inputs;  // canonical input k is raw input inputs[k]; raw inputs never read are absent
  std::vector<int32_t> outputs;            // canonical output k is raw output outputs[k]
  std::vector<std::vector<int32_t>> dims;  // canonical dim k is the product of these raw dims
  struct ParamValue {
    int32_t raw = -1;   // the raw parameter, or -1:
    uint64_t bits = 0;  // a literal of the raw text, as kConst holds it
  };
  std::vector<ParamValue> params;
};

absl::StatusOr<CanonicalKernel> Canonicalize(const Kernel& raw);

}  // namespace kiln

#endif  // KILN_KERNEL_CANONICAL_H_
