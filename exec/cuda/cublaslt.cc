// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cublaslt.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/open_library.h"

namespace kiln::cuda {
namespace {

constexpr const char* kFiles[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr LibraryName kName = {"cuBLASLt", kFiles, "libcublas of CUDA 12 or 13"};

std::string VersionText(size_t version) {
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

const char* NameOf(LtStatus status) {
  switch (status) {
    case kLtNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kLtAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kLtInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kLtArchMismatch:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case kLtExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kLtInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kLtNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return nullptr;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CublasLt>> CublasLt::Open(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(void* const opened, OpenLibrary(kName, path));
  auto lt = std::make_shared<CublasLt>();
  std::string missing;
#define KILN_FIND(result, name, parameters) \
  if (!FindFunction(opened, #name, reinterpret_cast<void**>(&lt->name))) missing = #name;
  KILN_CUBLASLT_FUNCTIONS(KILN_FIND)
#undef KILN_FIND
  if (!missing.empty()) return Unusable(kName, absl::StrCat("it has no ", missing));
  if (const size_t version = lt->cublasLtGetVersion(); version < kLeastCublasLt) {
    return Unusable(kName, absl::StrCat("it is version ", VersionText(version), ", at least ",
                                        VersionText(kLeastCublasLt), " is needed"));
  }
  return lt;
}

std::string CublasLt::version() const { return VersionText(cublasLtGetVersion()); }

absl::Status CublasLt::Check(LtStatus status, absl::string_view what) const {
  if (status == kLtSuccess) return absl::OkStatus();
  const char* const name = NameOf(status);
  const std::string message = absl::StrCat(
      "cuBLASLt: ", what, ": ", name != nullptr ? name : absl::StrCat("status ", status));
  if (status == kLtAllocFailed) return absl::ResourceExhaustedError(message);
  if (status == kLtNotSupported) return absl::UnimplementedError(message);
  return absl::InternalError(message);
}

}  // namespace kiln::cuda
