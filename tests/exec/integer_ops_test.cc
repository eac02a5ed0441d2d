// SPDX-License-Identifier: Apache-2.0
// Products of bytes against sums of 64 bits that wrap at the end, element by element from the
// definition: all loops that this processor has, random shapes, types, zero points and layouts.
#include "exec/library/integer_ops.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "exec/library/library.h"
#include "exec/library/pair_block.h"
#include "exec/library/requantize.h"
#include "exec/support/pool.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln::library {
namespace {

using Extents = std::vector<int64_t>;

int64_t Count(const Extents& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Once(int64_t in) { return In(1, in) == 1; }

 private:
  std::mt19937_64 random_;
};

// An operand and its elements, which lie by strides in memory of their own.
struct Bytes8 {
  Operand operand;
  std::vector<uint8_t> memory;

  int64_t At(const Extents& at) const {
    int64_t place = 0;
    for (size_t i = 0; i < at.size(); ++i) place += at[i] * operand.strides[i];
    const uint8_t byte = memory[static_cast<size_t>(place)];
    return operand.type == DType::kI8 ? static_cast<int8_t>(byte) : byte;
  }
};

// Axes from the innermost to the outermost in the order `inner_first`; all extremes at times, so
// that sums of products would saturate in 16 bits.
Bytes8 DrawBytes(Draw& draw, DType type, Extents shape, const std::vector<size_t>& inner_first) {
  Bytes8 made;
  made.operand.type = type;
  made.operand.strides.assign(shape.size(), 1);
  int64_t step = 1;
  for (const size_t axis : inner_first) {
    made.operand.strides[axis] = step;
    step *= shape[axis];
    if (draw.Once(8)) step += draw.In(1, 3);  // a gap
  }
  made.memory.resize(static_cast<size_t>(std::max<int64_t>(step, 1)));
  const int64_t kind = draw.In(0, 3);
  for (uint8_t& byte : made.memory) {
    const bool high = kind == 1 || (kind == 2 && draw.Once(2));
    const int extreme = type == DType::kU8 ? (high ? 255 : 0) : (high ? 127 : -128);
    byte = static_cast<uint8_t>(kind == 0 ? draw.In(0, 255) : extreme);
  }
  made.operand.shape = std::move(shape);
  return made;
}

std::vector<size_t> Dense(size_t rank) {
  std::vector<size_t> order;
  for (size_t i = rank; i-- > 0;) order.push_back(i);
  return order;
}
std::vector<size_t> ChannelsLast(size_t rank) {
  std::vector<size_t> order = {1};
  for (size_t i = rank; i-- > 0;) {
    if (i != 1) order.push_back(i);
  }
  return order;
}

DType DrawType(Draw& draw) { return draw.Once(2) ? DType::kU8 : DType::kI8; }

// What a call is given: two operands and their zero points, of which either may be absent.
struct Call {
  Request request;
  std::vector<Bytes8> inputs;
  std::vector<bool> present = {true, true, false, false};

  int64_t Zero(size_t k, const Extents& at) const { return present[k] ? inputs[k].At(at) : 0; }
  void Finish(Extents y, const std::vector<size_t>& order) {
    for (size_t k = 0; k < 4; ++k) {
      request.inputs.push_back(inputs[k].operand);
      request.inputs.back().present = present[k];
    }
    Bytes8 out;
    out.operand.type = DType::kI32;
    out.operand.strides.assign(y.size(), 1);
    int64_t step = 1;
    for (const size_t axis : order) out.operand.strides[axis] = step, step *= y[axis];
    out.operand.shape = std::move(y);
    request.outputs = {out.operand};
  }
  void MakeConstant(Draw& draw) {
    if (draw.Once(4)) return;
    request.inputs[1].constant = inputs[1].memory.data();
    if (present[3] && !draw.Once(6)) request.inputs[3].constant = inputs[3].memory.data();
  }
};

// Calls f(coordinates) for all elements in order.
template <typename F>
void ForEach(const Extents& shape, const F& f) {
  Extents at(shape.size(), 0);
  for (int64_t i = 0; i < Count(shape); ++i) {
    f(at);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++at[axis] < shape[axis]) break;
      at[axis] = 0;
    }
  }
}

struct Conv {
  Call call;
  Extents kernel, stride, dilation, before, in;
  int64_t group_in = 1, group_out = 1;

  int64_t Want(const Extents& o) const {
    int64_t sum = 0;
    Extents taps = {group_in};
    taps.insert(taps.end(), kernel.begin(), kernel.end());
    ForEach(taps, [&](const Extents& tap) {
      Extents x = {o[0], o[1] / group_out * group_in + tap[0]}, w = {o[1]};
      w.insert(w.end(), tap.begin(), tap.end());
      for (size_t i = 0; i < kernel.size(); ++i) {
        x.push_back(o[2 + i] * stride[i] + tap[1 + i] * dilation[i] - before[i]);
        if (x.back() < 0 || x.back() >= in[i]) return;  // the zero point: nothing
      }
      const Extents channel = call.request.inputs[3].shape.empty() ? Extents{} : Extents{o[1]};
      sum += (call.inputs[0].At(x) - call.Zero(2, {})) *
             (call.inputs[1].At(w) - call.Zero(3, channel));
    });
    return sum;
  }
};

Conv DrawConv(Draw& draw) {
  Conv conv;
  const auto spatial = static_cast<size_t>(draw.In(1, 3));
  const bool depthwise = draw.Once(3);
  const int64_t groups = depthwise ? draw.In(2, 40) : draw.Once(3) ? draw.In(2, 4) : 1;
  if (!depthwise) {
    conv.group_in = draw.In(1, draw.Once(4) ? 70 : 9);
    conv.group_out = draw.In(1, draw.Once(4) ? 70 : 9);
  }
  Extents x = {draw.In(1, 2), groups * conv.group_in}, w = {groups * conv.group_out, conv.group_in},
          y = {x[0], w[0]}, after;
  for (size_t i = 0; i < spatial; ++i) {
    conv.kernel.push_back(draw.In(1, 3));
    conv.stride.push_back(draw.In(1, 3));
    conv.dilation.push_back(draw.In(1, 2));
    conv.before.push_back(draw.In(0, 2));
    after.push_back(draw.In(0, 2));
    const int64_t reach = (conv.kernel[i] - 1) * conv.dilation[i] + 1;
    conv.in.push_back(std::max<int64_t>(draw.In(1, 10), reach - conv.before[i] - after[i]));
    x.push_back(conv.in[i]);
    w.push_back(conv.kernel[i]);
    y.push_back((conv.in[i] + conv.before[i] + after[i] - reach) / conv.stride[i] + 1);
  }
  Extents pads = conv.before;
  pads.insert(pads.end(), after.begin(), after.end());
  conv.call.request.attributes = {
      {"strides", conv.stride}, {"dilations", conv.dilation}, {"pads", pads}, {"group", {groups}}};
  const DType of_x = DrawType(draw), of_w = DrawType(draw);
  const auto order = [&] { return draw.Once(3) ? Dense(x.size()) : ChannelsLast(x.size()); };
  const bool per_channel = draw.Once(2);
  conv.call.inputs = {
      DrawBytes(draw, of_x, x, order()), DrawBytes(draw, of_w, w, Dense(w.size())),
      DrawBytes(draw, of_x, {}, {}),
      per_channel ? DrawBytes(draw, of_w, {w[0]}, {0}) : DrawBytes(draw, of_w, {}, {})};
  conv.call.present = {true, true, !draw.Once(3), !draw.Once(3)};
  conv.call.Finish(std::move(y), order());
  conv.call.MakeConstant(draw);
  return conv;
}

struct Matmul {
  Call call;

  // Coordinates of an operand's element: those of the batch, from the right, where it has them.
  static Extents Place(const Extents& shape, const Extents& batch, int64_t row, int64_t column,
                       size_t summed) {
    Extents at;
    if (shape.size() == 1) return {shape[0] == 1 ? 0 : summed == 1 ? column : row};
    for (size_t i = 0; i + 2 < shape.size(); ++i)
      at.push_back(shape[i] == 1 ? 0 : batch[batch.size() - (shape.size() - 2) + i]);
    at.push_back(shape[shape.size() - 2] == 1 ? 0 : row);
    at.push_back(shape.back() == 1 ? 0 : column);
    return at;
  }

  int64_t Want(const Extents& o) const {
    const Extents &a = call.inputs[0].operand.shape, &b = call.inputs[1].operand.shape;
    const size_t own = (a.size() > 1 ? 1 : 0) + (b.size() > 1 ? 1 : 0);
    const Extents batch(o.begin(), o.end() - static_cast<std::ptrdiff_t>(own));
    const int64_t m = a.size() > 1 ? o[batch.size()] : 0, n = b.size() > 1 ? o.back() : 0;
    int64_t sum = 0;
    for (int64_t k = 0; k < a.back(); ++k) {
      const int64_t x = call.inputs[0].At(Place(a, batch, m, k, 1)),
                    y = call.inputs[1].At(Place(b, batch, k, n, 0));
      const Extents za = call.inputs[2].operand.shape, zb = call.inputs[3].operand.shape;
      sum += (x - call.Zero(2, za.empty() ? za : Place(za, batch, m, k, 1))) *
             (y - call.Zero(3, zb.empty()       ? zb
                               : zb.size() == 1 ? Extents{zb[0] == 1 ? 0 : n}
                                                : Place(zb, batch, k, n, 0)));
    }
    return sum;
  }
};

Matmul DrawMatmul(Draw& draw) {
  Matmul matmul;
  const int64_t m = draw.In(1, draw.Once(8) ? 110 : 13), n = draw.In(1, draw.Once(4) ? 80 : 20),
                k = draw.Once(12) ? 0 : draw.In(1, draw.Once(6) ? 120 : 30);
  Extents a, b, c;
  const auto batch = static_cast<size_t>(draw.In(0, 2));
  for (size_t i = 0; i < batch; ++i) {
    const int64_t extent = draw.In(1, 3);
    if (!a.empty() || i + 1 == batch || draw.Once(2)) a.push_back(draw.Once(3) ? 1 : extent);
    if (!b.empty() || i + 1 == batch || draw.Once(2)) b.push_back(draw.Once(3) ? 1 : extent);
  }
  for (size_t i = std::max(a.size(), b.size()); i > 0; --i) {
    const int64_t of_a = i <= a.size() ? a[a.size() - i] : 1,
                  of_b = i <= b.size() ? b[b.size() - i] : 1;
    c.push_back(std::max(of_a, of_b));
  }
  const bool row = a.empty() && draw.Once(6), column = b.empty() && draw.Once(6);
  if (!row) a.push_back(m), c.push_back(m);
  a.push_back(k);
  b.push_back(k);
  if (!column) b.push_back(n), c.push_back(n);
  const DType of_a = DrawType(draw), of_b = DrawType(draw);
  // Zero points: one, or one for each row or column, or for those of each matrix.
  const auto zeros = [&](const Extents& whole, size_t summed) {
    if (draw.Once(3)) return Extents{};
    Extents shape = whole;
    shape[whole.size() - summed] = 1;
    if (summed == 2 && draw.Once(2)) return Extents{whole.back()};
    for (size_t i = 0; i + 2 < shape.size(); ++i) shape[i] = draw.Once(2) ? 1 : shape[i];
    return shape;
  };
  const Extents za = zeros(a, 1), zb = zeros(b, column ? 1 : 2);
  const auto order = [&](const Extents& shape) {
    std::vector<size_t> inner_first = Dense(shape.size());
    if (shape.size() > 1 && draw.Once(4)) std::swap(inner_first[0], inner_first[1]);
    return inner_first;
  };
  for (const auto& [type, shape] : {std::pair(of_a, a), {of_b, b}, {of_a, za}, {of_b, zb}})
    matmul.call.inputs.push_back(DrawBytes(draw, type, shape, order(shape)));
  matmul.call.present = {true, true, !draw.Once(3), !draw.Once(3)};
  matmul.call.Finish(c, Dense(c.size()));
  matmul.call.MakeConstant(draw);
  return matmul;
}

class IntegerOps : public testing::Test {
 protected:
  // The result at each place of the output, dense; empty where the implementation does not take
  // the request.
  std::vector<int32_t> Run(absl::StatusOr<std::unique_ptr<Primitive>> made, Call& call) {
    if (absl::IsUnimplemented(made.status())) return {};
    KILN_EXPECT_OK(made.status());
    if (!made.ok()) return {};
    const Operand& out = call.request.outputs[0];
    std::vector<int32_t> memory(static_cast<size_t>(Count(out.shape)), 77);
    std::vector<uint8_t> scratch(static_cast<size_t>((*made)->scratch_bytes()) + 64, 0xa5);
    void* at = scratch.data();
    size_t room = scratch.size();
    std::align(64, room - 63, at, room);
    std::vector<void*> in;
    for (size_t k = 0; k < 4; ++k)
      in.push_back(call.present[k] ? call.inputs[k].memory.data() : nullptr);
    void* y = memory.data();
    LaunchContext context;
    context.parallel_for = [](LaunchContext* c, TaskFn task, int min, int n, uint8_t* closure) {
      for (int i = min + n; i-- > min;) task(c, i, closure);
      return 0;
    };
    KILN_EXPECT_OK((*made)->Run({in.data(), &y, at, &context}));
    std::vector<int32_t> result;
    ForEach(out.shape, [&](const Extents& o) {
      int64_t place = 0;
      for (size_t i = 0; i < o.size(); ++i) place += o[i] * out.strides[i];
      result.push_back(memory[static_cast<size_t>(place)]);
    });
    return result;
  }

  // Likewise of bytes.
  std::vector<uint8_t> RunBytes(absl::StatusOr<std::unique_ptr<Primitive>> made,
                                const Request& request, const std::vector<void*>& in) {
    KILN_EXPECT_OK(made.status());
    if (!made.ok()) return {};
    const Operand& out = request.outputs[0];
    std::vector<uint8_t> memory(static_cast<size_t>(Count(out.shape)), 77);
    std::vector<uint8_t> scratch(static_cast<size_t>((*made)->scratch_bytes()) + 64, 0xa5);
    void *at = scratch.data(), *y = memory.data();
    size_t room = scratch.size();
    std::align(64, room - 63, at, room);
    KILN_EXPECT_OK((*made)->Run({in.data(), &y, at, nullptr}));
    std::vector<uint8_t> result;
    ForEach(out.shape, [&](const Extents& o) {
      int64_t place = 0;
      for (size_t i = 0; i < o.size(); ++i) place += o[i] * out.strides[i];
      result.push_back(memory[static_cast<size_t>(place)]);
    });
    return result;
  }

  template <typename Case>
  std::vector<int32_t> Want(const Case& c) {
    std::vector<int32_t> want;
    ForEach(c.call.request.outputs[0].shape,
            [&](const Extents& o) { want.push_back(static_cast<int32_t>(c.Want(o))); });
    return want;
  }

  const std::shared_ptr<Session> session_ = *Session::Create(nullptr);
};

constexpr int kCases = 160;

TEST_F(IntegerOps, ConvolutionsAreExact) {
  int depthwise = 0;
  for (int seed = 1; seed <= kCases; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(static_cast<uint64_t>(seed));
    Conv conv = DrawConv(draw);
    const Request& request = conv.call.request;
    const std::vector<int32_t> want = Want(conv);
    ASSERT_EQ(Run(MakeIntegerConvLoop(request, session_), conv.call), want);
    for (const PairLoops& loops : AllPairLoops()) {
      SCOPED_TRACE(loops.name);
      ASSERT_EQ(Run(MakePairConvWith(loops, false, request, session_), conv.call), want);
      const auto by_taps = Run(MakePairDepthwiseWith(loops, false, request, session_), conv.call);
      if (by_taps.empty()) continue;
      ASSERT_EQ(by_taps, want);
      ++depthwise;
    }
  }
  EXPECT_GT(depthwise, kCases / 10);
}

TEST_F(IntegerOps, MatrixProductsAreExact) {
  for (int seed = 1; seed <= kCases; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(static_cast<uint64_t>(seed));
    Matmul matmul = DrawMatmul(draw);
    const Request& request = matmul.call.request;
    const std::vector<int32_t> want = Want(matmul);
    ASSERT_EQ(Run(MakeIntegerMatmulLoop(request, session_), matmul.call), want);
    for (const PairLoops& loops : AllPairLoops()) {
      SCOPED_TRACE(loops.name);
      ASSERT_EQ(Run(MakePairMatmulWith(loops, request, session_), matmul.call), want);
    }
  }
}

// What QLinearConv is given beside x, w and their zero points.
struct Scales {
  std::vector<float> x, w, y;
  std::vector<uint8_t> zero;
  std::vector<int32_t> bias;
};

Scales DrawScales(Draw& draw, int64_t channels) {
  const auto count = [&] { return static_cast<size_t>(draw.Once(2) ? 1 : channels); };
  // Powers of two make ties; 0 makes infinities and NaN; most results lie among the bytes.
  const int64_t kind = draw.In(0, 9);
  const auto scale = [&](int64_t low, int64_t high) {
    if (kind == 0 && draw.Once(3)) return draw.Once(2) ? 0.0F : 1e38F;
    const int exponent = static_cast<int>(draw.In(low, high));
    return std::ldexp(kind < 4 ? 1.0F : 1.0F + static_cast<float>(draw.In(0, 999)) / 1000.0F,
                      exponent);
  };
  Scales s;
  for (size_t n = count(); n > 0; --n) s.x.push_back(scale(-4, 0));
  for (size_t n = count(); n > 0; --n) s.w.push_back(scale(-4, 0));
  for (size_t n = count(); n > 0; --n) s.y.push_back(scale(1, 8));
  for (size_t n = count(); n > 0; --n) s.zero.push_back(static_cast<uint8_t>(draw.In(0, 255)));
  const int64_t most = draw.Once(8) ? 2147483647 : 3000;
  for (int64_t c = 0; c < channels && kind % 3 != 0; ++c)
    s.bias.push_back(static_cast<int32_t>(draw.In(-most, most)));
  return s;
}

// As ONNX says it, in f64.
int64_t Quantised(const Scales& s, bool is_signed, int64_t channel, int32_t sum) {
  const auto at = [&](const auto& of) {
    return of[of.size() == 1 ? 0 : static_cast<size_t>(channel)];
  };
  const double bias = s.bias.empty() ? 0 : at(s.bias);
  const double real = (sum + bias) * static_cast<double>(at(s.x)) * static_cast<double>(at(s.w)) /
                      static_cast<double>(at(s.y));
  const double whole =
      std::nearbyint(real) + (is_signed ? static_cast<int8_t>(at(s.zero)) : at(s.zero));
  if (std::isnan(whole)) return 0;
  return static_cast<int64_t>(is_signed ? std::clamp(whole, -128.0, 127.0)
                                        : std::clamp(whole, 0.0, 255.0));
}

TEST_F(IntegerOps, QuantisedConvolutionsRoundAsInF64) {
  for (int seed = 1; seed <= kCases; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(static_cast<uint64_t>(seed));
    Conv conv = DrawConv(draw);
    Request request = conv.call.request;
    Scales s = DrawScales(draw, request.outputs[0].shape[1]);
    const DType type = DrawType(draw);
    const auto vector = [](DType t, size_t n) {
      return Operand{true, t, {static_cast<int64_t>(n)}, {1}, nullptr};
    };
    request.outputs[0].type = type;
    const std::vector<Operand> own = std::exchange(request.inputs, {});
    request.inputs = {own[0],
                      vector(DType::kF32, s.x.size()),
                      own[2],
                      own[1],
                      vector(DType::kF32, s.w.size()),
                      own[3],
                      vector(DType::kF32, s.y.size()),
                      vector(type, s.zero.size()),
                      vector(DType::kI32, s.bias.size())};
    request.inputs[8].present = !s.bias.empty();
    std::vector<uint8_t> want;
    ForEach(request.outputs[0].shape, [&](const Extents& o) {
      want.push_back(static_cast<uint8_t>(
          Quantised(s, type == DType::kI8, o[1], static_cast<int32_t>(conv.Want(o)))));
    });
    const auto input = [&](size_t k) -> void* {
      return conv.call.present[k] ? conv.call.inputs[k].memory.data() : nullptr;
    };
    std::vector<void*> in = {input(0), s.x.data(), input(2),      input(1),     s.w.data(),
                             input(3), s.y.data(), s.zero.data(), s.bias.data()};
    ASSERT_EQ(RunBytes(MakeQuantisedConvLoop(request, session_), request, in), want);
    for (const PairLoops& loops : AllPairLoops()) {
      SCOPED_TRACE(loops.name);
      ASSERT_EQ(RunBytes(MakePairConvWith(loops, true, request, session_), request, in), want);
      auto by_taps = MakePairDepthwiseWith(loops, true, request, session_);
      if (absl::IsUnimplemented(by_taps.status())) continue;
      ASSERT_EQ(RunBytes(std::move(by_taps), request, in), want);
    }
  }
}

// Quotients at every tie, and beside it by less than f32 can tell.
TEST_F(IntegerOps, BytesAreThoseOfF64NearTies) {
  constexpr int64_t kMost = RequantizeChannels::kMore;
  for (const double y_scale : {2.0, 2 + 0x1p-40, 2 - 0x1p-40, 7.0, 1e-3}) {
    std::vector<double> one(kMost, 1.0), y(kMost, y_scale);
    std::vector<int32_t> bias(kMost, 5), zero(kMost, -3);
    std::vector<float> factor(kMost, static_cast<float>(1 / y_scale));
    for (const bool is_signed : {false, true}) {
      const RequantizeChannels channels = {one.data(),  one.data(),    y.data(), bias.data(),
                                           zero.data(), factor.data(), is_signed};
      for (int32_t first = -3000; first < 3000; first += kMost) {
        std::vector<int32_t> sums(kMost);
        std::iota(sums.begin(), sums.end(), first);
        for (const RequantizeFn run : AllRequantize()) {
          uint8_t got[kMost];
          run(channels, 0, kMost, sums.data(), got);
          for (int64_t i = 0; i < kMost; ++i)
            ASSERT_EQ(got[i], RequantizeExactly(channels, i, sums[static_cast<size_t>(i)]));
        }
      }
    }
  }
}

// 40000 products of 255 and 255 are more than 32 bits hold.
TEST_F(IntegerOps, SumsWrap) {
  std::vector<uint8_t> a(40000, 255);
  Request request;
  request.inputs = {{true, DType::kU8, {1, 40000}, {40000, 1}, nullptr},
                    {true, DType::kU8, {40000, 1}, {1, 1}, a.data()}};
  request.outputs = {{true, DType::kI32, {1, 1}, {1, 1}, nullptr}};
  for (const PairLoops& loops : AllPairLoops()) {
    auto made = MakePairMatmulWith(loops, request, session_);
    KILN_ASSERT_OK(made.status());
    std::vector<uint8_t> scratch(static_cast<size_t>((*made)->scratch_bytes()) + 64);
    void *at = scratch.data(), *in[] = {a.data(), a.data()};
    size_t room = scratch.size();
    std::align(64, room - 63, at, room);
    int32_t y = 0;
    void* out = &y;
    KILN_ASSERT_OK((*made)->Run({in, &out, at, nullptr}));
    EXPECT_EQ(y, static_cast<int32_t>(int64_t{40000} * 255 * 255));
  }
}

// Who computes: plain loops would take a hundred times as long.
TEST_F(IntegerOps, PlainLoopsAreTheLastResort) {
  int loops = 0;
  for (int seed = 1; seed <= kCases; ++seed) {
    Draw draw(static_cast<uint64_t>(seed));
    const Conv conv = DrawConv(draw);
    const Matmul matmul = DrawMatmul(draw);
    for (const auto& [op, call] :
         {std::pair("conv_integer", &conv.call), {"matmul_integer", &matmul.call}}) {
      auto made = Make(*Find(op), call->request, session_);
      KILN_ASSERT_OK(made.status());
      EXPECT_EQ((*made)->considered().back().implementation.rfind("pairs of ", 0), 0) << seed;
      EXPECT_EQ((*made)->description(), AllPairLoops()[0].name);
      if (call->request.inputs[1].constant == nullptr) continue;
      ++loops;
    }
  }
  EXPECT_GT(loops, kCases);
}

// An image that strides and paddings make a thousand times as large is not copied.
TEST_F(IntegerOps, HugePaddingRunsOnLoops) {
  const std::vector<uint8_t> w(2, 3);
  Request request;
  request.attributes = {{"pads", {2000000, 2000000}}, {"strides", {2000000}}};
  request.inputs = {{true, DType::kU8, {1, 1, 4}, {4, 4, 1}, nullptr},
                    {true, DType::kU8, {1, 1, 2}, {2, 2, 1}, w.data()}};
  request.outputs = {{true, DType::kI32, {1, 1, 3}, {3, 3, 1}, nullptr}};
  auto made = Make(*Find("conv_integer"), request, session_);
  KILN_ASSERT_OK(made.status());
  EXPECT_EQ((*made)->considered().back().implementation, "loop");
}

TEST_F(IntegerOps, RefusesOtherOperands) {
  using testing::HasSubstr;
  Request request;
  request.inputs = {{true, DType::kU8, {3, 4}, {4, 1}, nullptr},
                    {true, DType::kI8, {4, 5}, {5, 1}, nullptr},
                    {true, DType::kU8, {4}, {1}, nullptr}};
  request.outputs = {{true, DType::kI32, {3, 5}, {5, 1}, nullptr}};
  const auto message = [&] {
    return std::string(Make(*Find("matmul_integer"), request, session_).status().message());
  };
  EXPECT_THAT(message(), HasSubstr("zero point of input 0 has an extent of 4; need one element for "
                                   "each row or column"));
  request.inputs[2].shape = {};
  request.inputs[2].strides = {};
  request.inputs[2].type = DType::kI8;
  EXPECT_THAT(message(), HasSubstr("types u8 and, of its zero point, i8 differ"));
  request.inputs.pop_back();
  request.outputs[0].type = DType::kF32;
  EXPECT_THAT(message(), HasSubstr("result of type f32; gives i32"));
  request.inputs[1].type = DType::kI16;
  EXPECT_THAT(message(), HasSubstr("type i16; takes u8 and i8"));
}

}  // namespace
}  // namespace kiln::library
