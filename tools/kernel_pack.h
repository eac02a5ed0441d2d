// SPDX-License-Identifier: Apache-2.0
// Entries of a cache as they are shipped in a pack (persistent_cache/pack.h).
#ifndef KILN_TOOLS_KERNEL_PACK_H_
#define KILN_TOOLS_KERNEL_PACK_H_

#include <vector>

#include "absl/status/statusor.h"
#include "persistent_cache/entry.h"
#include "persistent_cache/key.h"
#include "persistent_cache/store.h"

namespace kiln {

// The entries of these keys, each once, by key, without what was measured; those that note a
// failure stay behind. So the same kernels give the same entries wherever they were built.
// kNotFound: one is not there; as Store::Read.
absl::StatusOr<std::vector<Entry>> EntriesToShip(Store& store, std::vector<CacheKey> keys);

}  // namespace kiln

#endif  // KILN_TOOLS_KERNEL_PACK_H_
