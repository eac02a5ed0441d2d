// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate_model.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/operators.h"

namespace kiln {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::ValueInfoProto;

// Everything of one kind in a model, bodies included.
struct Parts {
  std::vector<GraphProto*> graphs;
  std::vector<NodeProto*> nodes;
  std::vector<ValueInfoProto*> ports;
  std::vector<TensorProto*> tensors;

  void AddNodes(google::protobuf::RepeatedPtrField<NodeProto>& list) {
    for (NodeProto& node : list) {
      nodes.push_back(&node);
      for (AttributeProto& a : *node.mutable_attribute()) {
        if (a.has_g()) Add(*a.mutable_g());
        if (a.has_t()) tensors.push_back(a.mutable_t());
      }
    }
  }
  void Add(GraphProto& graph) {
    graphs.push_back(&graph);
    for (ValueInfoProto& port : *graph.mutable_input()) ports.push_back(&port);
    for (TensorProto& tensor : *graph.mutable_initializer()) tensors.push_back(&tensor);
    AddNodes(*graph.mutable_node());
  }
};

Parts PartsOf(ModelProto& model) {
  Parts parts;
  parts.Add(*model.mutable_graph());
  for (onnx::FunctionProto& function : *model.mutable_functions())
    parts.AddNodes(*function.mutable_node());
  return parts;
}

// A name of the model, or a sequence of one.
std::string AnyName(ModelProto& model, Random& random) {
  GraphProto& graph = *model.mutable_graph();
  if (random.OneIn(2) || graph.input_size() == 0) return "";
  const std::string name = random.Of(graph.input()).name();
  if (random.OneIn(2)) return name;
  NodeProto node;
  node.set_op_type(random.OneIn(2) ? "SequenceConstruct" : "NonZero");
  node.add_input(name);
  node.add_output("made_" + std::to_string(random.Below(1 << 20)));
  const std::string made = node.output(0);
  *graph.add_node() = std::move(node);  // the new node comes first
  for (int k = graph.node_size() - 1; k > 0; --k) graph.mutable_node()->SwapElements(k, k - 1);
  return made;
}

void ChangeInputs(ModelProto& model, Random& random, Parts& parts, size_t node) {
  const std::string name = AnyName(model, random);
  parts = PartsOf(model);  // what was added may have moved them
  NodeProto& n = *parts.nodes[node % parts.nodes.size()];
  switch (random.Below(4)) {
    case 0:
      n.add_input(name);
      break;
    case 1:
      if (n.input_size() > 0) n.mutable_input()->RemoveLast();
      break;
    default:
      if (n.input_size() > 0)
        n.set_input(static_cast<int>(random.Below(static_cast<size_t>(n.input_size()))), name);
      break;
  }
}

void ChangeNumbers(AttributeProto& a, Random& random) {
  if (a.ints_size() > 0 && !random.OneIn(3)) {
    a.set_ints(static_cast<int>(random.Below(static_cast<size_t>(a.ints_size()))),
               random.Extreme());
  } else if (a.ints_size() > 0 || a.type() == AttributeProto::INTS) {
    const int64_t more = random.From({0, 1, 2, 7, 64, 2048});
    if (more == 0) a.clear_ints();
    for (int64_t k = 0; k < more; ++k) a.add_ints(random.OneIn(2) ? random.Extreme() : 1);
  } else if (a.type() == AttributeProto::FLOATS) {
    a.clear_floats();
    for (int64_t k = random.From({0, 1, 9, 600}); k > 0; --k)
      a.add_floats(static_cast<float>(random.Extreme()));
  } else if (a.type() == AttributeProto::FLOAT) {
    a.set_f(static_cast<float>(random.Extreme()));
  } else if (a.type() == AttributeProto::INT) {
    a.set_i(random.Extreme());
  } else {
    const std::string name = a.name();
    a = DrawAttribute(random, name, "ifsIFSt"[random.Below(7)]);
  }
}

void ChangeAttribute(NodeProto& node, Random& random) {
  if (node.attribute_size() == 0 || random.OneIn(8)) {
    const auto& [name, kind] = random.Of(AllAttributes());
    if (kind != 'g') *node.add_attribute() = DrawAttribute(random, name, kind);
    return;
  }
  const int at = static_cast<int>(random.Below(static_cast<size_t>(node.attribute_size())));
  AttributeProto& a = *node.mutable_attribute(at);
  if (random.OneIn(10)) {
    node.mutable_attribute()->DeleteSubrange(at, 1);
  } else if (random.OneIn(10)) {
    const std::string name = a.name();
    a = DrawAttribute(random, name, "ifsIFSt"[random.Below(7)]);
  } else if (a.type() != AttributeProto::GRAPH) {
    ChangeNumbers(a, random);
  }
}

void ChangePort(ValueInfoProto& port, Random& random) {
  auto& tensor = *port.mutable_type()->mutable_tensor_type();
  auto& dims = *tensor.mutable_shape()->mutable_dim();
  switch (random.Below(6)) {
    case 0:
      tensor.set_elem_type(static_cast<int>(random.Below(random.OneIn(4) ? 24 : 14)));
      break;
    case 1:
      if (dims.empty()) {
        dims.Add()->set_dim_value(random.From({0, 1, 2, INT64_C(1) << 39}));
      } else {
        dims.RemoveLast();
      }
      break;
    case 2:
      dims.Add()->set_dim_value(random.From({0, 1, 2, INT64_C(1) << 39}));
      break;
    case 3:
      if (random.OneIn(4)) tensor.clear_shape();
      break;
    default:
      if (dims.empty()) break;
      auto& dim = dims[static_cast<int>(random.Below(static_cast<size_t>(dims.size())))];
      if (random.OneIn(3)) {
        dim.set_dim_param(random.OneIn(2) ? "n" : "m");
      } else {
        dim.set_dim_value(random.OneIn(2) ? random.From({0, 1, 2, 3, 5, INT64_C(1) << 39})
                                          : random.Extreme());
      }
  }
}

void ChangeTensor(TensorProto& tensor, Random& random) {
  const std::string name = tensor.name();
  std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  switch (random.Below(4)) {
    case 0:
      tensor = DrawTensor(random, name, static_cast<int>(1 + random.Below(16)),
                          std::vector<int64_t>(random.Below(4), random.From({0, 1, 2, 3})));
      break;
    case 1:
      tensor.add_dims(random.From({0, 1, 1, INT64_C(1) << 39}));
      break;
    default: {  // one element of eight bytes
      std::string& raw = *tensor.mutable_raw_data();
      if (raw.size() < 8) break;
      const int64_t element = random.Extreme();
      raw.replace(8 * random.Below(raw.size() / 8), 8, reinterpret_cast<const char*>(&element), 8);
    }
  }
}

// A constant becomes an input, or an input a constant.
void ChangeOrigin(GraphProto& graph, Random& random) {
  if (graph.initializer_size() > 0 && random.OneIn(2)) {
    const TensorProto& tensor = graph.initializer(graph.initializer_size() - 1);
    ValueInfoProto& port = *graph.add_input();
    port.set_name(tensor.name());
    port.mutable_type()->mutable_tensor_type()->set_elem_type(tensor.data_type());
    for (const int64_t dim : tensor.dims())
      port.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(dim);
    graph.mutable_initializer()->RemoveLast();
  } else if (graph.input_size() > 0) {
    const ValueInfoProto& port = graph.input(graph.input_size() - 1);
    std::vector<int64_t> dims;
    for (const auto& dim : port.type().tensor_type().shape().dim())
      dims.push_back(std::min<int64_t>(std::max<int64_t>(dim.dim_value(), 1), 8));
    *graph.add_initializer() =
        DrawTensor(random, port.name(), port.type().tensor_type().elem_type(), dims);
    graph.mutable_input()->RemoveLast();
  }
}

void ChangeNode(NodeProto& node, Random& random) {
  switch (random.Below(4)) {
    case 0:
      node.set_op_type(random.Of(AllOperators()).name);
      break;
    case 1:
      if (node.output_size() > 0) node.mutable_output()->RemoveLast();
      break;
    default:
      node.add_output(random.OneIn(2) ? "" : "more_" + std::to_string(random.Below(1 << 20)));
  }
}

}  // namespace

void Mutate(ModelProto& model, Random& random) {
  Parts parts = PartsOf(model);
  if (parts.nodes.empty()) return;
  const size_t node = random.Below(parts.nodes.size());
  switch (random.Below(12)) {
    case 0:
    case 1:
      return ChangeInputs(model, random, parts, node);
    case 2:
    case 3:
    case 4:
      return ChangeAttribute(*parts.nodes[node], random);
    case 5:
    case 6:
      if (!parts.ports.empty()) ChangePort(*random.Of(parts.ports), random);
      return;
    case 7:
    case 8:
      if (!parts.tensors.empty()) ChangeTensor(*random.Of(parts.tensors), random);
      return;
    case 9:
      return ChangeOrigin(*random.Of(parts.graphs), random);
    case 10:
      return ChangeNode(*parts.nodes[node], random);
    default:
      if (model.opset_import_size() > 0)
        model.mutable_opset_import(0)->set_version(static_cast<int64_t>(1 + random.Below(27)));
  }
}

}  // namespace kiln
