// SPDX-License-Identifier: Apache-2.0
// Compiled kernels against the oracle, bit by bit, at extents with every kind of tail.
#include <gtest/gtest.h>

#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

class BitsTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (LevelOf(HostCpu()) < GetParam()) GTEST_SKIP() << "this machine is not " << Name(GetParam());
  }
  CompiledKernel Compile(const std::string& text, const std::string& scheduler = "", SizeClass sizes = {}) {
    return CompiledKernel("kernel v1 math 1\n" + text, GetParam(), scheduler, std::move(sizes));
  }
};

constexpr char kSoftmax[] = R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [b] dense
par  0 f32
s0 : f32 [a, b] = add(mul(in0[a, b], par0), in1[b])
s1 : f32 [a]    = reduce max over b (s0[a, b])
s2 : f32 [a, b] = exp(sub(s0[a, b], s1[a]))
s3 : f32 [a]    = reduce add over b (s2[a, b])
out  0 f32 [a, b] dense = div(s2[a, b], s3[a])
)";

constexpr char kLayerNorm[] = R"(dims a b
in   0 f32 [a, b] dense
in   1 f32 [a, b] dense
in   2 f32 [b] dense
in   3 f32 [b] dense
par  0 f32
par  1 f32
s0 : f32 [a, b] = add(in0[a, b], in1[a, b])
s1 : f32 [a]    = reduce add over b (s0[a, b])
s2 : f32 [a]    = mul(s1[a], par0)
s3 : f32 [a, b] = sub(s0[a, b], s2[a])
s4 : f32 [a]    = reduce add over b (mul(s3[a, b], s3[a, b]))
s5 : f32 [a]    = div(1, sqrt(add(mul(s4[a], par0), par1)))
out  0 f32 [a, b] dense = add(mul(mul(s3[a, b], s5[a]), in2[b]), in3[b])
)";

constexpr char kProduct[] = R"(dims a
in   0 f32 [a] dense
in   1 f32 [a] dense
in   2 f32 [a] dense
out  0 f32 [a] dense = mul(mul(in0[a], in1[a]), in2[a])
)";

TEST_P(BitsTest, ProductOfThree) {
  CompiledKernel kernel = Compile(kProduct);
  EXPECT_EQ(kernel.params().scheduler, "pointwise");
  EXPECT_EQ(kernel.params().in_place.size(), 3u);
  for (int32_t n = 0; n <= 200; ++n) kernel.Check({n}, static_cast<uint32_t>(n));
  for (const int32_t n : {4095, 4096, 4097, 10000, 32767, 32768, 32769, 100000}) kernel.Check({n}, 1);
}

TEST_P(BitsTest, SoftmaxOfRowsOfOneBlock) {
  CompiledKernel kernel = Compile(kSoftmax, "", {{kUnbounded, 4096}});
  EXPECT_EQ(kernel.params().scheduler, "row");
  EXPECT_EQ(kernel.params().Get("levels", 0), 1);
  for (int32_t n = 0; n <= 200; ++n) kernel.Check({2, n}, static_cast<uint32_t>(n));
  for (const int32_t n : {1000, 4095, 4096}) kernel.Check({3, n}, 1);
  kernel.Check({1000, 3}, 7);
}

TEST_P(BitsTest, SoftmaxOfLongRows) {
  CompiledKernel kernel = Compile(kSoftmax);
  EXPECT_EQ(kernel.params().Get("levels", 0), 3);
  for (const int32_t n : {0, 1, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 10000}) kernel.Check({2, n}, 1);
}

TEST_P(BitsTest, LayerNorm) {
  CompiledKernel kernel = Compile(kLayerNorm, "", {{kUnbounded, 4096}});
  EXPECT_EQ(kernel.params().scheduler, "row");
  for (int32_t n = 1; n <= 200; n += 3) kernel.Check({3, n}, static_cast<uint32_t>(n));
  kernel.Check({50, 768}, 1);
}

INSTANTIATE_TEST_SUITE_P(Levels, BitsTest, testing::Values(IsaLevel::kV3, IsaLevel::kV4),
                         [](const auto& info) { return info.param == IsaLevel::kV3 ? "V3" : "V4"; });

}  // namespace
}  // namespace kiln
