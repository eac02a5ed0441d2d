// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools.
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "tests/base/status_matchers.h"
#include "tests/exec/library_call.h"

namespace kiln::library {
namespace {

struct ConvCase {
  Extents x, w, y;
  Extents strides, pads, dilations;
  int64_t group = 1;
  bool bias = true;
};

Attributes AttributesOf(const ConvCase& c) {
  return {
      {"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"group", {c.group}}};
}

// Three spatial axes, missing ones in front.
Extents Widen(const Extents& v, size_t lead, int64_t fill) {
  Extents wide(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(lead));
  wide.insert(wide.end(), 3 - (v.size() - lead), fill);
  wide.insert(wide.end(), v.begin() + static_cast<std::ptrdiff_t>(lead), v.end());
  return wide;
}

// Scatters every input element through every weight: the same sum for conv (reading w[o, i]) and
// its transpose (w[i, o]).
std::vector<double> NaiveConv(const ConvCase& c, const Array<float>& x, const Array<float>& w,
                              const Array<float>& bias, bool transposed) {
  const Extents xs = Widen(c.x, 2, 1), ws = Widen(c.w, 2, 1), ys = Widen(c.y, 2, 1);
  const size_t spatial = c.x.size() - 2;
  const auto get = [&](const Extents& v, int64_t otherwise) {
    return v.empty() ? Extents(spatial, otherwise) : v;
  };
  const Extents strides = Widen(get(c.strides, 1), 0, 1),
                dilations = Widen(get(c.dilations, 1), 0, 1);
  const Extents all_pads = c.pads.empty() ? Extents(2 * spatial, 0) : c.pads;
  const Extents pads = Widen(
      Extents(all_pads.begin(), all_pads.begin() + static_cast<std::ptrdiff_t>(spatial)), 0, 0);
  std::vector<double> want(static_cast<size_t>(Count(c.y)));
  const int64_t plane = ys[2] * ys[3] * ys[4], ic = xs[1] / c.group, oc = ys[1] / c.group;
  for (size_t i = 0; i < want.size(); ++i)
    want[i] = c.bias ? bias[static_cast<int64_t>(i) / plane % ys[1]] : 0.0F;
  const int64_t taps = ws[2] * ws[3] * ws[4],
                positions = (transposed ? xs[2] * xs[3] * xs[4] : plane);
  const Extents& moving = transposed ? xs : ys;   // where the window is applied
  const Extents& reached = transposed ? ys : xs;  // where its taps land
  for (int64_t n = 0; n < xs[0]; ++n) {
    for (int64_t o = 0; o < ys[1]; ++o) {
      for (int64_t i = 0; i < ic; ++i) {
        const int64_t channel = o / oc * ic + i;
        for (int64_t p = 0; p < positions; ++p) {
          const Extents at = {p / (moving[3] * moving[4]), p / moving[4] % moving[3],
                              p % moving[4]};
          for (int64_t t = 0; t < taps; ++t) {
            const Extents tap = {t / (ws[3] * ws[4]), t / ws[4] % ws[3], t % ws[4]};
            int64_t land = 0;
            bool inside = true;
            for (size_t d = 0; d < 3; ++d) {
              const int64_t coordinate = at[d] * strides[d] + tap[d] * dilations[d] - pads[d];
              inside &= coordinate >= 0 && coordinate < reached[2 + d];
              land = land * reached[2 + d] + coordinate;
            }
            if (!inside) continue;
            const int64_t from = transposed ? p : land, to = transposed ? land : p;
            const int64_t weight = transposed ? channel * oc + o % oc : o * ic + i;
            want[static_cast<size_t>((n * ys[1] + o) * plane + to)] +=
                static_cast<double>(x[(n * xs[1] + channel) * xs[2] * xs[3] * xs[4] + from]) *
                w[weight * taps + t];
          }
        }
      }
    }
  }
  return want;
}

void CheckConv(const ConvCase& c, bool transposed) {
  const Array<float> x = Random(c.x, 1), w = Random(c.w, 2), bias = Random({c.y[1]}, 3);
  for (const bool constant : {false, true}) {
    Array<float> y(c.y, std::numeric_limits<float>::quiet_NaN());
    Request request;
    request.attributes = AttributesOf(c);
    request.inputs = {Describe(x, DType::kF32), Describe(w, DType::kF32, constant)};
    request.inputs.push_back(c.bias ? Describe(bias, DType::kF32)
                                    : Operand{false, DType::kF32, {}, {}, nullptr});
    request.outputs = {Describe(y, DType::kF32)};
    const std::string what =
        testing::PrintToString(c.x) + testing::PrintToString(c.w) + testing::PrintToString(c.y);
    KILN_ASSERT_OK(RunOp(transposed ? "conv_transpose" : "conv", request,
                         {x.data.data(), w.data.data(), c.bias ? bias.data.data() : nullptr},
                         y.data.data(), NewSession(constant ? 2 : 1)))
        << what;
    ExpectNear(y, NaiveConv(c, x, w, bias, transposed), what);
  }
}

TEST(Conv, AgreesWithItsDefinition) {
  const ConvCase cases[] = {
      {{1, 3, 8, 8}, {4, 3, 3, 3}, {1, 4, 6, 6}, {}, {}, {}},
      {{2, 3, 9, 7}, {16, 3, 3, 3}, {2, 16, 5, 4}, {2, 2}, {1, 1, 1, 1}, {}},
      {{1, 16, 8, 8}, {32, 16, 1, 1}, {1, 32, 8, 8}, {}, {}, {}, 1, false},
      {{1, 8, 10, 10}, {8, 1, 3, 3}, {1, 8, 10, 10}, {}, {1, 1, 1, 1}, {}, 8},
      {{1, 8, 10, 10}, {16, 4, 3, 3}, {1, 16, 8, 8}, {}, {}, {}, 2},
      {{1, 2, 12, 12}, {5, 2, 3, 3}, {1, 5, 8, 8}, {}, {}, {2, 2}},
      {{1, 2, 6, 6}, {3, 2, 2, 3}, {1, 3, 6, 6}, {}, {0, 1, 1, 1}, {}},
      {{2, 4, 20}, {6, 4, 5}, {2, 6, 9}, {2}, {1, 1}, {}},
      {{1, 64, 31}, {64, 64, 3}, {1, 64, 31}, {}, {2, 2}, {2}},
      {{1, 2, 4, 5, 6}, {3, 2, 2, 2, 2}, {1, 3, 3, 4, 5}, {}, {}, {}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {}, {}},
      {{2, 6, 30, 1}, {8, 6, 5, 1}, {2, 8, 26, 1}, {}, {}, {}},  // an axis of one point
      {{2, 6, 1, 30}, {8, 3, 1, 5}, {2, 8, 1, 15}, {1, 2}, {0, 2, 0, 2}, {}, 2},
      {{1, 6, 1, 9}, {8, 6, 3, 3}, {1, 8, 1, 9}, {}, {1, 1, 1, 1}, {}},  // one point, but a window
      {{1, 1, 1, 2}, {1, 1, 1, 1}, {1, 1, 1, 2}, {2, 1}, {1, 0, 0, 0}, {}},  // of padding alone
      {{1, 16, 1, 6, 6}, {16, 1, 1, 3, 3}, {1, 16, 1, 6, 6}, {2, 1, 1}, {1, 1, 1, 0, 1, 1}, {}, 16},
      {{1, 0, 4, 4}, {3, 0, 1, 1}, {1, 3, 4, 4}, {}, {}, {}},
      {{1, 2, 0, 4}, {3, 2, 1, 1}, {1, 3, 2, 4}, {}, {1, 0, 1, 0}, {}},
  };
  for (const ConvCase& c : cases) CheckConv(c, false);
}

// [N, C, D...] with channels innermost.
Array<float> ToLast(const Array<float>& a) {
  Array<float> last(a.shape);
  const int64_t channels = a.shape[1], points = Count(a.shape) / (a.shape[0] * channels);
  for (int64_t n = 0; n < a.shape[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < points; ++p)
        last[(n * points + p) * channels + c] = a[(n * channels + c) * points + p];
    }
  }
  return last;
}

Operand DescribeLast(const Array<float>& a) {
  Operand operand = Describe(a, DType::kF32);
  int64_t step = a.shape[1];
  for (size_t i = a.shape.size(); i-- > 2; step *= a.shape[i]) operand.strides[i] = step;
  operand.strides[1] = 1;
  return operand;
}

// With channels innermost and constant weights; who computed it.
std::string CheckChannelsLast(const ConvCase& c, bool transposed) {
  const Array<float> x = Random(c.x, 1), w = Random(c.w, 2), bias = Random({c.y[1]}, 3);
  Array<float> y(c.y, std::numeric_limits<float>::quiet_NaN());
  Request request;
  request.attributes = AttributesOf(c);
  request.inputs = {DescribeLast(x), Describe(w, DType::kF32, true)};
  request.outputs = {DescribeLast(y)};
  const Operator& op = *Find(transposed ? "conv_transpose" : "conv");
  const std::string what =
      testing::PrintToString(c.x) + testing::PrintToString(c.w) + testing::PrintToString(c.y);
  const Array<float> x_last = ToLast(x);
  const absl::Status ran =
      RunOp(op.name, request, {x_last.data.data(), w.data.data()}, y.data.data(), NewSession(2));
  EXPECT_TRUE(ran.ok()) << what << ran;
  Array<float> want(c.y);
  const std::vector<double> naive = NaiveConv(c, x, w, bias, transposed);
  for (size_t i = 0; i < naive.size(); ++i) want.data[i] = static_cast<float>(naive[i]);
  const Array<float> want_last = ToLast(want);
  ExpectNear(y, {want_last.data.begin(), want_last.data.end()}, what);
  return (*Make(op, request, NewSession(2)))->considered().back().implementation;
}

TEST(ConvTranspose, OfSmallImagesIsAProductAndASumOfTaps) {
  const ConvCase cases[] = {
      {{2, 5, 3, 3}, {5, 7, 4, 4}, {2, 7, 6, 6}, {2, 2}, {1, 1, 1, 1}, {}, 1, false},
      {{1, 100, 1, 1}, {100, 8, 4, 4}, {1, 8, 4, 4}, {}, {}, {}, 1, false},
      {{1, 6, 5}, {6, 4, 3}, {1, 4, 9}, {1}, {0, 0}, {2}, 1, false},
      {{1, 3, 2, 3, 2}, {3, 4, 2, 2, 2}, {1, 4, 4, 6, 4}, {2, 2, 2}, {}, {}, 1, false},
  };
  for (const ConvCase& c : cases)
    EXPECT_EQ(CheckChannelsLast(c, true), "products, then a sum of taps");
  EXPECT_EQ(CheckChannelsLast(
                {{1, 8, 9, 9}, {8, 16, 2, 2}, {1, 16, 18, 18}, {2, 2}, {}, {}, 1, false}, true),
            "oneDNN, layouts kept");
}

TEST(Conv, KeepsChannelsInnermost) {
  const ConvCase of_padding = {{1, 16, 1, 6, 6},
                               {16, 1, 1, 3, 3},
                               {1, 16, 1, 6, 6},
                               {2, 1, 1},
                               {1, 1, 1, 0, 1, 1},
                               {},
                               16,
                               false};
  CheckChannelsLast(of_padding, false);
  EXPECT_EQ(CheckChannelsLast(
                {{2, 16, 9, 7}, {16, 16, 3, 3}, {2, 16, 5, 4}, {2, 2}, {1, 1, 1, 1}, {}, 1, false},
                false),
            "oneDNN, layouts kept");
}

// oneDNN 3.2 takes the sum of two whole tensors by a plain loop over its own layouts.
TEST(Conv, WithATensorAddedIsGenerated) {
  const Array<float> x = Random({1, 32, 16, 16}, 1), w = Random({32, 32, 3, 3}, 2);
  const Array<float> added = Random({1, 32, 16, 16}, 3);
  Array<float> y({1, 32, 16, 16}), alone({1, 32, 16, 16});
  Request request;
  request.attributes = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  request.inputs = {Describe(x, DType::kF32), Describe(w, DType::kF32, true)};
  request.outputs = {Describe(y, DType::kF32)};
  const auto session = NewSession(1);
  ASSERT_TRUE(
      RunOp("conv", request, {x.data.data(), w.data.data()}, alone.data.data(), session).ok());
  request.post_ops = {{"add", {}}};
  Operand no_bias;
  no_bias.present = false;
  request.inputs.push_back(no_bias);
  request.inputs.push_back(Describe(added, DType::kF32));
  KILN_ASSERT_OK(RunOp("conv", request, {x.data.data(), w.data.data(), nullptr, added.data.data()},
                       y.data.data(), session));
  std::vector<double> want(alone.data.begin(), alone.data.end());
  for (size_t i = 0; i < want.size(); ++i) want[i] += added.data[i];
  ExpectNear(y, want, "conv, then add");
  const std::string made = (*Make(*Find("conv"), request, session))->description();
  EXPECT_NE(made.substr(0, 3), "ref") << made;
}

TEST(ConvTranspose, AgreesWithItsDefinition) {
  const ConvCase cases[] = {
      {{1, 3, 4, 4}, {3, 5, 3, 3}, {1, 5, 6, 6}, {}, {}, {}},
      {{2, 8, 4, 4}, {8, 4, 4, 4}, {2, 4, 8, 8}, {2, 2}, {1, 1, 1, 1}, {}},
      {{1, 4, 3, 3}, {4, 2, 3, 3}, {1, 2, 6, 6}, {2, 2}, {1, 1, 1, 1}, {}},  // output padding 1
      {{1, 4, 5, 5}, {4, 3, 2, 2}, {1, 6, 10, 10}, {2, 2}, {}, {}, 2},
      {{1, 2048, 2, 2}, {2048, 8, 4, 4}, {1, 8, 4, 4}, {2, 2}, {1, 1, 1, 1}, {}},  // oneDNN's bias
      {{1, 2, 7}, {2, 3, 3}, {1, 3, 11}, {}, {}, {2}, 1, false},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 2}, {0, 1, 0, 0}, {}, 1, false},
      {{1, 2, 3, 3}, {2, 2, 2, 2}, {1, 2, 9, 9}, {3, 3}, {}, {}},  // output padding 1 beyond the
                                                                   // taps
  };
  for (const ConvCase& c : cases) CheckConv(c, true);
}

TEST(Conv, OtherTypesUseTheLoop) {
  Array<double> x({1, 1, 3, 3}, 0.1), w({1, 1, 2, 2}, 3), y({1, 1, 2, 2});
  Request request;
  request.inputs = {Describe(x, DType::kF64), Describe(w, DType::kF64)};
  request.outputs = {Describe(y, DType::kF64)};
  KILN_ASSERT_OK(
      RunOp("conv", request, {x.data.data(), w.data.data()}, y.data.data(), NewSession()));
  for (const double v : y.data) EXPECT_DOUBLE_EQ(v, 1.2);
}

TEST(Conv, RefusesAttributesThatMakeNoSense) {
  const Array<float> x({1, 1, 4, 4}), w({1, 1, 3, 3}), y({1, 1, 2, 2});
  Request request;
  request.inputs = {Describe(x, DType::kF32), Describe(w, DType::kF32)};
  request.outputs = {Describe(y, DType::kF32)};
  KILN_EXPECT_OK(Make(*Find("conv"), request, NewSession()));
  for (const Attributes& bad : std::vector<Attributes>{{{"strides", {0, 1}}},
                                                       {{"strides", {1}}},
                                                       {{"pads", {-1, 0, 0, 0}}},
                                                       {{"dilations", {int64_t{1} << 62, 1}}},
                                                       {{"group", {0}}},
                                                       {{"group", {3}}},
                                                       {{"pads", {1, 0, 0, 0}}}}) {
    request.attributes = bad;
    EXPECT_THAT(Make(*Find("conv"), request, NewSession()),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

// ---- pools

TEST(MaxPool, KeepsNanAndIgnoresPadding) {
  Array<float> x({1, 1, 2, 4}), y({1, 1, 2, 2});
  x.data = {-1, -2, -3, -4, -5, std::numeric_limits<float>::quiet_NaN(), -7, -8};
  Request request;
  request.attributes = {{"kernel", {3, 2}}, {"strides", {1, 2}}, {"pads", {1, 0, 1, 0}}};
  request.inputs = {Describe(x, DType::kF32)};
  request.outputs = {Describe(y, DType::kF32)};
  KILN_ASSERT_OK(RunOp("max_pool", request, {x.data.data()}, y.data.data(), NewSession()));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], -3);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], -3);
}

TEST(MaxPool, RoundsUpAndDilates) {
  Array<int8_t> x({1, 1, 6}), y({1, 1, 3});
  x.data = {1, 9, 2, 3, 4, -5};
  Request request;
  request.attributes = {{"kernel", {2}}, {"strides", {2}}, {"dilations", {2}}, {"ceil_mode", {1}}};
  request.inputs = {Describe(x, DType::kI8)};
  request.outputs = {Describe(y, DType::kI8)};
  KILN_ASSERT_OK(RunOp("max_pool", request, {x.data.data()}, y.data.data(), NewSession()));
  EXPECT_EQ(y.data, (std::vector<int8_t>{2, 4, 4}));
}

TEST(AveragePool, CountsPaddingOnlyWhenAsked) {
  Array<float> x({1, 2, 3}, 6), y({1, 2, 3});
  Request request;
  request.attributes = {{"kernel", {3}}, {"pads", {1, 1}}};
  request.inputs = {Describe(x, DType::kF32)};
  request.outputs = {Describe(y, DType::kF32)};
  KILN_ASSERT_OK(RunOp("average_pool", request, {x.data.data()}, y.data.data(), NewSession()));
  EXPECT_EQ(y.data, (std::vector<float>{6, 6, 6, 6, 6, 6}));
  request.attributes["count_include_pad"] = {1};
  KILN_ASSERT_OK(RunOp("average_pool", request, {x.data.data()}, y.data.data(), NewSession()));
  EXPECT_EQ(y.data, (std::vector<float>{4, 6, 4, 4, 6, 4}));
}

TEST(AveragePool, RefusesAnOutputOfTheWrongSize) {
  const Array<float> x({1, 1, 8}), y({1, 1, 9});
  Request request;
  request.attributes = {{"kernel", {3}}};
  request.inputs = {Describe(x, DType::kF32)};
  request.outputs = {Describe(y, DType::kF32)};
  EXPECT_THAT(Make(*Find("average_pool"), request, NewSession()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace kiln::library
