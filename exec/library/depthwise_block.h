// SPDX-License-Identifier: Apache-2.0
// The inner loop of depthwise convolutions, channels innermost: a few neighbouring outputs of a
// line, for all channels.
#ifndef KILN_EXEC_LIBRARY_DEPTHWISE_BLOCK_H_
#define KILN_EXEC_LIBRARY_DEPTHWISE_BLOCK_H_

#include <cstdint>

namespace kiln::library {

inline constexpr int64_t kMostDepthwise = 8;  // correctness: outputs of a block
// Lanes of a register; weights are padded to whole ones.
inline constexpr int64_t kDepthwiseLanes = 16;  // correctness

// y[o][c] = the bias of c + sum over s < segments and k < kernel of
//     x[s][o * stride + k][c] * w[s][k][c],
// in that order, fused, then no less than `low` and no more than `high`.
struct DepthwiseBlock {
  // [segments][points] pointers to `channels` elements; (outputs - 1) * stride + kernel points
  const float* const* x;
  int64_t segments;
  const float* w;     // [segments][kernel][channels rounded up to kDepthwiseLanes]
  const float* bias;  // null: zeros
  int64_t channels;
  float* y;         // from output to output `channels` elements
  float low, high;  // NaN passes between them
};

// The loop for `outputs` outputs, in [1, kMostDepthwise]; null where there is none for such a
// window, or the processor has no AVX-512.
using DepthwiseBlockFn = void (*)(const DepthwiseBlock& block);
DepthwiseBlockFn FindDepthwiseBlock(int64_t outputs, int64_t kernel, int64_t stride);

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_DEPTHWISE_BLOCK_H_
