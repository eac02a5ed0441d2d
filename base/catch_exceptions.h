// SPDX-License-Identifier: Apache-2.0
// CatchExceptions(subject, function): what the function returns, or a Status for what it throws.
//
// No exception crosses a border of Kiln. At each border (Import, Compile, Run, LoadPackage, the
// first function of a thread, callbacks) the work is done inside it:
//
//   absl::StatusOr<Model> Compile(...) {
//     return CatchExceptions("compiling", [&]() -> absl::StatusOr<Model> { ... });
//   }
//   // -> RESOURCE_EXHAUSTED: compiling: out of memory
//
// std::bad_alloc and std::length_error become kResourceExhausted, std::system_error (a thread that
// the system refuses) kUnavailable, any other exception kInternal. When not even the message can be
// had, the Status has its code alone. The thread is not cancelled meanwhile (no_cancellation.h);
// the unwinding of one that a callback ends (pthread_exit) passes through.
#ifndef KILN_BASE_CATCH_EXCEPTIONS_H_
#define KILN_BASE_CATCH_EXCEPTIONS_H_

#include <cxxabi.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/no_cancellation.h"

namespace kiln {

// The Status of the exception that is being handled. Never throws.
absl::Status StatusOfException(absl::string_view subject) noexcept;

// `function` returns a Status or a StatusOr. The object of a forced unwinding is null.
template <typename Function>
__attribute__((no_sanitize("undefined"))) auto CatchExceptions(absl::string_view subject,
                                                               Function&& function)
    -> decltype(function()) {
  const NoCancellation guard;
  try {
    return std::forward<Function>(function)();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return StatusOfException(subject);
  }
}

}  // namespace kiln

#endif  // KILN_BASE_CATCH_EXCEPTIONS_H_
