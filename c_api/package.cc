// SPDX-License-Identifier: Apache-2.0
#include "kiln/package.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "c_api/handles.h"
#include "persistent_cache/signature.h"

namespace kiln::c_api {
namespace {

absl::StatusOr<PackageSource> SourceOf(const kiln_package_source& given) {
  // Whatever happens, the caller's data are released once.
  std::shared_ptr<const void> owner;
  if (given.release != nullptr) {
    owner = std::shared_ptr<const void>(
        given.data, [release = given.release, user = given.user](const void*) { release(user); });
  }
  const int places = (given.path != nullptr ? 1 : 0) + (given.descriptor >= 0 ? 1 : 0) +
                     (given.data != nullptr ? 1 : 0) + (given.read != nullptr ? 1 : 0);
  if (places != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("package: ", places, " of path, descriptor, data and read are set; set one"));
  }
  if (given.size < 0)
    return absl::InvalidArgumentError(absl::StrCat("package: size is ", given.size));
  const std::string name = given.name != nullptr ? given.name : "package";
  if (given.path != nullptr) return PackageSource::File(given.path);
  if (given.descriptor >= 0) return PackageSource::Descriptor(given.descriptor);
  if (given.data != nullptr)
    return PackageSource::Memory(given.data, static_cast<size_t>(given.size), std::move(owner),
                                 name);
  // `owner`: what the reader uses is not released while it may be called.
  const auto read = [call = given.read, user = given.user, owner = std::move(owner)](
                        int64_t offset, void* into, int64_t bytes) -> absl::Status {
    const int32_t failed = call(user, offset, into, bytes);
    if (failed == 0) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("its reader failed with ", failed, " for ", bytes, " bytes at ", offset));
  };
  return PackageSource::Reader(given.size, read, name);
}

absl::StatusOr<PackageOptions> OptionsOf(const kiln_package_options& given) {
  PackageOptions options;
  if (given.validate != 0) options.validate = PackageValidation::kFirstUse;
  options.read = given.read != 0;
  if (given.trusted_signers != nullptr) {
    KILN_ASSIGN_OR_RETURN(options.signers, ParseTrustFile(given.trusted_signers));
  }
  return options;
}

}  // namespace
}  // namespace kiln::c_api

extern "C" {

kiln_status* kiln_load_package_from(const kiln_package_source* source,
                                    const kiln_run_options* options,
                                    const kiln_package_options* package, kiln_model** out) {
  using kiln::c_api::CheckPointer;
  return kiln::c_api::Call("package", [&]() -> absl::Status {
    KILN_RETURN_IF_ERROR(CheckPointer(source, "source"));
    KILN_ASSIGN_OR_RETURN(
        const kiln::PackageSource from,
        kiln::c_api::SourceOf(kiln::c_api::Read(source, kiln_package_source_default())));
    KILN_RETURN_IF_ERROR(CheckPointer(out, "out"));
    KILN_ASSIGN_OR_RETURN(const kiln::RunOptions run, kiln::c_api::RunOptionsOf(options));
    KILN_ASSIGN_OR_RETURN(
        const kiln::PackageOptions how,
        kiln::c_api::OptionsOf(kiln::c_api::Read(package, kiln_package_options_default())));
    KILN_ASSIGN_OR_RETURN(kiln::Model model, kiln::LoadPackage(from, run, how));
    *out = new kiln_model(std::move(model));
    return absl::OkStatus();
  });
}

}  // extern "C"
