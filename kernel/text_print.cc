// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernel/text.h"

namespace kiln {
namespace {

// Canonical kernels share leaves only, so their text is linear. Others may not: one expression's
// text stops here, with a mark that does not parse.
constexpr size_t kMaxExprText = size_t{1} << 20;
constexpr int kMaxDepth = 2000;
constexpr absl::string_view kCut = "<cut>";

// Shortest hexadecimal form that reads back to the same value; 0, 1 and -1 plain.
template <typename Float>
std::string FloatText(Float value) {
  if (std::isnan(value)) return "nan";
  const std::string sign = std::signbit(value) ? "-" : "";
  const Float magnitude = std::fabs(value);
  if (std::isinf(value)) return sign + "inf";
  if (magnitude == 0 || magnitude == 1) return sign + (magnitude == 0 ? "0" : "1");
  char buffer[64];
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof(buffer), magnitude, std::chars_format::hex);
  return absl::StrCat(sign, "0x", absl::string_view(buffer, static_cast<size_t>(end.ptr - buffer)));
}

std::string LiteralText(DType type, uint64_t bits) {
  if (type == DType::kF32) return FloatText(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const std::string prefix = absl::StrCat(Name(type), ":");
  if (type == DType::kF64) return prefix + FloatText(std::bit_cast<double>(bits));
  if (IsSigned(type)) return absl::StrCat(prefix, static_cast<int64_t>(bits));
  return absl::StrCat(prefix, bits);
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string Expr(const ScalarExpr& expr) {
    std::string out;
    if (expr.root() >= 0) Node(expr, expr.root(), 0, out);
    return out;
  }

  std::string Dims(const std::vector<int32_t>& dims, absl::string_view separator) const {
    std::string out;
    for (const int32_t dim : dims)
      absl::StrAppend(&out, out.empty() ? "" : separator,
                      kernel_.dims[static_cast<size_t>(dim)].name);
    return out;
  }

 private:
  void Node(const ScalarExpr& expr, ExprId id, int depth, std::string& out) {
    if (out.size() > kMaxExprText || depth > kMaxDepth) {
      absl::StrAppend(&out, kCut);
      return;
    }
    const ExprNode& node = expr.node(id);
    switch (node.op) {
      case ScalarOp::kConst:
        absl::StrAppend(&out, LiteralText(node.type, node.imm));
        return;
      case ScalarOp::kRead:
        absl::StrAppend(&out, node.source == ReadSource::kInput ? "in" : "s", node.ref);
        Indices(expr, node, depth, out);
        return;
      case ScalarOp::kAddAt:
        absl::StrAppend(&out, Info(node.op).name);
        Indices(expr, node, depth, out);
        break;
      case ScalarOp::kParam:
        absl::StrAppend(&out, "par", node.ref);
        return;
      case ScalarOp::kIndex:
      case ScalarOp::kExtent:
        absl::StrAppend(&out, Info(node.op).name, "(",
                        kernel_.dims[static_cast<size_t>(node.ref)].name, ")");
        return;
      case ScalarOp::kCast:
      case ScalarOp::kBitcast:
        absl::StrAppend(&out, Info(node.op).name, "<", Name(node.type), ">");
        break;
      case ScalarOp::kRoundTo:
        absl::StrAppend(&out, Info(node.op).name, "<", Name(node.aux), ">");
        break;
      default:
        absl::StrAppend(&out, Info(node.op).name);
    }
    for (int i = 0; i < Info(node.op).arity; ++i) {
      absl::StrAppend(&out, i == 0 ? "(" : ", ");
      Node(expr, node.args[i], depth + 1, out);
    }
    absl::StrAppend(&out, ")");
  }

  std::string Sum(const IndexExpr& index) const {
    std::string out;
    for (const IndexExpr::Term& term : index.terms) {
      const std::string& name = kernel_.dims[static_cast<size_t>(term.dim)].name;
      if (term.coef == -1) {
        absl::StrAppend(&out, "-");
      } else {
        if (!out.empty() && term.coef > 0) absl::StrAppend(&out, "+");
        if (term.coef != 1) absl::StrAppend(&out, term.coef, "*");
      }
      absl::StrAppend(&out, term.extent ? "|" : "", name, term.extent ? "|" : "");
    }
    if (out.empty()) return absl::StrCat(index.offset);
    if (index.offset != 0) absl::StrAppend(&out, index.offset > 0 ? "+" : "", index.offset);
    return out;
  }

  void Indices(const ScalarExpr& expr, const ExprNode& node, int depth, std::string& out) {
    absl::StrAppend(&out, "[");
    for (size_t i = 0; i < node.index.size(); ++i) {
      if (i > 0) absl::StrAppend(&out, ", ");
      Index(expr, node.index[i], depth, out);
    }
    absl::StrAppend(&out, "]");
  }

  void Index(const ScalarExpr& expr, const IndexExpr& index, int depth, std::string& out) {
    if (index.load >= 0) {
      absl::StrAppend(&out, "[");
      Node(expr, index.load, depth + 1, out);
      absl::StrAppend(&out, "]");
      return;
    }
    std::string text = Sum(index);
    const auto wrap = [](const std::string& s) { return absl::StrCat("(", s, ")"); };
    if (index.div != 1 || index.mod != 0) {
      const bool plain = index.terms.size() == 1 && index.terms[0].coef == 1 && index.offset == 0;
      if (!plain) text = wrap(text);
    }
    if (index.div != 1) text = absl::StrCat(text, "/", index.div);
    if (index.mod != 0) text = absl::StrCat(index.div != 1 ? wrap(text) : text, "%", index.mod);
    absl::StrAppend(&out, text);
  }

  const Kernel& kernel_;
};

const char* LayoutName(Layout layout) {
  constexpr const char* kNames[] = {"dense", "rows", "strided"};
  return kNames[static_cast<size_t>(layout)];
}

}  // namespace

std::string Print(const Kernel& kernel) {
  Printer printer(kernel);
  std::string out = absl::StrCat("kernel v1 math ", kernel.math, "\n");
  std::string iterated;
  std::string sizes;
  for (const KernelDim& dim : kernel.dims)
    absl::StrAppend(dim.iterated ? &iterated : &sizes, " ", dim.name);
  if (!iterated.empty()) absl::StrAppend(&out, "dims", iterated, "\n");
  if (!sizes.empty()) absl::StrAppend(&out, "sizes", sizes, "\n");
  for (size_t k = 0; k < kernel.inputs.size(); ++k) {
    const KernelInput& input = kernel.inputs[k];
    absl::StrAppend(&out, "in   ", k, " ", Name(input.type), " [", printer.Dims(input.dims, ", "),
                    "] ", LayoutName(input.layout), "\n");
  }
  for (size_t k = 0; k < kernel.params.size(); ++k)
    absl::StrAppend(&out, "par  ", k, " ", Name(kernel.params[k]), "\n");

  std::vector<std::string> heads;
  size_t width = 0;
  for (const Stage& stage : kernel.stages) {
    heads.push_back(absl::StrCat(Name(stage.type), " [", printer.Dims(stage.dims, ", "), "]"));
    width = std::max(width, heads.back().size());
  }
  for (size_t k = 0; k < kernel.stages.size(); ++k) {
    const Stage& stage = kernel.stages[k];
    heads[k].resize(width, ' ');
    absl::StrAppend(&out, "s", k, " : ", heads[k], " = ");
    if (stage.kind == Stage::Kind::kReduce) {
      absl::StrAppend(&out, "reduce ", Name(stage.op), " over ", printer.Dims(stage.over, " "),
                      " (", printer.Expr(stage.expr), ")\n");
    } else {
      absl::StrAppend(&out, printer.Expr(stage.expr), "\n");
    }
  }
  for (size_t k = 0; k < kernel.outputs.size(); ++k) {
    const KernelOutput& output = kernel.outputs[k];
    absl::StrAppend(&out, "out  ", k, " ", Name(output.type), " [", printer.Dims(output.dims, ", "),
                    "] ", LayoutName(output.layout), " = ", printer.Expr(output.expr), "\n");
  }
  return out;
}

}  // namespace kiln
