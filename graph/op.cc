// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "graph/needed_value.h"
#include "graph/tensors.h"

namespace kiln {
namespace {

constexpr absl::string_view kNeededValue = "kiln/needed_value";  // a payload of absl::Status

const AttrSpec& Spec(const Node& node, absl::string_view name) {
  const auto found = std::find_if(node.op->attrs.begin(), node.op->attrs.end(),
                                  [&](const AttrSpec& spec) { return name == spec.name; });
  KILN_CHECK(found != node.op->attrs.end());
  return *found;
}

// The attribute as given, or null.
template <typename T>
const T* Given(const Node& node, absl::string_view name) {
  const auto found = node.attrs.find(std::string(name));
  return found == node.attrs.end() ? nullptr : std::get_if<T>(&found->second);
}

std::vector<int64_t> ParseInts(const char* text) {
  std::vector<int64_t> values;
  if (text == nullptr) return values;
  for (absl::string_view part : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    int64_t value = 0;
    KILN_CHECK(absl::SimpleAtoi(part, &value));
    values.push_back(value);
  }
  return values;
}

}  // namespace

int64_t IntAttr(const Node& node, absl::string_view name) {
  const int64_t* given = Given<int64_t>(node, name);
  return given != nullptr ? *given : static_cast<int64_t>(Spec(node, name).number);
}

double FloatAttr(const Node& node, absl::string_view name) {
  const double* given = Given<double>(node, name);
  return static_cast<float>(given != nullptr ? *given : Spec(node, name).number);
}

std::string StringAttr(const Node& node, absl::string_view name) {
  const std::string* given = Given<std::string>(node, name);
  if (given != nullptr) return *given;
  const char* text = Spec(node, name).text;
  return text != nullptr ? text : "";
}

std::vector<int64_t> IntsAttr(const Node& node, absl::string_view name) {
  const auto* given = Given<std::vector<int64_t>>(node, name);
  return given != nullptr ? *given : ParseInts(Spec(node, name).text);
}

std::vector<double> FloatsAttr(const Node& node, absl::string_view name) {
  const auto* given = Given<std::vector<double>>(node, name);
  return given != nullptr ? *given : std::vector<double>();
}

DType TypeAttr(const Node& node, absl::string_view name) {
  const DType* given = Given<DType>(node, name);
  return given != nullptr ? *given : DType::kF32;
}

bool HasAttr(const Node& node, absl::string_view name) {
  return node.attrs.find(std::string(name)) != node.attrs.end();
}

const Graph& GraphAttr(const Node& node, absl::string_view name) {
  const Body* body = Given<Body>(node, name);
  KILN_CHECK(body != nullptr && *body != nullptr);
  return **body;
}

Shape DimsAttr(const Node& node, absl::string_view name) {
  if (const auto* numbers = Given<std::vector<int64_t>>(node, name)) return ToShape(*numbers);
  const std::string* text = Given<std::string>(node, name);
  if (text == nullptr) return ToShape(ParseInts(Spec(node, name).text));
  absl::StatusOr<Shape> shape = ParseShape(*text);
  KILN_CHECK(shape.ok());
  return *std::move(shape);
}

AttrValue DimsValue(const Shape& shape) {
  if (std::optional<std::vector<int64_t>> numbers = Constant(shape)) return *std::move(numbers);
  return ToString(shape);
}

std::optional<Shape> ContentOf(const Value& value) {
  if (value.shape_content) return value.shape_content;
  if (!value.constant || IsFloat(value.type) || value.type == DType::kU64) return std::nullopt;
  const int64_t n = value.constant->num_elements();
  if (n > kMaxContent) return std::nullopt;
  const Tensor dense = Dense(*value.constant);
  Shape content;
  for (int64_t i = 0; i < n; ++i) content.push_back(ReadInt(dense, i));
  return content;
}

absl::StatusOr<Shape> InferContext::Content(int k) const {
  if (std::optional<Shape> content = ContentOf(input(k))) return *std::move(content);
  return NeedsValue(input(k));
}

absl::Status NeedsValue(const Value& value) {
  absl::Status status = absl::UnimplementedError(
      absl::StrCat("the value of \"", value.name,
                   "\" must be known when the model is compiled; it depends on the data"));
  status.SetPayload(kNeededValue, absl::Cord(value.name));
  return status;
}

std::optional<std::string> NeededValue(const absl::Status& status) {
  const absl::optional<absl::Cord> name = status.GetPayload(kNeededValue);
  return name ? std::optional<std::string>(std::string(*name)) : std::nullopt;
}

bool InferContext::has_dims(absl::string_view name) const {
  const AttrSpec& spec = Spec(node_, name);
  return HasAttr(node_, name) || (spec.input >= 0 && has_input(spec.input)) || spec.text != nullptr;
}

absl::StatusOr<Shape> InferContext::Dims(absl::string_view name) const {
  const AttrSpec& spec = Spec(node_, name);
  if (!HasAttr(node_, name)) {
    if (spec.input >= 0 && has_input(spec.input)) return Content(spec.input);
    if (spec.text == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("attribute \"", name, "\" is missing"));
  }
  return DimsAttr(node_, name);
}

void InferContext::SetOutput(int k, DType type, Shape shape) {
  outputs[static_cast<size_t>(k)].type = type;
  outputs[static_cast<size_t>(k)].shape = std::move(shape);
}

void InferContext::SetContent(int k, Shape content) {
  outputs[static_cast<size_t>(k)].content = std::move(content);
}

absl::Status InferContext::Require(const Dim& a, const Dim& b, absl::string_view what) {
  const Guard same = Guard::Same(a, b);
  const std::optional<bool> always = same.Static();
  if (always == true) return absl::OkStatus();
  if (always == false) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", a.ToString(), " and ", b.ToString(), " differ"));
  }
  Assume(same);
  return absl::OkStatus();
}

ScalarExpr ScalarBodyOf(const Graph& graph, const Node& node, const std::vector<bool>& reads) {
  ScalarExpr expr;
  std::vector<Ex> inputs;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (!node.inputs[k].valid()) {
      inputs.push_back({});
      continue;
    }
    const Value& value = graph.value(node.inputs[k]);
    const DType type = ComputeType(value.type);
    const bool is_read = k < reads.size() && reads[k];
    if (!is_read && value.constant && value.constant->num_elements() == 1) {
      const Tensor dense = Dense(*value.constant);
      inputs.push_back(IsFloat(type)
                           ? Literal(expr, type, ReadFloat(dense, 0))
                           : LiteralBits(expr, type, static_cast<uint64_t>(ReadInt(dense, 0))));
    } else {
      inputs.push_back(Read(expr, type, ReadSource::kInput, static_cast<int32_t>(k), {}));
    }
  }
  ScalarBody body(expr, std::move(inputs), node, graph.value(node.outputs[0]).type);
  expr.set_root(node.op->scalar(body).id);
  return expr;
}

}  // namespace kiln
