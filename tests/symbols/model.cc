// SPDX-License-Identifier: Apache-2.0
#include "tests/symbols/model.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/onnx/model_writer.h"

namespace kiln::symbols {
namespace {

bool IsScalar(const std::string& attr) {
  static const std::set<std::string>* const kScalars =
      new std::set<std::string>{"axis",
                                "to",
                                "keepdims",
                                "allowzero",
                                "start",
                                "num_outputs",
                                "end",
                                "noop_with_empty_axes",
                                "ceil_mode",
                                "transA",
                                "transB",
                                "num_scan_inputs",
                                "exclude_outside",
                                "count_include_pad"};
  return kScalars->count(attr) > 0;
}

template <typename T>
std::string Raw(const Array& array) {
  return RawBytes(std::vector<T>(array.elements.begin(), array.elements.end()));
}

std::string RawOf(const Array& array) {
  if (array.type == kFloat) return Raw<float>(array);
  if (array.type == kInt32) return Raw<int32_t>(array);
  if (array.type == kInt64) return Raw<int64_t>(array);
  std::string raw;
  for (const long double element : array.elements) raw.push_back(element != 0 ? 1 : 0);
  return raw;
}

OnnxDim DimOf(const ModelDim& dim) {
  return dim.number >= 0 ? OnnxDim(static_cast<int>(dim.number)) : OnnxDim(dim.name.c_str());
}

const char* TypeName(int type) {
  return type == kFloat ? "f32" : type == kInt32 ? "i32" : type == kInt64 ? "i64" : "bool";
}

std::string ElementText(const Array& array, size_t i) {
  if (array.type == kBool) return array.elements[i] != 0 ? "true" : "false";
  return absl::StrCat(static_cast<int64_t>(array.elements[i]));
}

std::string ConstantText(const std::string& name, const Array& array) {
  std::vector<std::string> elements;
  for (size_t i = 0; i < array.elements.size(); ++i) elements.push_back(ElementText(array, i));
  const std::string all = absl::StrJoin(elements, ", ");
  return absl::StrCat("const ", name, " : ", TypeName(array.type), " [",
                      absl::StrJoin(array.shape, ", "),
                      "] = ", array.shape.empty() ? all : absl::StrCat("[", all, "]"), "\n");
}

struct TextForm {
  const char* onnx;
  const char* text;
};
constexpr TextForm kTextForms[] = {
    {"Abs", "abs"},
    {"Add", "add"},
    {"Cast", "cast"},
    {"Concat", "concat"},
    {"Div", "div"},
    {"Equal", "equal"},
    {"Expand", "expand"},
    {"Flatten", "flatten"},
    {"Gather", "gather"},
    {"Greater", "greater"},
    {"Less", "less"},
    {"Max", "max"},
    {"Min", "min"},
    {"Mod", "mod"},
    {"Mul", "mul"},
    {"Neg", "neg"},
    {"Pad", "pad"},
    {"Range", "range"},
    {"Relu", "relu"},
    {"Reshape", "reshape"},
    {"Shape", "shape"},
    {"Size", "size"},
    {"Slice", "slice"},
    {"Split", "split"},
    {"Squeeze", "squeeze"},
    {"Sub", "sub"},
    {"Transpose", "transpose"},
    {"Unsqueeze", "unsqueeze"},
    {"Where", "where"},
};

std::optional<std::string> TextOf(const ModelNode& node) {
  if (!node.texts.empty() || !node.bodies.empty()) return std::nullopt;
  for (const TextForm& form : kTextForms) {
    if (node.op != form.onnx) continue;
    std::vector<std::string> inputs = node.inputs, attrs;
    for (std::string& input : inputs) {
      if (input.empty()) input = "_";
    }
    for (const auto& [name, value] : node.attrs) {
      if (name == "num_outputs") continue;
      const std::string text = name == "to" ? std::string(TypeName(static_cast<int>(value[0])))
                               : IsScalar(name)
                                   ? absl::StrCat(value[0])
                                   : absl::StrCat("[", absl::StrJoin(value, ", "), "]");
      attrs.push_back(absl::StrCat(name, " = ", text));
    }
    return absl::StrCat(
        absl::StrJoin(node.outputs, ", "), " = ", form.text, "(", absl::StrJoin(inputs, ", "), ")",
        attrs.empty() ? "" : absl::StrCat(" {", absl::StrJoin(attrs, ", "), "}"), "\n");
  }
  return std::nullopt;
}

// A value of a type, without a shape.
std::string TypedValue(const std::string& name, int type) {
  return BytesField(1, name) + BytesField(2, BytesField(1, NumberField(1, type)));
}

std::string GraphOf(const Model& model, const std::vector<std::string>& inputs);

std::string NodeOf(const ModelNode& node) {
  std::vector<std::string> attrs;
  for (const auto& [name, value] : node.attrs) {
    if (name == "value") {
      attrs.push_back(TensorAttribute(
          name, OnnxTensor("", kFloat, {1}, RawBytes<float>({static_cast<float>(value[0])}))));
    } else {
      attrs.push_back(IsScalar(name) ? IntAttribute(name, value[0]) : IntsAttribute(name, value));
    }
  }
  for (const auto& [name, value] : node.texts) attrs.push_back(TextAttribute(name, value));
  for (const auto& [name, body] : node.bodies) {
    std::vector<std::string> inputs;
    for (const ModelInput& input : body->inputs)
      inputs.push_back(TypedValue(input.name, input.type));
    attrs.push_back(GraphAttribute(name, GraphOf(*body, inputs)));
  }
  return OnnxNode(node.op, node.inputs, node.outputs, attrs);
}

std::string GraphOf(const Model& model, const std::vector<std::string>& inputs) {
  std::vector<std::string> nodes, outputs, constants;
  for (const ModelNode& node : model.nodes) nodes.push_back(NodeOf(node));
  for (const auto& [name, array] : model.constants)
    constants.push_back(OnnxTensor(name, array.type, array.shape, RawOf(array)));
  for (const std::string& name : model.outputs)
    outputs.push_back(TypedValue(name, model.output_types.at(name)));
  return OnnxGraph(nodes, inputs, outputs, constants);
}

std::string LinesOf(const Model& model, const std::string& indent) {
  std::string text;
  for (const auto& [name, array] : model.constants)
    absl::StrAppend(&text, indent, ConstantText(name, array));
  for (const ModelNode& node : model.nodes) {
    absl::StrAppend(&text, indent, absl::StrJoin(node.outputs, ", "), " = ", node.op, "(",
                    absl::StrJoin(node.inputs, ", "), ")");
    for (const auto& [name, value] : node.attrs)
      absl::StrAppend(&text, " ", name, "=", ToString(value));
    for (const auto& [name, value] : node.texts) absl::StrAppend(&text, " ", name, "=", value);
    text += "\n";
    for (const auto& [name, body] : node.bodies) {
      std::vector<std::string> inputs;
      for (const ModelInput& input : body->inputs) inputs.push_back(input.name);
      absl::StrAppend(&text, indent, "  ", name, "(", absl::StrJoin(inputs, ", "), "):\n",
                      LinesOf(*body, indent + "    "));
    }
  }
  return absl::StrCat(text, indent, "outputs ", absl::StrJoin(model.outputs, ", "), "\n");
}

}  // namespace

std::string ToString(const Ints& ints) { return absl::StrCat("[", absl::StrJoin(ints, ", "), "]"); }

std::string ToOnnx(const Model& model, const std::vector<Ints>* shapes) {
  std::vector<std::string> inputs;
  for (size_t k = 0; k < model.inputs.size(); ++k) {
    std::vector<OnnxDim> dims;
    for (size_t i = 0; i < model.inputs[k].dims.size(); ++i) {
      dims.push_back(shapes != nullptr ? OnnxDim(static_cast<int>((*shapes)[k][i]))
                                       : DimOf(model.inputs[k].dims[i]));
    }
    inputs.push_back(OnnxValue(model.inputs[k].name, kFloat, dims));
  }
  return OnnxModel(18, GraphOf(model, inputs));
}

std::optional<std::string> ToText(const Model& model, const std::vector<Ints>* shapes) {
  std::string text = "graph symbols\n";
  for (size_t k = 0; k < model.inputs.size(); ++k) {
    std::vector<std::string> dims;
    for (size_t i = 0; i < model.inputs[k].dims.size(); ++i) {
      const ModelDim& dim = model.inputs[k].dims[i];
      if (dim.number < 0 && (dim.name.empty() || !absl::ascii_isalpha(dim.name[0]))) return {};
      dims.push_back(shapes != nullptr ? absl::StrCat((*shapes)[k][i])
                     : dim.number >= 0 ? absl::StrCat(dim.number)
                                       : dim.name);
    }
    absl::StrAppend(&text, "input ", model.inputs[k].name, " : f32 [", absl::StrJoin(dims, ", "),
                    "]\n");
  }
  for (const auto& [name, array] : model.constants) text += ConstantText(name, array);
  for (const ModelNode& node : model.nodes) {
    const std::optional<std::string> line = TextOf(node);
    if (!line) return {};
    text += *line;
  }
  for (const std::string& name : model.outputs) absl::StrAppend(&text, "output ", name, "\n");
  return text;
}

std::string ToString(const Model& model) {
  std::string text;
  for (const ModelInput& input : model.inputs) {
    std::vector<std::string> dims;
    for (const ModelDim& dim : input.dims)
      dims.push_back(dim.number >= 0 ? absl::StrCat(dim.number) : absl::StrCat("'", dim.name, "'"));
    absl::StrAppend(&text, "  input ", input.name, " [", absl::StrJoin(dims, ", "), "]\n");
  }
  return text + LinesOf(model, "  ");
}

}  // namespace kiln::symbols
