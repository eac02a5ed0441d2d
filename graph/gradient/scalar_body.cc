// SPDX-License-Identifier: Apache-2.0
// From a derivative as a ScalarExpr to nodes of the graph: each primitive is a record.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/bodies.h"
#include "graph/gradient/nodes.h"
#include "graph/gradient/scalar_rules.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::gradient {
namespace {

struct Record {
  ScalarOp op;
  const char* name;
};

// What is not here has a rule or a name of its own below, or is no record.
constexpr Record kRecords[] = {
    {ScalarOp::kAdd, "add"},           {ScalarOp::kSub, "sub"},
    {ScalarOp::kMul, "mul"},           {ScalarOp::kDiv, "div"},
    {ScalarOp::kNeg, "neg"},           {ScalarOp::kAbs, "abs"},
    {ScalarOp::kSign, "sign"},         {ScalarOp::kMin, "min"},
    {ScalarOp::kMax, "max"},           {ScalarOp::kSqrt, "sqrt"},
    {ScalarOp::kFloor, "floor"},       {ScalarOp::kCeil, "ceil"},
    {ScalarOp::kRound, "round"},       {ScalarOp::kEq, "equal"},
    {ScalarOp::kNe, "not_equal"},      {ScalarOp::kLt, "less"},
    {ScalarOp::kLe, "less_equal"},     {ScalarOp::kIsNan, "is_nan"},
    {ScalarOp::kAnd, "and"},           {ScalarOp::kOr, "or"},
    {ScalarOp::kXor, "xor"},           {ScalarOp::kNot, "not"},
    {ScalarOp::kShl, "shift_left"},    {ScalarOp::kShr, "shift_right"},
    {ScalarOp::kSelect, "where"},      {ScalarOp::kGuard, "where"},
    {ScalarOp::kExp, "exp"},           {ScalarOp::kLog, "log"},
    {ScalarOp::kTanh, "tanh"},         {ScalarOp::kErf, "erf"},
    {ScalarOp::kSigmoid, "sigmoid"},   {ScalarOp::kRsqrt, "rsqrt"},
    {ScalarOp::kPow, "pow"},           {ScalarOp::kSin, "sin"},
    {ScalarOp::kCos, "cos"},           {ScalarOp::kTan, "tan"},
    {ScalarOp::kAsin, "asin"},         {ScalarOp::kAcos, "acos"},
    {ScalarOp::kAtan, "atan"},         {ScalarOp::kSinh, "sinh"},
    {ScalarOp::kCosh, "cosh"},         {ScalarOp::kAsinh, "asinh"},
    {ScalarOp::kAcosh, "acosh"},       {ScalarOp::kAtanh, "atanh"},
    {ScalarOp::kSoftplus, "softplus"},
};

class Emitter {
 public:
  Emitter(GraphBuilder& b, const ScalarExpr& expr, const std::function<ValueId(int32_t)>& read)
      : m_(b), expr_(expr), read_(read), made_(expr.nodes().size()) {}

  absl::StatusOr<ValueId> Of(ExprId id) {
    ValueId& made = made_[static_cast<size_t>(id)];
    if (!made.valid()) {
      KILN_ASSIGN_OR_RETURN(made, Make(expr_.node(id)));
    }
    return made;
  }

 private:
  absl::StatusOr<ValueId> Make(const ExprNode& node) {
    if (node.op == ScalarOp::kRead) return read_(node.ref);
    if (node.op == ScalarOp::kConst) return Constant(node);
    Ids args;
    for (int k = 0; k < Info(node.op).arity; ++k) {
      KILN_ASSIGN_OR_RETURN(args.emplace_back(), Of(node.args[k]));
    }
    switch (node.op) {
      case ScalarOp::kCast:
        return m_.To(args[0], node.type);
      case ScalarOp::kRoundTo:
        return m_.To(m_.To(args[0], node.aux), node.type);
      case ScalarOp::kMod:
      case ScalarOp::kFmod:
        return m_.Op("mod", std::move(args), {{"fmod", int64_t{1}}});
      default:
        break;
    }
    const auto* const record = std::find_if(std::begin(kRecords), std::end(kRecords),
                                            [&](const Record& r) { return r.op == node.op; });
    if (record == std::end(kRecords)) {
      return absl::UnimplementedError(absl::StrCat(
          "needs \"", Info(node.op).name, "\", which no record is; give the record a rule"));
    }
    return m_.Op(record->name, std::move(args));
  }

  ValueId Constant(const ExprNode& node) {
    if (IsFloat(node.type)) return m_.Number(node.type, ConstValue(node.type, node.imm));
    Tensor tensor = Tensor::Allocate(node.type, {});
    WriteInt(tensor, 0, static_cast<int64_t>(node.imm));
    return m_.builder().Constant(std::move(tensor));
  }

  Nodes m_;
  const ScalarExpr& expr_;
  const std::function<ValueId(int32_t)>& read_;
  std::vector<ValueId> made_;
};

}  // namespace

absl::StatusOr<Ids> Emit(GraphBuilder& b, const ScalarExpr& expr,
                         const std::vector<std::optional<Ex>>& roots,
                         const std::function<ValueId(int32_t)>& read) {
  Emitter emitter(b, expr, read);
  Ids made(roots.size());
  for (size_t k = 0; k < roots.size(); ++k) {
    if (!roots[k]) continue;
    KILN_ASSIGN_OR_RETURN(made[k], emitter.Of(roots[k]->id));
  }
  return Nodes(b).Give(std::move(made));
}

absl::StatusOr<Ids> ScalarCotangents(GraphBuilder& b, const Node& node, ValueId g,
                                     const std::vector<bool>& wanted) {
  Nodes m(b);
  ScalarExpr expr = ScalarBodyOf(b.graph(), node, wanted);
  const ValueId output = node.outputs[0];
  const DType type = ComputeType(m.TypeOf(output));
  const auto count = static_cast<int32_t>(node.inputs.size());
  const Ex cotangent = Read(expr, type, ReadSource::kInput, count, {});
  // A result that is rounded when it is stored is computed again.
  std::optional<Ex> y;
  if (type == m.TypeOf(output)) y = Read(expr, type, ReadSource::kInput, count + 1, {});
  std::vector<std::optional<Ex>> parts = Reverse(expr, cotangent, y, node.inputs.size());
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!wanted[k]) parts[k].reset();
  }
  const ValueId wide = m.Wide(g);
  const auto read = [&](int32_t input) {
    if (input == count) return wide;
    return input > count ? output : m.Wide(node.inputs[static_cast<size_t>(input)]);
  };
  KILN_ASSIGN_OR_RETURN(Ids result, Emit(b, expr, parts, read));
  for (size_t k = 0; k < parts.size(); ++k) {
    const ValueId input = node.inputs[k];
    if (parts[k]) result[k] = m.To(m.SumTo(result[k], m.ShapeOf(input)), m.TypeOf(input));
  }
  return m.Give(std::move(result));
}

}  // namespace kiln::gradient
