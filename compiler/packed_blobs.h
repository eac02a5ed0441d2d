// SPDX-License-Identifier: Apache-2.0
// Packed constants (exec/provider.h) as blobs, by what was packed and how.
//
// What was packed is known by its place in the model's files, whose digests are known, or by the
// digest of the blob that it is: a warm start reads neither weights nor their packed form to find
// them. Constants that nobody has named yet are packed, and kept once they are. Thread-safe.
#ifndef KILN_COMPILER_PACKED_BLOBS_H_
#define KILN_COMPILER_PACKED_BLOBS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/task_queue.h"
#include "compiler/blobs.h"
#include "exec/packed_constants.h"

namespace kiln {

class PackedBlobs : public PackedConstants {
 public:
  PackedBlobs(Blobs& blobs, Yielding yielding) : blobs_(blobs), publishing_(1, yielding) {}

  // `memory` holds the bytes from `offset` on of the file with this digest, for as long as this
  // object lives.
  void NameFile(absl::string_view memory, const Sha256Digest& file, int64_t offset);
  // `memory`, which `owner` keeps, has this digest. No change where it has a name.
  void NameContent(absl::string_view memory, const Sha256Digest& digest,
                   std::shared_ptr<const void> owner);

  std::shared_ptr<const void> Find(const void* constant, size_t bytes, const std::string& layout,
                                   size_t packed_bytes) override;
  void Keep(const void* constant, size_t bytes, const std::string& layout,
            std::shared_ptr<const void> packed, size_t packed_bytes) override;

  // Bytes that Find gave, and that Keep was given.
  int64_t mapped() const;
  int64_t made() const;
  // Until all that was given to Keep and has a name is written.
  void Wait() { publishing_.Wait(); }

 private:
  struct Known {
    size_t bytes = 0;
    Sha256Digest digest{};
    int64_t offset = -1;  // in a file; -1: the digest is that of these bytes
    std::shared_ptr<const void> owner;
  };
  // Packed, and without a name. Whoever uses what was packed has the constant too: while `packed`
  // lives, its address is no other's.
  struct Nameless {
    const char* constant;
    size_t bytes;
    std::string layout;
    std::weak_ptr<const void> packed;
    size_t packed_bytes;
  };
  // Empty if nobody has named it. mutex_ is held.
  std::string NameOf(const char* constant, size_t bytes) const;
  // mutex_ is held.
  void Publish(const std::string& name, const std::string& layout,
               std::shared_ptr<const void> packed, size_t packed_bytes);

  Blobs& blobs_;
  mutable Mutex mutex_;                 // guards all below
  std::map<const char*, Known> known_;  // by where it begins
  std::list<Nameless> nameless_;
  int64_t mapped_ = 0, made_ = 0;
  TaskQueue publishing_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_PACKED_BLOBS_H_
