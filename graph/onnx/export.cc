// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/export.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/onnx/exporter.h"
#include "graph/onnx/limits.h"
#include "graph/op.h"
#include "graph/rebuild.h"
#include "kiln/graph.h"

namespace kiln {
namespace onnx {
namespace {

constexpr int64_t kIrVersion = 10;  // the first with metadata of functions
constexpr char kDomain[] = "kiln";
// Of nodes that wait for others: each waits once for each of its operands at most, unless they wait
// in a circle.
constexpr size_t kMaxWork = size_t{1} << 26;

class ModelWriter {
 public:
  ModelWriter(const Graph& graph, const std::vector<OnnxFunction>& functions)
      : graph_(graph),
        functions_(functions),
        scope_(graph, nullptr, names_, model_.mutable_graph()),
        function_of_(graph.nodes().size(), -1),
        written_(graph.nodes().size(), false) {
    // Only those that hand a value on: others are asked of no function, and may be in several.
    for (size_t f = 0; f < functions.size(); ++f) {
      for (const ValueId id : functions[f].outputs)
        function_of_[static_cast<size_t>(graph.value(id).producer.v)] = static_cast<int>(f);
    }
  }

  absl::StatusOr<std::string> Write(const ModelNotes& notes) {
    model_.set_ir_version(kIrVersion);
    model_.set_producer_name("kiln");
    WriteNotes(notes);
    AddOpset(model_.add_opset_import(), "", kWrittenOpset);
    if (!functions_.empty()) AddOpset(model_.add_opset_import(), kDomain, 1);
    model_.mutable_graph()->set_name(graph_.name.empty() ? "graph" : graph_.name);
    NamePorts();
    for (const Graph::Output& output : graph_.outputs()) {
      const NodeId producer = graph_.value(output.value).producer;
      if (producer.v >= 0) KILN_RETURN_IF_ERROR(Reach(producer));
    }
    WriteOutputs();
    const size_t bytes = model_.ByteSizeLong();
    if (bytes > static_cast<size_t>(kMaxFileBytes)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the model has ", bytes, " bytes; an ONNX file has at most ", kMaxFileBytes));
    }
    return model_.SerializeAsString();
  }

 private:
  void WriteNotes(const ModelNotes& notes) {
    if (notes.model_version != 0) model_.set_model_version(notes.model_version);
    const auto add = [&](const std::string& key, const std::string& value) {
      StringStringEntryProto* const entry = model_.add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    };
    if (!notes.user_info.empty()) add("user_info", notes.user_info);
    for (const auto& [key, value] : notes.metadata) add(key, value);
  }

  static void AddOpset(OperatorSetIdProto* proto, const std::string& domain, int64_t version) {
    proto->set_domain(domain);
    proto->set_version(version);
  }

  // Ports have the names that the user knows. A value that is an output, and no port or constant
  // otherwise, has the output's name.
  void NamePorts() {
    for (const ValueId id : graph_.inputs()) {
      const std::string name = names_.Fresh(graph_.value(id).name);
      scope_.SetName(id, name);
      FillPort(graph_.value(id), name, model_.mutable_graph()->add_input());
    }
    std::set<ValueId> named;
    for (const Graph::Output& output : graph_.outputs()) {
      const std::string name = names_.Fresh(output.name);
      output_names_.push_back(name);
      if (graph_.value(output.value).producer.v >= 0 && named.insert(output.value).second)
        scope_.SetName(output.value, name);
    }
  }

  void WriteOutputs() {
    for (size_t k = 0; k < graph_.outputs().size(); ++k) {
      const ValueId id = graph_.outputs()[k].value;
      const std::string name = scope_.NameOf(id);
      if (name != output_names_[k]) scope_.Add("Identity", {name}, {}, {output_names_[k]});
      FillPort(graph_.value(id), output_names_[k], model_.mutable_graph()->add_output());
    }
  }

  // Writes what the node needs, then the node or its function. A list of its own in place of the
  // call stack: chains are long.
  absl::Status Reach(NodeId goal) {
    std::vector<NodeId> work = {goal};
    while (!work.empty()) {
      const NodeId id = work.back();
      const auto at = static_cast<size_t>(id.v);
      if (written_[at]) {
        work.pop_back();
        continue;
      }
      const size_t before = work.size();
      const int f = function_of_[at];
      const OnnxFunction* const function = f < 0 ? nullptr : &functions_[static_cast<size_t>(f)];
      for (const NodeId member : function != nullptr ? Members(*function) : std::vector{id})
        AddMissing(graph_.node(member), function, work);
      if (work.size() > before) {
        if (work.size() > kMaxWork)
          return absl::InvalidArgumentError("functions: they need each other in a circle");
        continue;
      }
      work.pop_back();
      if (function != nullptr) {
        KILN_RETURN_IF_ERROR(WriteFunction(*function));
      } else {
        written_[at] = true;
        KILN_RETURN_IF_ERROR(WriteNode(scope_, graph_.node(id)));
      }
    }
    return absl::OkStatus();
  }

  static std::vector<NodeId> Members(const OnnxFunction& function) {
    std::vector<NodeId> members = function.nodes;
    members.insert(members.end(), function.copies.begin(), function.copies.end());
    std::sort(members.begin(), members.end());
    return members;
  }

  // Producers that stand outside of the function and are not written yet.
  void AddMissing(const Node& node, const OnnxFunction* function, std::vector<NodeId>& work) const {
    const auto inside = [&](const std::vector<NodeId>& list, NodeId id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    for (const ValueId input : node.inputs) {
      if (!input.valid()) continue;
      const NodeId producer = graph_.value(input).producer;
      if (producer.v < 0 || written_[static_cast<size_t>(producer.v)]) continue;
      if (function != nullptr &&
          (inside(function->nodes, producer) || inside(function->copies, producer)))
        continue;
      work.push_back(producer);
    }
  }

  absl::Status WriteFunction(const OnnxFunction& function) {
    FunctionProto* const proto = model_.add_functions();
    proto->set_name(function.name);
    proto->set_domain(kDomain);
    AddOpset(proto->add_opset_import(), "", kWrittenOpset);
    for (const auto& [key, value] : function.metadata) {
      StringStringEntryProto* const entry = proto->add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    }
    scope_.set_list(proto->mutable_node());
    for (const NodeId id : Members(function))
      KILN_RETURN_IF_ERROR(WriteNode(scope_, graph_.node(id)));
    for (const ValueId id : function.outputs)
      written_[static_cast<size_t>(graph_.value(id).producer.v)] = true;
    scope_.set_list(model_.mutable_graph()->mutable_node());
    NodeProto* const call = scope_.list()->Add();
    call->set_name(function.name);
    call->set_op_type(function.name);
    call->set_domain(kDomain);
    std::set<std::string> known;
    for (const NodeProto& node : proto->node()) {
      for (const std::string& name : node.input()) {
        if (name.empty() || !known.insert(name).second) continue;
        proto->add_input(name);
        call->add_input(name);
      }
      known.insert(node.output().begin(), node.output().end());
    }
    for (const ValueId id : function.outputs) {
      proto->add_output(scope_.NameOf(id));
      call->add_output(scope_.NameOf(id));
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const std::vector<OnnxFunction>& functions_;
  ModelProto model_;
  ExportNames names_;
  ExportScope scope_;
  std::vector<int> function_of_;
  std::vector<bool> written_;
  std::vector<std::string> output_names_;
};

}  // namespace

void FillPort(const Value& value, const std::string& name, ValueInfoProto* proto) {
  proto->set_name(name);
  TypeProto::Tensor* const type = proto->mutable_type()->mutable_tensor_type();
  type->set_elem_type(ToOnnxType(value.type));
  TensorShapeProto* const shape = type->mutable_shape();
  for (const Dim& dim : value.shape) {
    TensorShapeProto::Dimension* const extent = shape->add_dim();
    if (const auto number = dim.constant()) {
      extent->set_dim_value(*number);
    } else if (const std::string symbol = SymbolOf(dim); !symbol.empty()) {
      extent->set_dim_param(symbol);
    }
  }
}

namespace {

// ONNX has no such operator, and there are nodes that say the same.
bool IsBackward(const Node& node) {
  return node.op->kind == OpKind::kLibrary && node.op->by_kernels != nullptr &&
         OnnxNames(*node.op).empty();
}

// The graph with such nodes written in others; nothing if it has none.
absl::StatusOr<std::optional<Graph>> WithoutBackwardNodes(const Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), IsBackward)) return std::nullopt;
  Graph plain = graph;
  GraphBuilder builder(&plain);
  for (const Node& node : graph.nodes()) {
    if (!IsBackward(node)) continue;
    const absl::StatusOr<std::vector<ValueId>> said = node.op->by_kernels(builder, node);
    KILN_RETURN_IF_ERROR(
        Annotate(said.status(), absl::StrCat("node \"", node.name, "\" (", node.op->name, ")")));
    const std::vector<ValueId>& made = *said;
    for (size_t k = 0; k < made.size(); ++k) plain.ReplaceUses(node.outputs[k], made[k]);
  }
  KILN_RETURN_IF_ERROR(builder.status());
  KILN_RETURN_IF_ERROR(plain.Sort());
  plain.RemoveDead();
  return plain;
}

}  // namespace
}  // namespace onnx

absl::StatusOr<std::string> ExportOnnx(const Graph& graph,
                                       const std::vector<OnnxFunction>& functions,
                                       const ModelNotes& notes) {
  KILN_ASSIGN_OR_RETURN(const std::optional<Graph> plain, onnx::WithoutBackwardNodes(graph));
  if (plain)
    return onnx::ModelWriter(*plain, {}).Write(notes);  // of other nodes than the functions
  return onnx::ModelWriter(graph, functions).Write(notes);
}

}  // namespace kiln
