// SPDX-License-Identifier: Apache-2.0
// Messages between Kiln and its helper programs (child_process.h): frames of a u32 length
// (little-endian, at most 64 MiB) and so many bytes.
#ifndef KILN_BASE_FRAMES_H_
#define KILN_BASE_FRAMES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// What a request and its answer begin with: its number, as a u64 (helper_pool.h).
inline constexpr size_t kNumberBytes = 8;

// Frame I/O on a descriptor that may block; kDataLoss on a short or oversized frame, kNotFound on a
// clean end of file, kDeadlineExceeded after timeout_ms (negative: none).
absl::StatusOr<std::string> ReadFrame(int fd, int timeout_ms);
absl::Status WriteFrame(int fd, absl::string_view payload, int timeout_ms = -1);

}  // namespace kiln

#endif  // KILN_BASE_FRAMES_H_
