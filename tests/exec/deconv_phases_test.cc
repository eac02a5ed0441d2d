// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions by phase against the loop that defines them.
#include "exec/library/deconv_phases.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "exec/library/gemm_block.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/conv_harness.h"

namespace kiln::library {
namespace {

struct Axis {
  int64_t in, kernel, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0, output_padding = 0;
  int64_t Out() const {
    return (in - 1) * stride + (kernel - 1) * dilation + 1 - pad_begin - pad_end + output_padding;
  }
};

Request RequestOf(int64_t batch, int64_t in_channels, int64_t out_channels,
                  const std::vector<Axis>& axes) {
  return ConvRequest({batch, in_channels}, {in_channels, out_channels}, {batch, out_channels},
                     axes);
}

class DeconvPhasesTest : public ConvTest {
 protected:
  DeconvPhasesTest() : ConvTest(/*transposed=*/true) {}
  void Check(const Request& request) { ConvTest::Check(MakeDeconvPhasesAnyway, request); }
};

TEST_F(DeconvPhasesTest, AgreesWithItsDefinition) {
  const std::vector<std::vector<Axis>> cases = {
      {{4, 4, 2, 1, 1, 1}, {4, 4, 2, 1, 1, 1}},
      {{3, 3, 2, 1, 1, 1, 1}, {5, 3, 2, 1, 1, 0, 1}},  // output padding, unequal pads
      {{3, 2, 3, 1, 0, 0, 2}, {2, 2, 3, 1, 0, 0, 1}},  // outputs that no tap reaches
      {{5, 3, 3, 2, 2, 1}, {4, 5, 1, 3, 6, 5}},        // dilations
      {{6, 5, 1, 1, 2, 2}},
      {{1, 7, 4, 1, 3, 0}, {9, 1, 1}},
      {{2, 3, 2, 1, 0, 1}, {3, 2, 1}, {2, 4, 3, 1, 1, 1}},
      {{17, 2, 2}, {19, 2, 2}},  // several blocks of rows
  };
  uint64_t seed = 0;
  for (const std::vector<Axis>& axes : cases) {
    SCOPED_TRACE(++seed);
    Request request = RequestOf(1 + static_cast<int64_t>(seed % 3), 35, 41, axes);
    Fill(request, seed);
    Check(request);
    request.inputs.push_back(Dense({41}));
    Fill(request, seed);
    Check(request);
    request.inputs.push_back(ChannelsLast(request.outputs[0].shape));
    request.post_ops = {{"add", {}}, {"leaky_relu", {0.25}}};
    Fill(request, seed);
    Check(request);
  }
}

TEST_F(DeconvPhasesTest, AgreesForRandomShapes) {
  std::mt19937_64 random(1);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    std::vector<Axis> axes(static_cast<size_t>(draw(1, 2)));
    for (Axis& axis : axes) {
      axis = {draw(1, 6), draw(1, 5), draw(1, 3), draw(1, 2)};
      const int64_t most = (axis.kernel - 1) * axis.dilation;
      axis.pad_begin = draw(0, most);
      axis.pad_end = draw(0, most);
      axis.output_padding = draw(0, std::max(axis.stride, axis.dilation) - 1);
      if (axis.Out() < 1) axis.pad_begin = axis.pad_end = 0;
    }
    Request request = RequestOf(draw(1, 8), draw(32, 40), draw(32, 70), axes);
    Fill(request, static_cast<uint64_t>(round));
    Check(request);
  }
}

TEST_F(DeconvPhasesTest, AddsLongSums) {
  Request request = RequestOf(2, 1100, 33, {{3, 4, 2, 1, 1, 1}, {2, 4, 2, 1, 1, 1}});
  Fill(request, 5);
  Check(request);
}

TEST_F(DeconvPhasesTest, NanReachesWhatItMeets) {
  Request request = RequestOf(2, 32, 32, {{4, 3, 2, 1, 1, 0}, {5, 3, 2, 1, 0, 1}});
  Fill(request, 3);
  inputs_[0][100] = std::nanf("");
  inputs_[0][700] = INFINITY;
  Check(request);
}

TEST_F(DeconvPhasesTest, LeavesTheRestAlone) {
  const std::vector<Axis> axes = {{4, 4, 2, 1, 1, 1}, {4, 4, 2, 1, 1, 1}};
  const auto refuses = [&](const Request& request) {
    EXPECT_EQ(MakeDeconvPhases(request, session_).status().code(),
              absl::StatusCode::kUnimplemented);
  };
  Request request = RequestOf(1, 64, 64, axes);
  refuses(request);  // weights that are no constant
  Fill(request, 1);
  if (FindRowsTimesPanel(1) != nullptr) {
    KILN_EXPECT_OK(MakeDeconvPhases(request, session_).status());
  }
  request.inputs[0] = Dense(request.inputs[0].shape);
  refuses(request);
  for (const Request& small :
       {RequestOf(1, 64, 3, axes), RequestOf(5, 64, 64, axes),
        RequestOf(9, 64, 64, {{1, 3}, {1, 3}}), RequestOf(1, 64, 64, {{2, 3, 9}, {2, 3, 9}})}) {
    request = small;
    Fill(request, 1);
    refuses(request);
  }
  request = RequestOf(1, 64, 64, axes);
  request.attributes["group"] = {2};
  request.inputs[1] = Dense({64, 32, 4, 4});
  Fill(request, 1);
  refuses(request);
}

}  // namespace
}  // namespace kiln::library
