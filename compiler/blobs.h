// SPDX-License-Identifier: Apache-2.0
// Data of one model in the cache that is mapped instead of read: constants that passes have made,
// and weights in the layouts of library operators.
//
// The checksum of a blob is computed when this machine meets its file for the first time, and is
// believed as long as the file stays the same one (FileIdentity): a start with everything in the
// page cache reads none of it. Which files those are is kept in an entry of its own. Thread-safe.
#ifndef KILN_COMPILER_BLOBS_H_
#define KILN_COMPILER_BLOBS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "persistent_cache/store.h"

namespace kiln {

class Blobs {
 public:
  // `owner` names the record of checked files.
  Blobs(Store& store, const CacheKey& owner) : store_(store), owner_(owner) {}
  // Writes the record if it changed.
  ~Blobs();
  Blobs(const Blobs&) = delete;
  Blobs& operator=(const Blobs&) = delete;

  // Null where it is not there or damaged.
  std::optional<MappedBlob> Find(const Preimage& preimage);
  // Publishes unless it is there already; a failure is only logged. `kind` is for people.
  void Keep(const Preimage& preimage, absl::string_view bytes, absl::string_view kind);

  // The preimage of a blob that is known by its own bytes.
  static Preimage ByContent(const Sha256Digest& digest);

 private:
  Preimage RecordOf() const;
  void LoadRecord();

  Store& store_;
  const CacheKey owner_;
  Mutex mutex_;  // guards all below
  bool loaded_ = false;
  std::map<std::string, FileIdentity> checked_;  // by key, hexadecimal
  bool changed_ = false;
};

}  // namespace kiln

#endif  // KILN_COMPILER_BLOBS_H_
