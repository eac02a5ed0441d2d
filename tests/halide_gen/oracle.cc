// SPDX-License-Identifier: Apache-2.0
#include "tests/halide_gen/oracle.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "kiln/kernel/eval.h"

namespace kiln {
namespace {

using Coordinates = std::vector<int64_t>;  // per dim

// Calls fn with every point of `dims` in row-major order; other coordinates are left alone.
void ForEachPoint(const std::vector<int32_t>& dims, const std::vector<int32_t>& extents, Coordinates at,
                  const std::function<void(const Coordinates&)>& fn, size_t axis = 0) {
  if (axis == dims.size()) return fn(at);
  const auto dim = static_cast<size_t>(dims[axis]);
  for (at[dim] = 0; at[dim] < extents[dim]; ++at[dim]) ForEachPoint(dims, extents, at, fn, axis + 1);
}

class Evaluator {
 public:
  Evaluator(const Kernel& kernel, const std::vector<int32_t>& extents, const std::vector<uint64_t>& params,
            const std::vector<HostArray>& inputs)
      : kernel_(kernel), extents_(extents), params_(params), inputs_(inputs), stages_(kernel.stages.size()) {}

  void RunStages() {
    for (size_t i = 0; i < kernel_.stages.size(); ++i) {
      const Stage& stage = kernel_.stages[i];
      ForEachPoint(stage.dims, extents_, Coordinates(extents_.size()), [&](const Coordinates& at) {
        stages_[i].push_back(stage.kind == Stage::Kind::kMap ? Value(stage.expr, at) : Reduce(stage, at, 0));
      });
    }
  }

  uint64_t Value(const ScalarExpr& expr, const Coordinates& at) {
    std::vector<uint64_t> scratch;
    return EvalScalar(expr, [&](ExprId id, const uint64_t* values) { return Leaf(expr, id, values, at); }, scratch);
  }

 private:
  uint64_t Leaf(const ScalarExpr& expr, ExprId id, const uint64_t* values, const Coordinates& at) {
    const ExprNode& node = expr.node(id);
    const auto ref = static_cast<size_t>(node.ref);
    if (node.op == ScalarOp::kParam) return params_[ref];
    if (node.op == ScalarOp::kIndex) return static_cast<uint64_t>(at[ref]);
    if (node.op == ScalarOp::kExtent) return static_cast<uint64_t>(extents_[ref]);
    const bool input = node.source == ReadSource::kInput;
    const std::vector<int32_t>& dims = input ? kernel_.inputs[ref].dims : kernel_.stages[ref].dims;
    int64_t offset = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      const int64_t extent = extents_[static_cast<size_t>(dims[axis])];
      const int64_t index = Index(expr, node.index[axis], values, extent, at);
      if (index < 0 || index >= extent) return 0;  // under a false guard
      offset = input ? offset + index * inputs_[ref].strides[axis] : offset * extent + index;
    }
    return input ? LoadElement(inputs_[ref], offset) : stages_[ref][static_cast<size_t>(offset)];
  }

  int64_t Index(const ScalarExpr& expr, const IndexExpr& index, const uint64_t* values, int64_t extent,
                const Coordinates& at) const {
    if (index.load >= 0) {
      const uint64_t loaded = values[index.load];
      if (expr.node(index.load).type == DType::kU64 && loaded > INT64_MAX) return extent - 1;
      auto value = static_cast<int64_t>(loaded);
      if (value < 0) value += extent;
      return std::max<int64_t>(0, std::min(value, extent - 1));
    }
    int64_t sum = index.offset;
    for (const IndexExpr::Term& term : index.terms) {
      const auto dim = static_cast<size_t>(term.dim);
      sum += term.coef * (term.extent ? extents_[dim] : at[dim]);
    }
    const auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
    sum = floor_div(sum, index.div);
    return index.mod == 0 ? sum : sum - floor_div(sum, index.mod) * index.mod;
  }

  // Reduces over[first...], the innermost of them first.
  uint64_t Reduce(const Stage& stage, Coordinates at, size_t first) {
    if (first == stage.over.size()) return Value(stage.expr, at);
    const auto dim = static_cast<size_t>(stage.over[first]);
    std::vector<uint64_t> elements;
    for (at[dim] = 0; at[dim] < extents_[dim]; ++at[dim]) elements.push_back(Reduce(stage, at, first + 1));
    return ReduceList(stage, std::move(elements), stage.over[first] == kernel_.innermost());
  }

  static uint64_t ReduceList(const Stage& stage, std::vector<uint64_t> elements, bool lanes) {
    const bool empty_sum = elements.empty() && stage.op == ReduceOp::kAdd;
    if (empty_sum && IsFloat(stage.type)) return ConstBits(stage.type, 0.0);
    if (elements.empty()) return Identity(stage.op, stage.type);
    const auto block = static_cast<size_t>(lanes ? kReduceBlock : kOuterReduceBlock);
    do {
      std::vector<uint64_t> results;
      for (size_t begin = 0; begin < elements.size(); begin += block) {
        const size_t end = std::min(elements.size(), begin + block);
        std::vector<uint64_t> acc(lanes ? kReduceLanes : 1, Identity(stage.op, stage.type));
        for (size_t i = begin; i < end; ++i) {
          uint64_t& lane = acc[(i - begin) % acc.size()];
          lane = Combine(stage.op, stage.type, lane, elements[i]);
        }
        for (size_t half = acc.size() / 2; half > 0; half /= 2) {
          for (size_t l = 0; l < half; ++l) acc[l] = Combine(stage.op, stage.type, acc[l], acc[l + half]);
        }
        results.push_back(acc[0]);
      }
      elements = std::move(results);
    } while (elements.size() > 1);
    return elements[0];
  }

  const Kernel& kernel_;
  const std::vector<int32_t>& extents_;
  const std::vector<uint64_t>& params_;
  const std::vector<HostArray>& inputs_;
  std::vector<std::vector<uint64_t>> stages_;
};

}  // namespace

uint64_t LoadElement(const HostArray& array, int64_t offset) {
  const size_t size = SizeOf(array.type);
  uint64_t bits = 0;
  std::memcpy(&bits, array.bytes.data() + static_cast<size_t>(offset) * size, size);
  if (array.type == DType::kF16) return std::bit_cast<uint32_t>(HalfToFloat(static_cast<uint16_t>(bits)));
  if (array.type == DType::kBF16) return std::bit_cast<uint32_t>(BFloatToFloat(static_cast<uint16_t>(bits)));
  if (!IsSigned(array.type) || size == 8) return bits;
  const int unused = 64 - 8 * static_cast<int>(size);
  return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

void StoreElement(HostArray& array, int64_t offset, uint64_t bits) {
  const size_t size = SizeOf(array.type);
  const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (array.type == DType::kF16) bits = FloatToHalf(value);
  if (array.type == DType::kBF16) bits = FloatToBFloat(value);
  std::memcpy(array.bytes.data() + static_cast<size_t>(offset) * size, &bits, size);
}

void Evaluate(const Kernel& kernel, const std::vector<int32_t>& extents, const std::vector<uint64_t>& params,
              const std::vector<HostArray>& inputs, std::vector<HostArray>& outputs) {
  Evaluator evaluator(kernel, extents, params, inputs);
  evaluator.RunStages();
  for (size_t i = 0; i < kernel.outputs.size(); ++i) {
    const KernelOutput& output = kernel.outputs[i];
    ForEachPoint(output.dims, extents, Coordinates(extents.size()), [&](const Coordinates& at) {
      int64_t offset = 0;
      for (size_t axis = 0; axis < output.dims.size(); ++axis) {
        offset += at[static_cast<size_t>(output.dims[axis])] * outputs[i].strides[axis];
      }
      StoreElement(outputs[i], offset, evaluator.Value(output.expr, at));
    });
  }
}

std::string Difference(const HostArray& got, const HostArray& want) {
  const size_t size = SizeOf(want.type);
  for (size_t i = 0; (i + 1) * size <= want.bytes.size(); ++i) {
    if (std::memcmp(&got.bytes[i * size], &want.bytes[i * size], size) == 0) continue;
    const uint64_t a = LoadElement(got, static_cast<int64_t>(i)), b = LoadElement(want, static_cast<int64_t>(i));
    const DType type = ComputeType(want.type);
    if (IsFloat(type) && std::isnan(ConstValue(type, a)) && std::isnan(ConstValue(type, b))) continue;
    return absl::StrCat("element ", i, " of ", want.bytes.size() / size, ": got ", ConstValue(type, a), " (0x",
                        absl::Hex(a), "), want ", ConstValue(type, b), " (0x", absl::Hex(b), ")");
  }
  return "";
}

}  // namespace kiln
