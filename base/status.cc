// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

absl::StatusCode CodeOfErrno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case ELOOP:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}

absl::Status ErrnoStatus(int error, absl::string_view path, absl::string_view call) {
  return absl::Status(CodeOfErrno(error), absl::StrCat("\"", path, "\": ", call, ": ",
                                                       std::generic_category().message(error)));
}

}  // namespace kiln
