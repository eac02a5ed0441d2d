// SPDX-License-Identifier: Apache-2.0
// Products of few rows against the implementations that take any request.
#include "exec/library/skinny_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "exec/library/gemm_block.h"
#include "exec/library/gemv_rows.h"
#include "exec/support/pool.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/conv_harness.h"

namespace kiln::library {
namespace {

std::vector<float> Random(int64_t count, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  std::mt19937_64 random(seed);
  for (float& x : values) x = static_cast<float>(random() % 2001) / 1000.0F - 1;
  return values;
}

class SkinnyGemmTest : public testing::Test {
 protected:
  // The result, made by a primitive of that implementation on so many threads; without AVX-512, by
  // what is chosen in place of rows times panels.
  std::vector<float> Run(const char* op, const Request& request, int threads,
                         const std::string& implementation) {
    Pool& pool = pools_.try_emplace(threads, threads).first->second;
    const auto primitive = Make(*Find(op), request, *Session::Create(&pool));
    EXPECT_TRUE(primitive.ok()) << primitive.status();
    if (!primitive.ok()) return {};
    if (implementation == "oneDNN" || FindRowsTimesPanel(1) != nullptr) {
      EXPECT_EQ((*primitive)->considered().back().implementation.rfind(implementation, 0), 0U)
          << (*primitive)->considered().back().implementation;
    }
    std::vector<float> y(static_cast<size_t>(Count(request.outputs[0].shape)), NAN);
    std::vector<double> scratch(static_cast<size_t>((*primitive)->scratch_bytes() / 8 + 8));
    std::vector<void*> in;
    for (std::vector<float>& input : inputs_) in.push_back(input.data());
    void* out = y.data();
    LaunchContext context;
    context.parallel_for = [](LaunchContext* c, TaskFn task, int min, int n, uint8_t* closure) {
      for (int i = min; i < min + n; ++i) task(c, i, closure);
      return 0;
    };
    KILN_EXPECT_OK((*primitive)->Run({in.data(), &out, scratch.data(), &context}));
    return y;
  }

  // With constant weights and without: near, and rows times panels has the same bits on any
  // threads; oneDNN, in its place, sums in an order of its own.
  void Check(const char* op, Request request, const std::string& other) {
    inputs_.clear();
    for (const Operand& operand : request.inputs)
      inputs_.push_back(Random(Count(operand.shape), inputs_.size() + 1));
    const std::vector<float> want = Run(op, request, 1, other);
    request.inputs[1].constant = inputs_[1].data();
    const std::vector<float> got = Run(op, request, 1, "rows times panels");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 2e-4 * (1 + std::abs(want[i]))) << i;
    if (FindRowsTimesPanel(1) == nullptr) return;
    for (const int threads : {2, 3}) {
      const std::vector<float> again = Run(op, request, threads, "rows times panels");
      ASSERT_EQ(std::memcmp(again.data(), got.data(), got.size() * sizeof(float)), 0) << threads;
    }
  }

  std::map<int, Pool> pools_;
  std::vector<std::vector<float>> inputs_;
};

TEST_F(SkinnyGemmTest, MultipliesMatrices) {
  for (const int64_t rows : {2, 3, 13, 14, 15, 28, 29, 49, 63, 64}) {
    SCOPED_TRACE(rows);
    Request request;
    request.inputs = {Dense({rows, 601}), Dense({601, 331})};
    request.outputs = {Dense({rows, 331})};
    Check("matmul", request, "oneDNN");
    request.attributes["trans_b"] = {1};
    request.inputs[1] = Dense({331, 601});
    Check("matmul", request, "oneDNN");
  }
}

TEST_F(SkinnyGemmTest, MultipliesSeveralMatricesWithTheSameRows) {
  Request request;
  request.inputs = {Dense({1, 16, 130}), Dense({9, 130, 150})};
  request.outputs = {Dense({9, 16, 150})};
  Check("matmul", request, "oneDNN");
}

TEST_F(SkinnyGemmTest, ConvolvesSmallImages) {
  struct Case {
    Extents x, w;
    int64_t stride, pad, dilation;
    Extents y;
  };
  const Case cases[] = {
      {{1, 1024, 7, 7}, {160, 1024, 1, 1}, 1, 0, 1, {1, 160, 7, 7}},
      {{1, 130, 7, 7}, {150, 130, 3, 3}, 1, 1, 1, {1, 150, 7, 7}},
      {{2, 130, 9, 8}, {150, 130, 3, 3}, 2, 1, 1, {2, 150, 5, 4}},
      {{1, 64, 11, 9}, {300, 64, 3, 3}, 1, 2, 3, {1, 300, 9, 7}},
      {{3, 200, 20}, {200, 200, 5}, 1, 2, 1, {3, 200, 20}},
      {{1, 64, 3, 4, 4}, {96, 64, 3, 3, 3}, 1, 1, 1, {1, 96, 3, 4, 4}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.w));
    const size_t axes = c.x.size() - 2;
    Request request;
    request.attributes = {{"strides", Extents(axes, c.stride)},
                          {"pads", Extents(2 * axes, c.pad)},
                          {"dilations", Extents(axes, c.dilation)}};
    request.inputs = {ChannelsLast(c.x), Dense(c.w)};
    request.outputs = {ChannelsLast(c.y)};
    Check("conv", request, "oneDNN");
    request.inputs.push_back(Dense({c.w[0]}));
    Check("conv", request, "oneDNN");
    request.post_ops = {{"add", {}}, {"relu", {}}};
    request.inputs.push_back(ChannelsLast(c.y));
    Check("conv", request, "oneDNN");
  }
}

TEST_F(SkinnyGemmTest, LeavesManyRowsAndSmallMatricesAlone) {
  const std::vector<float> weights(static_cast<size_t>(600 * 330));
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{65, 330}, {8, 33}}) {
    Request request;
    request.inputs = {Dense({rows, 600}), Dense({600, columns})};
    request.inputs[1].constant = weights.data();
    request.outputs = {Dense({rows, columns})};
    Pool pool(1);
    EXPECT_EQ(MakeSkinnyGemmMatmul(request, *Session::Create(&pool)).status().code(),
              absl::StatusCode::kUnimplemented);
  }
}

TEST_F(SkinnyGemmTest, LeavesABiasWithGapsAlone) {
  const std::vector<float> weights(static_cast<size_t>(160 * 1024));
  Request request;
  request.attributes = {{"strides", {1, 1}}, {"pads", {0, 0, 0, 0}}, {"dilations", {1, 1}}};
  request.inputs = {ChannelsLast({1, 1024, 7, 7}), Dense({160, 1024, 1, 1}), Dense({160})};
  request.inputs[1].constant = weights.data();
  request.outputs = {ChannelsLast({1, 160, 7, 7})};
  Pool pool(1);
  const std::shared_ptr<Session> session = *Session::Create(&pool);
  if (FindRowsTimesPanel(1) != nullptr) {
    KILN_EXPECT_OK(MakeSkinnyGemmConv(request, session).status());
  }
  request.inputs[2].strides = {2};
  EXPECT_EQ(MakeSkinnyGemmConv(request, session).status().code(), absl::StatusCode::kUnimplemented);
}

// The order of a sum depends on its length alone: rows that are summed four at a time, from either
// end, have the bits of one.
TEST(GemvRowsTest, RowsHaveTheBitsOfOneAlone) {
  constexpr int64_t kSums = 11;
  for (const int64_t terms : {1, 5, 16, 31, 32, 48, 64, 77, 600}) {
    const std::vector<float> matrix = Random(kSums * terms, 1), vector = Random(terms, 2);
    std::vector<float> alone(kSums), forth(kSums), back(kSums);
    GemvPart part = {.matrix = matrix.data(),
                     .vector = vector.data(),
                     .stride = terms,
                     .terms = terms,
                     .sums = kSums,
                     .y = forth.data(),
                     .partial = nullptr,
                     .shares = 1,
                     .backwards = false,
                     .prefetch = false};
    GetGemvRows().along(part);
    part.y = back.data();
    part.backwards = true;
    GetGemvRows().along(part);
    for (int64_t j = 0; j < kSums; ++j) {
      part.matrix = matrix.data() + j * terms;
      part.sums = 1;
      part.y = &alone[static_cast<size_t>(j)];
      GetGemvRows().along(part);
    }
    EXPECT_EQ(std::memcmp(alone.data(), forth.data(), kSums * sizeof(float)), 0) << terms;
    EXPECT_EQ(std::memcmp(alone.data(), back.data(), kSums * sizeof(float)), 0) << terms;
  }
}

// Sums of columns are those of the shares of their terms, whatever other columns are beside them.
TEST(GemvRowsTest, ColumnsAreSummedTermByTermInShares) {
  for (const int64_t sums : {1, 15, 16, 63, 64, 65, 100, 127, 128, 129, 200}) {
    for (const int64_t terms : {1, 7, 8, 9, 100, 600}) {
      SCOPED_TRACE(testing::Message() << terms << " x " << sums);
      const int64_t stride = sums + 3, shares = Shares(terms, sums);
      const std::vector<float> matrix = Random(terms * stride, 1), vector = Random(terms, 2);
      std::vector<float> want(static_cast<size_t>(sums)), y(want.size());
      for (int64_t j = 0; j < sums; ++j) {
        std::vector<float> share(static_cast<size_t>(shares), 0.0F);
        for (int64_t s = 0; s < shares; ++s) {
          for (int64_t t = terms * s / shares; t < terms * (s + 1) / shares; ++t) {
            const float product =
                matrix[static_cast<size_t>(t * stride + j)] * vector[static_cast<size_t>(t)];
            share[static_cast<size_t>(s)] += product;
          }
        }
        for (size_t step = 1; step < share.size(); step *= 2) {
          for (size_t s = 0; s < share.size(); s += 2 * step) share[s] += share[s + step];
        }
        want[static_cast<size_t>(j)] = share[0];
      }
      for (const bool backwards : {false, true}) {
        for (const bool prefetch : {false, true}) {
          std::vector<float> partial(static_cast<size_t>(shares * sums));
          GetGemvRows().across({.matrix = matrix.data(),
                                .vector = vector.data(),
                                .stride = stride,
                                .terms = terms,
                                .sums = sums,
                                .y = y.data(),
                                .partial = partial.data(),
                                .shares = shares,
                                .backwards = backwards,
                                .prefetch = prefetch});
          EXPECT_EQ(std::memcmp(want.data(), y.data(), y.size() * sizeof(float)), 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln::library
