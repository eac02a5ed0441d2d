// SPDX-License-Identifier: Apache-2.0
// Backward operators of the library against f64 loops that scatter each product: random windows
// over one to three axes, in both layouts, of all implementations that take them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "exec/library/library.h"
#include "exec/support/pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"

namespace kiln::library {
namespace {

using Extents = std::vector<int64_t>;

int64_t Count(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Operand Described(const Extents& shape, DType type, bool channels_last) {
  Operand operand{.type = type, .shape = shape, .strides = Extents(shape.size(), 1)};
  int64_t step = channels_last ? shape[1] : 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (channels_last && i == 1) continue;
    operand.strides[i] = step;
    step *= shape[i];
  }
  return operand;
}

// Coordinates of the i-th element in row-major order.
Extents At(const Extents& shape, int64_t i) {
  Extents at(shape.size());
  for (size_t d = shape.size(); d-- > 0; i /= shape[d]) at[d] = i % shape[d];
  return at;
}

int64_t PlaceOf(const Operand& operand, const Extents& at) {
  return std::inner_product(at.begin(), at.end(), operand.strides.begin(), int64_t{0});
}

// A tensor as numbers in row-major order, and as it lies in memory.
struct Array {
  Operand operand;
  std::vector<double> numbers;
  std::vector<uint8_t> bytes;

  Array(Operand o, const std::function<double()>& next) : operand(std::move(o)) {
    bytes.resize(static_cast<size_t>(Count(operand.shape)) * SizeOf(operand.type));
    for (int64_t i = 0; i < Count(operand.shape); ++i) {
      const auto place = static_cast<size_t>(PlaceOf(operand, At(operand.shape, i)));
      const auto value = static_cast<float>(next());
      if (operand.type == DType::kF64) {
        const double wide = value;
        std::memcpy(&bytes[8 * place], &wide, 8);
      } else if (operand.type == DType::kF16) {
        const uint16_t half = FloatToHalf(value);
        std::memcpy(&bytes[2 * place], &half, 2);
      } else {
        std::memcpy(&bytes[4 * place], &value, 4);
      }
      numbers.push_back(Read(place));
    }
  }
  double Read(size_t place) const {
    double wide = 0;
    float number = 0;
    uint16_t half = 0;
    if (operand.type == DType::kF64) return std::memcpy(&wide, &bytes[8 * place], 8), wide;
    if (operand.type == DType::kF16)
      return std::memcpy(&half, &bytes[2 * place], 2), HalfToFloat(half);
    return std::memcpy(&number, &bytes[4 * place], 4), number;
  }
};

struct Window {
  Extents kernel, strides, dilations, begins, ends;
  Extents Out(const Extents& in, bool up = false) const {
    Extents out;
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t room = in[i] + begins[i] + ends[i] - (kernel[i] - 1) * dilations[i] - 1;
      int64_t places = room < 0 ? 0 : (room + (up ? strides[i] - 1 : 0)) / strides[i] + 1;
      if (up) places = std::min(places, (in[i] + begins[i] - 1) / strides[i] + 1);
      out.push_back(places);
    }
    return out;
  }
  Attributes attributes() const {
    Extents pads = begins;
    pads.insert(pads.end(), ends.begin(), ends.end());
    return {{"kernel", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}};
  }
  // Calls f(flat tap, input coordinates) for the taps at output place `o` that lie inside.
  template <typename F>
  void ForEach(const Extents& in, const Extents& o, const F& f) const {
    for (int64_t t = 0; t < Count(kernel); ++t) {
      const Extents tap = At(kernel, t);
      Extents at;
      bool inside = true;
      for (size_t i = 0; i < in.size(); ++i) {
        at.push_back(o[i] * strides[i] + tap[i] * dilations[i] - begins[i]);
        inside = inside && at[i] >= 0 && at[i] < in[i];
      }
      if (inside) f(t, at);
    }
  }
};

class BackwardTest : public testing::Test {
 protected:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Extents List(size_t size, int64_t first, int64_t last) {
    Extents list(size);
    for (int64_t& one : list) one = first + Below(last - first + 1);
    return list;
  }
  Window RandomWindow(size_t rank) {
    Window w{List(rank, 1, 3), List(rank, 1, 3), List(rank, 1, 2), {}, {}};
    for (size_t i = 0; i < rank; ++i) {
      const int64_t most = std::min<int64_t>(3, (w.kernel[i] - 1) * w.dilations[i] + 1);
      w.begins.push_back(Below(most));
      w.ends.push_back(Below(most));
    }
    return w;
  }
  // Numbers of which many are equal.
  Array Random(const Extents& shape, DType type, bool channels_last) {
    return Array(Described(shape, type, channels_last),
                 [&] { return static_cast<double>(Below(41)) / 8 - 2.5; });
  }

  // What `implementation` makes of the inputs, in row-major order; nothing if it refuses. In one
  // part and in many backwards, which must give the same bits, and on two threads twice.
  std::vector<double> Run(const Operator& op, const char* implementation, const Request& request,
                          std::vector<Array>& inputs) {
    std::vector<double> first;
    Array result(request.outputs[0], [] { return 7.0; });
    std::vector<uint8_t> bits;
    for (const bool in_parts : {false, true}) {
      auto primitive = Make(op, request, session_, {implementation, true});
      if (absl::IsUnimplemented(primitive.status())) return {};
      EXPECT_TRUE(primitive.ok()) << primitive.status();
      std::vector<void*> in;
      for (Array& input : inputs) in.push_back(input.bytes.data());
      void* out = result.bytes.data();
      std::vector<double> scratch(static_cast<size_t>((*primitive)->scratch_bytes() / 8 + 16));
      void* at = scratch.data();
      size_t room = scratch.size() * 8;
      at = std::align(64, room - 64, at, room);
      LaunchContext context;
      context.parallel_for = [](LaunchContext* c, TaskFn task, int min, int n, uint8_t* closure) {
        for (int i = min + n; i-- > min;) task(c, i, closure);
        return 0;
      };
      KILN_EXPECT_OK((*primitive)->Run({in.data(), &out, at, in_parts ? &context : nullptr}));
      if (in_parts) {
        EXPECT_EQ(result.bytes, bits) << implementation;
      }
      bits = result.bytes;
    }
    for (int64_t i = 0; i < Count(request.outputs[0].shape); ++i) {
      const Extents place = At(request.outputs[0].shape, i);
      first.push_back(result.Read(static_cast<size_t>(PlaceOf(request.outputs[0], place))));
    }
    return first;
  }

  // All implementations that take the request give `want`; their names go to `ran`.
  void Check(const std::string& name, const Request& request, std::vector<Array>& inputs,
             const std::vector<double>& want, double bound) {
    const Operator& op = *Find(name);
    int took = 0;
    for (const Implementation& implementation : op.implementations) {
      if (implementation.make == nullptr) break;
      const std::vector<double> got = Run(op, implementation.name, request, inputs);
      if (got.empty()) continue;
      ++took;
      ++ran_[implementation.name];
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], bound * (1 + std::abs(want[i])))
            << implementation.name << ", element " << i;
    }
    EXPECT_GE(took, 1);
  }

  Pool pool_{2};
  const std::shared_ptr<Session> session_ = *Session::Create(&pool_);
  std::mt19937_64 random_{1};
  std::map<std::string, int> ran_;
};

DType TypeOf(int64_t kind) {
  return kind == 0 ? DType::kF64 : kind == 1 ? DType::kF16 : DType::kF32;
}
double BoundOf(DType type) {
  return type == DType::kF64 ? 1e-12 : type == DType::kF16 ? 2e-3 : 1e-5;
}

std::vector<double> WantedWeights(const Window& w, int64_t group, const Array& x, const Array& g,
                                  const Extents& weight) {
  std::vector<double> want(static_cast<size_t>(Count(weight)));
  const Extents &xs = x.operand.shape, &gs = g.operand.shape;
  const Extents in(xs.begin() + 2, xs.end());
  const int64_t taps = Count(w.kernel), plane = Count(in);
  for (int64_t i = 0; i < Count(gs); ++i) {
    const Extents at = At(gs, i);
    const Extents o(at.begin() + 2, at.end());
    for (int64_t c = 0; c < weight[1]; ++c) {
      const int64_t channel = at[1] / (weight[0] / group) * weight[1] + c;
      w.ForEach(in, o, [&](int64_t t, const Extents& place) {
        int64_t flat = 0;
        for (size_t d = 0; d < in.size(); ++d) flat = flat * in[d] + place[d];
        want[static_cast<size_t>((at[1] * weight[1] + c) * taps + t)] +=
            g.numbers[static_cast<size_t>(i)] *
            x.numbers[static_cast<size_t>((at[0] * xs[1] + channel) * plane + flat)];
      });
    }
  }
  return want;
}

TEST_F(BackwardTest, WeightsOfRandomConvolutions) {
  const uint64_t calls = FromEnvironment("KILN_LIBRARY_CALLS", 50);
  for (uint64_t seed = 0; seed < calls; ++seed) {
    random_.seed(seed);
    const auto rank = static_cast<size_t>(1 + Below(3));
    Window w = RandomWindow(rank);
    const bool point = Below(4) == 0;
    if (point)
      w = {Extents(rank, 1), Extents(rank, 1), Extents(rank, 1), Extents(rank, 0),
           Extents(rank, 0)};
    const int64_t group = point ? 1 : 1 + Below(3);
    const Extents in = List(rank, point ? 1 : 4, point ? 3 : 9), out = w.Out(in);
    if (Count(out) == 0) continue;
    const bool wide = point || Below(2) != 0;
    const int64_t c = wide ? 8 * (1 + Below(3)) : 1 + Below(3),
                  m = wide ? 8 * (1 + Below(3)) : 1 + Below(3);
    Extents xs = {1 + Below(3), group * c}, gs = {xs[0], group * m}, weight = {group * m, c};
    xs.insert(xs.end(), in.begin(), in.end());
    gs.insert(gs.end(), out.begin(), out.end());
    weight.insert(weight.end(), w.kernel.begin(), w.kernel.end());
    const DType type = point ? DType::kF32 : TypeOf(Below(6));
    const bool last = point || Below(2) != 0;
    std::vector<Array> inputs = {Random(xs, type, last), Random(gs, type, last)};
    Request request;
    request.attributes = w.attributes();
    request.attributes["group"] = {group};
    request.inputs = {inputs[0].operand, inputs[1].operand};
    request.outputs = {Described(weight, type, false)};
    SCOPED_TRACE(absl::StrCat("seed ", seed, " ", Name(type), " x ", absl::StrJoin(xs, ","), " g ",
                              absl::StrJoin(gs, ",")));
    const std::vector<double> want = WantedWeights(w, group, inputs[0], inputs[1], weight);
    Check("conv_backward_weights", request, inputs, want, BoundOf(type));
    if (HasFailure()) return;
  }
  for (const char* name :
       {"a product of rows", "oneDNN, layouts kept", "oneDNN, layouts of its own", "loop"})
    EXPECT_GT(ran_[name], 1) << name;
}

TEST_F(BackwardTest, WeightsOfImagesWithoutElementsAreZero) {
  Window w{{3}, {1}, {1}, {1}, {1}};
  std::vector<Array> inputs = {Random({0, 2, 5}, DType::kF32, false),
                               Random({0, 3, 5}, DType::kF32, false)};
  Request request;
  request.attributes = w.attributes();
  request.inputs = {inputs[0].operand, inputs[1].operand};
  request.outputs = {Described({3, 2, 3}, DType::kF32, false)};
  Check("conv_backward_weights", request, inputs, std::vector<double>(18), 0);
}

TEST_F(BackwardTest, WeightsThatDoNotFitAreRefused) {
  Window w{{3}, {1}, {1}, {1}, {1}};
  Request request;
  request.attributes = w.attributes();
  request.inputs = {Described({2, 2, 5}, DType::kF32, false),
                    Described({2, 3, 4}, DType::kF32, false)};
  request.outputs = {Described({3, 2, 3}, DType::kF32, false)};
  EXPECT_EQ(Make(*Find("conv_backward_weights"), request, session_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// What the elements of x take: all of a window's cotangent the first maximum, or equal parts.
std::vector<double> WantedOfPool(const Window& w, bool average, bool with_pads, const Array& x,
                                 const Array& g) {
  const Extents &xs = x.operand.shape, &gs = g.operand.shape;
  const Extents in(xs.begin() + 2, xs.end());
  std::vector<double> want(x.numbers.size());
  for (int64_t i = 0; i < Count(gs); ++i) {
    const Extents at = At(gs, i);
    const Extents o(at.begin() + 2, at.end());
    std::vector<size_t> seen;
    w.ForEach(in, o, [&](int64_t, const Extents& place) {
      int64_t flat = at[0] * xs[1] + at[1];
      for (size_t d = 0; d < in.size(); ++d) flat = flat * in[d] + place[d];
      seen.push_back(static_cast<size_t>(flat));
    });
    if (seen.empty()) continue;
    const double cotangent = g.numbers[static_cast<size_t>(i)];
    if (average) {
      int64_t taps = 1;
      for (size_t d = 0; d < in.size(); ++d) {
        int64_t own = 0;  // taps inside the padded axis
        for (int64_t k = 0; k < w.kernel[d]; ++k) {
          const int64_t place = o[d] * w.strides[d] + k * w.dilations[d] - w.begins[d];
          own += place < in[d] + w.ends[d] ? 1 : 0;
        }
        taps *= own;
      }
      const double divisor =
          static_cast<double>(with_pads ? taps : static_cast<int64_t>(seen.size()));
      for (const size_t place : seen) want[place] += cotangent / divisor;
      continue;
    }
    const auto before = [&](size_t a, size_t b) {  // whether b beats a
      const double one = x.numbers[a], other = x.numbers[b];
      return other > one || (std::isnan(other) && !std::isnan(one));
    };
    size_t winner = seen[0];
    for (const size_t place : seen)
      if (before(winner, place)) winner = place;
    want[winner] += cotangent;
  }
  return want;
}

class PoolBackwardTest : public BackwardTest, public testing::WithParamInterface<bool> {};

TEST_P(PoolBackwardTest, OfRandomWindows) {
  const bool average = GetParam();
  const uint64_t calls = FromEnvironment("KILN_LIBRARY_CALLS", 60);
  for (uint64_t seed = 0; seed < calls; ++seed) {
    random_.seed(seed);
    const auto rank = static_cast<size_t>(1 + Below(3));
    const Window w = RandomWindow(rank);
    const bool up = Below(2) != 0, with_pads = average && Below(2) != 0;
    const Extents in = List(rank, 4, 9), out = w.Out(in, up);
    if (Count(out) == 0) continue;
    Extents xs = {1 + Below(3), Below(4) == 0 ? 65 + Below(10) : 1 + Below(5)}, gs = xs;
    xs.insert(xs.end(), in.begin(), in.end());
    gs.insert(gs.end(), out.begin(), out.end());
    const DType type = TypeOf(Below(6));
    const bool last = Below(2) != 0;
    std::vector<Array> inputs = {Random(xs, type, last), Random(gs, type, last)};
    if (seed % 7 == 3) {
      inputs[0] = Array(inputs[0].operand, [&] {
        return Below(3) == 0 ? std::numeric_limits<double>::quiet_NaN()
                             : -std::numeric_limits<double>::infinity();
      });
    }
    const std::vector<double> want = WantedOfPool(w, average, with_pads, inputs[0], inputs[1]);
    if (average) inputs.erase(inputs.begin());
    Request request;
    request.attributes = w.attributes();
    request.attributes["ceil_mode"] = {up ? 1 : 0};
    if (average) request.attributes["count_include_pad"] = {with_pads ? 1 : 0};
    for (const Array& input : inputs) request.inputs.push_back(input.operand);
    request.outputs = {Described(xs, type, last)};
    SCOPED_TRACE(absl::StrCat("seed ", seed, " ", Name(type), " x ", absl::StrJoin(xs, ","), " g ",
                              absl::StrJoin(gs, ",")));
    Check(average ? "average_pool_backward" : "max_pool_backward", request, inputs, want,
          BoundOf(type));
    if (HasFailure()) return;
  }
  for (const char* name : {"rows of channels", "planes"}) EXPECT_GT(ran_[name], 10) << name;
}

INSTANTIATE_TEST_SUITE_P(Both, PoolBackwardTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "average" : "max");
});

}  // namespace
}  // namespace kiln::library
