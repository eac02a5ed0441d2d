// SPDX-License-Identifier: Apache-2.0
// Convolutions of one point and depthwise ones against the loop that defines them.
#include <cmath>
#include <vector>

#include "exec/library/conv_1x1.h"
#include "exec/library/conv_1x1_block.h"
#include "exec/library/depthwise_block.h"
#include "exec/library/depthwise_conv.h"
#include "exec/library/onednn.h"
#include "exec/library/post_op_rows.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/conv_harness.h"

namespace kiln::library {
namespace {

struct Axis {
  int64_t in, kernel = 1, stride = 1, pad_begin = 0, pad_end = 0, dilation = 1;
  int64_t Out() const {
    return (in + pad_begin + pad_end - (kernel - 1) * dilation - 1) / stride + 1;
  }
};

class ChannelLoopsTest : public ConvTest {
 protected:
  ChannelLoopsTest() : ConvTest(/*transposed=*/false) {}

  // With and without a bias and with what may follow.
  void CheckFinishes(MakeFn make, Request request, uint64_t seed) {
    Fill(request, seed);
    Check(make, request);
    const Extents shape = request.outputs[0].shape;
    request.inputs.push_back(Dense({shape[1]}));
    Extents vector(shape.size(), 1);
    vector[1] = shape[1];
    const std::vector<std::pair<std::vector<PostOp>, std::vector<Operand>>> finishes = {
        {{{"relu", {}}}, {}},
        {{{"clip", {-0.25, 0.5}}, {"swish", {1.5}}}, {}},
        {{{"add", {}}, {"relu", {}}}, {ChannelsLast(shape)}},
        {{{"mul", {}}, {"sigmoid", {}}}, {Dense(vector)}},
    };
    for (const auto& [post_ops, operands] : finishes) {
      Request with = request;
      with.post_ops = post_ops;
      with.inputs.insert(with.inputs.end(), operands.begin(), operands.end());
      Fill(with, ++seed);
      Check(make, with);
    }
  }

  void Refuses(MakeFn make, Request request) {
    Fill(request, 1);
    EXPECT_EQ(make(request, session_).status().code(), absl::StatusCode::kUnimplemented);
  }
};

Request PointRequest(int64_t batch, int64_t in_channels, int64_t out_channels,
                     const std::vector<Axis>& axes) {
  return ConvRequest({batch, in_channels}, {out_channels, in_channels}, {batch, out_channels},
                     axes);
}

Request DepthwiseRequest(int64_t batch, int64_t channels, const std::vector<Axis>& axes) {
  Request request = ConvRequest({batch, channels}, {channels, 1}, {batch, channels}, axes);
  request.attributes["group"] = {channels};
  return request;
}

TEST_F(ChannelLoopsTest, Points) {
  uint64_t seed = 0;
  for (const int64_t columns : {1, 7, 8, 9, 16, 21, 24, 30, 32, 33, 72, 81}) {
    for (const std::vector<Axis>& axes : {std::vector<Axis>{{5}, {3}}, {{1}, {15}}, {{29}}}) {
      SCOPED_TRACE(testing::Message() << columns << " columns, " << axes.size() << " axes");
      const int64_t batch = 1 + static_cast<int64_t>(seed++ % 3);
      CheckFinishes(MakeConv1X1, PointRequest(batch, 19, columns, axes), seed);
    }
  }
  // Several groups of blocks, and results that lie far.
  CheckFinishes(MakeConv1X1, PointRequest(2, 5, 200, {{40}, {35}}), 7);
}

TEST_F(ChannelLoopsTest, Depthwise) {
  const std::vector<std::vector<Axis>> cases = {
      {{6, 3, 1, 1, 1}, {9, 3, 1, 1, 1}}, {{7, 5, 2, 2, 1}, {17, 5, 2, 1, 2}},
      {{3, 7, 1, 3, 3}, {2, 7, 1, 3, 3}}, {{8, 1, 3}, {20, 3, 2, 0, 1}},
      {{5, 4, 2, 5, 5}, {1, 7, 2, 3, 3}}, {{23, 5, 1, 4, 4}},
  };
  uint64_t seed = 0;
  for (const std::vector<Axis>& axes : cases) {
    for (const int64_t channels : {3, 16, 37}) {
      SCOPED_TRACE(testing::Message() << seed << ", " << channels << " channels");
      const int64_t batch = 1 + static_cast<int64_t>(seed++ % 2);
      CheckFinishes(MakeDepthwiseConv, DepthwiseRequest(batch, channels, axes), seed);
    }
  }
}

// oneDNN's convolution, then the loops over rows.
TEST_F(ChannelLoopsTest, LogisticFunctionsFollowOtherConvolutions) {
  CheckFinishes(MakeConvKept, PointRequest(2, 19, 40, {{9, 3, 2, 1, 1}, {8, 3, 1, 1, 1}}), 5);
}

TEST_F(ChannelLoopsTest, NanAndInfinityReachWhatTheyMeet) {
  Request depthwise = DepthwiseRequest(1, 20, {{6, 3, 1, 1, 1}, {7, 3, 1, 1, 1}});
  Request points = PointRequest(1, 20, 12, {{6}, {7}});
  for (const auto& [make, request] :
       {std::pair<MakeFn, Request*>{MakeDepthwiseConv, &depthwise}, {MakeConv1X1, &points}}) {
    request->post_ops = {{"clip", {-1, 1}}, {"add", {}}};
    request->inputs.push_back(ChannelsLast(request->outputs[0].shape));
    Fill(*request, 3);
    inputs_[0][100] = std::nanf("");
    inputs_[0][700] = INFINITY;
    Check(make, *request);
  }
}

TEST_F(ChannelLoopsTest, LeaveTheRestAlone) {
  const std::vector<Axis> plane = {{8, 3}, {8, 3}};
  Refuses(MakeConv1X1, PointRequest(1, 8, 8, plane));
  Refuses(MakeConv1X1, PointRequest(1, 8, 8, {{8, 1, 2}}));
  Refuses(MakeConv1X1, PointRequest(1, 8, 8, {{8, 1, 1, 1, 1}}));
  Refuses(MakeConv1X1, PointRequest(1, 2048, 8, {{29}}));
  Refuses(MakeConv1X1, PointRequest(1, 8, 8, {{14}}));  // one block for two threads
  Refuses(MakeDepthwiseConv, PointRequest(1, 8, 8, plane));
  Refuses(MakeDepthwiseConv, DepthwiseRequest(1, 8, {{8, 3}, {8, 3, 1, 0, 0, 2}}));
  Refuses(MakeDepthwiseConv, DepthwiseRequest(1, 8, {{8, 3}, {8, 4}}));
  Refuses(MakeDepthwiseConv, DepthwiseRequest(1, 8, {{4, 2}, {8, 3}, {8, 3}}));
  Request dense = DepthwiseRequest(1, 8, plane);
  dense.inputs[0] = Dense(dense.inputs[0].shape);
  Refuses(MakeDepthwiseConv, dense);
  Request infinite = DepthwiseRequest(1, 8, plane);
  Fill(infinite, 1);
  inputs_[1][4] = INFINITY;
  EXPECT_EQ(MakeDepthwiseConv(infinite, session_).status().code(),
            absl::StatusCode::kUnimplemented);
}

// Units of the last place between a result and its value.
double Error(float got, double want) {
  const auto near = static_cast<float>(want);
  return std::abs(got - want) / (std::nextafter(std::abs(near), INFINITY) - std::abs(near));
}

TEST_F(ChannelLoopsTest, LogisticFunctionsAreNear) {
  if (FindSwishRow() == nullptr) GTEST_SKIP() << "the rows need AVX-512";
  for (const float a : {1.0F, 1.702F, -0.3F}) {
    for (float x = -87; x < 100; x += 0.00391F) {
      float swish = x, sigmoid = x;
      FindSwishRow()(&swish, nullptr, 0, 1, &a);
      FindSigmoidRow()(&sigmoid, nullptr, 0, 1, nullptr);
      const double want = x / (1 + std::exp(-static_cast<double>(a) * x));
      if (a * x > -88) {  // the exponential is finite
        ASSERT_LT(Error(swish, want), 3) << x << " by " << a;
      }
      ASSERT_LT(Error(sigmoid, 1 / (1 + std::exp(-static_cast<double>(x)))), 3) << x;
    }
  }
}

TEST_F(ChannelLoopsTest, LogisticFunctionsAtTheirEnds) {
  if (FindSwishRow() == nullptr) GTEST_SKIP() << "the rows need AVX-512";
  const float inf = INFINITY, one = 1;
  std::vector<float> x = {std::nanf(""), inf, -inf, 0, -0.0F, 300, -300};
  std::vector<float> sigmoid = x;
  FindSwishRow()(x.data(), nullptr, 0, static_cast<int64_t>(x.size()), &one);
  FindSigmoidRow()(sigmoid.data(), nullptr, 0, static_cast<int64_t>(x.size()), nullptr);
  EXPECT_TRUE(std::isnan(x[0]) && std::isnan(x[2]) && std::isnan(sigmoid[0]));
  EXPECT_EQ(x[1], inf);
  EXPECT_TRUE(x[3] == 0 && !std::signbit(x[3]) && x[4] == 0 && std::signbit(x[4]));
  EXPECT_EQ(x[5], 300);
  EXPECT_EQ(x[6], 0);
  EXPECT_EQ(std::vector<float>(sigmoid.begin() + 1, sigmoid.end()),
            (std::vector<float>{1, 0, 0.5, 0.5, 1, 0}));
}

}  // namespace
}  // namespace kiln::library
