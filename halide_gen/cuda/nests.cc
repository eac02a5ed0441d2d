// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/nests.h"

#include "absl/strings/str_cat.h"
#include "halide_gen/common/loop_nests.h"
#include "halide_gen/common/primitives.h"
#include "halide_gen/cuda/device_library.h"

namespace kiln {
namespace {

using Halide::Internal::Call;

// A call also keeps Halide from making one cast of two, of f64 -> f32 -> f16.
Halide::Expr RoundedBits(const Halide::Expr& value, DType type) {
  const char* const name = type == DType::kF16 ? kDeviceRoundF16 : kDeviceRoundBf16;
  const Halide::Type storage = StorageType(type);
  const Halide::Expr bits =
      Call::make(storage.with_code(halide_type_uint), name, {value}, Call::PureExtern);
  return storage.is_float() ? Halide::reinterpret(storage, bits) : bits;
}

Halide::Expr Widened(const Halide::Expr& stored, DType type) {
  if (type == DType::kF16) return FromStorage(stored, type);
  return Call::make(Halide::Float(32), kDeviceWidenBf16, {stored}, Call::PureExtern);
}

Halide::Expr RoundedValue(const Halide::Expr& value, DType type) {
  if (type == DType::kF16) return Widened(RoundedBits(value, type), type);
  return Call::make(Halide::Float(32), kDeviceRoundToBf16, {value}, Call::PureExtern);
}

constexpr HalfConversions kHalves = {Widened, RoundedBits, RoundedValue};

}  // namespace

Operands OperandsFor(const Kernel& kernel, int vector) {
  Operands operands = Operands::Of(kernel);
  operands.halves = &kHalves;
  if (vector == 1) return operands;
  Halide::Expr& length = operands.extents[static_cast<size_t>(kernel.innermost())];
  length = length / vector * vector;
  for (size_t k = 0; k < kernel.inputs.size(); ++k)
    if (LiesAlong(kernel, kernel.inputs[k])) operands.inputs[k].set_host_alignment(kAccessBytes);
  return operands;
}

std::vector<LaunchOperand> ResultsOf(const std::vector<size_t>& group) {
  std::vector<LaunchOperand> results;
  for (const size_t output : group)
    results.push_back({LaunchOperand::Kind::kOutput, static_cast<int32_t>(output)});
  return results;
}

void TellStride(DeviceNest& nest, size_t buffer, int axis, const Halide::Expr& stride) {
  const std::string of = nest.results.size() == 1 ? "" : absl::StrCat(".", buffer);
  nest.strides[absl::StrCat(nest.func.name(), of, ".stride.", axis)] = stride;
}

std::vector<bool> StagesReadBy(const Kernel& kernel, const std::vector<size_t>& group) {
  std::vector<bool> read(kernel.stages.size(), false);
  const auto mark = [&](const ScalarExpr& expr) {
    for (const ExprNode& node : expr.nodes())
      if (node.op == ScalarOp::kRead && node.source == ReadSource::kStage)
        read[static_cast<size_t>(node.ref)] = true;
  };
  for (const size_t output : group) mark(kernel.outputs[output].expr);
  for (size_t i = read.size(); i-- > 0;)
    if (read[i]) mark(kernel.stages[i].expr);
  return read;
}

// Whether the elements of a vector along the innermost dim lie side by side in `input`.
bool LiesAlong(const Kernel& kernel, const KernelInput& input) {
  return input.layout == Layout::kDense && !input.dims.empty() &&
         input.dims.back() == kernel.innermost();
}

// Rows of whole vectors, of operands that begin at an access: Halide reads any whose rows lie dense
// by vectors where the index is a multiple of one, also what only a part of the rows is read of.
std::string WhenAligned(const Kernel& kernel, int vector) {
  std::string when = absl::StrCat("(== (% extent", kernel.innermost(), " ", vector, ") 0)");
  const auto aligned = [&](const char* kind, size_t number) {
    when = absl::StrCat("(and ", when, " (<= ", kAccessBytes, " (align ", kind, number, ")))");
  };
  for (size_t k = 0; k < kernel.inputs.size(); ++k)
    if (kernel.inputs[k].layout != Layout::kStrided && !kernel.inputs[k].dims.empty())
      aligned("in", k);
  for (size_t k = 0; k < kernel.outputs.size(); ++k) aligned("out", k);
  return when;
}

void StoreInShared(Halide::Func& func, const Halide::Var& dim, int64_t elements) {
  constexpr int kWidest = 8;  // correctness: bytes of an f64
  func.store_in(Halide::MemoryType::GPUShared);
  const int bytes = func.types()[0].bytes();
  if (elements * bytes % kWidest != 0) func.align_storage(dim, kWidest / bytes);
}

// Halide takes a constraint of a stride for the stride only where it is a name or a number: of a
// product, which it reads from the buffer, it is told that it is a multiple of the vector.
void SetDenseVectors(DeviceNest& nest, const std::vector<Halide::Expr>& extents, int vector) {
  SetExtents(nest.func, extents);
  const std::vector<Halide::OutputImageParam> buffers = nest.func.output_buffers();
  for (size_t k = 0; k < buffers.size(); ++k) {
    Halide::OutputImageParam buffer = buffers[k];
    if (vector > 1) buffer.set_host_alignment(kAccessBytes);
    buffer.dim(0).set_stride(1);
    buffer.dim(1).set_stride(vector);
    Halide::Expr stride = vector;
    for (size_t d = 2; d < extents.size(); ++d) {
      const int axis = static_cast<int>(d);
      stride = stride * extents[d - 1];
      buffer.dim(axis).set_stride(buffer.dim(axis).stride() / vector * vector);
      TellStride(nest, k, axis, stride);
    }
  }
}

}  // namespace kiln
