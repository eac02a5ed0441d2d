// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cuda/shuffles.h"

#include <cstdint>
#include <string>

#include "halide_gen/common/primitives.h"

namespace kiln {
namespace {

using Halide::cast;
using Halide::Expr;
using Halide::reinterpret;

// `formula` of a name for `value`: it stands there several times.
template <typename Formula>
Expr OfName(const Expr& value, Formula&& formula) {
  const std::string name = Halide::Internal::unique_name('p');
  return Halide::Internal::Let::make(name, value,
                                     formula(Halide::Internal::Variable::make(value.type(), name)));
}

constexpr int kWarpThreads = 32;  // correctness
constexpr int kAllLanes = -1;     // correctness: the members, a bit for each
constexpr int kLastLane = 31;     // correctness
constexpr int kSegmentShift = 8;  // correctness: of the instruction's control word
constexpr int kWordBits = 32;     // correctness

// Of 32 bits. `by`: a distance, or a lane; the instruction's control word has the last lane of the
// segment, and above it which bits of a lane's number name its segment.
Expr Shuffle(const char* mode, const Expr& value, int by, int width) {
  const bool is_float = value.type().is_float();
  const std::string name =
      std::string("llvm.nvvm.shfl.sync.") + mode + (is_float ? ".f32" : ".i32");
  const int control = kLastLane | (kWarpThreads - width) << kSegmentShift;
  return Halide::Internal::Call::make(value.type(), name, {kAllLanes, value, by, control},
                                      Halide::Internal::Call::PureExtern);
}

Expr ShuffleAny(const char* mode, const Expr& value, int by, int width) {
  const Halide::Type type = value.type(), i32 = Halide::Int(32);
  if (type == i32 || type == Halide::Float(32)) return Shuffle(mode, value, by, width);
  if (type.bits() == 32)
    return reinterpret(type, Shuffle(mode, reinterpret(i32, value), by, width));
  if (type.bits() < 32) return cast(type, Shuffle(mode, cast(i32, value), by, width));
  return OfName(reinterpret<uint64_t>(value), [&](const Expr& bits) {
    const auto half = [&](const Expr& word) {
      const Expr moved = Shuffle(mode, reinterpret<int32_t>(cast<uint32_t>(word)), by, width);
      return cast<uint64_t>(reinterpret<uint32_t>(moved));
    };
    const Expr shift = Expr(uint64_t{kWordBits});
    return reinterpret(type, half(bits) | (half(bits >> shift) << shift));
  });
}

}  // namespace

Expr GuardOfShared(const Expr& condition) {
  return Halide::Internal::Call::make(Halide::Bool(), "llvm.expect.i1",
                                      {condition, Halide::Internal::const_true()},
                                      Halide::Internal::Call::Extern);
}

Expr UsesShared(const std::vector<Expr>& shared, Expr value) {
  for (const Expr& used : shared)
    value = Halide::Internal::Call::make(value.type(), Halide::Internal::Call::return_second,
                                         {used, value}, Halide::Internal::Call::PureIntrinsic);
  return value;
}

Expr FromAbove(const Expr& value, int distance, int width) {
  return ShuffleAny("down", value, distance, width);
}

Expr FromFirst(const Expr& value, int width) { return ShuffleAny("idx", value, 0, width); }

Expr FoldLanes(ReduceOp op, DType type, const LaneMap& map, std::vector<Expr> values) {
  const auto combine = [&](const Expr& a, const Expr& b) { return Accumulate(op, type, a, b); };
  const auto fold_own = [&] {
    for (size_t half = values.size() / 2; half > 0; half /= 2) {
      for (size_t v = 0; v < half; ++v) values[v] = combine(values[v], values[v + half]);
      values.resize(half);
    }
  };
  if (!map.side_by_side) fold_own();
  for (int distance = map.threads / 2; distance > 0; distance /= 2) {
    for (Expr& value : values) {
      value = OfName(value, [&](const Expr& own) {
        return combine(own, FromAbove(own, distance, map.threads));
      });
    }
  }
  if (map.side_by_side) fold_own();
  return FromFirst(values[0], map.threads);
}

}  // namespace kiln
