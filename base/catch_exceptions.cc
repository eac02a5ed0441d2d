// SPDX-License-Identifier: Apache-2.0
#include "base/catch_exceptions.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// Without memory for the message, the code alone: such a Status allocates nothing.
absl::Status Make(absl::StatusCode code, absl::string_view subject,
                  absl::string_view what) noexcept {
  try {
    return {code, absl::StrCat(subject, ": ", what)};
  } catch (...) {
    return {code, ""};
  }
}

}  // namespace

absl::Status StatusOfException(absl::string_view subject) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Make(absl::StatusCode::kResourceExhausted, subject, "out of memory");
  } catch (const std::length_error&) {
    return Make(absl::StatusCode::kResourceExhausted, subject, "a size is out of range");
  } catch (const std::system_error& error) {
    return Make(absl::StatusCode::kUnavailable, subject, error.what());
  } catch (const std::exception& error) {
    return Make(absl::StatusCode::kInternal, subject, error.what());
  } catch (...) {
    return Make(absl::StatusCode::kInternal, subject, "an exception of an unknown type");
  }
}

}  // namespace kiln
