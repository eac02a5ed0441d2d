// SPDX-License-Identifier: Apache-2.0
// ScalarExpr: what one element of a stage, an output or an op is, as a typed expression over reads
// and parameters.
//
// An expression is a vector of nodes in which operands come before their users; the last node is
// the value. Equal nodes are stored once (hash-consing), so a sub-expression used twice is computed
// once. There are no pointers: an ExprId is an index into the vector, and copying a ScalarExpr
// copies it whole.
//
// Types: f16 and bf16 never occur; a read of such an operand has type f32 (rounding happens at the
// store). Comparisons, kIsNan and logic on bool give bool. Operands of arithmetic have the type of
// the result; nothing converts silently.
//
// Meaning (the same on CPU, in the block VM and in the interpreter):
//   floats   IEEE 754, round to nearest even, no contraction; kFma rounds once.
//            kMax(a, b) = isnan(a) || a > b ? a : b;  kMin(a, b) = isnan(a) || a < b ? a : b:
//            NaN propagates.
//            kRound is to nearest even; kFloor, kCeil, kTrunc, kSqrt as IEEE.
//            kSign(NaN) = NaN, kSign(-0) = -0.
//   integers add, sub, mul, neg, abs wrap; kDiv truncates, x / 0 = 0, INT_MIN / -1 = INT_MIN;
//            kMod is C's %, x % 0 = 0, INT_MIN % -1 = 0.
//            kShl and kShr by an amount outside [0, bits) give 0 (kShr of a negative signed: -1).
//   kCast    float to integer truncates, saturates, NaN gives 0; integer to narrower integer wraps;
//            anything to bool is x != 0; bool to number is 0 or 1; float to float and integer to
//            float round to nearest even.
//   kRoundTo rounds an f32 to the values of a 16-bit float type (its `aux` holds that DType) and
//            stays f32.
//   kSelect  (c, a, b) keeps the bits of the chosen one.
//   kGuard   (c, r, b) is select in which the reads of r count only where c holds: reads under a
//            false guard may lie outside their operand and must not be performed.
//
//   kAddAt   of an output that takes ordered sums: kernel.h.
//
// Function nodes (kExp ... ) mean their expansions, see kernel/math.h. kFmod is C's fmod, exact for
// all operands; kMod is for integers. kPhilox(counter, key) is Random123's Philox2x32-10 of u64: 64
// bits that look random, those of counter + 1 unrelated to them; both words of the counter, and of
// the result, lie low word first, and the key is the low word of the second operand.
#ifndef KILN_KERNEL_SCALAR_EXPR_H_
#define KILN_KERNEL_SCALAR_EXPR_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/dtype.h"

namespace kiln {

enum class ScalarOp : uint8_t {
  // Leaves.
  kConst,   // `imm` holds the bits of the value (integers sign-extended, bool 0/1)
  kRead,    // element of operand `ref` (source `source`) at `index`
  kParam,   // parameter `ref`
  kIndex,   // i64: the coordinate along dim `ref`
  kExtent,  // i64: the extent of dim `ref`
  // Arithmetic.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kFma,
  kNeg,
  kAbs,
  kSign,
  kMin,
  kMax,
  kSqrt,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  // Comparison and logic. And, or, xor, not are logical on bool, bitwise on integers.
  kEq,
  kNe,
  kLt,
  kLe,
  kIsNan,
  kAnd,
  kOr,
  kXor,
  kNot,
  kShl,
  kShr,
  // Choice and conversion.
  kSelect,
  kGuard,
  kCast,
  kBitcast,
  kRoundTo,
  // Functions with an expansion.
  kExp,
  kLog,
  kTanh,
  kErf,
  kSigmoid,
  kRsqrt,
  kPow,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kExp2,
  kExpm1,
  kLog2,
  kLog1p,
  kSoftplus,
  kErfc,
  kCbrt,
  kFmod,
  kPhilox,
  kAddAt,  // the operand, to be added at `index`: the root of an output only
};
inline constexpr int kNumScalarOps = static_cast<int>(ScalarOp::kAddAt) + 1;

// Facts about an op: its name in text ("add", "fma", "select"), and how many operands it takes.
struct ScalarOpInfo {
  const char* name;
  int arity;
  bool commutative;  // operands may be swapped without changing a bit (NaN payloads aside)
  bool function;     // has an expansion in kernel/math.h
};
const ScalarOpInfo& Info(ScalarOp op);

using ExprId = int32_t;

// floor(affine / div) mod `mod`, where affine = offset + sum of coef * (coordinate or extent of a
// dim), or a loaded index.
//
// Examples over dims a, b:  `a`, `2*a+b-1`, `a/4`, `a%4`, `a-|n|` (|n| = extent of dim n),
// `[s0[a]]`. A loaded index (`load` >= 0) is the value of another node of the same expression: an
// integer, u64 taken as i64; negative values count from the end of the axis; it is then clamped to
// the axis, so that no input can make a kernel read outside it.
struct IndexExpr {
  struct Term {
    int32_t dim = 0;
    bool extent = false;  // the dim's extent instead of its coordinate
    int64_t coef = 1;
    friend bool operator==(const Term&, const Term&) = default;
  };
  std::vector<Term> terms;  // ascending by (extent, dim); coef != 0
  int64_t offset = 0;
  int64_t div = 1;   // >= 1
  int64_t mod = 0;   // 0: none
  ExprId load = -1;  // when set, nothing else is

  static IndexExpr Dim(int32_t dim);
  static IndexExpr Constant(int64_t offset);
  static IndexExpr Load(ExprId load);
  // True for exactly one dim's coordinate, with coefficient 1 and nothing else.
  bool IsDim() const;
  friend bool operator==(const IndexExpr&, const IndexExpr&) = default;
};

enum class ReadSource : uint8_t { kInput, kStage };

struct ExprNode {
  ScalarOp op = ScalarOp::kConst;
  DType type = DType::kF32;
  ExprId args[3] = {-1, -1, -1};
  int32_t ref = 0;                         // kRead, kParam, kIndex, kExtent
  ReadSource source = ReadSource::kInput;  // kRead
  std::vector<IndexExpr> index;            // kRead, kAddAt: one per axis of the operand
  uint64_t imm = 0;                        // kConst
  DType aux = DType::kF32;                 // kRoundTo
  friend bool operator==(const ExprNode&, const ExprNode&) = default;
};

class ScalarExpr {
 public:
  // Appends `node` unless an equal one is there; returns its id. Operand ids must exist. Constants
  // are stored with one pattern per value: integers sign-extended to 64 bits, one NaN.
  ExprId Add(ExprNode node);

  const std::vector<ExprNode>& nodes() const { return nodes_; }
  const ExprNode& node(ExprId id) const { return nodes_[static_cast<size_t>(id)]; }
  ExprId root() const { return root_; }
  void set_root(ExprId id) { root_ = id; }
  bool empty() const { return nodes_.empty(); }
  DType type() const { return node(root_).type; }

  // Drops nodes that the root does not reach; order is kept.
  void Prune();
  friend bool operator==(const ScalarExpr& a, const ScalarExpr& b) {
    return a.root_ == b.root_ && a.nodes_ == b.nodes_;
  }

 private:
  ExprId& FindSlot(const ExprNode& node);
  void Rehash();

  std::vector<ExprNode> nodes_;
  std::vector<ExprId> table_;  // open addressing by HashNode; empty while there are few nodes
  ExprId root_ = -1;
};

// ---- Building. An Ex is an (expression, node) pair with operators, so that bodies read like
// formulas:
//
//   Ex Relu(Ex x) { return Select(IsNan(x) || x > x.Like(0), x, x.Like(0)); }
//
// Both operands of a binary operator have one type; a literal takes the type of the other operand
// through Like().
struct Ex {
  ScalarExpr* expr = nullptr;
  ExprId id = -1;

  DType type() const { return expr->node(id).type; }
  // A literal of this expression's type.
  Ex Like(double value) const;
};

// The bits kConst holds for `value` of `type` (f32 bits, f64 bits, or the integer sign-extended),
// and back.
uint64_t ConstBits(DType type, double value);
double ConstValue(DType type, uint64_t bits);

Ex Literal(ScalarExpr& expr, DType type, double value);
Ex LiteralBits(ScalarExpr& expr, DType type, uint64_t bits);
Ex Read(ScalarExpr& expr, DType type, ReadSource source, int32_t ref, std::vector<IndexExpr> index);
Ex Param(ScalarExpr& expr, DType type, int32_t param);
Ex Coordinate(ScalarExpr& expr, int32_t dim);
Ex Extent(ScalarExpr& expr, int32_t dim);
Ex Apply(ScalarOp op, Ex a);
Ex Apply(ScalarOp op, Ex a, Ex b);
Ex Apply(ScalarOp op, Ex a, Ex b, Ex c);
Ex Cast(Ex a, DType type);
Ex Bitcast(Ex a, DType type);
Ex RoundTo(Ex a, DType type);  // f16 or bf16
Ex AddAt(Ex value, std::vector<IndexExpr> index);
Ex Select(Ex condition, Ex yes, Ex no);
Ex Guarded(Ex condition, Ex read, Ex otherwise);

Ex operator+(Ex a, Ex b);
Ex operator-(Ex a, Ex b);
Ex operator*(Ex a, Ex b);
Ex operator/(Ex a, Ex b);
Ex operator-(Ex a);
Ex operator<(Ex a, Ex b);
Ex operator<=(Ex a, Ex b);
Ex operator>(Ex a, Ex b);   // b < a
Ex operator>=(Ex a, Ex b);  // b <= a
Ex operator==(Ex a, Ex b);
Ex operator!=(Ex a, Ex b);
Ex operator&&(Ex a, Ex b);
Ex operator||(Ex a, Ex b);
Ex operator!(Ex a);

// Copies the node `id` of `from`, with all it needs, into `to`; `replace` is asked first for every
// node and may return an existing id of `to` instead (negative: copy). The way passes substitute
// reads.
template <typename Replace>
ExprId CopyExpr(const ScalarExpr& from, ExprId id, ScalarExpr& to, Replace&& replace) {
  std::vector<ExprId> map(from.nodes().size(), -1);
  for (ExprId i = 0; i <= id; ++i) {
    const ExprId chosen = replace(i, map);
    if (chosen >= 0) {
      map[static_cast<size_t>(i)] = chosen;
      continue;
    }
    ExprNode node = from.node(i);
    for (ExprId& arg : node.args) {
      if (arg >= 0) arg = map[static_cast<size_t>(arg)];
    }
    for (IndexExpr& index : node.index) {
      if (index.load >= 0) index.load = map[static_cast<size_t>(index.load)];
    }
    map[static_cast<size_t>(i)] = to.Add(std::move(node));
  }
  return map[static_cast<size_t>(id)];
}

}  // namespace kiln

#endif  // KILN_KERNEL_SCALAR_EXPR_H_
