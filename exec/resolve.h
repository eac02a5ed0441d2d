// SPDX-License-Identifier: Apache-2.0
// Operands with numbers for expressions, checked against the size of their buffer.
#ifndef KILN_EXEC_RESOLVE_H_
#define KILN_EXEC_RESOLVE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "exec/checked_program.h"
#include "kiln/dim.h"

namespace kiln {

struct ResolvedRef {
  int32_t buffer = -1;
  DType type = DType::kF32;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;          // bytes, of element [0, 0, ...]
  int64_t begin = 0, end = 0;  // bytes of the buffer that elements lie in
  int64_t elements = 0;
  bool dense = true;
  int64_t part_bytes = 0;  // to the next part of a tiling (batch_tiling.h); 0: it does not move

  int64_t bytes() const { return elements * static_cast<int64_t>(SizeOf(type)); }
};

// kInvalidArgument if an extent is negative or an element lies outside [0, buffer_bytes) or off its
// alignment.
absl::StatusOr<ResolvedRef> Resolve(const CheckedRef& ref, const SymbolValues& symbols,
                                    int64_t buffer_bytes);

// The same for an operand that is written: no two of its elements may be in one place, so that the
// work of a launch is bounded by the memory that it writes.
absl::StatusOr<ResolvedRef> ResolveWritten(const CheckedRef& ref, const SymbolValues& symbols,
                                           int64_t buffer_bytes);

// The same for an operand of a launch that writes nothing: none of its elements is read, so that it
// counts as empty, and where they would lie does not matter. Extents and offsets are expressions
// that hold together only where there is something to compute.
absl::StatusOr<ResolvedRef> ResolveUnread(const CheckedRef& ref, const SymbolValues& symbols);

// The values as integers of a type. kOutOfRange: one does not fit, which is no wrapped number.
absl::StatusOr<std::vector<uint8_t>> BytesOf(const std::vector<int64_t>& values, DType type);

}  // namespace kiln

#endif  // KILN_EXEC_RESOLVE_H_
