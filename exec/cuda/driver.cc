// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/driver.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln::cuda {
namespace {

// "13.0" of 13000.
std::string VersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

absl::Status CheckVersion(const Driver& driver, const std::string& library) {
  int version = 0;
  KILN_RETURN_IF_ERROR(driver.Check(driver.cuDriverGetVersion(&version), library));
  if (version >= kLeastDriver) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cuda: \"", library, "\" is of CUDA ", VersionText(version), ", at least ",
                   VersionText(kLeastDriver), " is needed; install a newer driver"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Driver>> Driver::Open(const std::string& library) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const why = dlerror();
    return absl::UnavailableError(
        absl::StrCat("cuda: no driver: ", why != nullptr ? why : library));
  }
  auto driver = std::make_shared<Driver>();
  std::string missing;
#define KILN_FIND(name, parameters) \
  if (!Find(opened, #name, driver->name)) missing = #name;
  KILN_CUDA_FUNCTIONS(KILN_FIND)
#undef KILN_FIND
  if (!missing.empty()) {
    return absl::UnavailableError(absl::StrCat("cuda: \"", library, "\" has no ", missing,
                                               "; CUDA ", VersionText(kLeastDriver),
                                               " or later is needed: install a newer driver"));
  }
  KILN_RETURN_IF_ERROR(driver->Check(driver->cuInit(0), library));
  KILN_RETURN_IF_ERROR(CheckVersion(*driver, library));
  return driver;
}

std::string Driver::version() const {
  int version = 0;
  if (cuDriverGetVersion(&version) != kSuccess) return "";
  return absl::StrCat("CUDA ", VersionText(version));
}

absl::Status Driver::Check(Result result, absl::string_view what) const {
  if (result == kSuccess) return absl::OkStatus();
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  const std::string message =
      absl::StrCat("cuda: ", what, ": ", name != nullptr ? name : absl::StrCat("error ", result),
                   text != nullptr ? absl::StrCat(" (", text, ")") : "");
  if (IsLost(result)) {
    return absl::UnavailableError(
        absl::StrCat(message, "; the device is lost to this process: start it again"));
  }
  switch (result) {
    case kOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case kNoDevice:
    case kNotInitialized:
    case kDeinitialized:
    case kStubLibrary:
    case kDeviceUnavailable:
    case kInvalidDevice:
    case kOperatingSystem:
    case kNotPermitted:
    case kSystemNotReady:
    case kSystemDriverMismatch:
      return absl::UnavailableError(message);
    case kInvalidImage:
    case kInvalidPtx:
      return absl::DataLossError(message);
    case kNoBinaryForGpu:
    case kUnsupportedPtxVersion:
    case kJitCompilerNotFound:
      return absl::FailedPreconditionError(message);
    default:
      return absl::InternalError(message);
  }
}

bool IsLost(Result result) {
  switch (result) {
    case kEccUncorrectable:
    case kNvlinkUncorrectable:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextIsDestroyed:
    case kAssert:
    case kHardwareStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kInvalidAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
      return true;
    default:
      return false;
  }
}

}  // namespace kiln::cuda
