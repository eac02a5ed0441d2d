// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/gradient/rules.h"
#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/ops/by_kernels.h"
#include "graph/ops/bytes.h"
#include "graph/ops/ops.h"
#include "graph/tensors.h"
#include "kiln/graph.h"

namespace kiln::ops {
namespace {

// An operand as a stack of matrices: [..., rows, columns], its last two axes swapped if it is
// transposed.
struct Operand {
  Shape batch;
  Dim rows, columns;
};

Operand OperandOf(const Shape& shape, bool left, bool transposed) {
  const size_t rank = shape.size();
  if (rank == 1) return left ? Operand{{}, 1, shape[0]} : Operand{{}, shape[0], 1};
  Operand operand{Shape(shape.begin(), shape.end() - 2), shape[rank - 2], shape[rank - 1]};
  if (transposed) std::swap(operand.rows, operand.columns);
  return operand;
}

bool Swaps(const Node& node, absl::string_view attr) {
  return HasAttr(node, attr) && IntAttr(node, attr) != 0;
}

absl::Status SetProduct(InferContext& c, DType type) {
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 0, 1));
  KILN_RETURN_IF_ERROR(RequireRankAtLeast(c, 1, 1));
  const Operand a = OperandOf(c.shape(0), true, Swaps(c.node(), "trans_a"));
  const Operand b = OperandOf(c.shape(1), false, Swaps(c.node(), "trans_b"));
  KILN_RETURN_IF_ERROR(c.Require(
      a.columns, b.rows,
      absl::StrCat("inner extents of ", ToString(c.shape(0)), " and ", ToString(c.shape(1)))));
  KILN_ASSIGN_OR_RETURN(Shape shape, Broadcast(c, a.batch, b.batch));
  if (c.shape(0).size() > 1) shape.push_back(a.rows);
  if (c.shape(1).size() > 1) shape.push_back(b.columns);
  c.SetOutput(0, type, std::move(shape));
  return absl::OkStatus();
}

absl::Status InferMatmul(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireType(c, 0, IsNumber, "a float or integer type"));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  return SetProduct(c, c.type(0));
}

// One matrix as numbers: element (i, j) is data[i * row + j * column].
struct Matrix {
  int64_t rows, columns, row, column;
};

Matrix MatrixOf(const std::vector<int64_t>& shape, bool left, bool transposed) {
  const size_t rank = shape.size();
  if (rank == 1) return left ? Matrix{1, shape[0], 0, 1} : Matrix{shape[0], 1, 1, 0};
  const int64_t rows = shape[rank - 2];
  const int64_t columns = shape[rank - 1];
  return transposed ? Matrix{columns, rows, 1, columns} : Matrix{rows, columns, columns, 1};
}

// Which matrix of an operand the broadcast batch number `index` over `batch` takes.
int64_t MatrixNumber(int64_t index, const std::vector<int64_t>& batch,
                     const std::vector<int64_t>& own, size_t own_rank) {
  int64_t number = 0;
  int64_t step = 1;
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t from_end = batch.size() - 1 - i;
    const int64_t at = index % batch[from_end];
    index /= batch[from_end];
    if (i >= own_rank) continue;
    const int64_t extent = own[own_rank - 1 - i];
    number += (extent == 1 ? 0 : at) * step;
    step *= extent;
  }
  return number;
}

template <typename T>
void MultiplyMatrix(const T* a, const Matrix& ma, const T* b, const Matrix& mb, T* c) {
  std::fill(c, c + ma.rows * mb.columns, T{0});
  for (int64_t i = 0; i < ma.rows; ++i) {
    T* out = c + i * mb.columns;
    for (int64_t k = 0; k < ma.columns; ++k) {
      const T left = a[i * ma.row + k * ma.column];
      const T* right = b + k * mb.row;
      for (int64_t j = 0; j < mb.columns; ++j) out[j] += left * right[j * mb.column];
    }
  }
}

template <typename T>
void Multiply(const Node& node, const Tensor& a, const Tensor& b, Tensor& c) {
  const Matrix ma = MatrixOf(a.shape(), true, Swaps(node, "trans_a"));
  const Matrix mb = MatrixOf(b.shape(), false, Swaps(node, "trans_b"));
  const size_t batch_a = a.shape().size() > 2 ? a.shape().size() - 2 : 0;
  const size_t batch_b = b.shape().size() > 2 ? b.shape().size() - 2 : 0;
  const std::vector<int64_t> batch(
      c.shape().begin(),
      c.shape().begin() + static_cast<std::ptrdiff_t>(std::max(batch_a, batch_b)));
  int64_t count = 1;
  for (const int64_t extent : batch) count *= extent;
  if (c.num_elements() == 0) return;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t na = MatrixNumber(i, batch, a.shape(), batch_a);
    const int64_t nb = MatrixNumber(i, batch, b.shape(), batch_b);
    MultiplyMatrix(static_cast<const T*>(a.data()) + na * ma.rows * ma.columns, ma,
                   static_cast<const T*>(b.data()) + nb * mb.rows * mb.columns, mb,
                   static_cast<T*>(c.data()) + i * ma.rows * mb.columns);
  }
}

absl::Status ReferenceMatmul(const Node& node, std::span<const Tensor> inputs,
                             std::span<Tensor> outputs) {
  if (inputs[0].dtype() == DType::kF64) {
    Multiply<double>(node, inputs[0], inputs[1], outputs[0]);
  } else {
    Multiply<uint64_t>(node, inputs[0], inputs[1], outputs[0]);  // wraps
  }
  return absl::OkStatus();
}

// ---- matmul_integer: inputs a, b and their zero points, one for each row of a and column of b at
// most.
absl::Status InferMatmulInteger(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireBytes(c, 0, 2));
  KILN_RETURN_IF_ERROR(RequireBytes(c, 1, 3));
  KILN_RETURN_IF_ERROR(SetProduct(c, DType::kI32));
  for (int k = 0; k < 2; ++k) {
    if (!c.has_input(k + 2)) continue;
    const Shape own = c.shape(k + 2), whole = c.shape(k);
    KILN_RETURN_IF_ERROR(BroadcastTo(c, whole, own, "the zero point").status());
    const size_t summed = k == 0 || whole.size() == 1 ? 1 : 2;  // axis, from the end
    if (own.size() < summed) continue;
    KILN_RETURN_IF_ERROR(
        c.Require(own[own.size() - summed], 1, "extent of a zero point along the sums, and"));
  }
  return absl::OkStatus();
}

absl::Status ReferenceMatmulInteger(const Node& node, std::span<const Tensor> inputs,
                                    std::span<Tensor> outputs) {
  Multiply<uint64_t>(node, Centered(inputs[0], InputOrNull(node, inputs, 2)),
                     Centered(inputs[1], InputOrNull(node, inputs, 3)), outputs[0]);
  return absl::OkStatus();
}

// ---- gemm
// That a factor of integers is one of their type.
absl::Status RequireNumber(const InferContext& c, absl::string_view name) {
  const DType type = c.type(0);
  const double factor = FloatAttr(c.node(), name);
  if (IsFloat(type) || ReadFloat(FilledTensor(type, {}, factor), 0) == factor)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", factor, ", which ", Name(type),
                                                 " does not have; cast the inputs to floats"));
}

absl::Status InferGemm(InferContext& c) {
  KILN_RETURN_IF_ERROR(RequireRank(c, 0, 2));
  KILN_RETURN_IF_ERROR(RequireRank(c, 1, 2));
  KILN_RETURN_IF_ERROR(RequireSameTypes(c));
  KILN_RETURN_IF_ERROR(InferMatmul(c));
  KILN_RETURN_IF_ERROR(RequireNumber(c, "alpha"));
  if (!c.has_input(2)) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(RequireNumber(c, "beta"));
  const Shape product = c.outputs[0].shape;
  KILN_ASSIGN_OR_RETURN(Shape shape, BroadcastTo(c, product, c.shape(2), "input 2"));
  c.SetOutput(0, c.type(0), std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> Gemm(GraphBuilder& b, const Node& node) {
  const DType type = b.value(node.inputs[0]).type;
  const double alpha = FloatAttr(node, "alpha");
  const double beta = FloatAttr(node, "beta");
  ValueId y = b.Op("matmul", {node.inputs[0], node.inputs[1]},
                   {{"trans_a", IntAttr(node, "trans_a")}, {"trans_b", IntAttr(node, "trans_b")}});
  if (alpha != 1) y = b.Op("mul", {y, b.Scalar(type, alpha)});
  if (node.inputs.size() > 2 && node.inputs[2].valid() && beta != 0) {
    const ValueId bias = node.inputs[2];
    y = b.Op("add", {y, beta == 1 ? bias : b.Op("mul", {bias, b.Scalar(type, beta)})});
  }
  KILN_RETURN_IF_ERROR(b.status());
  return std::vector<ValueId>{y};
}

constexpr AttrSpec kMatmulAttrs[] = {
    {"trans_a", AttrKind::kInt, false, 0, nullptr, "1: the last two axes of input 0 are swapped"},
    {"trans_b", AttrKind::kInt, false, 0, nullptr, "1: the last two axes of input 1 are swapped"}};
constexpr AttrSpec kGemmAttrs[] = {
    {"alpha", AttrKind::kFloat, false, 1, nullptr, "a factor of the product"},
    {"beta", AttrKind::kFloat, false, 1, nullptr, "a factor of input 2; 0: it is not read"},
    {"trans_a", AttrKind::kInt, false, 0, nullptr, "1: input 0 is transposed", -1, "transA"},
    {"trans_b", AttrKind::kInt, false, 0, nullptr, "1: input 1 is transposed", -1, "transB"}};

constexpr OpDef kMatmulOps[] = {
    {.name = "matmul",
     .doc = "Matrix product over the last two axes; the others broadcast. A "
            "vector is a row on the left, a column on the right.",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 2,
     .attrs = kMatmulAttrs,
     .infer = InferMatmul,
     .by_kernels = MatmulByKernels,
     .reference = ReferenceMatmul,
     .onnx = {{"MatMul"}},
     .test = {-2, 2},
     .witness = "onnx node tests: matmul",
     .gradient = {.rule = gradient::Matmul}},
    {.name = "matmul_integer",
     .doc = "matmul of bytes less their zero points, inputs 2 and 3: one for "
            "each row of a, each column of b, or fewer; sums of 32 bits that wrap.",
     .kind = OpKind::kLibrary,
     .min_inputs = 2,
     .max_inputs = 4,
     .infer = InferMatmulInteger,
     .by_kernels = MatmulIntegerByKernels,
     .reference = ReferenceMatmulInteger,
     .onnx = {{"MatMulInteger", 10}},
     .witness = "onnx node tests: matmulinteger, qlinearmatmul",
     .gradient = {.none = gradient::kGivesIntegers}},
    {.name = "gemm",
     .doc = "alpha * a * b + beta * c for matrices a and b; c is optional and broadcasts.",
     .kind = OpKind::kComposite,
     .min_inputs = 2,
     .max_inputs = 3,
     .attrs = kGemmAttrs,
     .infer = InferGemm,
     .decompose = Gemm,
     .onnx = {{"Gemm", 7}},
     .test = {-2, 2},
     .witness = "onnx node tests: gemm"},
};

}  // namespace

std::span<const OpDef> MatmulOps() { return kMatmulOps; }

}  // namespace kiln::ops
