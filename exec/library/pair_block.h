// SPDX-License-Identifier: Apache-2.0
// The inner loops of products of whole numbers: bytes less their zero points, as numbers of 16 bits
// in [-255, 255]. One instruction multiplies pairs of neighbouring terms and adds the two products
// in 32 bits: exact for all such numbers, where products of bytes would saturate in 16 bits. Sums
// wrap, so that their order does not matter: all loops give the same bits.
//
//   rows[r]:  x0 x1 | x2 x3 | ...             a pair is 32 bits, copied to all lanes
//   panel:    w0[0] w1[0] w0[1] w1[1] ... | w2[0] w3[0] ...      pair by pair, then by column
#ifndef KILN_EXEC_LIBRARY_PAIR_BLOCK_H_
#define KILN_EXEC_LIBRARY_PAIR_BLOCK_H_

#include <array>
#include <cstdint>
#include <span>

namespace kiln::library {

inline constexpr int64_t kMostPairRows = 12;     // correctness: of a block
inline constexpr int64_t kMostPairColumns = 32;  // correctness: of a panel
inline constexpr int64_t kDepthwisePairs = 16;   // correctness: channels of a register

// sums[r][c] = the sum over s < segments and t < 2 * pairs of
//     rows[r][offsets[s] + t] * panel[s][t / 2][c][t % 2]       for all columns c of a panel.
struct PairBlock {
  const int16_t* const* rows;
  const int64_t* offsets;
  int64_t segments, pairs;
  const int16_t* panel;
  int32_t* const* sums;
};
using PairBlockFn = void (*)(const PairBlock& block);

// y[i * y_step + c] = the sum over pairs p of taps of
//     x[i * x_step + offsets[2p] + c] * w0 + x[i * x_step + offsets[2p + 1] + c] * w1
// for `points` i and `channels` c, where x has whole registers of channels, and w the two weights
// of a channel side by side, register by register, pair by pair, in the order DepthwiseLane.
struct DepthwisePairs {
  const int16_t* x;
  int64_t x_step;
  const int64_t* offsets;
  int64_t pairs, channels, points;
  const int16_t* w;
  int32_t* y;
  int64_t y_step;
};
using DepthwisePairsFn = void (*)(const DepthwisePairs& block);

// Which place among the weights of a register its channel has: that of interleaved halves.
constexpr int64_t DepthwiseLane(int64_t channel) {
  return channel / 4 % 2 * 8 + channel / 8 * 4 + channel % 4;
}

// to[i] = from[i] - zero for n bytes.
template <typename Byte>
using WidenFn = void (*)(const Byte* from, int64_t n, int zero, int16_t* to);

// One pair of a panel: to[2c] = even[c * step] - zeros[c], to[2c + 1] likewise from `odd`, for n
// columns; where a pointer is null, 0.
template <typename Byte>
struct PairOfColumns {
  const Byte *even, *odd;
  int64_t step, n;
  const int16_t* zeros;
  int16_t* to;
};
template <typename Byte>
using PackPairFn = void (*)(const PairOfColumns<Byte>& pair);

struct PairLoops {
  const char* name;
  int64_t columns;                                // of a panel
  int64_t rows;                                   // of a block, at most
  std::array<PairBlockFn, kMostPairRows> blocks;  // for 1 row, 2, ..., `rows`
  DepthwisePairsFn depthwise;
  WidenFn<uint8_t> widen_u8;
  WidenFn<int8_t> widen_i8;
  PackPairFn<uint8_t> pack_u8;
  PackPairFn<int8_t> pack_i8;
};

// All that this processor has; the first is the fastest, the last plain.
std::span<const PairLoops> AllPairLoops();

}  // namespace kiln::library

#endif  // KILN_EXEC_LIBRARY_PAIR_BLOCK_H_
