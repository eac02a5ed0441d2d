// SPDX-License-Identifier: Apache-2.0
#include "graph/onnx/node_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "base/try_allocate.h"
#include "graph/needed_value.h"
#include "graph/onnx/onnx.pb.h"
#include "graph/onnx/symbols.h"
#include "graph/op.h"
#include "graph/rebuild.h"

namespace kiln::onnx {
namespace {

// The type that an attribute has: as it says, or, in files of before IR 2 that do not say, by what
// is there.
int AttributeType(const AttributeProto& a) {
  if (a.has_type() && a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.floats_size() > 0) return AttributeProto::FLOATS;
  if (a.ints_size() > 0) return AttributeProto::INTS;
  if (a.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

template <typename T, typename Stored>
std::vector<T> Elements(const Tensor& tensor) {
  const auto* in = static_cast<const Stored*>(tensor.data());
  return std::vector<T>(in, in + tensor.num_elements());
}

template <typename T>
std::vector<T> Convert(const Tensor& tensor) {
  const auto halves = [&](float (*widen)(uint16_t)) {
    std::vector<T> out;
    for (const uint16_t bits : Elements<uint16_t, uint16_t>(tensor))
      out.push_back(static_cast<T>(widen(bits)));
    return out;
  };
  switch (tensor.dtype()) {
    case DType::kF32:
      return Elements<T, float>(tensor);
    case DType::kF64:
      return Elements<T, double>(tensor);
    case DType::kF16:
      return halves(HalfToFloat);
    case DType::kBF16:
      return halves(BFloatToFloat);
    case DType::kI8:
      return Elements<T, int8_t>(tensor);
    case DType::kI16:
      return Elements<T, int16_t>(tensor);
    case DType::kI32:
      return Elements<T, int32_t>(tensor);
    case DType::kI64:
      return Elements<T, int64_t>(tensor);
    case DType::kU8:
    case DType::kBool:
      return Elements<T, uint8_t>(tensor);
    case DType::kU16:
      return Elements<T, uint16_t>(tensor);
    case DType::kU32:
      return Elements<T, uint32_t>(tensor);
    case DType::kU64:
      return Elements<T, uint64_t>(tensor);
  }
  return {};
}

}  // namespace

std::string NameOf(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return "";
}

std::vector<int64_t> ToInts(const Tensor& tensor) { return Convert<int64_t>(tensor); }
std::vector<double> ToDoubles(const Tensor& tensor) { return Convert<double>(tensor); }

NodeView::NodeView(const NodeProto& proto, int64_t opset, const char* record,
                   std::vector<ValueId> inputs, Graph& graph, TensorSource& source,
                   Symbols& symbols, const std::unordered_set<std::string>& read, bool outer,
                   bool training)
    : proto_(proto),
      opset_(opset),
      record_(record),
      inputs_(std::move(inputs)),
      outputs_(static_cast<size_t>(proto.output_size())),
      graph_(graph),
      source_(source),
      builder_(&graph),
      name_(NameOf(proto)),
      symbols_(symbols),
      names_read_(read),
      outer_(outer),
      training_(training) {}

const Value& NodeView::value(ValueId id) const {
  static const auto* const absent = new Value();
  return id.valid() ? graph_.value(id) : *absent;
}

int NodeView::num_outputs() const { return proto_.output_size(); }

int64_t NodeView::RandomStream() const {
  uint64_t stream = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : proto_.output_size() > 0 ? proto_.output(0) : proto_.name())
    stream = (stream ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  const auto has_stream = [&](const Node& node) {
    const auto found = node.attrs.find("stream");
    const auto* const other =
        found == node.attrs.end() ? nullptr : std::get_if<int64_t>(&found->second);
    return other != nullptr && *other == static_cast<int64_t>(stream);
  };
  while (std::any_of(graph_.nodes().begin(), graph_.nodes().end(), has_stream)) ++stream;
  return static_cast<int64_t>(stream);
}

bool NodeView::names(int k) const { return k < proto_.output_size() && !proto_.output(k).empty(); }

bool NodeView::wants(int k) const { return names(k) && names_read_.contains(proto_.output(k)); }

absl::Status NodeView::Need(int least, int most) const {
  if (num_inputs() < least || num_inputs() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", num_inputs(), " inputs, expected ",
                     least == most ? absl::StrCat(least) : absl::StrCat(least, " to ", most)));
  }
  for (int k = 0; k < least; ++k) {
    if (!has(k))
      return absl::InvalidArgumentError(
          absl::StrCat("input ", k, " is left out, but it is not optional"));
  }
  return absl::OkStatus();
}

const AttributeProto* NodeView::Find(absl::string_view name) const {
  for (const AttributeProto& a : proto_.attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

const AttributeProto* NodeView::Typed(absl::string_view name, int type) {
  const AttributeProto* a = Find(name);
  if (a == nullptr) return nullptr;
  read_.insert(std::string(name));
  const int got = AttributeType(*a);
  if (got == type) return a;
  // An empty list may have been written without a type.
  const bool list = type == AttributeProto::INTS || type == AttributeProto::FLOATS ||
                    type == AttributeProto::STRINGS;
  if (list && got == AttributeProto::UNDEFINED) return a;
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat("attribute \"", name, "\" has type ", got,
                                                      " of AttributeProto, expected ", type));
  }
  return nullptr;
}

int64_t NodeView::Int(absl::string_view name, int64_t otherwise) {
  const AttributeProto* a = Typed(name, AttributeProto::INT);
  return a != nullptr ? a->i() : otherwise;
}

double NodeView::Float(absl::string_view name, double otherwise) {
  const AttributeProto* a = Typed(name, AttributeProto::FLOAT);
  return a != nullptr ? a->f() : static_cast<float>(otherwise);
}

std::string NodeView::Text(absl::string_view name, absl::string_view otherwise) {
  const AttributeProto* a = Typed(name, AttributeProto::STRING);
  return a != nullptr ? a->s() : std::string(otherwise);
}

std::vector<int64_t> NodeView::Ints(absl::string_view name, std::vector<int64_t> otherwise) {
  const AttributeProto* a = Typed(name, AttributeProto::INTS);
  return a != nullptr ? std::vector<int64_t>(a->ints().begin(), a->ints().end()) : otherwise;
}

std::vector<double> NodeView::Floats(absl::string_view name) {
  const AttributeProto* a = Typed(name, AttributeProto::FLOATS);
  return a != nullptr ? std::vector<double>(a->floats().begin(), a->floats().end())
                      : std::vector<double>();
}

std::vector<std::string> NodeView::Texts(absl::string_view name) {
  const AttributeProto* a = Typed(name, AttributeProto::STRINGS);
  return a != nullptr ? std::vector<std::string>(a->strings().begin(), a->strings().end())
                      : std::vector<std::string>();
}

std::optional<Tensor> NodeView::TensorAttr(absl::string_view name) {
  const AttributeProto* a = Typed(name, AttributeProto::TENSOR);
  if (a == nullptr) return std::nullopt;
  absl::StatusOr<Tensor> tensor = ToTensor(a->t(), source_);
  if (tensor.ok()) return *std::move(tensor);
  if (status_.ok()) status_ = Annotate(tensor.status(), absl::StrCat("attribute \"", name, "\""));
  return std::nullopt;
}

std::string NodeView::UnreadAttr() const {
  for (const AttributeProto& a : proto_.attribute()) {
    if (!read_.contains(a.name())) return a.name();
  }
  return "";
}

absl::StatusOr<Shape> NodeView::Content(int k, absl::string_view what) const {
  if (!has(k))
    return absl::InvalidArgumentError(absl::StrCat("input ", k, " (", what, ") is left out"));
  const Value& v = value(k);
  if (!IsInt(v.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", k, " (", what, ") is ", Name(v.type), ", expected integers"));
  }
  if (v.shape.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", k, " (", what, ") has shape ", ToString(v.shape), ", expected at most one dim"));
  }
  if (v.constant && v.constant->num_elements() <= kMaxListLength)
    return ToShape(ToInts(*v.constant));
  if (v.shape_content) return *v.shape_content;
  return NeedsValue(v);
}

absl::StatusOr<Shape> NodeView::ContentOrSymbols(int k, absl::string_view what) {
  constexpr int64_t kMostSymbols = 8;
  absl::StatusOr<Shape> content = Content(k, what);
  if (content.ok() || !NeededValue(content.status()) || !outer_) return content;
  const std::vector<ValueId>& ports = graph_.inputs();
  const std::optional<std::vector<int64_t>> shape = kiln::Constant(value(k).shape);
  const int64_t count = shape ? CheckedBytes(DType::kU8, *shape) : -1;
  if (std::find(ports.begin(), ports.end(), in(k)) == ports.end() || count < 0 ||
      count > kMostSymbols)
    return content;
  Shape elements;
  for (int64_t i = 0; i < count; ++i)
    elements.push_back(symbols_.Fresh(absl::StrCat(value(k).name, "_", i)));
  graph_.mutable_value(in(k)).shape_content = elements;
  return elements;
}

absl::StatusOr<std::vector<int64_t>> NodeView::ConstInts(int k, absl::string_view what) const {
  KILN_ASSIGN_OR_RETURN(const Shape content, Content(k, what));
  std::optional<std::vector<int64_t>> numbers = kiln::Constant(content);
  if (!numbers)
    return absl::UnimplementedError(
        absl::StrCat(what, " ", ToString(content), " depends on the input's extents"));
  return *std::move(numbers);
}

absl::StatusOr<std::vector<double>> NodeView::ConstFloats(int k, absl::string_view what) const {
  if (!has(k))
    return absl::InvalidArgumentError(absl::StrCat("input ", k, " (", what, ") is left out"));
  const Value& v = value(k);
  if (v.constant && v.constant->num_elements() <= kMaxListLength) return ToDoubles(*v.constant);
  return NeedsValue(v);
}

absl::StatusOr<int64_t> NodeView::Axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is outside [", -rank, ", ", rank - 1, "]"));
  }
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<std::vector<int64_t>> NodeView::Axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t& axis : axes) {
    KILN_ASSIGN_OR_RETURN(axis, Axis(axis, rank));
  }
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    return absl::InvalidArgumentError(absl::StrCat("axis ", *twice, " is given twice"));
  return axes;
}

Dim NodeView::NewSymbol(absl::string_view wish) {
  return symbols_.Fresh(absl::StrCat(name_, "_", wish));
}

absl::Status NodeView::Require(const Guard& guard, absl::string_view why) {
  if (guard.Static() == false) return absl::InvalidArgumentError(why);
  Assume(guard);
  return absl::OkStatus();
}

bool NodeView::IsTold(const Guard& guard) const {
  return outer_ && IsOnlyAbout(guard, ToldByInputs(graph_));
}

std::optional<Dim> NodeView::Divided(const Dim& a, int64_t b) {
  const Guard divisible = Guard::Divisible(a, b);
  if (divisible.Static() == false) return std::nullopt;
  Assume(divisible);
  return a.FloorDiv(b);
}

ValueId NodeView::Op(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  if (FindOp(op) == nullptr) {
    if (status_.ok())
      status_ =
          absl::UnimplementedError(absl::StrCat("needs the op ", op, ", which Kiln does not have"));
    return {};
  }
  return status_.ok() ? builder_.Op(op, std::move(inputs), std::move(attrs), name_) : ValueId{};
}

std::vector<ValueId> NodeView::Ops(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                   size_t outputs) {
  if (!status().ok()) return {};
  absl::StatusOr<std::vector<ValueId>> made = graph_.AddNode(
      *FindOp(op), std::move(inputs), std::move(attrs), name_, std::vector<std::string>(outputs));
  if (made.ok()) return *std::move(made);
  status_ = made.status();
  return {};
}

absl::StatusOr<Tensor> NodeView::NewTensor(DType type, std::vector<int64_t> shape, bool table) {
  const int64_t bytes = CheckedBytes(type, shape);
  const std::string what =
      absl::StrCat("makes a tensor ", Name(type), " ", ToString(ToShape(shape)));
  if (bytes < 0)
    return absl::ResourceExhaustedError(absl::StrCat(what, ", which is too large for any limit"));
  const int64_t elements = table ? bytes / static_cast<int64_t>(SizeOf(type)) : 0;
  if (elements > source_.table_elements) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "tables that are made at import have more than ", kMaxTableElements, " elements together"));
  }
  KILN_RETURN_IF_ERROR(TakeBytes(source_, bytes, absl::StrCat(what, " of ", bytes, " bytes")));
  source_.table_elements -= elements;
  return TryAllocate(type, std::move(shape));
}

ValueId NodeView::Constant(Tensor tensor) {
  return builder_.Constant(std::move(tensor), proto_.output_size() > 0 ? proto_.output(0) : "");
}

ValueId NodeView::Fail(std::string message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(message);
  return {};
}

absl::Status NodeView::Emit(absl::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  KILN_RETURN_IF_ERROR(status_);
  KILN_RETURN_IF_ERROR(builder_.status());
  const OpDef* def = FindOp(op);
  if (def == nullptr)
    return absl::UnimplementedError(
        absl::StrCat("needs the op ", op, ", which Kiln does not have"));
  std::vector<std::string> names(proto_.output().begin(), proto_.output().end());
  if (def->num_outputs >= 0) {
    for (int k = def->num_outputs; k < num_outputs(); ++k) {
      if (wants(k) && !outputs_[static_cast<size_t>(k)].valid())
        return absl::UnimplementedError(absl::StrCat("output ", k, " is not supported"));
    }
    names.resize(static_cast<size_t>(def->num_outputs));
  }
  KILN_ASSIGN_OR_RETURN(
      std::vector<ValueId> made,
      graph_.AddNode(*def, std::move(inputs), std::move(attrs), name_, std::move(names)));
  for (size_t k = 0; k < outputs_.size() && k < made.size(); ++k) outputs_[k] = made[k];
  return absl::OkStatus();
}

absl::Status NodeView::Give(int k, ValueId value) {
  KILN_RETURN_IF_ERROR(status_);
  KILN_RETURN_IF_ERROR(builder_.status());
  if (k < num_outputs()) outputs_[static_cast<size_t>(k)] = value;
  return absl::OkStatus();
}

}  // namespace kiln::onnx
