// SPDX-License-Identifier: Apache-2.0
#include "schedule/cuda/library.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln {
namespace {

constexpr size_t kLeastRank = 3, kMostRank = 5;  // correctness: one to three spatial axes

// All begins come before all ends.
bool SameAtBothEnds(const std::vector<int64_t>& pads) {
  const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
  return std::equal(pads.begin(), pads.begin() + half, pads.begin() + half, pads.end());
}

}  // namespace

LibrarySet CudaLibraryOf(const OperatorForm& op) {
  if (op.name == "matmul") return IsFloat(op.type) ? kProductLibrary : kNoLibrary;
  const bool window =
      op.name == "conv" || op.name == "conv_transpose" || op.name == "conv_backward_weights";
  const bool pool =
      op.name == "max_pool" || op.name == "average_pool" || op.name == "average_pool_backward";
  if ((!window && !pool) || op.rank < kLeastRank || op.rank > kMostRank) return kNoLibrary;
  const bool type = op.type == DType::kF32 || op.type == DType::kF64 || op.type == DType::kF16 ||
                    (op.type == DType::kBF16 && window && op.operands == 2);
  if (!type || !SameAtBothEnds(op.pads)) return kNoLibrary;
  const bool plain = std::all_of(op.dilations.begin(), op.dilations.end(),
                                 [](int64_t dilation) { return dilation == 1; });
  return pool && (op.ceil_mode || !plain) ? kNoLibrary : kConvolutionLibrary;
}

bool CudaLibraryTakes(absl::string_view op, std::span<const PostOpForm> before, PostOpForm next,
                      bool fast) {
  const bool ended = std::any_of(before.begin(), before.end(),
                                 [](const PostOpForm& one) { return one.name != "add"; });
  if (ended) return false;
  if (op == "conv") return next.name == "add" || next.name == "relu";
  if (op != "matmul") return false;
  const auto has = [&](absl::string_view name, bool vector) {
    return std::any_of(before.begin(), before.end(), [&](const PostOpForm& one) {
      return one.name == name && one.vector == vector;
    });
  };
  if (next.name == "add") return !has("add", next.vector);
  return fast && (next.name == "relu" || next.name == "gelu_tanh");
}

}  // namespace kiln
