// SPDX-License-Identifier: Apache-2.0
#include "kiln/cache.h"

#include <utility>

#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "persistent_cache/directory.h"
#include "persistent_cache/store.h"

namespace kiln {

absl::StatusOr<std::shared_ptr<Cache>> Cache::Open(CacheSettings settings) {
  return CatchExceptions("cache", [&]() -> absl::StatusOr<std::shared_ptr<Cache>> {
    StoreOptions options;
    options.directory = std::move(settings.directory);
    if (options.directory.empty()) {
      KILN_ASSIGN_OR_RETURN(options.directory, DefaultCacheDirectory());
    }
    options.read_only = settings.read_only;
    options.max_bytes = settings.max_bytes;
    options.packs = std::move(settings.packs);
    options.trust = std::move(settings.trust);
    options.shared_directory = std::move(settings.shared_directory);
    options.on_event = std::move(settings.on_event);
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<Store> store,
                          Store::Open(RealFileSystem(), std::move(options)));
    return std::shared_ptr<Cache>(new Cache(std::move(store)));
  });
}

CacheCounters Cache::Snapshot() const { return store_->counters(); }

const std::string& Cache::directory() const { return store_->directory(); }

bool Cache::read_only() const { return store_->read_only(); }

}  // namespace kiln
