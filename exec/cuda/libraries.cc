// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/libraries.h"

#include <stdlib.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln::cuda {
namespace {

constexpr char kLtName[] = "cuBLASLt", kDnnName[] = "cuDNN";

std::optional<std::string> PathOf(const char* variable, bool emulated) {
  const char* const path = secure_getenv(variable);
  if (path != nullptr && *path != '\0') return path;
  if (emulated) return std::nullopt;
  return "";
}

// What has been opened, or why not: looked for once.
template <typename Library>
absl::StatusOr<std::shared_ptr<const Library>> Opened(
    const char* name, const std::optional<std::string>& path,
    std::optional<absl::StatusOr<std::shared_ptr<const Library>>>& kept) {
  if (!kept) {
    kept = absl::FailedPreconditionError(
        absl::StrCat(name,
                     ": the emulated GPU has none; compile without library calls "
                     "(device_library kNever, --device-library off)"));
    if (path) kept = Library::Open(*path);
  }
  return *kept;
}

template <typename Library>
DeviceLibraryInfo InfoOf(LibrarySet kind, std::vector<std::string> operators, const char* name,
                         const absl::StatusOr<std::shared_ptr<const Library>>& library) {
  if (library.ok()) return {kind, std::move(operators), name, (*library)->version(), ""};
  return {kind, std::move(operators), name, "", std::string(library.status().message())};
}

}  // namespace

LibraryPaths LibraryPaths::FromEnvironment(bool emulated) {
  return {.cublaslt = PathOf("KILN_CUBLASLT", emulated), .cudnn = PathOf("KILN_CUDNN", emulated)};
}

std::vector<DeviceLibraryInfo> Libraries::Infos() {
  return {InfoOf(kProductLibrary, {"matmul"}, kLtName, OpenedLt()),
          InfoOf(kConvolutionLibrary,
                 {"conv", "conv_transpose", "conv_backward_weights", "max_pool", "average_pool",
                  "average_pool_backward"},
                 kDnnName, OpenedDnn())};
}

absl::StatusOr<std::shared_ptr<const CublasLt>> Libraries::OpenedLt() {
  const MutexLock lock(mutex_);
  return Opened(kLtName, paths_.cublaslt, lt_);
}

absl::StatusOr<std::shared_ptr<const Cudnn>> Libraries::OpenedDnn() {
  const MutexLock lock(mutex_);
  return Opened(kDnnName, paths_.cudnn, dnn_);
}

absl::StatusOr<std::shared_ptr<Products>> Libraries::OpenedProducts() {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const CublasLt> lt, OpenedLt());
  const MutexLock lock(mutex_);
  if (products_ == nullptr) {
    KILN_ASSIGN_OR_RETURN(products_, Products::Make(gpu_, std::move(lt)));
  }
  return products_;
}

absl::StatusOr<std::shared_ptr<Windows>> Libraries::OpenedWindows() {
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Cudnn> dnn, OpenedDnn());
  const MutexLock lock(mutex_);
  if (windows_ == nullptr) {
    KILN_ASSIGN_OR_RETURN(windows_, Windows::Make(gpu_, std::move(dnn)));
  }
  return windows_;
}

absl::StatusOr<std::unique_ptr<library::Primitive>> Libraries::MakeCall(
    absl::string_view op, const library::Request& request) {
  std::unique_ptr<library::Primitive> made;
  const char* name = kLtName;
  if (op == "matmul") {
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Products> products, OpenedProducts());
    KILN_ASSIGN_OR_RETURN(made, products->Product(request));
  } else if (op == "conv" || op == "conv_transpose") {
    name = kDnnName;
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Windows> windows, OpenedWindows());
    KILN_ASSIGN_OR_RETURN(made, windows->Convolution(request, op == "conv_transpose"));
  } else if (op == "conv_backward_weights") {
    name = kDnnName;
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Windows> windows, OpenedWindows());
    KILN_ASSIGN_OR_RETURN(made, windows->BackwardFilter(request));
  } else if (op == "max_pool" || op == "average_pool") {
    name = kDnnName;
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Windows> windows, OpenedWindows());
    KILN_ASSIGN_OR_RETURN(made, windows->Pool(request, op == "average_pool"));
  } else if (op == "average_pool_backward") {
    name = kDnnName;
    KILN_ASSIGN_OR_RETURN(const std::shared_ptr<Windows> windows, OpenedWindows());
    KILN_ASSIGN_OR_RETURN(made, windows->AveragePoolBackward(request));
  } else {
    return absl::UnimplementedError(absl::StrCat("no library has ", op));
  }
  made->set_considered({{name, ""}});
  return made;
}

}  // namespace kiln::cuda
