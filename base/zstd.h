// SPDX-License-Identifier: Apache-2.0
// Zstandard, by the system's libzstd.so.1, which is loaded at the first call: kFailedPrecondition
// where it is not installed. Thread-safe.
#ifndef KILN_BASE_ZSTD_H_
#define KILN_BASE_ZSTD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// One frame, which says how many bytes it holds. One version of libzstd gives equal frames for
// equal bytes.
absl::StatusOr<std::string> ZstdCompress(absl::string_view bytes);

// The `size` bytes that a frame holds. kDataLoss: it holds others, or not as many.
absl::Status ZstdDecompress(absl::string_view frame, void* bytes, int64_t size);

// How many bytes the frame says that it holds; kDataLoss where it does not.
absl::StatusOr<int64_t> ZstdSize(absl::string_view frame);

}  // namespace kiln

#endif  // KILN_BASE_ZSTD_H_
