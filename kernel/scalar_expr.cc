// SPDX-License-Identifier: Apache-2.0
#include "kernel/scalar_expr.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "kernel/hash.h"

namespace kiln {
namespace {

uint64_t HashNode(const ExprNode& node) {
  uint64_t hash = HashMix(static_cast<uint64_t>(node.op), static_cast<uint64_t>(node.type));
  for (const ExprId arg : node.args) hash = HashMix(hash, static_cast<uint64_t>(arg));
  hash = HashMix(hash, static_cast<uint64_t>(node.ref) * 2 + static_cast<uint64_t>(node.source));
  hash = HashMix(hash, node.imm);
  for (const IndexExpr& index : node.index) {
    for (const IndexExpr::Term& term : index.terms) {
      hash = HashMix(hash, static_cast<uint64_t>(term.dim) * 2 + (term.extent ? 1 : 0));
      hash = HashMix(hash, static_cast<uint64_t>(term.coef));
    }
    hash = HashMix(hash, static_cast<uint64_t>(index.offset));
    hash = HashMix(hash, static_cast<uint64_t>(index.div));
    hash = HashMix(hash, static_cast<uint64_t>(index.mod));
    hash = HashMix(hash, static_cast<uint64_t>(index.load));
  }
  return HashMix(hash, static_cast<uint64_t>(node.aux));
}

constexpr uint32_t kNan32 = 0x7fc00000u;
constexpr uint64_t kNan64 = 0x7ff8000000000000u;
constexpr size_t kSmallExpr = 16;  // expressions up to this many nodes are searched without a table

// By ScalarOp.
constexpr ScalarOpInfo kOps[kNumScalarOps] = {
    {"const", 0, false, false},   {"read", 0, false, false},   {"param", 0, false, false},
    {"index", 0, false, false},   {"extent", 0, false, false}, {"add", 2, true, false},
    {"sub", 2, false, false},     {"mul", 2, true, false},     {"div", 2, false, false},
    {"mod", 2, false, false},     {"fma", 3, false, false},    {"neg", 1, false, false},
    {"abs", 1, false, false},     {"sign", 1, false, false},   {"min", 2, false, false},
    {"max", 2, false, false},     {"sqrt", 1, false, false},   {"floor", 1, false, false},
    {"ceil", 1, false, false},    {"round", 1, false, false},  {"trunc", 1, false, false},
    {"eq", 2, true, false},       {"ne", 2, true, false},      {"lt", 2, false, false},
    {"le", 2, false, false},      {"isnan", 1, false, false},  {"and", 2, true, false},
    {"or", 2, true, false},       {"xor", 2, true, false},     {"not", 1, false, false},
    {"shl", 2, false, false},     {"shr", 2, false, false},    {"select", 3, false, false},
    {"guard", 3, false, false},   {"cast", 1, false, false},   {"bitcast", 1, false, false},
    {"roundto", 1, false, false}, {"exp", 1, false, true},     {"log", 1, false, true},
    {"tanh", 1, false, true},     {"erf", 1, false, true},     {"sigmoid", 1, false, true},
    {"rsqrt", 1, false, true},    {"pow", 2, false, true},     {"sin", 1, false, true},
    {"cos", 1, false, true},      {"tan", 1, false, true},     {"asin", 1, false, true},
    {"acos", 1, false, true},     {"atan", 1, false, true},    {"sinh", 1, false, true},
    {"cosh", 1, false, true},     {"asinh", 1, false, true},   {"acosh", 1, false, true},
    {"atanh", 1, false, true},    {"exp2", 1, false, true},    {"expm1", 1, false, true},
    {"log2", 1, false, true},     {"log1p", 1, false, true},   {"softplus", 1, false, true},
    {"erfc", 1, false, true},     {"cbrt", 1, false, true},    {"fmod", 2, false, true},
    {"philox", 2, false, true},   {"add_at", 1, false, false},
};

// One bit pattern per value, so that equal constants are equal nodes and equal text.
uint64_t NormalBits(DType type, uint64_t bits) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: {
      const auto low = static_cast<uint32_t>(bits);
      return (low & 0x7fffffffu) > 0x7f800000u ? kNan32 : low;
    }
    case DType::kF64:
      return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u ? kNan64 : bits;
    case DType::kI8:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(bits)));
    case DType::kI16:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int16_t>(bits)));
    case DType::kI32:
      return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits)));
    case DType::kU8:
      return static_cast<uint8_t>(bits);
    case DType::kU16:
      return static_cast<uint16_t>(bits);
    case DType::kU32:
      return static_cast<uint32_t>(bits);
    case DType::kBool:
      return bits != 0 ? 1 : 0;
    default:
      return bits;
  }
}

bool GivesBool(ScalarOp op) { return op >= ScalarOp::kEq && op <= ScalarOp::kIsNan; }

}  // namespace

const ScalarOpInfo& Info(ScalarOp op) { return kOps[static_cast<size_t>(op)]; }

IndexExpr IndexExpr::Dim(int32_t dim) {
  IndexExpr index;
  index.terms.push_back({dim, false, 1});
  return index;
}

IndexExpr IndexExpr::Constant(int64_t offset) {
  IndexExpr index;
  index.offset = offset;
  return index;
}

IndexExpr IndexExpr::Load(ExprId load) {
  IndexExpr index;
  index.load = load;
  return index;
}

bool IndexExpr::IsDim() const {
  return load < 0 && terms.size() == 1 && !terms[0].extent && terms[0].coef == 1 && offset == 0 &&
         div == 1 && mod == 0;
}

ExprId ScalarExpr::Add(ExprNode node) {
  if (node.op == ScalarOp::kConst) node.imm = NormalBits(node.type, node.imm);
  const auto id = static_cast<ExprId>(nodes_.size());
  if (nodes_.size() < kSmallExpr) {
    for (ExprId i = 0; i < id; ++i) {
      if (nodes_[static_cast<size_t>(i)] == node) return i;
    }
    nodes_.push_back(std::move(node));
    return id;
  }
  if (table_.size() < 2 * (nodes_.size() + 1)) Rehash();
  ExprId& slot = FindSlot(node);
  if (slot < 0) {
    slot = id;
    nodes_.push_back(std::move(node));
  }
  return slot;
}

ExprId& ScalarExpr::FindSlot(const ExprNode& node) {
  const size_t mask = table_.size() - 1;
  size_t at = HashNode(node) & mask;
  while (table_[at] >= 0 && !(nodes_[static_cast<size_t>(table_[at])] == node))
    at = (at + 1) & mask;
  return table_[at];
}

void ScalarExpr::Rehash() {
  table_.assign(std::bit_ceil(4 * (nodes_.size() + 1)), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    ExprId& slot = FindSlot(nodes_[i]);
    if (slot < 0) slot = static_cast<ExprId>(i);
  }
}

void ScalarExpr::Prune() {
  if (root_ < 0) return;
  std::vector<bool> live(nodes_.size(), false);
  live[static_cast<size_t>(root_)] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (const ExprId arg : nodes_[i].args) {
      if (arg >= 0) live[static_cast<size_t>(arg)] = true;
    }
    for (const IndexExpr& index : nodes_[i].index) {
      if (index.load >= 0) live[static_cast<size_t>(index.load)] = true;
    }
  }
  std::vector<ExprId> map(nodes_.size(), -1);
  std::vector<ExprNode> kept;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!live[i]) continue;
    ExprNode node = std::move(nodes_[i]);
    for (ExprId& arg : node.args) {
      if (arg >= 0) arg = map[static_cast<size_t>(arg)];
    }
    for (IndexExpr& index : node.index) {
      if (index.load >= 0) index.load = map[static_cast<size_t>(index.load)];
    }
    map[i] = static_cast<ExprId>(kept.size());
    kept.push_back(std::move(node));
  }
  root_ = map[static_cast<size_t>(root_)];
  nodes_ = std::move(kept);
  table_.clear();
}

uint64_t ConstBits(DType type, double value) {
  if (type == DType::kF64) return NormalBits(type, std::bit_cast<uint64_t>(value));
  if (IsFloat(type)) return NormalBits(type, std::bit_cast<uint32_t>(static_cast<float>(value)));
  if (type == DType::kBool) return value != 0 ? 1 : 0;
  if (std::isnan(value)) return 0;
  if (type == DType::kU64) {
    if (value >= 0x1p64) return std::numeric_limits<uint64_t>::max();
    return value <= 0 ? 0 : static_cast<uint64_t>(value);
  }
  if (value >= 0x1p63)
    return NormalBits(type, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (value < -0x1p63)
    return NormalBits(type, static_cast<uint64_t>(std::numeric_limits<int64_t>::min()));
  return NormalBits(type, static_cast<uint64_t>(static_cast<int64_t>(value)));
}

double ConstValue(DType type, uint64_t bits) {
  if (type == DType::kF64) return std::bit_cast<double>(bits);
  if (IsFloat(type)) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (IsSigned(type)) return static_cast<double>(static_cast<int64_t>(bits));
  return static_cast<double>(bits);
}

Ex Literal(ScalarExpr& expr, DType type, double value) {
  return LiteralBits(expr, type, ConstBits(type, value));
}

Ex LiteralBits(ScalarExpr& expr, DType type, uint64_t bits) {
  ExprNode node;
  node.type = type;
  node.imm = bits;
  return {&expr, expr.Add(std::move(node))};
}

Ex Read(ScalarExpr& expr, DType type, ReadSource source, int32_t ref,
        std::vector<IndexExpr> index) {
  ExprNode node;
  node.op = ScalarOp::kRead;
  node.type = type;
  node.source = source;
  node.ref = ref;
  node.index = std::move(index);
  return {&expr, expr.Add(std::move(node))};
}

namespace {
Ex Leaf(ScalarExpr& expr, ScalarOp op, DType type, int32_t ref) {
  ExprNode node;
  node.op = op;
  node.type = type;
  node.ref = ref;
  return {&expr, expr.Add(std::move(node))};
}

Ex Unary(ScalarOp op, Ex a, DType type) {
  ExprNode node;
  node.op = op;
  node.type = type;
  node.args[0] = a.id;
  return {a.expr, a.expr->Add(std::move(node))};
}
}  // namespace

Ex Param(ScalarExpr& expr, DType type, int32_t param) {
  return Leaf(expr, ScalarOp::kParam, type, param);
}
Ex Coordinate(ScalarExpr& expr, int32_t dim) {
  return Leaf(expr, ScalarOp::kIndex, DType::kI64, dim);
}
Ex Extent(ScalarExpr& expr, int32_t dim) { return Leaf(expr, ScalarOp::kExtent, DType::kI64, dim); }

Ex Apply(ScalarOp op, Ex a) { return Unary(op, a, GivesBool(op) ? DType::kBool : a.type()); }

Ex Apply(ScalarOp op, Ex a, Ex b) {
  ExprNode node;
  node.op = op;
  node.type = GivesBool(op) ? DType::kBool : a.type();
  node.args[0] = a.id;
  node.args[1] = b.id;
  return {a.expr, a.expr->Add(std::move(node))};
}

Ex Apply(ScalarOp op, Ex a, Ex b, Ex c) {
  ExprNode node;
  node.op = op;
  node.type = b.type();  // of the choice, or of all three
  node.args[0] = a.id;
  node.args[1] = b.id;
  node.args[2] = c.id;
  return {a.expr, a.expr->Add(std::move(node))};
}

Ex Cast(Ex a, DType type) { return a.type() == type ? a : Unary(ScalarOp::kCast, a, type); }
Ex Bitcast(Ex a, DType type) { return a.type() == type ? a : Unary(ScalarOp::kBitcast, a, type); }

Ex RoundTo(Ex a, DType type) {
  ExprNode node;
  node.op = ScalarOp::kRoundTo;
  node.type = a.type();
  node.args[0] = a.id;
  node.aux = type;
  return {a.expr, a.expr->Add(std::move(node))};
}

Ex AddAt(Ex value, std::vector<IndexExpr> index) {
  ExprNode node;
  node.op = ScalarOp::kAddAt;
  node.type = value.type();
  node.args[0] = value.id;
  node.index = std::move(index);
  return {value.expr, value.expr->Add(std::move(node))};
}
Ex Select(Ex condition, Ex yes, Ex no) { return Apply(ScalarOp::kSelect, condition, yes, no); }
Ex Guarded(Ex condition, Ex read, Ex otherwise) {
  return Apply(ScalarOp::kGuard, condition, read, otherwise);
}

Ex Ex::Like(double value) const { return Literal(*expr, type(), value); }

Ex operator+(Ex a, Ex b) { return Apply(ScalarOp::kAdd, a, b); }
Ex operator-(Ex a, Ex b) { return Apply(ScalarOp::kSub, a, b); }
Ex operator*(Ex a, Ex b) { return Apply(ScalarOp::kMul, a, b); }
Ex operator/(Ex a, Ex b) { return Apply(ScalarOp::kDiv, a, b); }
Ex operator-(Ex a) { return Apply(ScalarOp::kNeg, a); }
Ex operator<(Ex a, Ex b) { return Apply(ScalarOp::kLt, a, b); }
Ex operator<=(Ex a, Ex b) { return Apply(ScalarOp::kLe, a, b); }
Ex operator>(Ex a, Ex b) { return Apply(ScalarOp::kLt, b, a); }
Ex operator>=(Ex a, Ex b) { return Apply(ScalarOp::kLe, b, a); }
Ex operator==(Ex a, Ex b) { return Apply(ScalarOp::kEq, a, b); }
Ex operator!=(Ex a, Ex b) { return Apply(ScalarOp::kNe, a, b); }
Ex operator&&(Ex a, Ex b) { return Apply(ScalarOp::kAnd, a, b); }
Ex operator||(Ex a, Ex b) { return Apply(ScalarOp::kOr, a, b); }
Ex operator!(Ex a) { return Apply(ScalarOp::kNot, a); }

}  // namespace kiln
