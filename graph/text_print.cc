// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/name.h"
#include "base/sha256.h"
#include "graph/op.h"
#include "graph/tensors.h"
#include "graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxInline = 32;                 // elements written as numbers
constexpr int64_t kMaxBase64 = int64_t{64} << 10;  // bytes

// The shortest text that reads back as the same value; always recognisable as a float.
template <typename T>
std::string PrintFloat(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, result.ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string PrintElement(const Tensor& dense, int64_t i) {
  if (dense.dtype() == DType::kF64) return PrintFloat(ReadFloat(dense, i));
  if (IsFloat(dense.dtype())) return PrintFloat(static_cast<float>(ReadFloat(dense, i)));
  const int64_t value = ReadInt(dense, i);
  return dense.dtype() == DType::kU64 ? absl::StrCat(static_cast<uint64_t>(value))
                                      : absl::StrCat(value);
}

std::string PrintElements(const Tensor& tensor) {
  const Tensor dense = Dense(tensor);
  const int64_t n = dense.num_elements();
  if (dense.rank() == 0) return PrintElement(dense, 0);
  if (n <= kMaxInline) {
    std::vector<std::string> elements;
    for (int64_t i = 0; i < n; ++i) elements.push_back(PrintElement(dense, i));
    return absl::StrCat("[", absl::StrJoin(elements, ", "), "]");
  }
  const absl::string_view bytes(static_cast<const char*>(dense.data()),
                                static_cast<size_t>(dense.size_bytes()));
  if (dense.size_bytes() <= kMaxBase64)
    return absl::StrCat("base64 \"", absl::Base64Escape(bytes), "\"");
  return absl::StrCat("#", ToHex(Sha256(bytes)));
}

std::string TypeAndShape(DType type, const Shape& shape) {
  return absl::StrCat(Name(type), " ", ToString(shape));
}

// Bodies are called after their node's first output.
std::string BodyName(const Graph& graph, const Node& node, absl::string_view attr) {
  return PrintName(absl::StrCat(graph.value(node.outputs[0]).name, "/", attr));
}

struct AttrPrinter {
  AttrKind kind;
  std::string body;
  std::string operator()(int64_t value) const { return absl::StrCat(value); }
  std::string operator()(double value) const { return PrintFloat(value); }
  std::string operator()(const std::string& value) const {
    return kind == AttrKind::kDims ? value : absl::StrCat("\"", absl::CHexEscape(value), "\"");
  }
  std::string operator()(const std::vector<int64_t>& value) const {
    return absl::StrCat("[", absl::StrJoin(value, ", "), "]");
  }
  std::string operator()(const std::vector<double>& value) const {
    return absl::StrCat(
        "[",
        absl::StrJoin(value, ", ", [](std::string* out, double v) { out->append(PrintFloat(v)); }),
        "]");
  }
  std::string operator()(DType value) const { return std::string(Name(value)); }
  std::string operator()(const Body&) const { return body; }
  std::string operator()(const std::shared_ptr<const CustomOp>&) const { return body; }
  std::string operator()(const Tensor& value) const {
    return absl::StrCat(TypeAndShape(value.dtype(), ToShape(value.shape())), " = ",
                        PrintElements(value));
  }
};

std::string PrintAttrs(const Graph& graph, const Node& node) {
  if (node.attrs.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : node.attrs) {
    AttrKind kind = AttrKind::kString;
    for (const AttrSpec& spec : node.op->attrs) {
      if (name == spec.name) kind = spec.kind;
    }
    parts.push_back(absl::StrCat(
        name, " = ", std::visit(AttrPrinter{kind, BodyName(graph, node, name)}, value)));
  }
  return absl::StrCat(" {", absl::StrJoin(parts, ", "), "}");
}

// "_" alone means an absent input.
std::string PrintValueName(absl::string_view name) { return name == "_" ? "`_`" : PrintName(name); }

}  // namespace

std::string Print(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::string out = absl::StrJoin(node.outputs, ", ", [&](std::string* text, ValueId output) {
    const Value& value = graph.value(output);
    absl::StrAppend(text, PrintValueName(value.name), " : ", TypeAndShape(value.type, value.shape));
  });
  absl::StrAppend(
      &out, " = ", node.op->name, "(",
      absl::StrJoin(node.inputs, ", ",
                    [&](std::string* text, ValueId input) {
                      text->append(input.valid() ? PrintValueName(graph.value(input).name) : "_");
                    }),
      ")", PrintAttrs(graph, node));
  if (node.name != graph.value(node.outputs[0]).name)
    absl::StrAppend(&out, " \"", absl::CHexEscape(node.name), "\"");
  return out;
}

namespace {

std::string PrintStatements(const Graph& graph) {
  std::string out;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    absl::StrAppend(&out, "input ", PrintValueName(value.name), " : ",
                    TypeAndShape(value.type, value.shape),
                    value.shape_content ? " = " + ToString(*value.shape_content) : "", "\n");
  }
  for (const Value& value : graph.values()) {
    if (!value.constant || value.producer.v >= 0) continue;
    absl::StrAppend(&out, "const ", PrintValueName(value.name), " : ",
                    TypeAndShape(value.type, value.shape), " = ", PrintElements(*value.constant),
                    "\n");
  }
  for (const Guard& guard : graph.guards()) absl::StrAppend(&out, "guard ", guard.ToString(), "\n");
  for (const Guard& premise : graph.premises)
    absl::StrAppend(&out, "premise ", premise.ToString(), "\n");
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    for (const auto& [name, value] : node.attrs) {
      const Body* body = std::get_if<Body>(&value);
      if (body == nullptr) continue;
      absl::StrAppend(&out, "body ", BodyName(graph, node, name), "\n", PrintStatements(**body),
                      "end\n");
    }
    absl::StrAppend(&out, Print(graph, NodeId{static_cast<int32_t>(i)}), "\n");
  }
  for (const Graph::Output& output : graph.outputs()) {
    const std::string& name = graph.value(output.value).name;
    absl::StrAppend(&out, "output ", PrintValueName(output.name),
                    output.name == name ? "" : absl::StrCat(" = ", PrintValueName(name)), "\n");
  }
  return out;
}

}  // namespace

std::string Print(const Graph& graph) {
  return absl::StrCat("graph ", PrintName(graph.name), "\n", PrintStatements(graph));
}

}  // namespace kiln
