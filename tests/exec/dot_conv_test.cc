// SPDX-License-Identifier: Apache-2.0
// Convolutions to few channels against the loop that defines them.
#include "exec/library/dot_conv.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "exec/library/dot_block.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/conv_harness.h"

namespace kiln::library {
namespace {

struct Axis {
  int64_t in, kernel, stride = 1, pad_begin = 0, pad_end = 0, dilation = 1;
  int64_t Out() const {
    return (in + pad_begin + pad_end - (kernel - 1) * dilation - 1) / stride + 1;
  }
};

Request RequestOf(int64_t batch, int64_t in_channels, int64_t out_channels,
                  const std::vector<Axis>& axes) {
  return ConvRequest({batch, in_channels}, {out_channels, in_channels}, {batch, out_channels},
                     axes);
}

class DotConvTest : public ConvTest {
 protected:
  DotConvTest() : ConvTest(/*transposed=*/false) {}
};

TEST_F(DotConvTest, AgreesWithItsDefinition) {
  const std::vector<std::vector<Axis>> cases = {
      {{5, 3, 1, 1, 1}, {9, 3, 1, 1, 1}},
      {{6, 3, 2, 1, 0}, {11, 4, 3, 2, 1}},    // strides, unequal pads
      {{7, 2, 1, 0, 2, 3}, {3, 7, 1, 3, 3}},  // an outer dilation; all windows cross an edge
      {{200, 3, 1, 1, 1}},                    // several tasks a line
      {{3, 2, 1, 1, 0}, {4, 3, 2, 0, 1}, {12, 5, 2, 4, 4}},
      {{8, 1}, {4, 3, 4, 6, 6}},  // windows beyond the image altogether
  };
  uint64_t seed = 0;
  for (const std::vector<Axis>& axes : cases) {
    for (const int64_t filters : {1, 2, 3, 5}) {
      SCOPED_TRACE(testing::Message() << seed << " to " << filters);
      Request request = RequestOf(1 + static_cast<int64_t>(seed % 3), 67, filters, axes);
      Fill(request, ++seed);
      Check(MakeDotConv, request);
      request.inputs.push_back(Dense({filters}));
      Fill(request, seed);
      Check(MakeDotConv, request);
      request.inputs.push_back(ChannelsLast(request.outputs[0].shape));
      request.post_ops = {{"add", {}}, {"sigmoid", {}}};
      Fill(request, seed);
      Check(MakeDotConv, request);
    }
  }
}

TEST_F(DotConvTest, FiltersSignals) {
  for (const int64_t stride : {1, 2, 5}) {
    Request request = RequestOf(2, 1, 1, {{1000, 200, stride}});
    Fill(request, 1);
    Check(MakeDotConv, request);
  }
}

TEST_F(DotConvTest, NanReachesWhatItMeetsAndInfiniteWeightsNotWhatTheyMiss) {
  Request request = RequestOf(1, 40, 2, {{6, 3, 1, 1, 1}, {7, 3, 1, 1, 1}});
  Fill(request, 3);
  inputs_[0][100] = std::nanf("");
  inputs_[0][700] = INFINITY;
  inputs_[1][4] = INFINITY;
  Check(MakeDotConv, request);
}

TEST_F(DotConvTest, LeavesTheRestAlone) {
  const std::vector<Axis> axes = {{8, 3}, {8, 3}};
  const auto refuses = [&](const Request& request) {
    EXPECT_EQ(MakeDotConv(request, session_).status().code(), absl::StatusCode::kUnimplemented);
  };
  Request request = RequestOf(1, 64, 2, axes);
  refuses(request);  // weights that are no constant
  Fill(request, 1);
  if (FindDots() != nullptr) {
    KILN_EXPECT_OK(MakeDotConv(request, session_).status());
  }
  request.inputs[0] = Dense(request.inputs[0].shape);
  refuses(request);
  for (const Request& other : {RequestOf(1, 64, 16, axes), RequestOf(1, 2, 2, axes),
                               RequestOf(1, 64, 2, {{8, 3}, {8, 3, 1, 0, 0, 2}})}) {
    request = other;
    Fill(request, 1);
    refuses(request);
  }
  request = RequestOf(1, 64, 2, axes);
  request.attributes["group"] = {2};
  request.inputs[1] = Dense({2, 32, 3, 3});
  Fill(request, 1);
  refuses(request);
}

}  // namespace
}  // namespace kiln::library
