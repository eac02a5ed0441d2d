// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/check_indices.h"

#include <cstdint>

#include "kernel/operands.h"

namespace kiln {
namespace {

// Neighbouring lanes whose coefficients Halide adds up as constants, of 32 bits.
constexpr int64_t kFolded = 4;  // correctness

bool FitsIn32(int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

}  // namespace

absl::Status CheckIndices(const Kernel& kernel) {
  for (const ScalarExpr* expr : Expressions(kernel)) {
    for (const ExprNode& node : expr->nodes()) {
      for (const IndexExpr& index : node.index) {
        bool fits = FitsIn32(index.offset) && FitsIn32(index.div) && FitsIn32(index.mod);
        for (const IndexExpr::Term& term : index.terms)
          fits = fits && FitsIn32(term.coef) && FitsIn32(kFolded * term.coef);
        if (!fits) {
          return absl::UnimplementedError(
              "kernel: an index has a coefficient beyond 30 bits; run it in the VM");
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
