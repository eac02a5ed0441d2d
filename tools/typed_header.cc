// SPDX-License-Identifier: Apache-2.0
#include "tools/typed_header.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/dtype.h"

namespace kiln {
namespace {

// Of C++20, and what the header declares itself.
constexpr absl::string_view kTaken[] = {"alignas",       "alignof",     "and",
                                        "and_eq",        "asm",         "auto",
                                        "bitand",        "bitor",       "bool",
                                        "break",         "case",        "catch",
                                        "char",          "char8_t",     "char16_t",
                                        "char32_t",      "class",       "compl",
                                        "concept",       "const",       "consteval",
                                        "constexpr",     "constinit",   "const_cast",
                                        "continue",      "co_await",    "co_return",
                                        "co_yield",      "decltype",    "default",
                                        "delete",        "do",          "double",
                                        "dynamic_cast",  "else",        "enum",
                                        "explicit",      "export",      "extern",
                                        "false",         "float",       "for",
                                        "friend",        "goto",        "if",
                                        "inline",        "int",         "long",
                                        "mutable",       "namespace",   "new",
                                        "noexcept",      "not",         "not_eq",
                                        "nullptr",       "operator",    "or",
                                        "or_eq",         "private",     "protected",
                                        "public",        "register",    "reinterpret_cast",
                                        "requires",      "return",      "short",
                                        "signed",        "sizeof",      "static",
                                        "static_assert", "static_cast", "struct",
                                        "switch",        "template",    "this",
                                        "thread_local",  "throw",       "true",
                                        "try",           "typedef",     "typeid",
                                        "typename",      "union",       "unsigned",
                                        "using",         "virtual",     "void",
                                        "volatile",      "wchar_t",     "while",
                                        "xor",           "xor_eq",      "linux",
                                        "unix",          "kiln",        "std"};

struct ElementType {
  const char* cpp;
  const char* c;  // of kiln.h
};
ElementType TypeNames(DType type) {
  switch (type) {
    case DType::kF32:
      return {"float", "KILN_F32"};
    case DType::kF64:
      return {"double", "KILN_F64"};
    case DType::kF16:
      return {"kiln::cpp::Float16", "KILN_F16"};
    case DType::kBF16:
      return {"kiln::cpp::BFloat16", "KILN_BF16"};
    case DType::kI8:
      return {"int8_t", "KILN_I8"};
    case DType::kI16:
      return {"int16_t", "KILN_I16"};
    case DType::kI32:
      return {"int32_t", "KILN_I32"};
    case DType::kI64:
      return {"int64_t", "KILN_I64"};
    case DType::kU8:
      return {"uint8_t", "KILN_U8"};
    case DType::kU16:
      return {"uint16_t", "KILN_U16"};
    case DType::kU32:
      return {"uint32_t", "KILN_U32"};
    case DType::kU64:
      return {"uint64_t", "KILN_U64"};
    case DType::kBool:
      return {"bool", "KILN_BOOL"};
  }
  return {"void", ""};
}

std::vector<std::string> FieldNames(const std::vector<PortInfo>& ports) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const PortInfo& port : ports) {
    std::string name = Identifier(port.name);
    for (int k = 2; !known.insert(name).second; ++k) name = absl::StrCat(Identifier(port.name), k);
    names.push_back(name);
  }
  return names;
}

// Text of the model's, in a comment of one line that ends where it does.
std::string InComment(absl::string_view text) {
  return absl::StrReplaceAll(absl::CEscape(text), {{"\\", "/"}, {"?", "."}});
}

std::string FieldType(const PortInfo& port, bool input) {
  if (port.any_rank) return "kiln::cpp::Tensor";
  return absl::StrCat("kiln::cpp::", input ? "View<" : "Array<", TypeNames(port.type).cpp, ", ",
                      port.shape.size(), ">");
}

std::string Struct(const char* what, const std::vector<PortInfo>& ports, bool input) {
  const std::vector<std::string> names = FieldNames(ports);
  std::string text = absl::StrCat("struct ", what, " {\n");
  for (size_t k = 0; k < ports.size(); ++k) {
    const std::string shape = ports[k].any_rank ? "of any rank" : ToString(ports[k].shape);
    absl::StrAppend(&text, "  // ", InComment(ports[k].name), ": ", Name(ports[k].type), " ",
                    InComment(shape), ports[k].optional ? ", may be absent" : "", "\n  ",
                    FieldType(ports[k], input), " ", names[k], input ? "{}" : "", ";\n");
  }
  return text + "};\n\n";
}

// ExpectPorts of these; nothing where there are none, which no array can say.
std::string Check(const char* what, const std::vector<PortInfo>& ports) {
  if (ports.empty()) return "";
  std::vector<std::string> rows;
  for (const PortInfo& port : ports) {
    rows.push_back(absl::StrCat(
        "{\"", absl::StrReplaceAll(absl::CEscape(port.name), {{"?", "\\?"}}), "\", ",
        TypeNames(port.type).c, ", ", port.any_rank ? "-1" : absl::StrCat(port.shape.size()), "}"));
  }
  return absl::StrCat("    kiln::cpp::ExpectPorts(model_.", what, "(), {",
                      absl::StrJoin(rows, ",\n        "), "});\n");
}

std::string RunText(const std::vector<PortInfo>& inputs, const std::vector<PortInfo>& outputs) {
  std::string text = absl::StrCat(
      "  // Throws kiln::cpp::Error. Thread-safe.\n"
      "  Outputs Run(const Inputs& inputs) const {\n");
  std::vector<std::string> given;
  const std::vector<std::string> names = FieldNames(inputs);
  for (size_t k = 0; k < inputs.size(); ++k) {
    absl::StrAppend(&text, "    kiln::cpp::Tensor in", k, ";\n    if (inputs.", names[k],
                    ".present()) in", k, " = inputs.", names[k], ".tensor();\n");
    given.push_back(absl::StrCat("in", k, ".get() != nullptr ? &in", k, " : nullptr"));
  }
  if (inputs.empty()) text += "    (void)inputs;\n";
  absl::StrAppend(&text, "    std::vector<kiln::cpp::Tensor> out = model_.Run({",
                  absl::StrJoin(given, ",\n        "), "});\n    return {");
  for (size_t k = 0; k < outputs.size(); ++k) {
    absl::StrAppend(&text, k > 0 ? ",\n            " : "", FieldType(outputs[k], false),
                    "(std::move(out[", k, "]))");
  }
  return text + "};\n  }\n";
}

}  // namespace

std::string Identifier(absl::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool fits = absl::ascii_isalnum(static_cast<unsigned char>(c));
    // Two of them in a row, and one before a capital, are not for programs.
    if (fits || out.empty() || out.back() != '_') out += fits ? c : '_';
  }
  while (!out.empty() && out[0] == '_') out.erase(0, 1);
  if (out.empty() || absl::ascii_isdigit(static_cast<unsigned char>(out[0]))) out = "n" + out;
  const bool taken = std::find(std::begin(kTaken), std::end(kTaken), out) != std::end(kTaken);
  return taken ? out + "_" : out;
}

std::string TypedHeader(const std::string& name, const std::vector<PortInfo>& inputs,
                        const std::vector<PortInfo>& outputs) {
  const std::string guard = absl::StrCat("KILN_MODEL_", absl::AsciiStrToUpper(name), "_H_");
  return absl::StrCat(
      "// Made by kiln compile --header; do not edit.\n#ifndef ", guard, "\n#define ", guard,
      "\n\n#include <cstddef>\n#include <cstdint>\n#include <string>\n#include <utility>\n"
      "#include <vector>\n\n#include \"kiln/kiln.hpp\"\n\n"
      "extern \"C\" const unsigned char kiln_package_",
      name, "[], kiln_package_", name, "_end[];\n\nnamespace ", name, " {\n\n",
      Struct("Inputs", inputs, true), Struct("Outputs", outputs, false),
      "class Model {\n public:\n"
      "  // The package that was made with this header. Throws kiln::cpp::Error.\n"
      "  static Model Load(const std::string& package, const kiln_run_options* options = nullptr) "
      "{\n    return Model(kiln::cpp::LoadPackage(package, options));\n  }\n"
      "  // That in this program: kiln_add_model(... STATIC).\n"
      "  static Model LoadEmbedded() {\n    const unsigned char* const begin = kiln_package_",
      name,
      ";\n    return Model(kiln::cpp::LoadPackage(\n        begin, "
      "static_cast<size_t>(kiln_package_",
      name, "_end - begin)));\n  }\n\n", RunText(inputs, outputs),
      "  const kiln::cpp::Model& untyped() const { return model_; }\n\n private:\n"
      "  explicit Model(kiln::cpp::Model model) : model_(std::move(model)) {\n",
      Check("inputs", inputs), Check("outputs", outputs),
      "  }\n\n  kiln::cpp::Model model_;\n};\n\n}  // namespace ", name, "\n\n#endif  // ", guard,
      "\n");
}

}  // namespace kiln
