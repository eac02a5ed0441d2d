// SPDX-License-Identifier: Apache-2.0
#include "tools/exit_code.h"

#include <iostream>

namespace kiln {

std::span<const ExitCodeRow> AllExitCodes() {
  static constexpr ExitCodeRow kRows[] = {
      {kExitOk, "Success"},
      {kExitDiffers, "A result differs, or a check failed"},
      {kExitUsage, "Wrong usage: an unknown flag, an unknown name, a value out of range"},
      {kExitModel, "The model, or an input of it, is invalid"},
      {kExitUnsupported, "An operator, type, shape or mode that Kiln cannot run"},
      {kExitDevice, "The device, or the compiler where it is needed, is missing"},
      {kExitCache, "The cache cannot be used, or has no such entry"},
      {kExitIo,
       "A file cannot be read or written, or a model does not fit the device that it is to run on"},
      {kExitBug, "A defect of Kiln"},
  };
  return kRows;
}

int ModelExit(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
      return kExitModel;
    case absl::StatusCode::kUnimplemented:
      return kExitUnsupported;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
      return kExitIo;
    default:
      return kExitBug;
  }
}

int UsageExit(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return kExitUsage;
    case absl::StatusCode::kInternal:
      return kExitBug;
    default:
      return kExitIo;
  }
}

int OptionsExit(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ? kExitDevice : kExitUsage;
}

int Fail(const absl::Status& status, int code) {
  std::cerr << "kiln: " << status.message() << "\n";
  if (code == kExitBug)
    std::cerr << "kiln: this is a defect of Kiln; please report it with the model\n";
  return code;
}

}  // namespace kiln
