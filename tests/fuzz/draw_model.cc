// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/draw_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tests/fuzz/operators.h"

namespace kiln {
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;
using onnx::ValueInfoProto;

constexpr const char* kWords[] = {"",
                                  "NOTSET",
                                  "SAME_UPPER",
                                  "SAME_LOWER",
                                  "VALID",
                                  "linear",
                                  "cubic",
                                  "nearest",
                                  "constant",
                                  "reflect",
                                  "edge",
                                  "wrap",
                                  "sum",
                                  "mean",
                                  "none",
                                  "forward",
                                  "reverse",
                                  "bidirectional",
                                  "Relu",
                                  "Tanh",
                                  "Sigmoid",
                                  "LeakyRelu",
                                  "ij,jk->ik",
                                  "...ij->...ji",
                                  "ii->i",
                                  "DCR",
                                  "CRD",
                                  "half_pixel",
                                  "asymmetric",
                                  "align_corners",
                                  "tf_crop_and_resize",
                                  "round_prefer_floor",
                                  "floor",
                                  "avg",
                                  "max",
                                  "add",
                                  "mul",
                                  "tanh",
                                  "stretch",
                                  "not_larger",
                                  "LEFT",
                                  "bilinear",
                                  "zeros",
                                  "border"};

size_t BytesOf(int type) {
  switch (type) {
    case TensorProto::DOUBLE:
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return 8;
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return 4;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return 2;
    default:
      return 1;
  }
}

int TypeOfKind(Random& random, char kind) {
  if (random.OneIn(12)) return static_cast<int>(1 + random.Below(16));
  if (kind == 'f' && random.OneIn(8)) return TensorProto::INT32;
  switch (kind) {
    case 'i':
      return TensorProto::INT64;
    case 'j':
      return TensorProto::INT32;
    case 'b':
      return TensorProto::BOOL;
    case 'u':
      return random.OneIn(4) ? TensorProto::INT8 : TensorProto::UINT8;
    case 's':
      return TensorProto::STRING;
    default:
      return random.OneIn(5) ? TensorProto::FLOAT16 : TensorProto::FLOAT;
  }
}

// Writes one graph, with names that are unique in the model.
class Drawer {
 public:
  Drawer(Random& random, uint64_t& named) : random_(random), named_(named) {}

  void Fill(GraphProto& graph, int depth) {
    depth_ = depth;
    for (int64_t k = random_.From({1, 1, 1, 1, 2, 2, 3}); k > 0; --k) AddNode(graph);
    for (const std::string& made : made_) {
      if (sequences_.count(made) == 0) graph.add_output()->set_name(made);
    }
  }

  void FillBody(GraphProto& graph, const std::string& op, size_t states, int depth) {
    if (op == "Loop") {
      AddPort(graph, TensorProto::INT64, {}, false);
      graph.add_output()->set_name(AddPort(graph, TensorProto::BOOL, {}, false));
    }
    for (size_t k = 0; op != "If" && k < states; ++k)
      AddPort(graph, TensorProto::FLOAT, Shape(), random_.OneIn(2));
    Fill(graph, depth);
  }

  std::vector<std::string>& names() { return names_; }

 private:
  std::string Fresh(const char* wish) { return wish + std::to_string(++named_); }

  std::vector<int64_t> Shape() {
    if (!common_.empty() && !random_.OneIn(3)) return common_;
    std::vector<int64_t> shape(static_cast<size_t>(random_.From({0, 1, 2, 2, 3, 3, 4, 4, 4, 5})));
    for (int64_t& extent : shape) extent = random_.From({1, 2, 2, 3, 4, 4, 8});
    if (common_.empty()) common_ = shape;
    return shape;
  }

  // The shape of an operand behind the first: often a part of what the others have.
  std::vector<int64_t> OperandShape() {
    const std::vector<int64_t> common = Shape();
    const auto rank = static_cast<int64_t>(common.size());
    switch (random_.Below(6)) {
      case 0:
        return {};
      case 1:
        return rank > 0 ? std::vector<int64_t>{common.back()} : common;
      case 2:
        return rank > 1 ? std::vector<int64_t>{common[1]} : common;
      case 3:
        return std::vector<int64_t>(common.rbegin(), common.rend());
      default:
        return common;
    }
  }

  std::string AddPort(GraphProto& graph, int type, const std::vector<int64_t>& shape, bool open) {
    ValueInfoProto& port = *graph.add_input();
    port.set_name(Fresh("x"));
    auto& tensor = *port.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    auto& dims = *tensor.mutable_shape();
    for (const int64_t extent : shape) {
      auto& dim = *dims.add_dim();
      if (open && random_.OneIn(2)) {
        dim.set_dim_param(random_.OneIn(2) ? "n" : "m");
      } else {
        dim.set_dim_value(extent);
      }
    }
    names_.push_back(port.name());
    return port.name();
  }

  std::string AddOperand(GraphProto& graph, char kind, size_t place) {
    if (kind == 'q' && !sequences_.empty() && random_.OneIn(2)) return random_.Of(sequences_);
    if (kind == 'q') {
      NodeProto& node = *graph.add_node();
      node.set_op_type("SequenceConstruct");
      for (size_t k = random_.Below(3); k > 0; --k) node.add_input(AddOperand(graph, 'f', 0));
      node.add_output(Fresh("q"));
      return node.output(0);
    }
    if (kind == 'f' && !made_.empty() && random_.OneIn(2)) return random_.Of(made_);
    if (kind == 'f' && !names_.empty() && random_.OneIn(4)) return random_.Of(names_);
    const int type = TypeOfKind(random_, kind);
    const bool list = kind == 'i' || kind == 'b';
    std::vector<int64_t> shape = place == 0 ? Shape() : OperandShape();
    if (list) {
      shape.assign(
          random_.Below(2),
          static_cast<int64_t>(random_.Below(std::max<size_t>(2 * common_.size(), 2) + 1)));
    }
    if (list ? random_.OneIn(4) : !random_.OneIn(4))
      return AddPort(graph, type, shape, random_.OneIn(3));
    const std::string name = Fresh("w");
    TensorProto tensor = DrawTensor(random_, name, type, shape);
    if (random_.OneIn(3)) {
      NodeProto& node = *graph.add_node();
      node.set_op_type("Constant");
      node.add_output(name);
      AttributeProto& value = *node.add_attribute();
      value.set_name("value");
      value.set_type(AttributeProto::TENSOR);
      *value.mutable_t() = std::move(tensor);
    } else {
      *graph.add_initializer() = std::move(tensor);
    }
    return name;
  }

  void AddNode(GraphProto& graph) {
    const std::vector<Operator>& all = AllOperators();
    const Operator* op = &random_.Of(all);
    while (depth_ >= 3 && (op->name == "If" || op->name == "Loop" || op->name == "Scan"))
      op = &random_.Of(all);
    const auto span = static_cast<size_t>(std::max(0, op->most - op->least)) + 1;
    const size_t count = static_cast<size_t>(op->least) + random_.Below(span);
    std::vector<std::string> inputs;
    for (size_t k = 0; k < count; ++k) {
      const char kind = k < op->kinds.size() ? op->kinds[k]
                        : op->kinds.empty()  ? 'f'
                                             : op->kinds.back();
      const bool absent = static_cast<int>(k) >= op->least && random_.OneIn(6);
      inputs.push_back(absent ? "" : AddOperand(graph, kind, k));
    }
    NodeProto node;
    const bool contrib = op->name.rfind("com.microsoft.", 0) == 0;
    node.set_op_type(contrib ? op->name.substr(14) : op->name);
    if (contrib) node.set_domain("com.microsoft");
    for (const std::string& input : inputs) node.add_input(input);
    AddAttributes(node, *op, count);
    const size_t outputs = random_.OneIn(3) ? 1 + random_.Below(3) : 1;
    for (size_t k = 0; k < outputs; ++k) {
      node.add_output(Fresh("y"));
      made_.push_back(node.output(static_cast<int>(k)));
      const bool sequence = op->name == "SplitToSequence" || op->name.rfind("Sequence", 0) == 0;
      if (sequence || op->name == "Optional") sequences_.insert(made_.back());
    }
    *graph.add_node() = std::move(node);
  }

  void AddAttributes(NodeProto& node, const Operator& op, size_t inputs) {
    const bool constant = op.name == "Constant";  // has one of them
    const std::string only = constant ? random_.Of(op.attributes).first : "";
    for (const auto& [name, kind] : op.attributes) {
      if (constant && name != only) continue;
      if (kind == 'g') {
        AttributeProto& body = *node.add_attribute();
        body.set_name(name);
        body.set_type(AttributeProto::GRAPH);
        Drawer inner(random_, named_);
        inner.common_ = common_;
        if (op.name != "Scan") inner.names() = names_;
        const size_t states = op.name == "Loop" ? std::max<size_t>(inputs, 2) - 2 : inputs;
        inner.FillBody(*body.mutable_g(), op.name, states, depth_ + 1);
      } else if (constant || name == "num_scan_inputs" || random_.OneIn(2)) {
        *node.add_attribute() = DrawAttribute(random_, name, kind);
      }
    }
  }

  Random& random_;
  uint64_t& named_;  // how many names there are
  int depth_ = 0;
  std::vector<int64_t> common_;     // what most operands look like
  std::vector<std::string> names_;  // of inputs and of what lies around
  std::vector<std::string> made_;   // of what nodes give
  std::set<std::string> sequences_;
};

void AddOpset(google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& opsets,
              const char* domain, int64_t version) {
  onnx::OperatorSetIdProto& set = *opsets.Add();
  set.set_domain(domain);
  set.set_version(version);
}

// Moves the nodes into a function, which is called in their place.
void IntoFunction(ModelProto& model) {
  GraphProto& graph = *model.mutable_graph();
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name("F");
  function.set_domain("f");
  *function.mutable_opset_import() = model.opset_import();
  function.mutable_node()->Swap(graph.mutable_node());
  NodeProto& call = *graph.add_node();
  call.set_op_type("F");
  call.set_domain("f");
  const auto pass = [&](const std::string& name) {
    function.add_input(name);
    call.add_input(name);
  };
  for (const ValueInfoProto& port : graph.input()) pass(port.name());
  for (const TensorProto& tensor : graph.initializer()) pass(tensor.name());
  for (const ValueInfoProto& output : graph.output()) {
    function.add_output(output.name());
    call.add_output(output.name());
  }
}

}  // namespace

int64_t Random::Extreme() {
  return From({0, -1, 1, 2, 7, 64, 65536, 1 << 20, INT32_MAX, INT64_C(1) << 31, INT64_C(1) << 32,
               INT64_C(1) << 39, INT64_C(1) << 61, INT64_C(1) << 62, INT64_MAX, INT64_MAX - 1,
               INT64_MIN, -2, -(INT64_C(1) << 31)});
}

AttributeProto DrawAttribute(Random& random, const std::string& name, char kind) {
  AttributeProto a;
  a.set_name(name);
  const size_t length = static_cast<size_t>(random.From({0, 1, 1, 2, 2, 3, 4, 4, 6}));
  switch (kind) {
    case 'i':
      a.set_type(AttributeProto::INT);
      a.set_i(name == "to" || name == "dtype" ? static_cast<int64_t>(random.Below(18))
                                              : random.From({-1, 0, 0, 1, 1, 1, 2, 2, 4}));
      break;
    case 'f':
      a.set_type(AttributeProto::FLOAT);
      a.set_f(static_cast<float>(random.From({0, 1, 1, 2, -1, 1 << 30})) / 2);
      break;
    case 's':
      a.set_type(AttributeProto::STRING);
      a.set_s(random.Of(kWords));
      break;
    case 'I':
      a.set_type(AttributeProto::INTS);
      for (size_t k = 0; k < length; ++k) a.add_ints(random.From({0, 1, 1, 1, 2, 3, -1}));
      break;
    case 'F':
      a.set_type(AttributeProto::FLOATS);
      for (size_t k = 0; k < length; ++k) a.add_floats(static_cast<float>(random.Small()));
      break;
    case 'S':
      a.set_type(AttributeProto::STRINGS);
      for (size_t k = 0; k < length; ++k) a.add_strings(random.Of(kWords));
      break;
    default:
      a.set_type(AttributeProto::TENSOR);
      *a.mutable_t() = DrawTensor(random, "", TypeOfKind(random, 'f'),
                                  std::vector<int64_t>(random.Below(3), random.From({0, 1, 2})));
      break;
  }
  return a;
}

TensorProto DrawTensor(Random& random, const std::string& name, int type,
                       const std::vector<int64_t>& dims) {
  TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  size_t count = 1;
  for (const int64_t dim : dims) {
    tensor.add_dims(dim);
    count *= static_cast<size_t>(dim);
  }
  std::string raw;
  for (size_t k = 0; k < std::min<size_t>(count, 4096); ++k) {
    const int64_t element = random.OneIn(60) ? random.Extreme() : random.Small();
    const float real = static_cast<float>(element) / 2;
    const char* from = type == TensorProto::FLOAT ? reinterpret_cast<const char*>(&real)
                                                  : reinterpret_cast<const char*>(&element);
    raw.append(from, BytesOf(type));
  }
  tensor.set_raw_data(raw);
  return tensor;
}

ModelProto DrawModel(Random& random) {
  ModelProto model;
  model.set_ir_version(8);
  AddOpset(
      *model.mutable_opset_import(), "",
      random.OneIn(4) ? 6 + static_cast<int64_t>(random.Below(22)) : random.From({13, 17, 20, 23}));
  AddOpset(*model.mutable_opset_import(), "com.microsoft", 1);
  AddOpset(*model.mutable_opset_import(), "f", 1);
  uint64_t named = 0;
  Drawer(random, named).Fill(*model.mutable_graph(), 0);
  if (random.OneIn(12)) IntoFunction(model);
  return model;
}

}  // namespace kiln
