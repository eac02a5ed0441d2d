// SPDX-License-Identifier: Apache-2.0
// Words: the cache key of a log or a call, which is compared word by word, with a hash.
#ifndef KILN_TRACE_WORDS_H_
#define KILN_TRACE_WORDS_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "trace/value_type.h"

namespace kiln::tracing {

using Words = std::vector<uint64_t>;
using WordsView = std::span<const uint64_t>;

// One step of a hash, which may collide: a table compares the words themselves.
inline uint64_t Mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

// A length on top, so that no two lists of types have the same words.
inline void AppendType(Words& words, const ValueType& type) {
  words.push_back(uint64_t{1} << 63 | static_cast<uint64_t>(type.type) << 8 | type.rank);
  for (size_t i = 0; i < type.rank; ++i) words.push_back(static_cast<uint64_t>(type.extents[i]));
}

struct WordsHash {
  using is_transparent = void;
  size_t operator()(WordsView words) const {
    uint64_t hash = words.size();
    for (const uint64_t word : words) hash = Mix(hash, word);
    return hash;
  }
};
struct WordsEqual {
  using is_transparent = void;
  bool operator()(WordsView a, WordsView b) const {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
  }
};

}  // namespace kiln::tracing

#endif  // KILN_TRACE_WORDS_H_
