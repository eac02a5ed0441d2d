// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/importer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/check_node.h"
#include "graph/onnx/import.h"
#include "graph/onnx/mapped_file.h"
#include "graph/onnx/node_view.h"
#include "graph/onnx/wire.h"
#include "graph/op.h"

namespace kiln {
namespace onnx {

absl::Status Importer::ReadHeader() {
  out_.ir_version = model_.ir_version();
  out_.producer = absl::StrCat(model_.producer_name(), model_.producer_version().empty() ? "" : " ",
                               model_.producer_version());
  for (const OperatorSetIdProto& import : model_.opset_import()) {
    if (DomainOf(import.domain()).empty() && import.version() > kNewestOpset) {
      return absl::UnimplementedError(absl::StrCat(
          "opset_import: the model is of operator set ", import.version(), ", the newest known is ",
          kNewestOpset, "; export it for that one, or convert it with onnx.version_converter"));
    }
    if (!out_.opsets.emplace(DomainOf(import.domain()), import.version()).second) {
      return absl::InvalidArgumentError(absl::StrCat("opset_import: domain ",
                                                     Quoted(import.domain()),
                                                     " is imported twice; keep one version"));
    }
  }
  for (const StringStringEntryProto& entry : model_.metadata_props())
    out_.metadata[entry.key()] = entry.value();
  for (const FunctionProto& function : model_.functions()) {
    const std::string key =
        absl::StrCat(DomainOf(function.domain()), "\n", function.name(), "\n", function.overload());
    if (!functions_.emplace(key, &function).second)
      return absl::InvalidArgumentError(
          absl::StrCat("function ", Quoted(function.name()), ": is defined twice"));
  }
  out_.graph.name = model_.graph().name();
  main_.graph = &out_.graph;
  main_.opsets = out_.opsets;
  return absl::OkStatus();
}

absl::Status Importer::AddInitializers(Scope& scope, const GraphProto& graph) {
  for (const TensorProto& proto : graph.initializer()) {
    const std::string subject = absl::StrCat("initializer ", Quoted(proto.name()));
    if (proto.name().empty()) return absl::InvalidArgumentError("initializer \"\": has no name");
    if (scope.slots.contains(proto.name())) {
      return absl::InvalidArgumentError(
          absl::StrCat(subject, ": is defined twice; names must be unique in a graph"));
    }
    if (IsUpdatable(scope, proto.name())) {
      KILN_RETURN_IF_ERROR(Define(scope, proto.name(), {}));  // until AddUpdatable
      continue;
    }
    absl::StatusOr<Tensor> tensor = ToTensor(proto, source_);
    Slot slot;
    if (tensor.ok()) {
      slot.id = scope.graph->AddConstant(proto.name(), *std::move(tensor));
    } else if (absl::IsUnimplemented(tensor.status())) {
      slot.reason = absl::StrCat(subject, ": ", tensor.status().message());
    } else {
      return Annotate(tensor.status(), subject);
    }
    KILN_RETURN_IF_ERROR(Define(scope, proto.name(), std::move(slot)));
  }
  for (const SparseTensorProto& proto : graph.sparse_initializer()) {
    const std::string& name = proto.values().name();
    Slot slot;
    slot.reason = absl::StrCat("initializer ", Quoted(name), ": sparse tensors are not supported");
    KILN_RETURN_IF_ERROR(Define(scope, name, std::move(slot)));
  }
  return absl::OkStatus();
}

Shape Importer::DeclaredShape(const ValueInfoProto& value) {
  Shape shape;
  for (const TensorShapeProto::Dimension& dim : value.type().tensor_type().shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      shape.push_back(dim.dim_value());
    } else if (Symbols::IsNoName(dim.dim_param())) {
      shape.push_back(symbols_.Fresh(absl::StrCat(value.name(), "_dim", shape.size())));
    } else {
      shape.push_back(symbols_.Named(dim.dim_param()));
    }
  }
  return shape;
}

absl::Status Importer::AddInput(const ValueInfoProto& input) {
  if (input.name().empty()) return absl::InvalidArgumentError("has no name");
  const TypeProto& type = input.type();
  if (!type.has_tensor_type()) return absl::UnimplementedError("is no tensor");
  KILN_ASSIGN_OR_RETURN(const DType dtype, ToDType(type.tensor_type().elem_type()));
  const auto given = options_.input_shapes.find(input.name());
  if (given == options_.input_shapes.end() && !type.tensor_type().has_shape()) {
    return absl::UnimplementedError("the model gives no shape for it; give one");
  }
  Shape shape = given != options_.input_shapes.end() ? given->second : DeclaredShape(input);
  for (const Dim& dim : shape) symbols_.Reserve(dim);
  KILN_RETURN_IF_ERROR(CheckElements(shape));
  const ValueId id = out_.graph.AddInput(input.name(), dtype, std::move(shape));
  return Define(main_, input.name(), {.id = id});
}

absl::Status Importer::AddInputs() {
  std::set<std::string> seen;
  for (const ValueInfoProto& input : model_.graph().input()) {
    if (!seen.insert(input.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", Quoted(input.name()), ": is listed twice"));
    }
    if (main_.slots.contains(input.name())) continue;  // an initializer: a constant
    const absl::Status status =
        Annotate(AddInput(input), absl::StrCat("input ", Quoted(input.name())));
    if (absl::IsUnimplemented(status) && options_.allow_unsupported) {
      Slot slot;
      slot.reason = std::string(status.message());
      KILN_RETURN_IF_ERROR(Define(main_, input.name(), std::move(slot)));
    } else {
      KILN_RETURN_IF_ERROR(status);
    }
  }
  KILN_RETURN_IF_ERROR(AddUpdatable());
  for (const auto& [name, shape] : options_.input_shapes) {
    if (!seen.contains(name) && !IsUpdatable(main_, name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", Quoted(name), ": a shape is given, but the model has no such input; it has ",
          absl::StrJoin(seen, ", ")));
    }
  }
  for (const auto& [name, value] : options_.input_values)
    KILN_RETURN_IF_ERROR(AssumeValue(name, value));
  return absl::OkStatus();
}

absl::Status Importer::AssumeValue(const std::string& name, const Tensor& value) {
  const auto slot = main_.slots.find(name);
  const std::vector<ValueId>& inputs = out_.graph.inputs();
  if (slot == main_.slots.end() ||
      std::find(inputs.begin(), inputs.end(), slot->second.id) == inputs.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", Quoted(name), ": a value is given, but the model has no such input"));
  }
  Value& input = out_.graph.mutable_value(slot->second.id);
  if (input.type != value.dtype() || input.shape.size() != value.shape().size() ||
      !value.is_dense()) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", Quoted(name), ": is ", kiln::Name(input.type), " ",
                     ToString(input.shape), ", but the value given is ", kiln::Name(value.dtype()),
                     " ", ToString(ToShape(value.shape()))));
  }
  input.shape = ToShape(value.shape());
  slot->second.id = out_.graph.AddConstant(name, value);  // what nodes read in place of the input
  Guard guard;
  guard.kind = Guard::Kind::kValue;
  guard.input = name;
  guard.bytes.assign(static_cast<const char*>(value.data()),
                     static_cast<size_t>(value.size_bytes()));
  out_.graph.AddGuard(std::move(guard));
  return absl::OkStatus();
}

absl::Status Importer::AddOutputs() {
  std::set<std::string> seen;
  if (model_.graph().output_size() == 0)
    return absl::InvalidArgumentError("the graph has no outputs");
  for (const ValueInfoProto& output : model_.graph().output()) {
    const std::string subject = absl::StrCat("output ", Quoted(output.name()));
    if (!seen.insert(output.name()).second)
      return absl::InvalidArgumentError(absl::StrCat(subject, ": is listed twice"));
    const auto slot = main_.slots.find(output.name());
    if (slot == main_.slots.end())
      return absl::InvalidArgumentError(absl::StrCat(subject, ": no node makes it"));
    const ValueId id = slot->second.id;
    const absl::StatusOr<DType> declared = ToDType(output.type().tensor_type().elem_type());
    if (declared.ok())
      out_.declared_outputs.push_back({output.name(), *declared,
                                       output.type().tensor_type().has_shape()
                                           ? std::optional(DeclaredShape(output))
                                           : std::nullopt});
    else if (out_.undeclared_output.empty())
      out_.undeclared_output = output.name();
    if (slot->second.kind != Slot::Kind::kTensor) {
      if (!options_.allow_unsupported)
        return absl::UnimplementedError(absl::StrCat(subject, ": is a sequence or optional"));
      out_.unsupported.push_back({output.name(), "output", 0, "is a sequence or optional"});
      continue;
    }
    if (!id.valid()) {
      if (options_.allow_unsupported || !out_.unsupported.empty()) continue;
      return absl::UnimplementedError(absl::StrCat(subject, ": ", slot->second.reason));
    }
    if (output.type().has_tensor_type()) {
      const DType inferred = out_.graph.value(id).type;
      if (output.type().tensor_type().has_elem_type() &&
          (!declared.ok() || *declared != inferred)) {
        return absl::InvalidArgumentError(absl::StrCat(
            subject, ": is declared as ", declared.ok() ? Name(*declared) : "another type",
            ", but its node makes ", Name(inferred)));
      }
    }
    WarnOfShape(output, out_.graph.value(id).shape);
    out_.graph.AddOutput(id, output.name());
  }
  return absl::OkStatus();
}

// A model may declare other extents than its nodes make; like other runtimes, Kiln gives what the
// nodes make. Names of dims are no claims.
void Importer::WarnOfShape(const ValueInfoProto& output, const Shape& made) const {
  const TensorShapeProto& declared = output.type().tensor_type().shape();
  if (!output.type().tensor_type().has_shape()) return;
  bool same = declared.dim_size() == static_cast<int>(made.size());
  for (int i = 0; same && i < declared.dim_size(); ++i) {
    const std::optional<int64_t> extent = made[static_cast<size_t>(i)].constant();
    const bool number = declared.dim(i).has_dim_value() && declared.dim(i).dim_value() >= 0;
    same = !number || !extent || *extent == declared.dim(i).dim_value();
  }
  if (same) return;
  std::vector<std::string> dims;
  for (const TensorShapeProto::Dimension& dim : declared.dim())
    dims.push_back(dim.has_dim_value() ? absl::StrCat(dim.dim_value()) : dim.dim_param());
  LogWarning("model output ", Quoted(output.name()), ": is declared as [",
             absl::StrJoin(dims, ", "), "], but its node makes ", ToString(made),
             "; that is what a run gives");
}

absl::Status Importer::UnsupportedError() const {
  const auto describe = [](std::string* text, const UnsupportedNode& node) {
    absl::StrAppend(text, "node ", Quoted(node.node), " (", node.op, ", opset ", node.opset, ")",
                    node.reason.empty() ? "" : ": ", node.reason);
  };
  return absl::UnimplementedError(
      absl::StrCat(out_.unsupported.size(), " of ", model_.graph().node_size(),
                   " nodes not supported: ", absl::StrJoin(out_.unsupported, "; ", describe)));
}

absl::StatusOr<OnnxImport> Importer::Run() {
  if (!model_.has_graph())
    return absl::InvalidArgumentError("the model has no graph; is it an ONNX file?");
  KILN_RETURN_IF_ERROR(ReadHeader());
  KILN_RETURN_IF_ERROR(CheckFunctions());
  read_ = ReadNames(model_);
  KILN_RETURN_IF_ERROR(AddInitializers(main_, model_.graph()));
  KILN_RETURN_IF_ERROR(AddInputs());
  KILN_RETURN_IF_ERROR(AddNodes(main_, model_.graph().node()));
  KILN_RETURN_IF_ERROR(AddOutputs());
  if (!out_.unsupported.empty() && !options_.allow_unsupported) return UnsupportedError();
  // Operands that became attributes have no use any more.
  if (out_.unsupported.empty()) out_.graph.RemoveDead();
  return std::move(out_);
}

namespace {

// A model that lies in memory, with the folder of its external files.
struct Source {
  absl::string_view bytes;
  std::shared_ptr<void> owner;
  std::string folder;
  std::map<std::string, std::shared_ptr<MappedFile>> external = {};  // mapped already
};

absl::StatusOr<OnnxImport> Import(const Source& from, const OnnxImportOptions& options);

// Imports the same bytes for other shapes, whatever has come in the place of the files. The model
// keeps its memory, so that constants that lie in the file stay where they are.
Graph::Maker MakerOf(const Source& from, OnnxImportOptions options,
                     const std::vector<std::string>& inputs) {
  options.allow_unsupported = false;
  return [from, options, inputs](const std::vector<Shape>& shapes) -> absl::StatusOr<Graph> {
    OnnxImportOptions own = options;
    for (size_t k = 0; k < inputs.size() && k < shapes.size(); ++k)
      own.input_shapes.insert_or_assign(inputs[k], shapes[k]);
    KILN_ASSIGN_OR_RETURN(OnnxImport import, Import(from, own));
    return std::move(import.graph);
  };
}

absl::StatusOr<OnnxImport> Import(const Source& from, const OnnxImportOptions& options) {
  const absl::string_view bytes = from.bytes;
  ExternalFiles external(from.folder, options.external_links, from.external);
  ModelProto model;
  {
    KILN_ASSIGN_OR_RETURN(const std::string skeleton, Skeleton(bytes, Root::kModel));
    KILN_RETURN_IF_ERROR(Parse(skeleton, model));
  }
  std::vector<TensorOrigin> origins;
  TensorSource source{.bytes = bytes,
                      .owner = from.owner,
                      .external = &external,
                      .max_bytes = options.max_total_bytes,
                      .origins = &origins};
  absl::StatusOr<OnnxImport> import = Importer(model, options, source).Run();
  if (!import.ok()) return import;
  import->origins = std::move(origins);
  import->external = external.files();
  import->tensor_bytes = source.taken;
  std::vector<std::string> inputs;
  bool open = false;
  for (const ValueId id : import->graph.inputs()) {
    inputs.push_back(import->graph.value(id).name);
    open = open || !kiln::Constant(import->graph.value(id).shape);
  }
  if (!open) return import;
  Source same = from;
  same.external = import->external;
  import->graph.maker = std::make_shared<const Graph::Maker>(MakerOf(same, options, inputs));
  return import;
}

void AddLocation(const TensorProto& tensor, std::set<std::string>& locations) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return;
  for (const StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") locations.insert(entry.value());
  }
}

void AddLocations(const GraphProto& graph, std::set<std::string>& locations);

template <typename Nodes>
void AddNodeLocations(const Nodes& nodes, std::set<std::string>& locations) {
  for (const NodeProto& node : nodes) {
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.has_t()) AddLocation(attribute.t(), locations);
      for (const TensorProto& tensor : attribute.tensors()) AddLocation(tensor, locations);
      if (attribute.has_g()) AddLocations(attribute.g(), locations);
      for (const GraphProto& inner : attribute.graphs()) AddLocations(inner, locations);
    }
  }
}

void AddLocations(const GraphProto& graph, std::set<std::string>& locations) {
  for (const TensorProto& tensor : graph.initializer()) AddLocation(tensor, locations);
  AddNodeLocations(graph.node(), locations);
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace
}  // namespace onnx

namespace {

// What is at `path`, or in memory in its place.
absl::StatusOr<onnx::ModelMemory> OpenModel(absl::string_view path,
                                            const OnnxImportOptions& options) {
  if (options.memory != nullptr) return *options.memory;
  const std::string name(path);
  absl::StatusOr<std::shared_ptr<onnx::MappedFile>> file =
      onnx::MappedFile::Open(name, onnx::kMaxFileBytes);
  if (!file.ok()) return Annotate(file.status(), "importing");
  return onnx::ModelMemory{*std::move(file), onnx::FolderOf(name), {}};
}

}  // namespace

absl::StatusOr<OnnxImport> ImportOnnx(absl::string_view path, const OnnxImportOptions& options) {
  return CatchExceptions("importing", [&]() -> absl::StatusOr<OnnxImport> {
    const std::string context = absl::StrCat("importing ", onnx::Quoted(path));
    KILN_ASSIGN_OR_RETURN(const onnx::ModelMemory model, OpenModel(path, options));
    absl::StatusOr<OnnxImport> import =
        onnx::Import({model.file->bytes(), model.file, model.folder, model.external}, options);
    if (!import.ok()) return Annotate(import.status(), context);
    import->file = model.file;
    return import;
  });
}

absl::StatusOr<std::vector<Tensor>> ReadUpdatable(absl::string_view path,
                                                  const OnnxImportOptions& options) {
  return CatchExceptions("importing", [&]() -> absl::StatusOr<std::vector<Tensor>> {
    KILN_ASSIGN_OR_RETURN(const onnx::ModelMemory memory, OpenModel(path, options));
    onnx::ModelProto model;
    KILN_ASSIGN_OR_RETURN(const std::string skeleton,
                          onnx::Skeleton(memory.file->bytes(), onnx::Root::kModel));
    KILN_RETURN_IF_ERROR(onnx::Parse(skeleton, model));
    onnx::ExternalFiles external(memory.folder, options.external_links, memory.external);
    onnx::TensorSource source{.bytes = memory.file->bytes(),
                              .owner = memory.file,
                              .external = &external,
                              .max_bytes = options.max_total_bytes};
    std::vector<Tensor> values;
    for (const std::string& name : options.updatable) {
      KILN_ASSIGN_OR_RETURN(values.emplace_back(), onnx::UpdatableTensor(model, name, source));
    }
    return values;
  });
}

namespace {

bool LacksOperator(const OnnxImport& import) {
  return std::any_of(import.unsupported.begin(), import.unsupported.end(),
                     [](const UnsupportedNode& node) { return node.reason.empty(); });
}

bool MayNeedValues(const OnnxImport& import) {
  return !LacksOperator(import) &&
         std::any_of(import.unsupported.begin(), import.unsupported.end(),
                     [](const UnsupportedNode& node) { return node.needs_values; });
}

// Enters shapes without open extents for inputs that have some, where shape_of(input) is one;
// whether there was any.
template <typename ShapeOf>
bool CloseShapes(const Graph& graph, const ShapeOf& shape_of, OnnxImportOptions& options) {
  bool any = false;
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (Constant(input.shape)) continue;
    std::optional<Shape> shape = shape_of(input);
    if (!shape) continue;
    options.input_shapes.insert_or_assign(input.name, *std::move(shape));
    any = true;
  }
  return any;
}

// That of the tensor for an input, if there is one of its rank.
std::optional<Shape> InputShape(const std::map<std::string, Tensor>& tensors, const Value& input) {
  const auto found = tensors.find(input.name);
  if (found == tensors.end() || found->second.shape().size() != input.shape.size())
    return std::nullopt;
  Shape shape;
  for (const int64_t extent : found->second.shape()) shape.push_back(Dim(extent));
  return shape;
}

}  // namespace

bool MayNeedInputs(absl::string_view path, const OnnxImport& import,
                   const OnnxImportOptions& options) {
  if (MayNeedValues(import)) return true;
  if (import.unsupported.empty() || LacksOperator(import)) return false;
  const auto open = [](const UnsupportedNode& node) { return node.needs_extents; };
  if (std::any_of(import.unsupported.begin(), import.unsupported.end(), open)) return true;
  // Any extents tell whether open ones are what is in the way, if the model takes them.
  bool told = false;
  for (const int64_t extent : {64, 512, 4096, 1}) {
    OnnxImportOptions closed = options;
    closed.allow_unsupported = true;
    const auto shape_of = [&](const Value& input) {
      Shape shape = input.shape;
      for (Dim& dim : shape) dim = dim.constant() ? dim : Dim(extent);
      return std::optional(shape);
    };
    if (!CloseShapes(import.graph, shape_of, closed)) return false;
    const absl::StatusOr<OnnxImport> tried = ImportOnnx(path, closed);
    if (tried.ok() && (tried->unsupported.empty() || MayNeedValues(*tried))) return true;
    told = told || tried.ok();
  }
  // Extents that do not go together tell nothing.
  return !told;
}

absl::StatusOr<OnnxImport> ImportOnnxFor(absl::string_view path,
                                         const std::map<std::string, Tensor>& inputs,
                                         OnnxImportOptions options) {
  return CatchExceptions("importing", [&]() -> absl::StatusOr<OnnxImport> {
    const bool allowed = std::exchange(options.allow_unsupported, true);
    while (true) {
      KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, options));
      const size_t known = options.input_values.size();
      std::string lacking;
      for (const std::string& name : import.value_inputs) {
        const auto given = inputs.find(name);
        if (given != inputs.end() && given->second.data() != nullptr) {
          options.input_values.insert(*given);
        } else {
          lacking = name;
        }
      }
      if (options.input_values.size() > known) continue;  // what comes behind may need more of them
      if (import.unsupported.empty()) return import;
      if (!lacking.empty() && !allowed) {
        return absl::UnimplementedError(
            absl::StrCat("input ", onnx::Quoted(lacking),
                         ": the model's structure depends on its value, which is not given; give "
                         "it with --input ",
                         lacking, "=@FILE.npy"));
      }
      const auto shape_of = [&](const Value& input) { return InputShape(inputs, input); };
      if (CloseShapes(import.graph, shape_of, options)) continue;
      if (allowed) return import;
      options.allow_unsupported = false;  // for the error
      return ImportOnnx(path, options);
    }
  });
}

absl::StatusOr<OnnxImport> ImportOnnxBytes(absl::string_view bytes, std::shared_ptr<void> owner,
                                           const OnnxImportOptions& options) {
  return CatchExceptions("importing", [&]() -> absl::StatusOr<OnnxImport> {
    return onnx::Import({bytes, std::move(owner), ""}, options);
  });
}

absl::StatusOr<std::vector<std::string>> ExternalLocations(absl::string_view bytes) {
  return CatchExceptions("importing", [&]() -> absl::StatusOr<std::vector<std::string>> {
    onnx::ModelProto model;
    KILN_ASSIGN_OR_RETURN(const std::string skeleton, onnx::Skeleton(bytes, onnx::Root::kModel));
    KILN_RETURN_IF_ERROR(onnx::Parse(skeleton, model));
    std::set<std::string> locations;
    onnx::AddLocations(model.graph(), locations);
    for (const onnx::FunctionProto& function : model.functions())
      onnx::AddNodeLocations(function.node(), locations);
    return std::vector<std::string>(locations.begin(), locations.end());
  });
}

absl::StatusOr<std::vector<UnsupportedNode>> ListUnsupported(absl::string_view path) {
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, {.allow_unsupported = true}));
  return std::move(import.unsupported);
}

}  // namespace kiln
