// SPDX-License-Identifier: Apache-2.0
// The files of a model, and digests of their bytes that are computed once.
//
// A digest is remembered in the cache under the file's device and inode, together with its size and
// times (base/file_system.h: FileIdentity, Settled), so that the next start knows the model without
// reading it. A file that was changed, replaced or touched is read again; so is one that changed so
// lately that its times cannot tell one write from the next. What lies on a network disk is always
// read.
#ifndef KILN_COMPILER_MODEL_FILE_H_
#define KILN_COMPILER_MODEL_FILE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sha256.h"
#include "graph/onnx/import.h"
#include "graph/onnx/mapped_file.h"
#include "persistent_cache/store.h"

namespace kiln {

struct ModelFile {
  std::string location;  // as the model names it; empty for the model itself
  std::string path;      // empty: it is in memory only
  std::shared_ptr<onnx::MappedFile> file;
  Sha256Digest digest{};
};

// The model at `path` and the external data files that it names, in the order of their names.
// Errors as ImportOnnx with these options. Where a digest must be computed, which takes a second
// for a GB or two, `beside` is called meanwhile; that of a model in memory is computed at once.
absl::StatusOr<std::vector<ModelFile>> OpenModelFiles(const std::string& path,
                                                      const OnnxImportOptions& options,
                                                      Store& store,
                                                      const std::function<void()>& beside);

// Whether the files are still those that were opened.
bool Unchanged(const std::vector<ModelFile>& files);

}  // namespace kiln

#endif  // KILN_COMPILER_MODEL_FILE_H_
