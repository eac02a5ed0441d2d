// SPDX-License-Identifier: Apache-2.0
#include "tools/kernel_pack.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "compiler/package_writer.h"

namespace kiln {

absl::StatusOr<std::vector<Entry>> EntriesToShip(Store& store, std::vector<CacheKey> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<Entry> entries;
  for (const CacheKey& key : keys) {
    absl::StatusOr<Entry> entry = store.Read(key);
    if (absl::IsNotFound(entry.status())) {
      return absl::NotFoundError(
          absl::StrCat("kernel ", ToHex(key).substr(0, 12), " is not in the cache"));
    }
    KILN_RETURN_IF_ERROR(entry.status());
    if (entry->Find("failure") != nullptr) continue;
    LeaveOutWhatWasMeasured(*entry);
    entries.push_back(*std::move(entry));
  }
  return entries;
}

}  // namespace kiln
