// SPDX-License-Identifier: Apache-2.0
// A 64-bit mixing function for tables and for the canonical order of operands. Not cryptographic; a
// collision costs a probe or a less canonical order, never a wrong result. The same on every
// machine.
#ifndef KILN_KERNEL_HASH_H_
#define KILN_KERNEL_HASH_H_

#include <cstdint>

namespace kiln {

constexpr uint64_t HashMix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

}  // namespace kiln

#endif  // KILN_KERNEL_HASH_H_
