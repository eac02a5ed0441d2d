// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <unordered_set>

#include "graph/onnx/importer.h"

namespace kiln::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

void AddRead(const Nodes& nodes, std::unordered_set<std::string>& read);

void AddRead(const GraphProto& graph, std::unordered_set<std::string>& read) {
  AddRead(graph.node(), read);
  for (const ValueInfoProto& output : graph.output()) read.insert(output.name());
}

void AddRead(const Nodes& nodes, std::unordered_set<std::string>& read) {
  for (const NodeProto& node : nodes) {
    read.insert(node.input().begin(), node.input().end());
    for (const AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) AddRead(attribute.g(), read);
      for (const GraphProto& inner : attribute.graphs()) AddRead(inner, read);
      if (node.op_type() != "Gradient") continue;  // whose attributes name tensors
      read.insert(attribute.s());
      read.insert(attribute.strings().begin(), attribute.strings().end());
    }
  }
}

}  // namespace

std::unordered_set<std::string> ReadNames(const ModelProto& model) {
  std::unordered_set<std::string> read;
  AddRead(model.graph(), read);
  for (const FunctionProto& function : model.functions()) {
    AddRead(function.node(), read);
    read.insert(function.output().begin(), function.output().end());
  }
  return read;
}

}  // namespace kiln::onnx
