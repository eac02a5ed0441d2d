// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cudnn.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "exec/cuda/open_library.h"

namespace kiln::cuda {
namespace {

constexpr const char* kFiles[] = {"libcudnn.so.9"};
constexpr LibraryName kName = {"cuDNN", kFiles, "libcudnn 9"};

std::string VersionText(size_t version) {
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Cudnn>> Cudnn::Open(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(void* const opened, OpenLibrary(kName, path));
  auto dnn = std::make_shared<Cudnn>();
  std::string missing;
#define KILN_FIND(result, name, parameters) \
  if (!FindFunction(opened, #name, reinterpret_cast<void**>(&dnn->name))) missing = #name;
  KILN_CUDNN_FUNCTIONS(KILN_FIND)
#undef KILN_FIND
  if (!missing.empty()) return Unusable(kName, absl::StrCat("it has no ", missing));
  if (const size_t version = dnn->cudnnGetVersion(); version < kLeastCudnn) {
    return Unusable(kName, absl::StrCat("it is version ", VersionText(version), ", at least ",
                                        VersionText(kLeastCudnn), " is needed"));
  }
  return dnn;
}

std::string Cudnn::version() const { return VersionText(cudnnGetVersion()); }

absl::Status Cudnn::Check(DnnStatus status, absl::string_view what) const {
  if (status == kDnnSuccess) return absl::OkStatus();
  const char* const name = cudnnGetErrorString(status);
  const std::string message =
      absl::StrCat("cuDNN: ", what, ": ", name != nullptr ? name : absl::StrCat("status ", status));
  if (IsNotSupported(status)) return absl::UnimplementedError(message);
  if (status == kDnnHostAllocationFailed || status == kDnnDeviceAllocationFailed)
    return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

}  // namespace kiln::cuda
