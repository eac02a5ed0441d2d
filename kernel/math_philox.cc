// SPDX-License-Identifier: Apache-2.0
// Philox2x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). Ten rounds, each
//
//   (low, high) -> (upper(M * low) ^ key ^ high, lower(M * low)),  key -> key + W
//
// in words of 64 bits that hold 32, so that a round has one product of 32 x 32 -> 64 bits.
#include <cstdint>

#include "kernel/math_internal.h"

namespace kiln::math_internal {
namespace {

constexpr int kRounds = 10;
constexpr uint64_t kMultiplier = 0xD256D193, kWeyl = 0x9E3779B9, kLower = 0xFFFFFFFF;

Ex And(Ex a, uint64_t mask) { return Apply(ScalarOp::kAnd, a, Word(a, mask)); }
Ex Xor(Ex a, Ex b) { return Apply(ScalarOp::kXor, a, b); }

}  // namespace

Ex Philox(Ex counter, Ex key) {
  Ex low = And(counter, kLower), high = Shr(counter, 32);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const Ex round_key = And(key + Word(key, round * kWeyl), kLower);
    const Ex product = low * Word(low, kMultiplier);
    low = Xor(Xor(Shr(product, 32), round_key), high);
    high = And(product, kLower);
  }
  return Apply(ScalarOp::kOr, low, Shl(high, 32));
}

}  // namespace kiln::math_internal
