// SPDX-License-Identifier: Apache-2.0
#include "kernel/naive.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/status_macros.h"
#include "kernel/eval.h"
#include "kernel/math.h"

namespace kiln {
namespace {

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

uint64_t ReduceBlock(ReduceOp op, DType type, std::span<const uint64_t> block, bool innermost) {
  std::vector<uint64_t> lanes(innermost ? static_cast<size_t>(kReduceLanes) : 1,
                              Identity(op, type));
  for (size_t i = 0; i < block.size(); ++i) {
    uint64_t& lane = lanes[i % lanes.size()];
    lane = Combine(op, type, lane, block[i]);
  }
  for (size_t width = lanes.size() / 2; width >= 1; width /= 2) {
    for (size_t l = 0; l < width; ++l) lanes[l] = Combine(op, type, lanes[l], lanes[l + width]);
  }
  return lanes[0];
}

class Evaluator {
 public:
  Evaluator(const Kernel& kernel, std::span<const NaiveBuffer> inputs,
            std::span<const int64_t> extents, std::span<const uint64_t> params)
      : kernel_(kernel),
        inputs_(inputs),
        extents_(extents),
        params_(params),
        at_(kernel.dims.size(), 0) {}

  void RunStage(const Stage& stage) {
    std::vector<uint64_t> values;
    ForEach(stage.dims, 0, [&] {
      values.push_back(stage.kind == Stage::Kind::kMap ? Value(stage.expr) : Reduce(stage));
    });
    stages_.push_back(std::move(values));
  }

  void RunOutput(const KernelOutput& output, const NaiveBuffer& buffer) {
    if (output.adds()) return RunSums(output, buffer);
    ForEach(output.dims, 0, [&] {
      int64_t offset = 0;
      for (size_t k = 0; k < output.dims.size(); ++k)
        offset += at_[At(output.dims[k])] * buffer.strides[k];
      StoreElement(buffer.data, output.type, offset, Value(output.expr));
    });
  }

 private:
  static size_t At(int32_t i) { return static_cast<size_t>(i); }

  // A dense output: zeros, to which the elements of the space are added in order.
  void RunSums(const KernelOutput& output, const NaiveBuffer& buffer) {
    int64_t elements = 1;
    for (const int32_t dim : output.dims) elements *= extents_[At(dim)];
    for (int64_t i = 0; i < elements; ++i) StoreElement(buffer.data, output.type, i, 0);
    if (elements == 0) return;
    const ExprNode& root = output.expr.node(output.expr.root());
    ForEach(LoopDims(kernel_, output), 0, [&] {
      const uint64_t value = Value(output.expr);
      int64_t offset = 0;
      for (size_t k = 0; k < output.dims.size(); ++k) {
        const int64_t extent = extents_[At(output.dims[k])];
        offset = offset * extent + Index(root.index[k], extent, scratch_.data());
      }
      const uint64_t sum = LoadElement(buffer.data, output.type, offset);
      StoreElement(buffer.data, output.type, offset,
                   Combine(ReduceOp::kAdd, output.type, sum, value));
    });
  }

  void ForEach(const std::vector<int32_t>& dims, size_t k, const std::function<void()>& body) {
    if (k == dims.size()) return body();
    for (int64_t& i = at_[At(dims[k])] = 0; i < extents_[At(dims[k])]; ++i)
      ForEach(dims, k + 1, body);
  }

  uint64_t Reduce(const Stage& stage) {
    std::vector<uint64_t> values;
    ForEach(stage.over, 0, [&] { values.push_back(Value(stage.expr)); });
    if (values.empty()) return stage.op == ReduceOp::kAdd ? 0 : Identity(stage.op, stage.type);
    for (size_t k = stage.over.size(); k-- > 0;) {
      const auto n = static_cast<size_t>(extents_[At(stage.over[k])]);
      std::vector<uint64_t> next;
      for (size_t row = 0; row < values.size(); row += n) {
        const auto from = values.begin() + static_cast<std::ptrdiff_t>(row);
        next.push_back(ReduceRow(stage.op, stage.type,
                                 {from, from + static_cast<std::ptrdiff_t>(n)},
                                 stage.over[k] == kernel_.innermost()));
      }
      values = std::move(next);
    }
    return values[0];
  }

  uint64_t Value(const ScalarExpr& expr) {
    return EvalScalar(
        expr, [&](ExprId id, const uint64_t* values) { return Leaf(expr.node(id), values); },
        scratch_);
  }

  uint64_t Leaf(const ExprNode& node, const uint64_t* values) const {
    switch (node.op) {
      case ScalarOp::kParam:
        return params_[At(node.ref)];
      case ScalarOp::kIndex:
        return static_cast<uint64_t>(at_[At(node.ref)]);
      case ScalarOp::kExtent:
        return static_cast<uint64_t>(extents_[At(node.ref)]);
      default:
        return ReadElement(node, values);
    }
  }

  int64_t Index(const IndexExpr& index, int64_t extent, const uint64_t* values) const {
    if (index.load >= 0) {
      const auto value = static_cast<int64_t>(values[index.load]);
      return std::clamp<int64_t>(value < 0 ? value + extent : value, 0,
                                 std::max<int64_t>(extent - 1, 0));
    }
    int64_t sum = index.offset;
    for (const IndexExpr::Term& term : index.terms)
      sum += term.coef * (term.extent ? extents_ : std::span(at_))[At(term.dim)];
    sum = FloorDiv(sum, index.div);
    return index.mod == 0 ? sum : sum - index.mod * FloorDiv(sum, index.mod);
  }

  uint64_t ReadElement(const ExprNode& node, const uint64_t* values) const {
    const bool input = node.source == ReadSource::kInput;
    const std::vector<int32_t>& axes =
        input ? kernel_.inputs[At(node.ref)].dims : kernel_.stages[At(node.ref)].dims;
    int64_t offset = 0;
    for (size_t k = 0; k < axes.size(); ++k) {
      const int64_t extent = extents_[At(axes[k])];
      const int64_t i = Index(node.index[k], extent, values);
      if (i < 0 || i >= extent) return 0;
      offset = input ? offset + i * inputs_[At(node.ref)].strides[k] : offset * extent + i;
    }
    if (!input) return stages_[At(node.ref)][static_cast<size_t>(offset)];
    return LoadElement(inputs_[At(node.ref)].data, kernel_.inputs[At(node.ref)].type, offset);
  }

  const Kernel& kernel_;
  std::span<const NaiveBuffer> inputs_;
  std::span<const int64_t> extents_;
  std::span<const uint64_t> params_;
  std::vector<int64_t> at_;                    // the current coordinate along each dim
  std::vector<std::vector<uint64_t>> stages_;  // values, dense
  std::vector<uint64_t> scratch_;
};

template <typename T>
T Get(const void* data, int64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + offset * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

std::vector<int64_t> DenseStrides(std::span<const int64_t> extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t k = extents.size(); k-- > 1;) strides[k - 1] = strides[k] * extents[k];
  return strides;
}

uint64_t ReduceRow(ReduceOp op, DType type, std::vector<uint64_t> row, bool innermost) {
  const auto size = static_cast<size_t>(innermost ? kReduceBlock : kOuterReduceBlock);
  do {
    std::vector<uint64_t> blocks;
    for (size_t start = 0; start < row.size(); start += size) {
      blocks.push_back(ReduceBlock(
          op, type, std::span(row).subspan(start, std::min(size, row.size() - start)), innermost));
    }
    row = std::move(blocks);
  } while (row.size() > 1);
  return row.empty() ? Identity(op, type) : row[0];
}

uint64_t LoadElement(const void* data, DType type, int64_t offset) {
  switch (type) {
    case DType::kF16:
      return std::bit_cast<uint32_t>(HalfToFloat(Get<uint16_t>(data, offset)));
    case DType::kBF16:
      return std::bit_cast<uint32_t>(BFloatToFloat(Get<uint16_t>(data, offset)));
    case DType::kF32:
    case DType::kU32:
      return Get<uint32_t>(data, offset);
    case DType::kI8:
      return static_cast<uint64_t>(int64_t{Get<int8_t>(data, offset)});
    case DType::kI16:
      return static_cast<uint64_t>(int64_t{Get<int16_t>(data, offset)});
    case DType::kI32:
      return static_cast<uint64_t>(int64_t{Get<int32_t>(data, offset)});
    case DType::kU8:
      return Get<uint8_t>(data, offset);
    case DType::kU16:
      return Get<uint16_t>(data, offset);
    case DType::kBool:
      return Get<uint8_t>(data, offset) != 0 ? 1 : 0;
    default:
      return Get<uint64_t>(data, offset);
  }
}

void StoreElement(void* data, DType type, int64_t offset, uint64_t bits) {
  if (type == DType::kF16) bits = FloatToHalf(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (type == DType::kBF16) bits = FloatToBFloat(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const size_t size = SizeOf(type);  // little-endian: the low bytes come first
  std::memcpy(static_cast<char*>(data) + offset * static_cast<int64_t>(size), &bits, size);
}

absl::Status EvalKernel(const Kernel& kernel, std::span<const NaiveBuffer> inputs,
                        std::span<const int64_t> extents, std::span<const uint64_t> params,
                        std::span<const NaiveBuffer> outputs) {
  KILN_RETURN_IF_ERROR(Verify(kernel));
  if (inputs.size() != kernel.inputs.size() || extents.size() != kernel.dims.size() ||
      params.size() != kernel.params.size() || outputs.size() != kernel.outputs.size()) {
    return absl::InvalidArgumentError("kernel: a different number of operands than its text has");
  }
  KILN_ASSIGN_OR_RETURN(const Kernel expanded, ExpandMath(kernel));
  Evaluator evaluator(expanded, inputs, extents, params);
  for (const Stage& stage : expanded.stages) evaluator.RunStage(stage);
  for (size_t k = 0; k < outputs.size(); ++k) evaluator.RunOutput(expanded.outputs[k], outputs[k]);
  return absl::OkStatus();
}

}  // namespace kiln
