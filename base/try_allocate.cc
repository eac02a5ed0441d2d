// SPDX-License-Identifier: Apache-2.0
#include "base/try_allocate.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln {
namespace {

absl::Status Refused(DType type, const std::vector<int64_t>& shape, absl::string_view why) {
  return absl::ResourceExhaustedError(
      absl::StrCat("tensor ", Name(type), " [", absl::StrJoin(shape, ", "), "]: ", why));
}

}  // namespace

absl::StatusOr<Tensor> TryAllocate(DType type, std::vector<int64_t> shape, int64_t most_bytes) {
  const int64_t bytes = CheckedBytes(type, shape);
  if (bytes < 0) return Refused(type, shape, "its size in bytes does not fit in 64 bits");
  if (bytes > most_bytes)
    return Refused(type, shape, absl::StrCat(bytes, " bytes, more than the limit of ", most_bytes));
  try {
    return Tensor::Allocate(type, shape);
  } catch (const std::bad_alloc&) {
    return Refused(type, shape, absl::StrCat("no memory for ", bytes, " bytes"));
  } catch (const std::length_error&) {
    return Refused(type, shape, absl::StrCat("no memory for ", bytes, " bytes"));
  }
}

}  // namespace kiln
