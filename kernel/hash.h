// SPDX-License-Identifier: Apache-2.0
// A 64-bit mixing function for tables and for the canonical order of operands. Not cryptographic; a
// collision costs a probe or a less canonical order, never a wrong result. The same on every
// machine.
#ifndef KILN_KERNEL_HASH_H_
#define KILN_KERNEL_HASH_H_

#include <cstdint>

#include "kernel/scalar_expr.h"

namespace kiln {

constexpr uint64_t HashMix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

inline uint64_t HashNode(const ExprNode& node) {
  uint64_t hash = HashMix(static_cast<uint64_t>(node.op), static_cast<uint64_t>(node.type));
  for (const ExprId arg : node.args) hash = HashMix(hash, static_cast<uint64_t>(arg));
  hash = HashMix(hash, static_cast<uint64_t>(node.ref) * 2 + static_cast<uint64_t>(node.source));
  hash = HashMix(hash, node.imm);
  for (const IndexExpr& index : node.index) {
    for (const IndexExpr::Term& term : index.terms) {
      hash = HashMix(hash, static_cast<uint64_t>(term.dim) * 2 + (term.extent ? 1 : 0));
      hash = HashMix(hash, static_cast<uint64_t>(term.coef));
    }
    hash = HashMix(hash, static_cast<uint64_t>(index.offset));
    hash = HashMix(hash, static_cast<uint64_t>(index.div));
    hash = HashMix(hash, static_cast<uint64_t>(index.mod));
    hash = HashMix(hash, static_cast<uint64_t>(index.load));
  }
  return HashMix(hash, static_cast<uint64_t>(node.aux));
}

}  // namespace kiln

#endif  // KILN_KERNEL_HASH_H_
