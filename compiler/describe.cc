// SPDX-License-Identifier: Apache-2.0
// What a model takes and gives, as its file says.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "compiler/model_bytes.h"
#include "compiler/model_source.h"
#include "exec/package/package.h"
#include "kiln/compile.h"

namespace kiln {
namespace {

absl::StatusOr<ModelDescription> DescribeOnnx(const std::string& path,
                                              const OnnxImportOptions& options) {
  OnnxImportOptions partly = options;
  partly.allow_unsupported = true;
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, partly));
  ModelDescription made;
  made.form = "onnx";
  for (const UnsupportedNode& node : import.unsupported) {
    if (std::find(made.unsupported.begin(), made.unsupported.end(), node.op) ==
        made.unsupported.end())
      made.unsupported.push_back(node.op);
  }
  const bool whole = import.unsupported.empty();
  std::vector<DeclaredOutput> declared = import.declared_outputs;
  const ModelSource source = ModelSource::Of(path, std::move(import), options);
  made.inputs = source.inputs();
  if (source.needs_inputs()) made.unsupported.clear();  // each run imports what it needs
  if (whole || source.needs_inputs()) {
    made.outputs = source.outputs();
    return made;
  }
  for (const DeclaredOutput& output : declared)
    made.outputs.push_back({output.name, output.type, output.shape.value_or(Shape()), false,
                            !output.shape.has_value()});
  return made;
}

absl::StatusOr<ModelDescription> DescribeModel(const std::string& path,
                                               const OnnxImportOptions& options) {
  if (absl::EndsWith(path, ".kiln")) {
    PackageSource source = PackageSource::File(path);
    if (options.memory != nullptr) {
      const absl::string_view bytes = options.memory->file->bytes();
      source = PackageSource::Memory(bytes.data(), bytes.size(), options.memory->file, path);
    }
    KILN_ASSIGN_OR_RETURN(const auto package, Package::OpenPorts(source));
    return ModelDescription{package->inputs(), package->outputs(), "package", {}};
  }
  if (!absl::EndsWith(path, ".graph")) return DescribeOnnx(path, options);
  KILN_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Read(path, options));
  return ModelDescription{source.inputs(), source.outputs(), "graph", {}};
}

}  // namespace

absl::StatusOr<ModelDescription> Describe(absl::string_view path) {
  return CatchExceptions("describing the model",
                         [&] { return DescribeModel(std::string(path), {}); });
}

absl::StatusOr<ModelDescription> Describe(const ModelBytes& bytes) {
  return CatchExceptions("describing the model", [&]() -> absl::StatusOr<ModelDescription> {
    KILN_ASSIGN_OR_RETURN(const ModelBytes own, OwnBytes(bytes));
    OnnxImportOptions options;
    KILN_ASSIGN_OR_RETURN(options.memory, OpenInMemory(own, options));
    return DescribeModel(own.name, options);
  });
}

}  // namespace kiln
