// SPDX-License-Identifier: Apache-2.0
// KILN_CHECK(condition) aborts with the place and the condition when it does not hold, in every
// build.
//
// Only for errors of the programmer. What a model, a file or an option can cause is an
// absl::Status.
#ifndef KILN_BASE_CHECK_H_
#define KILN_BASE_CHECK_H_

namespace kiln::internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace kiln::internal

#define KILN_CHECK(condition) \
  ((condition) ? void(0) : ::kiln::internal::CheckFailed(#condition, __FILE__, __LINE__))

#endif  // KILN_BASE_CHECK_H_
