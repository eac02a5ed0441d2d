// SPDX-License-Identifier: Apache-2.0
#include "compiler/model_source.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "compiler/variants.h"
#include "graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

absl::StatusOr<Graph> ReadText(const std::string& path) {
  KILN_ASSIGN_OR_RETURN(const std::string text, RealFileSystem().ReadFile(path, kMaxTextBytes));
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (graph.ok()) return graph;
  return absl::Status(graph.status().code(),
                      absl::StrCat("\"", path, "\": ", graph.status().message()));
}

}  // namespace

OnnxImportOptions ImportOptionsOf(const CompileOptions& options) {
  const bool follow = options.external_data_links == ExternalDataLinks::kFollow;
  return {.max_total_bytes = options.max_weight_bytes,
          .external_links = follow ? onnx::Links::kFollow : onnx::Links::kRefuse,
          .custom_ops = options.custom_ops};
}

ModelSource ModelSource::Of(const std::string& path, OnnxImport import,
                            const OnnxImportOptions& options) {
  const bool needs_inputs = MayNeedInputs(path, import, options);
  return ModelSource(path, options, std::move(import), needs_inputs);
}

absl::StatusOr<ModelSource> ModelSource::Read(const std::string& path,
                                              const OnnxImportOptions& options) {
  if (absl::EndsWith(path, ".kiln")) {
    return absl::UnimplementedError(absl::StrCat(
        "package \"", path, "\": has no graph; use kiln run, kiln inspect or kiln bench --serve"));
  }
  if (absl::EndsWith(path, ".graph")) {
    OnnxImport import;
    KILN_ASSIGN_OR_RETURN(import.graph, ReadText(path));
    return ModelSource(path, options, std::move(import), false);
  }
  absl::StatusOr<OnnxImport> whole = ImportOnnx(path, options);
  if (whole.ok()) return ModelSource(path, options, *std::move(whole), false);
  if (!absl::IsUnimplemented(whole.status())) return whole.status();
  OnnxImportOptions partly = options;
  partly.allow_unsupported = true;
  KILN_ASSIGN_OR_RETURN(OnnxImport part, ImportOnnx(path, partly));
  ModelSource source = Of(path, std::move(part), options);
  if (!source.needs_inputs()) return whole.status();
  if (const std::string& output = source.import()->undeclared_output; !output.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "importing \"", path, "\": output \"", output,
        "\": the model declares no type for it, which one whose structure depends on its inputs ",
        "must; add it with onnx.shape_inference.infer_shapes"));
  }
  return source;
}

std::vector<PortInfo> ModelSource::inputs() const { return PortInfosOf(graph(), true); }

std::vector<PortInfo> ModelSource::outputs() const {
  if (!needs_inputs_) return PortInfosOf(graph(), false);
  std::vector<PortInfo> ports;
  for (const DeclaredOutput& output : import_->declared_outputs)
    ports.push_back({output.name, output.type, output.shape.value_or(Shape()), false,
                     !output.shape.has_value()});
  return ports;
}

absl::StatusOr<std::shared_ptr<const OnnxImport>> ModelSource::For(
    const std::map<std::string, Tensor>& inputs) const {
  if (!needs_inputs_) return import_;
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnxFor(path_, inputs, options_));
  return std::make_shared<const OnnxImport>(std::move(import));
}

absl::StatusOr<std::shared_ptr<const OnnxImport>> ModelSource::ForShapes(
    const std::map<std::string, Tensor>& inputs) const {
  if (needs_inputs_ || import_->file == nullptr) return For(inputs);
  OnnxImportOptions closed = options_;
  for (const auto& [name, tensor] : inputs)
    closed.input_shapes.insert_or_assign(name, ToShape(tensor.shape()));
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path_, closed));
  return std::make_shared<const OnnxImport>(std::move(import));
}

absl::StatusOr<Graph> ModelSource::GraphFor(const std::vector<Tensor>& inputs) const {
  std::map<std::string, Tensor> named;
  for (size_t k = 0; k < inputs.size() && k < graph().inputs().size(); ++k) {
    const Tensor& value = inputs[k];
    named[graph().value(graph().inputs()[k]).name] = value.is_dense() ? value : value.Clone();
  }
  KILN_ASSIGN_OR_RETURN(const auto import, For(named));
  return import->graph;
}

}  // namespace kiln
