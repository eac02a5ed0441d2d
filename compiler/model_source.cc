// SPDX-License-Identifier: Apache-2.0
#include "compiler/model_source.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "compiler/variants.h"
#include "graph/text.h"
#include "graph/updatable.h"

namespace kiln {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

absl::StatusOr<std::string> TextOf(const std::string& path, const OnnxImportOptions& options) {
  if (options.memory == nullptr) return RealFileSystem().ReadFile(path, kMaxTextBytes);
  const absl::string_view bytes = options.memory->file->bytes();
  if (static_cast<int64_t>(bytes.size()) > kMaxTextBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("\"", path, "\": has ", bytes.size(), " bytes, more than ", kMaxTextBytes));
  }
  return std::string(bytes);
}

absl::StatusOr<Graph> ReadText(const std::string& path, const OnnxImportOptions& options) {
  KILN_ASSIGN_OR_RETURN(const std::string text, TextOf(path, options));
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (graph.ok()) return graph;
  return absl::Status(graph.status().code(),
                      absl::StrCat("\"", path, "\": ", graph.status().message()));
}

// The model as it was imported, for further imports: a file may be replaced by another meanwhile.
std::shared_ptr<const onnx::ModelMemory> MemoryOf(const std::string& path,
                                                  const OnnxImportOptions& options,
                                                  const OnnxImport& import, bool all) {
  if (options.memory != nullptr || import.file == nullptr) return options.memory;
  auto memory = std::make_shared<onnx::ModelMemory>();
  memory->file = import.file;
  memory->folder = std::filesystem::path(AbsolutePath(path)).parent_path();
  memory->external = import.external;
  if (!all) return memory;
  const auto locations = ExternalLocations(import.file->bytes());
  if (!locations.ok()) return memory;  // the import says what is wrong
  for (const std::string& location : *locations) {
    if (memory->external.count(location) > 0) continue;
    auto file = onnx::MappedFile::OpenBeneath(memory->folder, location, options.external_links);
    if (file.ok()) memory->external.emplace(location, *std::move(file));
  }
  return memory;
}

}  // namespace

OnnxImportOptions ImportOptionsOf(const CompileOptions& options) {
  const bool follow = options.external_data_links == ExternalDataLinks::kFollow;
  return {.max_total_bytes = options.max_weight_bytes,
          .external_links = follow ? onnx::Links::kFollow : onnx::Links::kRefuse,
          .custom_ops = options.custom_ops,
          .updatable = options.updatable};
}

ModelSource::ModelSource(const std::string& path, const OnnxImportOptions& options,
                         OnnxImport import, bool needs_inputs)
    : path_(options.memory != nullptr ? path : AbsolutePath(path)),
      options_(options),
      import_(std::make_shared<const OnnxImport>(std::move(import))),
      needs_inputs_(needs_inputs) {
  options_.memory = MemoryOf(path, options, *import_, needs_inputs);
}

ModelSource ModelSource::Of(const std::string& path, OnnxImport import,
                            const OnnxImportOptions& options) {
  const bool needs_inputs = MayNeedInputs(path, import, options);
  return ModelSource(path, options, std::move(import), needs_inputs);
}

namespace {

// Why a model cannot be imported; if it can be with all its constants, that is what is wrong.
absl::Status Unsupported(const absl::Status& why, const std::string& path,
                         const OnnxImportOptions& options) {
  OnnxImportOptions plain = options;
  plain.updatable.clear();
  if (options.updatable.empty() || !ModelSource::Read(path, plain).ok()) return why;
  return absl::InvalidArgumentError(absl::StrCat(
      "updatable ", absl::StrJoin(options.updatable, ", "),
      ": the model needs the value of a constant; leave that constant out: ", why.message()));
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> ModelSource::ReadUpdatable(const std::string& path,
                                                               const OnnxImportOptions& options) {
  if (options.updatable.empty()) return std::vector<Tensor>();
  if (!absl::EndsWith(path, ".graph")) return kiln::ReadUpdatable(path, options);
  KILN_ASSIGN_OR_RETURN(const Graph graph, ReadText(path, options));
  return ConstantsNamed(graph, options.updatable);
}

absl::StatusOr<ModelSource> ModelSource::Read(const std::string& path,
                                              const OnnxImportOptions& options) {
  if (absl::EndsWith(path, ".kiln")) {
    return absl::UnimplementedError(absl::StrCat(
        "package \"", path, "\": has no graph; use kiln run, kiln bench or kiln inspect"));
  }
  if (absl::EndsWith(path, ".graph")) {
    KILN_ASSIGN_OR_RETURN(const Graph graph, ReadText(path, options));
    KILN_ASSIGN_OR_RETURN(UpdatableGraph made, MakeUpdatable(graph, options.updatable));
    OnnxImport import;
    import.graph = std::move(made.graph);
    import.updatable = std::move(made.values);
    return ModelSource(path, options, std::move(import), false);
  }
  absl::StatusOr<OnnxImport> whole = ImportOnnx(path, options);
  if (whole.ok()) return ModelSource(path, options, *std::move(whole), false);
  if (!absl::IsUnimplemented(whole.status())) return whole.status();
  OnnxImportOptions partly = options;
  partly.allow_unsupported = true;
  KILN_ASSIGN_OR_RETURN(OnnxImport part, ImportOnnx(path, partly));
  ModelSource source = Of(path, std::move(part), options);
  if (!source.needs_inputs()) return Unsupported(whole.status(), path, options);
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
