// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/common/expr_emitter.h"

#include <algorithm>
#include <string>

#include "halide_gen/common/opaque_loads.h"
#include "halide_gen/common/vanishing_reads.h"
#include "schedule/analysis.h"

namespace kiln {
namespace {

using Halide::cast;
using Halide::clamp;
using Halide::Expr;
using Halide::max;
using Halide::min;

Expr ScalarParam(Halide::Type type, const std::string& name, Operands& operands) {
  const Halide::Parameter parameter(type, /*is_buffer=*/false, 0, name);
  operands.arguments.emplace_back(name, Halide::Argument::InputScalar, type, 0,
                                  Halide::ArgumentEstimates{});
  return Halide::Internal::Variable::make(type, name, parameter);
}

// A loaded index: negative values count from the end; clamped, so that no value leads outside the
// axis.
Expr Loaded(const Expr& value, const Expr& extent) {
  // Halide finds no bounds of what is cast from 32 unsigned bits, and drops a lower bound of 0
  // where it knows of them: they are read as signed, and what is below 0 was larger than any
  // extent.
  const bool u32 = value.type() == Halide::UInt(32);
  const Expr wide = cast<int64_t>(u32 ? cast<int32_t>(value) : value);
  const Expr size = cast<int64_t>(extent);
  const Expr from_start = select(wide < 0, u32 ? size : wide + size, wide);
  return cast<int32_t>(clamp(from_start, cast<int64_t>(0), max(size - 1, cast<int64_t>(0))));
}

// Nodes that only count where some guard holds: their reads may lie outside.
std::vector<bool> GuardedNodes(const ScalarExpr& expr) {
  std::vector<bool> guarded(expr.nodes().size(), false);
  for (ExprId id = static_cast<ExprId>(guarded.size()) - 1; id >= 0; --id) {
    const ExprNode& node = expr.node(id);
    const bool here = guarded[static_cast<size_t>(id)];
    for (int i = 0; i < 3; ++i) {
      if (node.args[i] < 0) continue;
      const bool opens = node.op == ScalarOp::kGuard && i == 1;
      if (here || opens) guarded[static_cast<size_t>(node.args[i])] = true;
    }
    for (const IndexExpr& index : node.index) {
      if (here && index.load >= 0) guarded[static_cast<size_t>(index.load)] = true;
    }
  }
  return guarded;
}

// How many of the last `flat` dims are among `dims`.
int OfTail(const Kernel& kernel, const std::vector<int32_t>& dims, int flat) {
  const int32_t first = kernel.num_iterated() - flat;
  return static_cast<int>(std::count_if(dims.begin(), dims.end(), [&](int32_t dim) {
    return dim >= first && dim < kernel.num_iterated();
  }));
}

bool HasSomeOfTail(const Kernel& kernel, const std::vector<int32_t>& dims, int flat) {
  const int of_tail = OfTail(kernel, dims, flat);
  return of_tail > 0 && of_tail < flat;
}

// True if the last of `dims` are the last `flat` ones of the kernel.
bool EndsWithTail(const Kernel& kernel, const std::vector<int32_t>& dims, int flat) {
  if (OfTail(kernel, dims, flat) != flat) return false;
  for (int k = 1; k <= flat; ++k) {
    if (dims[dims.size() - static_cast<size_t>(k)] != kernel.num_iterated() - k) return false;
  }
  return true;
}

// True if the axes but the last are all outer dims in order, each at its own coordinate.
bool IsShiftedRow(const Kernel& kernel, const ExprNode& node, const std::vector<int32_t>& dims) {
  if (static_cast<int>(dims.size()) != kernel.num_iterated()) return false;
  for (size_t axis = 0; axis + 1 < dims.size(); ++axis) {
    const bool own = node.index[axis].IsDim() && node.index[axis].terms[0].dim == dims[axis];
    if (!own || dims[axis] != static_cast<int32_t>(axis)) return false;
  }
  return true;
}

// Calls of Funcs and images that depend on a lane become masked loads, those in their addresses
// too, and others loads under one condition for all lanes, if there is one. Each shared expression
// is visited once: as a tree, functions of functions have no end.
class MaskedLoads : public Halide::Internal::IRGraphMutator {
 public:
  MaskedLoads(const Expr& condition, const Halide::Var& lane, const std::vector<Expr>& always,
              const Expr& of_any)
      : condition_(condition), lane_(lane), always_(always), of_any_(of_any) {}

 private:
  using IRGraphMutator::visit;
  Expr visit(const Halide::Internal::Call* op) override {
    const bool always = std::any_of(always_.begin(), always_.end(), [op](const Expr& load) {
      return Halide::Internal::graph_equal(load, op);
    });
    if (always) return op;
    const Expr call = IRGraphMutator::visit(op);
    if (!IsLoad(*op)) return call;
    if (Halide::Internal::expr_uses_var(op, lane_.name())) return LoadIf(condition_, call);
    return of_any_.defined() ? LoadIf(of_any_, call) : call;
  }

  const Expr& condition_;
  const Halide::Var& lane_;
  const std::vector<Expr>& always_;
  const Expr& of_any_;
};

}  // namespace

bool IsLoad(const Halide::Internal::Call& call) {
  using Halide::Internal::Call;
  return call.call_type == Call::Halide || call.call_type == Call::Image;
}

Expr LoadsIf(const Expr& condition, const Halide::Var& lane, const Expr& value,
             const std::vector<Expr>& always, const Expr& of_any) {
  return MaskedLoads(condition, lane, always, of_any).mutate(value);
}

Expr LoadIf(const Expr& condition, const Expr& load) {
  using Halide::Internal::Call;
  return Call::make(load.type(), Call::if_then_else, {condition, load}, Call::PureIntrinsic);
}

Operands Operands::Of(const Kernel& kernel) {
  Operands operands;
  operands.arguments.emplace_back("__user_context", Halide::Argument::InputScalar,
                                  Halide::type_of<void*>(), 0, Halide::ArgumentEstimates{});
  for (size_t i = 0; i < kernel.inputs.size(); ++i) {
    const KernelInput& input = kernel.inputs[i];
    const bool dense = input.layout == Layout::kDense;
    const int rank = input.dims.empty() ? 0 : dense ? 1 : static_cast<int>(input.dims.size());
    Halide::ImageParam image(StorageType(input.type), rank, "in" + std::to_string(i));
    for (int d = 0; d < rank; ++d) image.dim(d).set_min(0);
    if (rank > 0 && input.layout == Layout::kStrided) image.dim(0).set_stride(Expr());
    operands.inputs.push_back(image);
    operands.arguments.push_back(image);
  }
  for (size_t d = 0; d < kernel.dims.size(); ++d) {
    operands.extents.push_back(
        ScalarParam(Halide::Int(32), "extent" + std::to_string(d), operands));
  }
  for (size_t p = 0; p < kernel.params.size(); ++p) {
    const Halide::Type type = StorageType(kernel.params[p]);
    operands.params.push_back(ScalarParam(type, "par" + std::to_string(p), operands));
  }
  return operands;
}

Expr ExprEmitter::Value(const ScalarExpr& expr, Scope& scope) const {
  if (const auto known = scope.values.find(&expr); known != scope.values.end()) {
    return known->second[static_cast<size_t>(expr.root())];
  }
  const std::vector<bool> guarded = GuardedNodes(expr);
  std::vector<Expr> values;
  for (ExprId id = 0; id <= expr.root(); ++id) {
    values.push_back(Node(expr, id, guarded[static_cast<size_t>(id)], values, scope));
  }
  values.back() = WithoutVanishingReads(values.back());
  const Expr root = values.back();
  scope.values.emplace(&expr, std::move(values));
  return root;
}

const HalfConversions* ExprEmitter::HalvesOf(DType type) const {
  return type == DType::kF16 || type == DType::kBF16 ? operands_.halves : nullptr;
}

Expr ExprEmitter::Element(const Expr& stored, DType type) const {
  const HalfConversions* const halves = HalvesOf(type);
  return halves != nullptr ? halves->from_storage(stored, type) : FromStorage(stored, type);
}

std::vector<Expr> ExprEmitter::Places(const KernelOutput& output, Scope& scope) const {
  Value(output.expr, scope);
  const std::vector<Expr>& values = scope.values.at(&output.expr);
  const std::vector<IndexExpr>& index = output.expr.node(output.expr.root()).index;
  std::vector<Expr> places;
  for (size_t axis = 0; axis < index.size(); ++axis)
    places.push_back(Index(index[axis], values, scope, output.dims[axis], /*guarded=*/false));
  return places;
}

Expr ExprEmitter::Stored(const ScalarExpr& expr, DType type, Scope& scope) const {
  const Expr value = Value(expr, scope);
  const HalfConversions* const halves = HalvesOf(type);
  return halves != nullptr ? halves->to_storage(value, type) : ToStorage(value, type);
}

Expr ExprEmitter::Node(const ScalarExpr& expr, ExprId id, bool guarded,
                       const std::vector<Expr>& values, Scope& scope) const {
  const ExprNode& node = expr.node(id);
  const auto ref = static_cast<size_t>(node.ref);
  switch (node.op) {
    case ScalarOp::kConst:
      return Constant(node.type, node.imm);
    case ScalarOp::kParam:
      return FromStorage(operands_.params[ref], node.type);
    case ScalarOp::kIndex:
      return cast<int64_t>(scope.coordinates[ref]);
    case ScalarOp::kExtent:
      return cast<int64_t>(operands_.extents[ref]);
    case ScalarOp::kRead:
      return Read(node, guarded, values, scope);
    case ScalarOp::kAddAt:
      return values[static_cast<size_t>(node.args[0])];
    default:
      break;
  }
  Expr args[3];
  for (int i = 0; i < 3; ++i) {
    if (node.args[i] >= 0) args[i] = values[static_cast<size_t>(node.args[i])];
  }
  if (node.op == ScalarOp::kRoundTo && operands_.halves != nullptr)
    return operands_.halves->round(args[0], node.aux);
  return Primitive(node, args, expr.node(node.args[0]).type);
}

Expr ExprEmitter::Read(const ExprNode& node, bool guarded, const std::vector<Expr>& values,
                       Scope& scope) const {
  const std::vector<int32_t>& dims = OperandDims(kernel_, node);
  const bool identity = IsIdentityRead(node, dims);
  std::vector<Expr> index;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    index.push_back(Index(node.index[axis], values, scope, dims[axis], guarded));
  }
  if (node.source == ReadSource::kStage) return ReadStage(node, index, identity, scope);
  return ReadInput(node, index, identity, scope);
}

Expr ExprEmitter::Index(const IndexExpr& index, const std::vector<Expr>& values, const Scope& scope,
                        int32_t axis_dim, bool guarded) const {
  const Expr extent = operands_.extents[static_cast<size_t>(axis_dim)];
  if (index.load >= 0) return Loaded(values[static_cast<size_t>(index.load)], extent);
  Expr sum = static_cast<int32_t>(index.offset);
  for (const IndexExpr::Term& term : index.terms) {
    const auto dim = static_cast<size_t>(term.dim);
    const Expr factor = term.extent ? operands_.extents[dim] : scope.coordinates[dim];
    const Expr product = term.coef == 1 ? factor : factor * static_cast<int32_t>(term.coef);
    sum = Halide::Internal::is_const_zero(sum) ? product : sum + product;
  }
  if (index.div != 1) sum = sum / static_cast<int32_t>(index.div);
  if (index.mod != 0) sum = sum % static_cast<int32_t>(index.mod);
  const bool own_dim = index.IsDim() && index.terms[0].dim == axis_dim;
  return guarded && !own_dim ? max(min(sum, extent - 1), 0) : sum;
}

Expr ExprEmitter::ReadInput(const ExprNode& node, const std::vector<Expr>& index, bool identity,
                            const Scope& scope) const {
  const auto ref = static_cast<size_t>(node.ref);
  const KernelInput& input = kernel_.inputs[ref];
  Halide::ImageParam image = operands_.inputs[ref];
  if (copies_[ref].defined() && identity && !scope.copy_arguments.empty()) {
    return Element(copies_[ref](scope.copy_arguments), input.type);
  }
  if (copies_[ref].defined() && identity) {
    const auto iterated = scope.coordinates.begin() + kernel_.num_iterated();
    return Element(copies_[ref](std::vector<Expr>(std::make_reverse_iterator(iterated),
                                                  scope.coordinates.rend())),
                   input.type);
  }
  if (const Table& table = tables_[ref]; table.func.defined() && scope.start.defined()) {
    const bool rows = scope.row.defined() && scope.flat == 1;
    Expr step = scope.start % table.period + scope.step;
    if (rows && input.dims.back() == kernel_.innermost())
      step = step * operands_.extents[static_cast<size_t>(kernel_.innermost())] + index.back();
    return Element(table.func(step), input.type);
  }
  std::vector<Expr> args;
  if (input.layout != Layout::kDense || index.empty()) {
    args.assign(index.rbegin(), index.rend());
  } else if (identity && scope.place.defined() && SpansAll(kernel_, input.dims)) {
    args = {scope.place};
  } else if (identity && scope.row.defined() && SpansAll(kernel_, input.dims)) {
    args = {scope.row * operands_.extents[static_cast<size_t>(kernel_.innermost())] + index.back()};
  } else if (identity && scope.row.defined() && SpansOuter(kernel_, input.dims)) {
    args = {scope.row};
  } else if (scope.row.defined() && IsShiftedRow(kernel_, node, input.dims)) {
    args = {scope.row * operands_.extents[static_cast<size_t>(input.dims.back())] + index.back()};
  } else {
    const bool whole =
        identity && scope.tail.defined() && EndsWithTail(kernel_, input.dims, scope.flat);
    const size_t axes = index.size() - (whole ? static_cast<size_t>(scope.flat) : 0);
    Expr flat = axes == 0 ? Expr(0) : index[0];
    for (size_t axis = 1; axis < index.size(); ++axis) {
      flat = flat * operands_.extents[static_cast<size_t>(input.dims[axis])];
      if (axis < axes) flat = flat + index[axis];
    }
    args = {whole ? (axes == 0 ? scope.tail : flat + scope.tail) : flat};
  }
  Expr stored = image(args);
  if (scope.inside.defined()) {
    const auto* lane = scope.lane.as<Halide::Internal::Variable>();
    if (Halide::Internal::expr_uses_var(stored, lane->name)) stored = LoadIf(scope.inside, stored);
  }
  return Element(input.dims.empty() ? Opaque(stored) : stored, input.type);
}

Expr ExprEmitter::ReadStage(const ExprNode& node, const std::vector<Expr>& index, bool identity,
                            Scope& scope) const {
  const auto ref = static_cast<size_t>(node.ref);
  const Stage& stage = kernel_.stages[ref];
  if (const Halide::Func& func = funcs_[ref]; func.defined()) {
    std::vector<Expr> args(index.rbegin(), index.rend());
    if (func.dimensions() == 0) {
      return Element(func(), stage.type);
    } else if (scope.place.defined()) {
      args = scope.row_arguments;
    } else if (scope.flat > 1) {
      const bool some = HasSomeOfTail(kernel_, stage.dims, scope.flat);
      args = FlatArguments(stage, index, scope);
      if (some && scope.tail.defined()) return Element(spreads_[ref](args), stage.type);
    } else if (scope.row.defined()) {
      args = scope.row_arguments;
      if (args.empty()) args = {scope.row};
      if (SpansAll(kernel_, stage.dims)) args.insert(args.begin(), index.back());
    } else if (scope.tile.defined() && !args.empty() && stage.dims.back() == kernel_.innermost()) {
      args[0] = scope.tile;
      args.insert(args.begin(), scope.lane);
    }
    return Element(func(args), stage.type);
  }
  if (identity) return Value(stage.expr, scope);
  Scope::Key key{node.ref, {}};
  for (const Expr& coordinate : index) key.second.push_back(coordinate.get());
  std::unique_ptr<Scope>& inner = scope.inner[key];
  if (inner == nullptr) {
    inner = std::make_unique<Scope>();
    inner->coordinates.resize(kernel_.dims.size());
    for (size_t axis = 0; axis < index.size(); ++axis) {
      inner->coordinates[static_cast<size_t>(stage.dims[axis])] = index[axis];
    }
  }
  return Value(stage.expr, *inner);
}

// What a Func of a stage is called with where the last dims are collapsed.
std::vector<Expr> ExprEmitter::FlatArguments(const Stage& stage, const std::vector<Expr>& index,
                                             const Scope& scope) const {
  const int first = kernel_.num_iterated() - scope.flat;
  const bool whole = EndsWithTail(kernel_, stage.dims, scope.flat);
  const bool spread = scope.tail.defined() && HasSomeOfTail(kernel_, stage.dims, scope.flat);
  Expr tail = scope.tail;
  std::vector<Expr> args;
  for (size_t axis = 0; axis < index.size(); ++axis) {
    const int32_t dim = stage.dims[axis];
    if (dim < first || (!whole && !spread)) {
      args.insert(args.begin(), index[axis]);
    } else if (whole && !scope.tail.defined()) {
      tail = dim == first ? index[axis]
                          : tail * operands_.extents[static_cast<size_t>(dim)] + index[axis];
    }
  }
  if (whole || spread) args.insert(args.begin(), tail);
  return args;
}

}  // namespace kiln
