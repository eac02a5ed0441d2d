// SPDX-License-Identifier: Apache-2.0
#include "kiln/graph/onnx/import.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "kiln/base/status.h"
#include "kiln/base/status_macros.h"
#include "kiln/graph/needed_value.h"
#include "kiln/graph/onnx/constant_value.h"
#include "kiln/graph/onnx/converter.h"
#include "kiln/graph/onnx/mapped_file.h"
#include "kiln/graph/onnx/node_view.h"
#include "kiln/graph/onnx/onnx.pb.h"
#include "kiln/graph/onnx/symbols.h"
#include "kiln/graph/onnx/tensor_proto.h"
#include "kiln/graph/onnx/wire.h"
#include "kiln/graph/op.h"

namespace kiln {
namespace onnx {
namespace {

constexpr int kMaxOperands = 16;  // of one node that tell its structure

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\"");
}

// What a name in the model stands for.
struct Slot {
  ValueId id;          // invalid: there is no value, because
  std::string reason;  // this tensor or input is not supported; empty: because a node before is not
};

class Importer {
 public:
  Importer(const ModelProto& model, const OnnxImportOptions& options, TensorSource& source)
      : model_(model), options_(options), source_(source) {}

  absl::StatusOr<OnnxImport> Run();

 private:
  absl::Status ReadHeader();
  absl::Status AddInitializers();
  absl::Status AddInputs();
  absl::Status AddNode(const NodeProto& node);
  absl::Status AddOutputs();

  absl::Status AddInput(const ValueInfoProto& input);
  Shape InputShape(const ValueInfoProto& input);
  absl::Status AssumeValue(const std::string& name, const Tensor& value);
  absl::StatusOr<std::vector<ValueId>> Resolve(const NodeProto& node, bool& missing,
                                               std::string& reason) const;
  ValueId Find(const std::string& value) const;
  bool SettleNeeded(const absl::Status& status, std::vector<ValueId>& inputs);
  bool NoteNeeded(const std::string& value);
  absl::Status Convert(const Converter& converter, const NodeProto& node,
                       std::vector<ValueId> inputs, std::vector<ValueId>& outputs);
  absl::Status Define(const std::string& name, Slot slot);
  int64_t OpsetOf(const NodeProto& node) const;
  absl::Status UnsupportedError() const;

  const ModelProto& model_;
  const OnnxImportOptions& options_;
  TensorSource& source_;
  OnnxImport out_;
  Symbols symbols_;
  std::unordered_map<std::string, Slot> slots_;
};

std::string DomainOf(absl::string_view domain) {
  return domain == "ai.onnx" ? "" : std::string(domain);
}

std::string OperatorOf(const NodeProto& node) {
  const std::string domain = DomainOf(node.domain());
  return absl::Utf8SafeCEscape(domain.empty() ? node.op_type()
                                              : absl::StrCat(domain, ".", node.op_type()));
}

std::string Subject(const NodeProto& node) {
  return absl::StrCat("node ", Quoted(NameOf(node)), " (", OperatorOf(node), ")");
}

absl::Status Importer::ReadHeader() {
  out_.ir_version = model_.ir_version();
  out_.producer = absl::StrCat(model_.producer_name(), model_.producer_version().empty() ? "" : " ",
                               model_.producer_version());
  for (const OperatorSetIdProto& import : model_.opset_import()) {
    if (!out_.opsets.emplace(DomainOf(import.domain()), import.version()).second) {
      return absl::InvalidArgumentError(absl::StrCat("opset_import: domain ",
                                                     Quoted(import.domain()),
                                                     " is imported twice; keep one version"));
    }
  }
  for (const StringStringEntryProto& entry : model_.metadata_props())
    out_.metadata[entry.key()] = entry.value();
  out_.graph.name = model_.graph().name();
  return absl::OkStatus();
}

absl::Status Importer::Define(const std::string& name, Slot slot) {
  if (slots_.emplace(name, std::move(slot)).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("value ", Quoted(name), ": is defined twice; names must be unique in a graph"));
}

absl::Status Importer::AddInitializers() {
  for (const TensorProto& proto : model_.graph().initializer()) {
    const std::string subject = absl::StrCat("initializer ", Quoted(proto.name()));
    if (proto.name().empty()) return absl::InvalidArgumentError("initializer \"\": has no name");
    if (slots_.contains(proto.name())) {
      return absl::InvalidArgumentError(
          absl::StrCat(subject, ": is defined twice; names must be unique in a graph"));
    }
    absl::StatusOr<Tensor> tensor = ToTensor(proto, source_);
    Slot slot;
    if (tensor.ok()) {
      slot.id = out_.graph.AddConstant(proto.name(), *std::move(tensor));
    } else if (absl::IsUnimplemented(tensor.status())) {
      slot.reason = absl::StrCat(subject, ": ", tensor.status().message());
    } else {
      return Annotate(tensor.status(), subject);
    }
    KILN_RETURN_IF_ERROR(Define(proto.name(), std::move(slot)));
  }
  for (const SparseTensorProto& proto : model_.graph().sparse_initializer()) {
    const std::string& name = proto.values().name();
    KILN_RETURN_IF_ERROR(Define(
        name,
        {{}, absl::StrCat("initializer ", Quoted(name), ": sparse tensors are not supported")}));
  }
  return absl::OkStatus();
}

Shape Importer::InputShape(const ValueInfoProto& input) {
  Shape shape;
  for (const TensorShapeProto::Dimension& dim : input.type().tensor_type().shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      shape.push_back(dim.dim_value());
    } else if (Symbols::IsNoName(dim.dim_param())) {
      shape.push_back(symbols_.Fresh(absl::StrCat(input.name(), "_dim", shape.size())));
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
  Shape shape = given != options_.input_shapes.end() ? given->second : InputShape(input);
  return Define(input.name(), {out_.graph.AddInput(input.name(), dtype, std::move(shape)), ""});
}

absl::Status Importer::AddInputs() {
  std::set<std::string> seen;
  for (const ValueInfoProto& input : model_.graph().input()) {
    if (!seen.insert(input.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("input ", Quoted(input.name()), ": is listed twice"));
    }
    if (slots_.contains(input.name())) continue;  // an initializer: a constant
    const absl::Status status =
        Annotate(AddInput(input), absl::StrCat("input ", Quoted(input.name())));
    if (absl::IsUnimplemented(status) && options_.allow_unsupported) {
      KILN_RETURN_IF_ERROR(Define(input.name(), {{}, std::string(status.message())}));
    } else {
      KILN_RETURN_IF_ERROR(status);
    }
  }
  for (const auto& [name, shape] : options_.input_shapes) {
    if (!seen.contains(name)) {
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
  const auto slot = slots_.find(name);
  const std::vector<ValueId>& inputs = out_.graph.inputs();
  if (slot == slots_.end() ||
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

int64_t Importer::OpsetOf(const NodeProto& node) const {
  const auto found = out_.opsets.find(DomainOf(node.domain()));
  return found == out_.opsets.end() ? 0 : found->second;
}

// The inputs' ids. `missing` where one has no value, with the reason if that is the input's own
// fault.
absl::StatusOr<std::vector<ValueId>> Importer::Resolve(const NodeProto& node, bool& missing,
                                                       std::string& reason) const {
  std::vector<ValueId> ids;
  for (const std::string& name : node.input()) {
    if (name.empty()) {
      ids.push_back({});
      continue;
    }
    const auto slot = slots_.find(name);
    if (slot == slots_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input ", Quoted(name), " is no graph input, no initializer and no output of an ",
          "earlier node; nodes must be in topological order"));
    }
    ids.push_back(slot->second.id);
    if (!slot->second.id.valid()) {
      missing = true;
      if (reason.empty()) reason = slot->second.reason;
    }
  }
  return ids;
}

absl::Status CheckAttributes(const NodeProto& node) {
  std::set<absl::string_view> seen;
  for (const AttributeProto& attribute : node.attribute()) {
    if (!seen.insert(attribute.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute ", Quoted(attribute.name()), " is given twice"));
    }
    if (!attribute.ref_attr_name().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("attribute ", Quoted(attribute.name()),
                       " refers to one of a function, but the node is in no function"));
    }
  }
  return absl::OkStatus();
}

absl::Status Importer::Convert(const Converter& converter, const NodeProto& node,
                               std::vector<ValueId> inputs, std::vector<ValueId>& outputs) {
  NodeView view(node, OpsetOf(node), converter.record, std::move(inputs), out_.graph, source_);
  if (OpsetOf(node) < kOldestOpset) view.Ignore("consumed_inputs");  // tells of memory only
  KILN_RETURN_IF_ERROR(converter.convert(view));
  KILN_RETURN_IF_ERROR(view.status());
  if (const std::string unread = view.UnreadAttr(); !unread.empty()) {
    return absl::UnimplementedError(absl::StrCat("attribute ", Quoted(unread), " is not known"));
  }
  outputs = view.outputs();
  for (int k = 0; k < node.output_size(); ++k) {
    if (!node.output(k).empty() && !outputs[static_cast<size_t>(k)].valid()) {
      return absl::UnimplementedError(absl::StrCat("output ", k, " is not supported"));
    }
  }
  return absl::OkStatus();
}

// Inference names the node as well: `node "a" (reshape): why` is only why, behind our own subject.
std::string Reason(const absl::Status& status, const NodeProto& node) {
  absl::string_view text = status.message();
  if (absl::ConsumePrefix(&text, absl::StrCat("node \"", NameOf(node), "\" ("))) {
    const size_t end = text.find("): ");
    if (end != absl::string_view::npos) return std::string(text.substr(end + 3));
    text = status.message();
  }
  return std::string(text);
}

ValueId Importer::Find(const std::string& value) const {
  const std::vector<Value>& values = out_.graph.values();
  const auto named =
      std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.name == value; });
  return ValueId{named == values.end() ? -1 : static_cast<int32_t>(named - values.begin())};
}

// If `status` asks for the value of an input that constants decide: puts a constant in its place
// and tells so.
bool Importer::SettleNeeded(const absl::Status& status, std::vector<ValueId>& inputs) {
  const std::optional<std::string> name = NeededValue(status);
  if (!name) return false;
  const auto input = std::find(inputs.begin(), inputs.end(), Find(*name));
  if (input == inputs.end() || !input->valid()) return false;
  std::optional<Tensor> value = ConstantValue(out_.graph, *input);
  if (!value) return false;
  *input = out_.graph.AddConstant(*name, *std::move(value));
  return true;
}

// Adds the graph inputs that the value called `value` is made of to value_inputs; false, adding
// none, if one of them is larger than an operand that describes a structure.
bool Importer::NoteNeeded(const std::string& value) {
  const Graph& graph = out_.graph;
  std::vector<ValueId> work = {Find(value)};
  std::set<ValueId> seen;
  std::set<std::string> sources;
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    if (!id.valid() || !seen.insert(id).second) continue;
    const Value& v = graph.value(id);
    if (v.constant || ContentOf(v)) continue;
    if (v.producer.v >= 0) {
      const std::vector<ValueId>& inputs = graph.node(v.producer).inputs;
      work.insert(work.end(), inputs.begin(), inputs.end());
    } else {
      if (v.shape.size() > 1) return false;
      sources.insert(v.name);
    }
  }
  const std::vector<std::string> known = out_.value_inputs;
  for (const std::string& name : sources) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      out_.value_inputs.push_back(name);
  }
  return !sources.empty();
}

absl::Status Importer::AddNode(const NodeProto& node) {
  bool missing = false;
  bool needs_values = false;
  std::string reason;
  KILN_ASSIGN_OR_RETURN(std::vector<ValueId> inputs, Resolve(node, missing, reason));
  KILN_RETURN_IF_ERROR(CheckAttributes(node));

  const int64_t opset = OpsetOf(node);
  const bool own = DomainOf(node.domain()).empty();
  const Converter* converter =
      own ? FindConverter(node.op_type(), std::max<int64_t>(opset, kOldestOpset)) : nullptr;
  if (own && opset < 1) reason = "the model does not say which operator set it uses";
  bool supported = converter != nullptr && reason.empty();
  std::vector<ValueId> outputs(static_cast<size_t>(node.output_size()));
  if (supported && !missing) {
    absl::Status status = Convert(*converter, node, inputs, outputs);
    // Operands that follow from constants by a computation are computed, and the node tried again.
    for (int tries = 0; tries < kMaxOperands && SettleNeeded(status, inputs); ++tries)
      status = Convert(*converter, node, inputs, outputs);
    if (absl::IsUnimplemented(status)) {
      supported = false;
      reason = Reason(status, node);
      const std::optional<std::string> value = NeededValue(status);
      needs_values = value && NoteNeeded(*value);
      outputs.assign(outputs.size(), {});
    } else if (!status.ok()) {
      return absl::Status(status.code(), Reason(status, node));
    }
  }
  if (!supported)
    out_.unsupported.push_back({NameOf(node), OperatorOf(node), opset, reason, needs_values});
  for (int k = 0; k < node.output_size(); ++k) {
    if (!node.output(k).empty())
      KILN_RETURN_IF_ERROR(Define(node.output(k), {outputs[static_cast<size_t>(k)], ""}));
  }
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
    const auto slot = slots_.find(output.name());
    if (slot == slots_.end())
      return absl::InvalidArgumentError(absl::StrCat(subject, ": no node makes it"));
    const ValueId id = slot->second.id;
    const absl::StatusOr<DType> declared = ToDType(output.type().tensor_type().elem_type());
    if (declared.ok()) {
      out_.declared_outputs.push_back({output.name(), *declared, InputShape(output)});
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
    out_.graph.AddOutput(id, output.name());
  }
  return absl::OkStatus();
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
  KILN_RETURN_IF_ERROR(AddInitializers());
  KILN_RETURN_IF_ERROR(AddInputs());
  for (const NodeProto& node : model_.graph().node()) {
    KILN_RETURN_IF_ERROR(Annotate(AddNode(node), Subject(node)));
  }
  KILN_RETURN_IF_ERROR(AddOutputs());
  if (!out_.unsupported.empty() && !options_.allow_unsupported) return UnsupportedError();
  // Operands that became attributes have no use any more.
  if (out_.unsupported.empty()) out_.graph.RemoveDead();
  return std::move(out_);
}

absl::StatusOr<OnnxImport> Import(absl::string_view bytes, std::shared_ptr<void> owner,
                                  ExternalFiles& external, const OnnxImportOptions& options) {
  ModelProto model;
  {
    KILN_ASSIGN_OR_RETURN(const std::string skeleton, Skeleton(bytes, Root::kModel));
    KILN_RETURN_IF_ERROR(Parse(skeleton, model));
  }
  TensorSource source{.bytes = bytes,
                      .owner = std::move(owner),
                      .external = &external,
                      .budget = options.max_total_bytes};
  return Importer(model, options, source).Run();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace
}  // namespace onnx

absl::StatusOr<OnnxImport> ImportOnnx(absl::string_view path, const OnnxImportOptions& options) {
  const std::string name(path);
  const std::string context = absl::StrCat("importing ", onnx::Quoted(path));
  const absl::StatusOr<std::shared_ptr<onnx::MappedFile>> file =
      onnx::MappedFile::Open(name, onnx::kMaxFileBytes);
  if (!file.ok()) return Annotate(file.status(), "importing");
  onnx::ExternalFiles external(onnx::FolderOf(name));
  absl::StatusOr<OnnxImport> import = onnx::Import((*file)->bytes(), *file, external, options);
  if (!import.ok()) return Annotate(import.status(), context);
  return import;
}

absl::StatusOr<OnnxImport> ImportOnnxFor(absl::string_view path,
                                         const std::map<std::string, Tensor>& inputs,
                                         OnnxImportOptions options) {
  const bool allowed = std::exchange(options.allow_unsupported, true);
  while (true) {
    KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, options));
    const size_t known = options.input_values.size();
    for (const std::string& name : import.value_inputs) {
      const auto given = inputs.find(name);
      if (given != inputs.end()) options.input_values.insert(*given);
    }
    if (options.input_values.size() > known) continue;  // what comes behind may need more of them
    if (allowed || import.unsupported.empty()) return import;
    options.allow_unsupported = false;  // for the error
    return ImportOnnx(path, options);
  }
}

absl::StatusOr<OnnxImport> ImportOnnxBytes(absl::string_view bytes, std::shared_ptr<void> owner,
                                           const OnnxImportOptions& options) {
  onnx::ExternalFiles external("");
  return onnx::Import(bytes, std::move(owner), external, options);
}

absl::StatusOr<std::vector<UnsupportedNode>> ListUnsupported(absl::string_view path) {
  KILN_ASSIGN_OR_RETURN(OnnxImport import, ImportOnnx(path, {.allow_unsupported = true}));
  return std::move(import.unsupported);
}

}  // namespace kiln
