// SPDX-License-Identifier: Apache-2.0
#include "tests/trace/ops_header.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace kiln {
namespace {

constexpr char kBegin[] = R"(// SPDX-License-Identifier: Apache-2.0
// Operators as functions of arrays, with the names, operands and attributes of `kiln ops`. Made of
// the registry by trace_ops_header_test (KILN_WRITE_TRACE_OPS=1 writes it anew).
//
//   kiln::softmax(x, {.axis = 1});
//   kiln::where(x > 0.0f, x, 0.0f);
//   kiln::reduce_sum(x, {.axes = {0}, .keepdims = 0});
//
// Operands come first, then attributes, then operands that may be absent. Where C++ has the word
// (`and`), the name ends in an underscore.
#ifndef KILN_TRACE_OPS_H_
#define KILN_TRACE_OPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "kiln/tensor.h"
#include "kiln/trace.h"

namespace kiln {
)";

constexpr char kEnd[] = R"(
}  // namespace kiln

#endif  // KILN_TRACE_OPS_H_
)";

bool Supported(AttrKind kind) {
  return kind == AttrKind::kInt || kind == AttrKind::kFloat || kind == AttrKind::kString ||
         kind == AttrKind::kInts || kind == AttrKind::kDims || kind == AttrKind::kType;
}

std::vector<const AttrSpec*> AttributesOf(const OpDef& op) {
  std::vector<const AttrSpec*> specs;
  for (const AttrSpec& spec : op.attrs)
    if (Supported(spec.kind)) specs.push_back(&spec);
  return specs;
}

bool IsRequired(const AttrSpec& spec) {
  return spec.required && (spec.kind == AttrKind::kInt || spec.kind == AttrKind::kType);
}

// A list that has a default, "1 1", is absent unless given: the record then has it.
std::string FieldOf(const AttrSpec& spec) {
  switch (spec.kind) {
    case AttrKind::kInt:
      return spec.required
                 ? absl::StrCat("tracing::Required<int64_t> ", spec.name)
                 : absl::StrCat("int64_t ", spec.name, " = ", static_cast<int64_t>(spec.number));
    case AttrKind::kFloat:
      return absl::StrCat("double ", spec.name, " = ", spec.number);
    case AttrKind::kString:
      return absl::StrCat("std::string ", spec.name, " = \"", spec.text != nullptr ? spec.text : "",
                          "\"");
    case AttrKind::kType:
      return spec.required ? absl::StrCat("tracing::Required<DType> ", spec.name)
                           : absl::StrCat("std::optional<DType> ", spec.name, " = {}");
    default:
      return absl::StrCat("Ints ", spec.name, " = {}");
  }
}

std::string CamelCase(absl::string_view name) {
  std::string made;
  for (absl::string_view part : absl::StrSplit(name, '_')) {
    if (part.empty()) continue;
    made += static_cast<char>(part[0] - 'a' + 'A');
    absl::StrAppend(&made, part.substr(1));
  }
  return made;
}

struct Operand {
  std::string name;  // empty: its place is that of an attribute
  bool optional = false;
};

std::vector<Operand> OperandsOf(const OpDef& op) {
  static constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  std::set<int> attributes;
  for (const AttrSpec& spec : op.attrs)
    if (spec.input >= 0) attributes.insert(spec.input);
  std::vector<Operand> operands;
  for (int k = 0; k < op.max_inputs; ++k) {
    operands.push_back({attributes.contains(k) ? "" : kNames[k], k >= op.min_inputs});
  }
  while (!operands.empty() && operands.back().name.empty()) operands.pop_back();
  return operands;
}

std::string Comment(absl::string_view text) {
  std::string made, line = "//";
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (line.size() + 1 + word.size() > 100) {
      absl::StrAppend(&made, line, "\n");
      line = "//";
    }
    absl::StrAppend(&line, " ", word);
  }
  return absl::StrCat(made, line, "\n");
}

// How many results, as the source of a number; "" for one.
std::string CountOf(const OpDef& op) {
  if (op.num_outputs > 0) return op.num_outputs == 1 ? "" : absl::StrCat(op.num_outputs);
  return "attributes.split.size()";
}

std::string StructOf(const OpDef& op, const std::string& type) {
  std::string text = absl::StrCat("struct ", type, " {\n");
  for (const AttrSpec* const spec : AttributesOf(op))
    absl::StrAppend(&text, "  ", FieldOf(*spec), ";  // ", spec->doc, "\n");
  return text + "};\n";
}

std::string ParametersOf(const OpDef& op, const std::string& attributes_type) {
  std::vector<std::string> parameters;
  bool required = false;
  for (const AttrSpec* const spec : AttributesOf(op)) required = required || IsRequired(*spec);
  required = required || op.num_outputs < 0;
  if (op.max_inputs < 0) parameters.push_back("const OperandList& operands");
  for (const Operand& operand : OperandsOf(op))
    if (!operand.name.empty() && !operand.optional)
      parameters.push_back(absl::StrCat("const Operand& ", operand.name));
  if (!attributes_type.empty()) {
    parameters.push_back(
        absl::StrCat("const ", attributes_type, "& attributes", required ? "" : " = {}"));
  }
  for (const Operand& operand : OperandsOf(op))
    if (!operand.name.empty() && operand.optional)
      parameters.push_back(absl::StrCat("const Operand& ", operand.name, " = {}"));
  parameters.push_back("Location where = Location::Here()");
  return absl::StrJoin(parameters, ", ");
}

std::string AttributesList(const OpDef& op) {
  std::vector<std::string> values;
  for (const AttrSpec* const spec : AttributesOf(op)) {
    values.push_back(absl::StrCat("{\"", spec->name, "\", attributes.", spec->name,
                                  IsRequired(*spec) ? ".value" : "", "}"));
  }
  return absl::StrJoin(values, ", ");
}

// A call with one result.
std::string ShortBody(const OpDef& op, const std::string& names) {
  return absl::StrCat("  return tracing::Apply(op, \"", op.name, "\", {", names, "}, {",
                      AttributesList(op), "}, where);\n");
}

std::string BodyOf(const OpDef& op) {
  std::string text =
      absl::StrCat("  static const OpDef* const op = tracing::FindOperator(\"", op.name, "\");\n");
  std::vector<std::string> names;
  bool absent = false;
  for (const Operand& operand : OperandsOf(op)) {
    absent = absent || operand.name.empty();
    names.push_back(operand.name.empty() ? "&absent" : "&" + operand.name);
  }
  if (absent) text += "  const Operand absent;\n";
  const std::string count = CountOf(op), list = absl::StrJoin(names, ", ");
  if (count.empty() && op.max_inputs >= 0) return text + ShortBody(op, list);
  if (op.max_inputs < 0) {
    absl::StrAppend(&text, "  std::vector<const Operand*> list;\n",
                    "  for (const Operand& operand : operands.list()) list.push_back(&operand);\n");
  } else {
    absl::StrAppend(&text, "  const std::array<const Operand*, ", names.size(), "> list = {", list,
                    "};\n");
  }
  absl::StrAppend(&text, "  const std::initializer_list<tracing::Attribute> given = {",
                  AttributesList(op), "};\n  ",
                  op.num_outputs > 0
                      ? absl::StrCat("std::array<Array, ", op.num_outputs, "> results;\n")
                      : absl::StrCat("std::vector<Array> results(", count, ");\n"));
  return absl::StrCat(text, "  tracing::Apply(op, \"", op.name,
                      "\", list.data(), list.size(), given.begin(), given.size(), where,\n"
                      "  results.data(), results.size());\n  return ",
                      count.empty() ? "results[0];\n" : "results;\n");
}

std::string PythonName(absl::string_view name) {
  static const std::set<absl::string_view> kWords = {"and", "or", "not", "is", "in", "from", "to_"};
  return absl::StrCat(name, kWords.contains(name) ? "_" : "");
}

// ---- python/kiln/ops.py.

constexpr char kPythonBegin[] = R"(# SPDX-License-Identifier: Apache-2.0
"""Operators as functions of arrays, with the names, operands and attributes of `kiln ops`.

    kiln.ops.softmax(x, axis=1)
    kiln.ops.where(x > 0, x, 0.0)
    kiln.ops.concat(x, y, axis=0)

Operands are kiln.Array, numbers, or arrays of other libraries, which are copied; types of elements are names ("float32") or
NumPy's. Where Python has the word (`and`), the name ends in an underscore. Made of the registry by trace_ops_header_test
(KILN_WRITE_TRACE_OPS=1 writes it anew).
"""
# pylint: disable=redefined-builtin,too-many-lines,line-too-long
from collections.abc import Sequence
from typing import Any

from kiln._arrays import dtype_name as _dtype
from kiln._kiln import Array, apply as _apply

)";

// The type of an attribute, and its default; "" for one that is required.
std::pair<std::string, std::string> PythonType(const AttrSpec& spec) {
  switch (spec.kind) {
    case AttrKind::kInt:
      return {"int", spec.required ? "" : absl::StrCat(static_cast<int64_t>(spec.number))};
    case AttrKind::kFloat:
      return {"float", absl::StrCat(spec.number)};
    case AttrKind::kString:
      return {"str", absl::StrCat("\"", spec.text != nullptr ? spec.text : "", "\"")};
    case AttrKind::kType:
      return {"Any", spec.required ? "" : "None"};
    default:
      return {"Sequence[int] | None", "None"};
  }
}

std::string PythonParameters(const OpDef& op) {
  std::vector<std::string> parts;
  if (op.max_inputs < 0) parts.push_back("*operands: Any");
  for (const Operand& operand : OperandsOf(op))
    if (!operand.name.empty())
      parts.push_back(absl::StrCat(operand.name, ": Any", operand.optional ? " = None" : ""));
  if (op.max_inputs >= 0 && !AttributesOf(op).empty()) parts.push_back("*");
  for (const AttrSpec* const spec : AttributesOf(op)) {
    const auto [type, otherwise] = PythonType(*spec);
    parts.push_back(absl::StrCat(PythonName(spec->name), ": ", type,
                                 otherwise.empty() ? "" : " = " + otherwise));
  }
  return absl::StrJoin(parts, ", ");
}

std::string PythonCall(const OpDef& op) {
  std::vector<std::string> operands, attributes, types;
  for (const Operand& operand : OperandsOf(op))
    operands.push_back(operand.name.empty() ? "None" : operand.name);
  for (const AttrSpec* const spec : AttributesOf(op)) {
    const std::string name = PythonName(spec->name);
    if (spec->kind == AttrKind::kType) {
      types.push_back(absl::StrCat(
          "\"", spec->name, "\": ",
          spec->required ? absl::StrCat("_dtype(", name, ")")
                         : absl::StrCat("None if ", name, " is None else _dtype(", name, ")")));
      continue;
    }
    const auto type = PythonType(*spec).first;
    const bool converts = type == "int" || type == "float";
    attributes.push_back(absl::StrCat(
        "\"", spec->name, "\": ", converts ? absl::StrCat(type, "(", name, ")") : name));
  }
  const std::string tuple = op.max_inputs < 0 ? "operands"
                                              : absl::StrCat("(", absl::StrJoin(operands, ", "),
                                                             operands.size() == 1 ? ",)" : ")");
  const std::string count = op.num_outputs < 0 ? "len(split or ())" : absl::StrCat(op.num_outputs);
  return absl::StrCat("_apply(\"", op.name, "\", ", tuple, ", {", absl::StrJoin(attributes, ", "),
                      "}, {", absl::StrJoin(types, ", "), "}, ", count, ")");
}

}  // namespace

bool HasFunction(const OpDef& op) {
  // Its extents are the elements of its operands, which an array does not have before it runs.
  if (absl::string_view(op.name) == "range") return false;
  if (op.dynamic || op.infer == nullptr || op.kind == OpKind::kHost || op.kind == OpKind::kControl)
    return false;
  for (const AttrSpec& spec : op.attrs)
    if (spec.required && !Supported(spec.kind)) return false;
  return true;
}

std::string FunctionName(const OpDef& op) {
  static const std::set<absl::string_view> kWords = {"and", "or", "not", "xor"};
  return absl::StrCat(op.name, kWords.contains(op.name) ? "_" : "");
}

std::string OpsHeader() {
  std::string text = kBegin;
  for (const OpDef* const op : AllOps()) {
    if (!HasFunction(*op)) continue;
    const std::string type = AttributesOf(*op).empty() ? "" : CamelCase(op->name) + "Attributes";
    absl::StrAppend(&text, "\n", Comment(op->doc), type.empty() ? "" : StructOf(*op, type));
    const std::string result = CountOf(*op).empty() ? "Array"
                               : op->num_outputs > 0
                                   ? absl::StrCat("std::array<Array, ", op->num_outputs, ">")
                                   : "std::vector<Array>";
    absl::StrAppend(&text, "inline ", result, " ", FunctionName(*op), "(", ParametersOf(*op, type),
                    ") {\n", BodyOf(*op), "}\n");
  }
  return text + kEnd;
}

std::string OpsModule() {
  std::string text = kPythonBegin;
  for (const OpDef* const op : AllOps()) {
    if (!HasFunction(*op)) continue;
    const std::string result = op->num_outputs == 1 ? "Array" : "tuple[Array, ...]";
    absl::StrAppend(&text, "\ndef ", PythonName(op->name), "(", PythonParameters(*op), ") -> ",
                    result, ":\n    \"\"\"", op->doc, "\"\"\"\n    made: ", result, " = ",
                    PythonCall(*op), "\n    return made\n\n");
  }
  text.pop_back();
  return text;
}

}  // namespace kiln
