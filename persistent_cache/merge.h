// SPDX-License-Identifier: Apache-2.0
// Which of two entries of one key stays where caches and packs are put together.
//
// Most entries are a function of their key, so either will do. Tune records are not: two machines
// of one model, or one machine twice, measure different times. Their "meta" has `rounds`, and the
// one with more rounds stays; of equal ones, and of all other entries, the one whose file is
// greater, byte by byte. So the order of merging does not matter.
#ifndef KILN_PERSISTENT_CACHE_MERGE_H_
#define KILN_PERSISTENT_CACHE_MERGE_H_

#include <vector>

#include "persistent_cache/entry.h"

namespace kiln {

// True if `a` stays. Both have the same key.
bool StaysOver(const Entry& a, const Entry& b);

// Of each key the one that stays, in the order of the keys.
std::vector<Entry> MergeEntries(std::vector<Entry> entries);

}  // namespace kiln

#endif  // KILN_PERSISTENT_CACHE_MERGE_H_
