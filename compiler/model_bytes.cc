// SPDX-License-Identifier: Apache-2.0
#include "compiler/model_bytes.h"

#include <fcntl.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/catch_exceptions.h"
#include "base/file_system.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "graph/onnx/limits.h"

namespace kiln {

absl::StatusOr<ModelBytes> OwnBytes(const ModelBytes& bytes) {
  if (bytes.data == nullptr && bytes.size > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", bytes.name, "\": no data for ", bytes.size, " bytes"));
  }
  const bool package = absl::EndsWith(bytes.name, ".kiln");
  const int64_t most = package ? std::numeric_limits<int64_t>::max() : onnx::kMaxFileBytes;
  if (bytes.size > static_cast<size_t>(most)) {
    return absl::ResourceExhaustedError(absl::StrCat("\"", bytes.name, "\": has ", bytes.size,
                                                     " bytes, more than ", most,
                                                     ", the most that is read"));
  }
  if (bytes.owner != nullptr) return bytes;
  ModelBytes own = bytes;
  KILN_ASSIGN_OR_RETURN(const Tensor copy,
                        TryAllocate(DType::kU8, {static_cast<int64_t>(bytes.size)}));
  if (bytes.size > 0) std::memcpy(copy.data(), bytes.data, bytes.size);
  own.data = copy.data();
  own.owner = copy.owner();
  return own;
}

absl::StatusOr<std::shared_ptr<const onnx::ModelMemory>> OpenInMemory(
    const ModelBytes& bytes, const OnnxImportOptions& options) {
  auto memory = std::make_shared<onnx::ModelMemory>();
  memory->file = onnx::MappedFile::OfMemory(ViewOf(bytes), bytes.owner);
  if (bytes.folder.empty()) return memory;
  memory->folder = AbsolutePath(bytes.folder);
  if (absl::EndsWith(bytes.name, ".graph")) return memory;
  const absl::StatusOr<std::vector<std::string>> locations = ExternalLocations(ViewOf(bytes));
  if (!locations.ok()) return memory;  // the import says what is wrong
  for (const std::string& location : *locations) {
    auto file = onnx::MappedFile::OpenBeneath(memory->folder, location, options.external_links);
    if (file.ok()) memory->external.emplace(location, *std::move(file));
  }
  return memory;
}

absl::StatusOr<ModelBytes> MapModel(int descriptor) {
  return CatchExceptions("mapping the model", [&]() -> absl::StatusOr<ModelBytes> {
    const std::string name = absl::StrCat("descriptor ", descriptor);
    if (fcntl(descriptor, F_GETFD) < 0) return Invalid(name, ": it is not open");
    KILN_ASSIGN_OR_RETURN(
        std::shared_ptr<onnx::MappedFile> file,
        onnx::MappedFile::OfDescriptor(descriptor, name, std::numeric_limits<int64_t>::max()));
    ModelBytes bytes;
    bytes.data = file->bytes().data();
    bytes.size = file->bytes().size();
    bytes.owner = std::move(file);
    return bytes;
  });
}

}  // namespace kiln
