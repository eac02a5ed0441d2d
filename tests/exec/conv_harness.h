// SPDX-License-Identifier: Apache-2.0
// Implementations of convolutions against the loop that defines them.
#ifndef KILN_TESTS_EXEC_CONV_HARNESS_H_
#define KILN_TESTS_EXEC_CONV_HARNESS_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "exec/library/dot_block.h"
#include "exec/library/library.h"
#include "exec/library/post_ops.h"
#include "exec/library/reference_conv.h"
#include "exec/library/shapes.h"
#include "exec/support/pool.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln::library {

using Extents = std::vector<int64_t>;

inline int64_t Count(const Extents& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

inline Operand Dense(const Extents& shape) {
  Operand operand{.shape = shape, .strides = Extents(shape.size(), 1)};
  for (size_t i = shape.size() - 1; i-- > 0;)
    operand.strides[i] = operand.strides[i + 1] * shape[i + 1];
  return operand;
}

// [N, C, D...] with the channels innermost.
inline Operand ChannelsLast(const Extents& shape) {
  Operand operand{.shape = shape, .strides = Extents(shape.size(), 1)};
  int64_t step = shape[1];
  for (size_t i = shape.size(); i-- > 0;) {
    if (i == 1) continue;
    operand.strides[i] = step;
    step *= shape[i];
  }
  return operand;
}

// A convolution over `axes`, each with in, Out(), kernel, stride, dilation and pads; x, w and y
// have their leading extents.
template <typename Axis>
Request ConvRequest(Extents x, Extents w, Extents y, const std::vector<Axis>& axes) {
  Request request;
  Extents strides, dilations, begins, ends;
  for (const Axis& axis : axes) {
    x.push_back(axis.in);
    w.push_back(axis.kernel);
    y.push_back(axis.Out());
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
    begins.push_back(axis.pad_begin);
    ends.push_back(axis.pad_end);
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  request.attributes = {{"strides", strides}, {"dilations", dilations}, {"pads", begins}};
  request.inputs = {ChannelsLast(x), Dense(w)};
  request.outputs = {ChannelsLast(y)};
  return request;
}

class ConvTest : public testing::Test {
 protected:
  explicit ConvTest(bool transposed) : transposed_(transposed) {}

  // Random inputs for the request, whose weights become constant.
  void Fill(Request& request, uint64_t seed) {
    std::mt19937_64 random(seed);
    inputs_.clear();
    for (const Operand& operand : request.inputs) {
      std::vector<float>& values = inputs_.emplace_back(static_cast<size_t>(Count(operand.shape)));
      for (float& x : values) x = static_cast<float>(random() % 2001) / 1000.0F - 1;
    }
    request.inputs[1].constant = inputs_[1].data();
  }

  std::vector<float> Run(Primitive& primitive, const Request& request, bool in_parts) {
    std::vector<float> y(static_cast<size_t>(Count(request.outputs[0].shape)), 7);
    std::vector<double> scratch(static_cast<size_t>(primitive.scratch_bytes() / 8 + 8));
    std::vector<void*> in;
    for (std::vector<float>& input : inputs_) in.push_back(input.data());
    void* out = y.data();
    LaunchContext context;
    context.parallel_for = [](LaunchContext* c, TaskFn task, int min, int n, uint8_t* closure) {
      for (int i = min + n; i-- > min;) task(c, i, closure);
      return 0;
    };
    KILN_EXPECT_OK(primitive.Run({in.data(), &out, scratch.data(), in_parts ? &context : nullptr}));
    return y;
  }

  std::vector<float> Wanted(const Request& request) {
    const Request alone = WithoutPostOps(request);
    auto loop = MakeReferenceConv(alone, *NormalizeConv(alone, transposed_), transposed_);
    return Run(*WithPostOpLoops(std::move(loop), request), request, false);
  }

  // Near the reference, NaN where it has NaN; the same bits in one part and in many.
  // Where `make` needs AVX-512 and the machine has none, of what is chosen in its place.
  void Check(MakeFn make, const Request& request) {
    const std::vector<float> want = Wanted(request);
    auto primitive = make(request, session_);
    if (absl::IsUnimplemented(primitive.status()) && FindDots() == nullptr) {
      primitive = Make(*Find(transposed_ ? "conv_transpose" : "conv"), request, session_);
      if (!primitive.ok()) return;  // oneDNN does not take all shapes that `make` does
    }
    KILN_ASSERT_OK(primitive.status());
    const std::vector<float> got = Run(**primitive, request, false);
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(want[i]) || std::isinf(want[i])) {
        ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << i;
        ASSERT_EQ(std::isinf(got[i]), std::isinf(want[i])) << i;
      } else {
        ASSERT_NEAR(got[i], want[i], 1e-4 * (1 + std::abs(want[i]))) << i;
      }
    }
    const std::vector<float> again = Run(**primitive, request, true);
    ASSERT_EQ(std::memcmp(again.data(), got.data(), got.size() * sizeof(float)), 0);
  }

  const bool transposed_;
  Pool pool_{2};
  const std::shared_ptr<Session> session_ = *Session::Create(&pool_);
  std::vector<std::vector<float>> inputs_;
};

}  // namespace kiln::library

#endif  // KILN_TESTS_EXEC_CONV_HARNESS_H_
