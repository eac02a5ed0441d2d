// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr size_t kMaxDims = 64;
constexpr size_t kMaxLines = 4096;       // inputs, params, stages or outputs
constexpr size_t kMaxExprNodes = 65536;  // of one expression

// What an expression may refer to.
struct Scope {
  const Kernel& kernel;
  std::string subject;                   // the line, as errors name it
  size_t stages;                         // how many stages may be read
  std::vector<bool> iterated;            // by dim: whether its coordinate exists here
  const KernelOutput* output = nullptr;  // whose root may add
};

absl::Status Wrong(const Scope& scope, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(scope.subject, ": ", what));
}

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", text, "\""); }
bool Is16BitFloat(DType type) { return type == DType::kF16 || type == DType::kBF16; }
bool IsNumber(DType type) { return type != DType::kBool; }

bool IsIdentifier(absl::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (i == 0 || c < '0' || c > '9')) return false;
  }
  return true;
}

bool ValidDims(const Kernel& kernel, const std::vector<int32_t>& dims, bool iterated_only) {
  std::set<int32_t> seen;
  for (const int32_t dim : dims) {
    if (dim < 0 || static_cast<size_t>(dim) >= kernel.dims.size() || !seen.insert(dim).second)
      return false;
    if (iterated_only && !kernel.dims[static_cast<size_t>(dim)].iterated) return false;
  }
  return true;
}

absl::Status CheckIndex(const Scope& scope, const ScalarExpr& expr, const IndexExpr& index,
                        ExprId user) {
  if (index.load >= 0) {
    if (index.load >= user || !IsInt(expr.node(index.load).type)) {
      return Wrong(scope, "a loaded index is no earlier integer node; load an i32 or i64 value");
    }
    if (!index.terms.empty() || index.offset != 0 || index.div != 1 || index.mod != 0) {
      return Wrong(scope,
                   "a loaded index has terms too; move the arithmetic into the loaded value");
    }
    return absl::OkStatus();
  }
  if (index.div < 1 || index.mod < 0) {
    return Wrong(scope, absl::StrCat("index has divisor ", index.div, " and modulus ", index.mod,
                                     "; both must be positive"));
  }
  for (size_t i = 0; i < index.terms.size(); ++i) {
    const IndexExpr::Term& term = index.terms[i];
    if (term.dim < 0 || static_cast<size_t>(term.dim) >= scope.kernel.dims.size()) {
      return Wrong(scope,
                   absl::StrCat("index names dim ", term.dim, " of ", scope.kernel.dims.size()));
    }
    const auto dim = static_cast<size_t>(term.dim);
    if (term.coef == 0) return Wrong(scope, "index has a term with factor 0; drop it");
    if (!term.extent && !scope.iterated[dim]) {
      return Wrong(scope,
                   absl::StrCat("index uses coordinate ", Quoted(scope.kernel.dims[dim].name),
                                ", which is not iterated here"));
    }
    if (i > 0 && std::pair(index.terms[i - 1].extent, index.terms[i - 1].dim) >=
                     std::pair(term.extent, term.dim)) {
      return Wrong(
          scope, "index terms are not in ascending order; sort coordinates, then extents, by dim");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRead(const Scope& scope, const ScalarExpr& expr, ExprId id) {
  const ExprNode& node = expr.node(id);
  const bool input = node.source == ReadSource::kInput;
  const size_t limit = input ? scope.kernel.inputs.size() : scope.stages;
  if (node.ref < 0 || static_cast<size_t>(node.ref) >= limit) {
    return Wrong(scope, absl::StrCat("reads ", input ? "in" : "s", node.ref, ", but only ", limit,
                                     input ? " inputs" : " stages", " come before it"));
  }
  const auto ref = static_cast<size_t>(node.ref);
  const DType type =
      input ? ComputeType(scope.kernel.inputs[ref].type) : scope.kernel.stages[ref].type;
  const size_t rank =
      input ? scope.kernel.inputs[ref].dims.size() : scope.kernel.stages[ref].dims.size();
  if (node.type != type) {
    return Wrong(scope, absl::StrCat("reads ", input ? "in" : "s", ref, " as ", Name(node.type),
                                     ", it is ", Name(type)));
  }
  if (node.index.size() != rank) {
    return Wrong(scope, absl::StrCat("reads ", input ? "in" : "s", ref, " with ", node.index.size(),
                                     " indices, it has ", rank, " axes"));
  }
  for (const IndexExpr& index : node.index)
    KILN_RETURN_IF_ERROR(CheckIndex(scope, expr, index, id));
  return absl::OkStatus();
}

absl::Status CheckLeaf(const Scope& scope, const ScalarExpr& expr, ExprId id) {
  const ExprNode& node = expr.node(id);
  switch (node.op) {
    case ScalarOp::kRead:
      return CheckRead(scope, expr, id);
    case ScalarOp::kParam:
      if (node.ref < 0 || static_cast<size_t>(node.ref) >= scope.kernel.params.size() ||
          scope.kernel.params[static_cast<size_t>(node.ref)] != node.type) {
        return Wrong(
            scope, absl::StrCat("par", node.ref, " of type ", Name(node.type), " does not exist"));
      }
      return absl::OkStatus();
    case ScalarOp::kIndex:
    case ScalarOp::kExtent: {
      const bool known = node.ref >= 0 && static_cast<size_t>(node.ref) < scope.kernel.dims.size();
      if (!known || node.type != DType::kI64) {
        return Wrong(scope, absl::StrCat(Info(node.op).name, "(", node.ref,
                                         ") is not an i64 of a known dim"));
      }
      if (node.op == ScalarOp::kIndex && !scope.iterated[static_cast<size_t>(node.ref)]) {
        return Wrong(scope,
                     absl::StrCat("index(", scope.kernel.dims[static_cast<size_t>(node.ref)].name,
                                  ") is not iterated here"));
      }
      return absl::OkStatus();
    }
    default:
      return absl::OkStatus();
  }
}

// The operand of add_at has the type of the node, which is the root of the only output.
absl::Status CheckAddAt(const Scope& scope, const ScalarExpr& expr, ExprId id) {
  const ExprNode& node = expr.node(id);
  if (scope.output == nullptr || id != expr.root() || scope.kernel.outputs.size() != 1)
    return Wrong(scope, "\"add_at\" is only the root of a kernel's only output");
  const KernelOutput& output = *scope.output;
  const size_t bytes = SizeOf(node.type);
  const bool number = IsNumber(node.type) && bytes >= 4 && output.type == node.type;
  bool loads = false, fits = node.index.size() == output.dims.size();
  for (size_t axis = 0; fits && axis < output.dims.size(); ++axis) {
    const int32_t dim = output.dims[axis];
    const IndexExpr& index = node.index[axis];
    const bool own = scope.kernel.dims[static_cast<size_t>(dim)].iterated;
    fits = own ? index == IndexExpr::Dim(dim) : index.load >= 0;
    loads = loads || !own;
    KILN_RETURN_IF_ERROR(CheckIndex(scope, expr, index, id));
  }
  if (!number || !fits || !loads || output.layout != Layout::kDense ||
      expr.node(node.args[0]).type != node.type) {
    return Wrong(scope,
                 "\"add_at\" adds numbers of 32 or 64 bits to a dense output of their type, at its "
                 "own coordinate along iterated dims and a loaded index along sizes");
  }
  return absl::OkStatus();
}

// Whether `node` with operand types `a`, `b`, `c` (kBool where absent) is well typed.
bool WellTyped(const ExprNode& node, DType a, DType b, DType c) {
  const DType type = node.type;
  switch (node.op) {
    case ScalarOp::kAdd:
    case ScalarOp::kSub:
    case ScalarOp::kMul:
    case ScalarOp::kDiv:
    case ScalarOp::kMin:
    case ScalarOp::kMax:
      return IsNumber(type) && a == type && b == type;
    case ScalarOp::kMod:
    case ScalarOp::kShl:
    case ScalarOp::kShr:
      return IsInt(type) && a == type && b == type;
    case ScalarOp::kFma:
      return IsFloat(type) && a == type && b == type && c == type;
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kSign:
      return IsNumber(type) && a == type;
    case ScalarOp::kEq:
    case ScalarOp::kNe:
      return type == DType::kBool && a == b;
    case ScalarOp::kLt:
    case ScalarOp::kLe:
      return type == DType::kBool && a == b && IsNumber(a);
    case ScalarOp::kIsNan:
      return type == DType::kBool && IsFloat(a);
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
      return !IsFloat(type) && a == type && b == type;
    case ScalarOp::kNot:
      return !IsFloat(type) && a == type;
    case ScalarOp::kSelect:
    case ScalarOp::kGuard:
      return a == DType::kBool && b == type && c == type;
    case ScalarOp::kCast:
      return true;
    case ScalarOp::kBitcast:
      return SizeOf(type) == SizeOf(a) && IsNumber(type) && IsNumber(a);
    case ScalarOp::kRoundTo:
      return type == DType::kF32 && a == type && Is16BitFloat(node.aux);
    case ScalarOp::kPow:
    case ScalarOp::kFmod:
      return IsFloat(type) && a == type && b == type;
    case ScalarOp::kPhilox:
      return type == DType::kU64 && a == type && b == type;
    default:  // rounding, square root, functions of one operand
      return IsFloat(type) && a == type;
  }
}

absl::Status CheckExpr(const Scope& scope, const ScalarExpr& expr) {
  if (expr.empty() || expr.root() < 0 || static_cast<size_t>(expr.root()) >= expr.nodes().size()) {
    return Wrong(scope, "has no expression");
  }
  if (expr.nodes().size() > kMaxExprNodes) {
    return Wrong(scope, absl::StrCat("has ", expr.nodes().size(), " nodes, the limit is ",
                                     kMaxExprNodes, "; split it into stages"));
  }
  for (ExprId id = 0; static_cast<size_t>(id) < expr.nodes().size(); ++id) {
    const ExprNode& node = expr.node(id);
    if (Is16BitFloat(node.type)) {
      return Wrong(scope, absl::StrCat("computes in ", Name(node.type),
                                       "; 16-bit floats are storage types, compute in f32"));
    }
    DType types[3] = {DType::kBool, DType::kBool, DType::kBool};
    for (int i = 0; i < 3; ++i) {
      const ExprId arg = node.args[i];
      if (i < Info(node.op).arity ? arg < 0 || arg >= id : arg != -1) {
        return Wrong(scope, absl::StrCat(Quoted(Info(node.op).name),
                                         " does not take operands as given; it takes ",
                                         Info(node.op).arity, ", each an earlier node"));
      }
      if (arg >= 0) types[i] = expr.node(arg).type;
    }
    if (Info(node.op).arity == 0) {
      KILN_RETURN_IF_ERROR(CheckLeaf(scope, expr, id));
    } else if (node.op == ScalarOp::kAddAt) {
      KILN_RETURN_IF_ERROR(CheckAddAt(scope, expr, id));
    } else if (!WellTyped(node, types[0], types[1], types[2])) {
      return Wrong(scope,
                   absl::StrCat(Quoted(Info(node.op).name), " gives ", Name(node.type), " from ",
                                Name(types[0]),
                                Info(node.op).arity > 1 ? absl::StrCat(", ", Name(types[1])) : "",
                                Info(node.op).arity > 2 ? absl::StrCat(", ", Name(types[2])) : "",
                                "; insert a cast"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDims(const Kernel& kernel) {
  std::set<std::string> names;
  for (size_t i = 0; i < kernel.dims.size(); ++i) {
    const KernelDim& dim = kernel.dims[i];
    if (!IsIdentifier(dim.name) || !names.insert(dim.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("dims: ", Quoted(dim.name), " is no identifier or is taken; rename it"));
    }
    if (dim.iterated && i > 0 && !kernel.dims[i - 1].iterated) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dims: iterated ", Quoted(dim.name), " stands after a size; put iterated dims first"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStage(const Kernel& kernel, size_t k) {
  const Stage& stage = kernel.stages[k];
  Scope scope{kernel, absl::StrCat("s", k), k, std::vector<bool>(kernel.dims.size(), false)};
  if (!ValidDims(kernel, stage.dims, true) ||
      !std::is_sorted(stage.dims.begin(), stage.dims.end()) ||
      !ValidDims(kernel, stage.over, true) ||
      !std::is_sorted(stage.over.begin(), stage.over.end())) {
    return Wrong(scope, "dims are not distinct iterated dims in ascending order");
  }
  for (const int32_t dim : stage.dims) scope.iterated[static_cast<size_t>(dim)] = true;
  const bool reduce = stage.kind == Stage::Kind::kReduce;
  if (reduce ? stage.over.empty() : !stage.over.empty()) {
    return Wrong(scope, "a reduction, and nothing else, is over at least one dim");
  }
  for (const int32_t dim : stage.over) {
    if (scope.iterated[static_cast<size_t>(dim)])
      return Wrong(scope, "a reduced dim is a dim of the result too; drop one");
    scope.iterated[static_cast<size_t>(dim)] = true;
  }
  KILN_RETURN_IF_ERROR(CheckExpr(scope, stage.expr));
  if (stage.expr.type() != stage.type) {
    return Wrong(scope, absl::StrCat("is ", Name(stage.type), ", its expression ",
                                     Name(stage.expr.type()), "; insert a cast"));
  }
  const bool bits = stage.op == ReduceOp::kAnd || stage.op == ReduceOp::kOr;
  if (reduce && (bits ? IsFloat(stage.type) : !IsNumber(stage.type))) {
    return Wrong(scope, absl::StrCat("reduces ", Name(stage.type), " by ", Quoted(Name(stage.op)),
                                     "; and, or take bool and integers, the others numbers"));
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const Kernel& kernel, size_t k) {
  const KernelOutput& output = kernel.outputs[k];
  Scope scope{kernel, absl::StrCat("out ", k), kernel.stages.size(),
              std::vector<bool>(kernel.dims.size(), false)};
  scope.output = &output;
  if (!ValidDims(kernel, output.dims, !output.adds()))
    return Wrong(scope, "dims are not distinct iterated dims");
  for (const int32_t dim : LoopDims(kernel, output))
    scope.iterated[static_cast<size_t>(dim)] = true;
  KILN_RETURN_IF_ERROR(CheckExpr(scope, output.expr));
  if (ComputeType(output.type) != output.expr.type()) {
    return Wrong(scope, absl::StrCat("is ", Name(output.type), ", its expression ",
                                     Name(output.expr.type()), "; insert a cast"));
  }
  return absl::OkStatus();
}

}  // namespace

const char* Name(ReduceOp op) {
  constexpr const char* kNames[] = {"add", "mul", "max", "min", "and", "or", "greatest"};
  return kNames[static_cast<size_t>(op)];
}

int Kernel::num_iterated() const {
  return static_cast<int>(
      std::count_if(dims.begin(), dims.end(), [](const KernelDim& dim) { return dim.iterated; }));
}

std::vector<int32_t> LoopDims(const Kernel& kernel, const KernelOutput& output) {
  if (!output.adds()) return output.dims;
  std::vector<int32_t> dims;
  for (int32_t dim = 0; dim < kernel.num_iterated(); ++dim) dims.push_back(dim);
  return dims;
}

bool Scatters(const Kernel& kernel) { return !kernel.outputs.empty() && kernel.outputs[0].adds(); }

absl::Status Verify(const Kernel& kernel) {
  if (kernel.math != kMathVersion) {
    return absl::InvalidArgumentError(absl::StrCat("kernel: math version ", kernel.math,
                                                   ", this build has ", kMathVersion,
                                                   "; regenerate the kernel"));
  }
  if (kernel.dims.size() > kMaxDims || kernel.inputs.size() > kMaxLines ||
      kernel.params.size() > kMaxLines || kernel.stages.size() > kMaxLines ||
      kernel.outputs.size() > kMaxLines) {
    return absl::InvalidArgumentError(absl::StrCat("kernel: more than ", kMaxDims, " dims or ",
                                                   kMaxLines, " lines of a kind; split the group"));
  }
  if (kernel.outputs.empty()) return absl::InvalidArgumentError("kernel: has no output; add one");
  KILN_RETURN_IF_ERROR(CheckDims(kernel));
  for (size_t k = 0; k < kernel.inputs.size(); ++k) {
    if (!ValidDims(kernel, kernel.inputs[k].dims, false)) {
      return absl::InvalidArgumentError(
          absl::StrCat("in ", k, ": dims are not distinct known dims"));
    }
  }
  for (size_t k = 0; k < kernel.params.size(); ++k) {
    if (Is16BitFloat(kernel.params[k])) {
      return absl::InvalidArgumentError(
          absl::StrCat("par ", k, ": is ", Name(kernel.params[k]), "; make it f32"));
    }
  }
  for (size_t k = 0; k < kernel.stages.size(); ++k) KILN_RETURN_IF_ERROR(CheckStage(kernel, k));
  for (size_t k = 0; k < kernel.outputs.size(); ++k) KILN_RETURN_IF_ERROR(CheckOutput(kernel, k));
  return absl::OkStatus();
}

}  // namespace kiln
