// SPDX-License-Identifier: Apache-2.0
// Model files in memory (ModelBytes in kiln/compile.h) as the compiler takes them.
#ifndef KILN_COMPILER_MODEL_BYTES_H_
#define KILN_COMPILER_MODEL_BYTES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/onnx/import.h"
#include "graph/onnx/mapped_file.h"
#include "kiln/compile.h"

namespace kiln {

inline absl::string_view ViewOf(const ModelBytes& bytes) {
  return {static_cast<const char*>(bytes.data), bytes.size};
}

// With an owner: a copy where there is none. kInvalidArgument: no data; kResourceExhausted: longer
// than a model file may be.
absl::StatusOr<ModelBytes> OwnBytes(const ModelBytes& bytes);

// For bytes with an owner. All external data is mapped now, so that no later read needs its folder;
// what cannot be is left to whoever asks for it.
absl::StatusOr<std::shared_ptr<const onnx::ModelMemory>> OpenInMemory(
    const ModelBytes& bytes, const OnnxImportOptions& options);

}  // namespace kiln

#endif  // KILN_COMPILER_MODEL_BYTES_H_
