// SPDX-License-Identifier: Apache-2.0
// Constants that library operators have packed into layouts of their own, kept from one process to
// the next; and whether the constants themselves are what was written.
#ifndef KILN_EXEC_PACKED_CONSTANTS_H_
#define KILN_EXEC_PACKED_CONSTANTS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace kiln {

// Thread-safe.
class PackedConstants {
 public:
  virtual ~PackedConstants() = default;
  // The `bytes` bytes at `constant` in the layout of which `layout` tells everything: memory of
  // `packed_bytes`, 64-byte aligned, that stays as it is. Null where it is not there.
  virtual std::shared_ptr<const void> Find(const void* constant, size_t bytes,
                                           const std::string& layout, size_t packed_bytes) = 0;
  // Before anybody reads the bytes of a constant. kDataLoss: they are damaged. What Find answers
  // with needs none.
  virtual absl::Status Check(const void* /*constant*/, size_t /*bytes*/) {
    return absl::OkStatus();
  }
  // `packed` is what Find did not find; returns at once. While anybody else holds `packed`, the
  // constant lives too.
  virtual void Keep(const void* constant, size_t bytes, const std::string& layout,
                    std::shared_ptr<const void> packed, size_t packed_bytes) = 0;
};

}  // namespace kiln

#endif  // KILN_EXEC_PACKED_CONSTANTS_H_
