// SPDX-License-Identifier: Apache-2.0
// Names, constants and arithmetic on extents of a graph that is written.
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/exporter.h"
#include "graph/op.h"
#include "graph/rebuild.h"

namespace kiln::onnx {

std::string ExportNames::Fresh(const std::string& wish) {
  const std::string base = wish.empty() ? "value" : wish;
  std::string name = base;
  while (!taken_.insert(name).second) name = absl::StrCat(base, "_", ++next_[base]);
  return name;
}

int32_t ToOnnxType(DType type) {
  switch (type) {
    case DType::kF32:
      return TensorProto::FLOAT;
    case DType::kF64:
      return TensorProto::DOUBLE;
    case DType::kF16:
      return TensorProto::FLOAT16;
    case DType::kBF16:
      return TensorProto::BFLOAT16;
    case DType::kI8:
      return TensorProto::INT8;
    case DType::kI16:
      return TensorProto::INT16;
    case DType::kI32:
      return TensorProto::INT32;
    case DType::kI64:
      return TensorProto::INT64;
    case DType::kU8:
      return TensorProto::UINT8;
    case DType::kU16:
      return TensorProto::UINT16;
    case DType::kU32:
      return TensorProto::UINT32;
    case DType::kU64:
      return TensorProto::UINT64;
    case DType::kBool:
      return TensorProto::BOOL;
  }
  return TensorProto::UNDEFINED;
}

void FillTensor(const Tensor& tensor, const std::string& name, TensorProto* proto) {
  if (!name.empty()) proto->set_name(name);
  proto->set_data_type(ToOnnxType(tensor.dtype()));
  for (const int64_t extent : tensor.shape()) proto->add_dims(extent);
  const Tensor dense = tensor.is_dense() ? tensor : tensor.Clone();
  proto->set_raw_data(dense.data(), static_cast<size_t>(dense.size_bytes()));
}

ExportScope::ExportScope(const Graph& graph, ExportScope* parent, ExportNames& names,
                         GraphProto* proto)
    : graph_(graph), parent_(parent), names_(names), proto_(proto), list_(proto->mutable_node()) {}

std::string ExportScope::NameOf(ValueId id) {
  if (!id.valid()) return "";
  const auto [at, fresh] = value_names_.emplace(id, "");
  if (fresh) {
    const Value& value = graph_.value(id);
    const bool constant = value.constant && value.producer.v < 0;
    at->second =
        constant ? Constant(*value.constant, value.name, value.literal) : names_.Fresh(value.name);
  }
  return at->second;
}

std::string ExportScope::Add(const std::string& op, const std::vector<std::string>& inputs,
                             const ExportAttrs& attrs, std::vector<std::string> outputs) {
  if (outputs.empty()) outputs.push_back(names_.Fresh(absl::StrCat("kiln_", op)));
  NodeProto* const node = list_->Add();
  node->set_op_type(op);
  node->set_name(names_.Fresh(absl::StrCat(op, ":", outputs[0])));
  for (const std::string& input : inputs) node->add_input(input);
  while (node->input_size() > 0 && node->input(node->input_size() - 1).empty())
    node->mutable_input()->RemoveLast();
  for (const std::string& output : outputs) node->add_output(output);
  for (const auto& [name, value] : attrs) {
    AttributeProto* const attribute = node->add_attribute();
    attribute->set_name(name);
    if (const auto* i = std::get_if<int64_t>(&value)) {
      attribute->set_type(AttributeProto::INT);
      attribute->set_i(*i);
    } else if (const auto* f = std::get_if<double>(&value)) {
      attribute->set_type(AttributeProto::FLOAT);
      attribute->set_f(static_cast<float>(*f));
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      attribute->set_type(AttributeProto::STRING);
      attribute->set_s(*s);
    } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
      attribute->set_type(AttributeProto::INTS);
      for (const int64_t number : *ints) attribute->add_ints(number);
    } else if (const auto* tensor = std::get_if<Tensor>(&value)) {
      attribute->set_type(AttributeProto::TENSOR);
      FillTensor(*tensor, "", attribute->mutable_t());
    } else {
      attribute->set_type(AttributeProto::GRAPH);
      *attribute->mutable_g() = std::get<GraphProto>(value);
    }
  }
  return outputs[0];
}

std::string ExportScope::Constant(const Tensor& tensor, const std::string& wish, bool literal) {
  const std::string name = names_.Fresh(wish);
  if (literal || in_function()) return Add("Constant", {}, {{"value", tensor}}, {name});
  FillTensor(tensor, name, proto_->add_initializer());
  return name;
}

std::string ExportScope::Ints(const std::vector<int64_t>& values) {
  Tensor tensor = Tensor::Allocate(DType::kI64, {static_cast<int64_t>(values.size())});
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size() * sizeof(int64_t));
  return Constant(tensor, "kiln_ints");
}

absl::StatusOr<std::string> ExportScope::Extents(const Shape& shape) {
  if (const auto numbers = kiln::Constant(shape)) return Ints(*numbers);
  NodeList* const list = std::exchange(list_, proto_->mutable_node());
  std::vector<std::string> parts;
  absl::Status status;
  for (const Dim& dim : shape) {
    absl::StatusOr<std::string> part = Extent(dim);
    if (!part.ok()) {
      status = part.status();
      break;
    }
    parts.push_back(*std::move(part));
  }
  std::string all;
  if (status.ok())
    all = parts.size() == 1 ? parts[0] : Add("Concat", parts, {{"axis", int64_t{0}}});
  list_ = list;
  KILN_RETURN_IF_ERROR(status);
  return all;
}

// i64 [1].
absl::StatusOr<std::string> ExportScope::Extent(const Dim& dim) {
  const std::string text = dim.ToString();
  if (const auto known = extents_.find(text); known != extents_.end()) return known->second;
  std::string sum;
  for (const Dim::Term& term : dim.terms()) {
    std::string product;
    for (const Dim::Atom& atom : term.atoms) {
      KILN_ASSIGN_OR_RETURN(const std::string factor, Atom(atom));
      product = product.empty() ? factor : Add("Mul", {product, factor});
    }
    if (product.empty()) {
      product = Ints({term.coef});
    } else if (term.coef != 1) {
      product = Add("Mul", {product, Ints({term.coef})});
    }
    sum = sum.empty() ? product : Add("Add", {sum, product});
  }
  if (sum.empty()) sum = Ints({0});
  extents_[text] = sum;
  return sum;
}

absl::StatusOr<std::string> ExportScope::Atom(const Dim::Atom& atom) {
  if (atom.kind == Dim::Atom::Kind::kSymbol) return Symbol(atom.symbol);
  KILN_ASSIGN_OR_RETURN(const std::string a, Extent(atom.args[0]));
  KILN_ASSIGN_OR_RETURN(const std::string b, Extent(atom.args[1]));
  switch (atom.kind) {
    case Dim::Atom::Kind::kMin:
      return Add("Min", {a, b});
    case Dim::Atom::Kind::kMax:
      return Add("Max", {a, b});
    case Dim::Atom::Kind::kMod:
      return Add("Mod", {a, b});
    default:  // ONNX truncates; without the remainder, which has the divisor's sign, it is exact
      return Add("Div", {Add("Sub", {a, Add("Mod", {a, b})}), b});
  }
}

absl::StatusOr<std::string> ExportScope::Symbol(const std::string& symbol) {
  if (const auto known = extents_.find(symbol); known != extents_.end()) return known->second;
  for (size_t v = 0; v < graph_.values().size(); ++v) {
    const ValueId id{static_cast<int32_t>(v)};
    const Value& value = graph_.value(id);
    // Inputs tell, and results of dynamic nodes that are written already.
    const bool told = value.producer.v < 0 ? !value.constant.has_value()
                                           : graph_.node(value.producer).op->dynamic;
    if (!told || !value_names_.contains(id)) continue;
    for (size_t axis = 0; axis < value.shape.size(); ++axis) {
      if (SymbolOf(value.shape[axis]) != symbol) continue;
      const auto at = static_cast<int64_t>(axis);
      return extents_[symbol] = Add("Shape", {NameOf(id)}, {{"start", at}, {"end", at + 1}});
    }
    for (size_t i = 0; value.shape_content && i < value.shape_content->size(); ++i) {
      if (SymbolOf((*value.shape_content)[i]) != symbol) continue;
      const std::string row = Add("Reshape", {NameOf(id), Ints({-1})});
      const std::string element = Add("Gather", {row, Ints({static_cast<int64_t>(i)})});
      return extents_[symbol] = Add("Cast", {element}, {{"to", int64_t{ToOnnxType(DType::kI64)}}});
    }
  }
  if (parent_ != nullptr) return parent_->Symbol(symbol);
  return absl::UnimplementedError(absl::StrCat("extent ", symbol, " is told by no input"));
}

}  // namespace kiln::onnx
