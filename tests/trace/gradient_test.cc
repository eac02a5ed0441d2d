// SPDX-License-Identifier: Apache-2.0
// Gradients of functions of arrays: what they are, in lazy evaluation, in traces and of gradients,
// against finite differences in f64; and what is an error.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/trace.h"
#include "kiln/trace_grad.h"
#include "kiln/trace_ops.h"
#include "tests/trace/arrays.h"

namespace kiln {
namespace {

using Doubles = std::vector<double>;

Array Total(const Array& x) { return reduce_sum(x, {.keepdims = 0}); }
Doubles DoublesOf(const Array& array) {
  const absl::StatusOr<Doubles> values = array.to_vector<double>();
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : Doubles();
}

Array Squares(const Array& x) { return Total(x * x); }
Array Weighted(const Array& w, const Array& x) { return Total(w * w * x); }

class GradientTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(SetLazyOptions(OnVm()).ok()); }
  const Array x_ = Of({1, 2, 3}), w_ = Of({4, 5, 6});
};

TEST_F(GradientTest, IsByTheFirstArgumentOrByThoseNamed) {
  EXPECT_EQ(ValuesOf(grad(Squares)(x_)), (Floats{2, 4, 6}));
  EXPECT_EQ(ValuesOf(grad(Weighted)(w_, x_)), (Floats{8, 20, 36}));
  EXPECT_EQ(ValuesOf(grad<1>(Weighted)(w_, x_)), (Floats{16, 25, 36}));
  const auto [d_x, d_w] = grad<1, 0>(Weighted)(w_, x_);
  EXPECT_EQ(ValuesOf(d_x), (Floats{16, 25, 36}));
  EXPECT_EQ(ValuesOf(d_w), (Floats{8, 20, 36}));
}

TEST_F(GradientTest, ValuesComeFirstAndAuxiliaryOnesHaveNoGradient) {
  const auto [value, d] = value_and_grad(Squares)(x_);
  EXPECT_EQ(*value.item<float>(), 14);
  EXPECT_EQ(ValuesOf(d), (Floats{2, 4, 6}));
  const auto with_more = [](const Array& x) { return std::array{Total(x), x * 100.0f}; };
  const auto [sum, hundreds, ones] = value_and_grad(with_more)(x_);
  EXPECT_EQ(*sum.item<float>(), 6);
  EXPECT_EQ(ValuesOf(hundreds), (Floats{100, 200, 300}));
  EXPECT_EQ(ValuesOf(ones), (Floats{1, 1, 1}));
  EXPECT_EQ(ValuesOf(grad(with_more)(x_)), (Floats{1, 1, 1}));
  const auto listed = [](const Array& x) { return std::vector<Array>{Total(x), x + 1.0f}; };
  const std::vector<Array> all = value_and_grad(listed)(x_);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(ValuesOf(all[1]), (Floats{2, 3, 4}));
  EXPECT_EQ(ValuesOf(all[2]), (Floats{1, 1, 1}));
}

TEST_F(GradientTest, WhatIsCapturedIsConstant) {
  const Array pending = x_ * 10.0f;  // has no value yet
  EXPECT_EQ(ValuesOf(grad([&](const Array& x) { return Total(x * pending); })(pending)),
            (Floats{10, 20, 30}));
  EXPECT_EQ(ValuesOf(grad([&](const Array& x) { return Total(x * stop_gradient(x)); })(x_)),
            (Floats{1, 2, 3}));
  // One array as two arguments.
  EXPECT_EQ(ValuesOf(grad(Weighted)(x_, x_)), (Floats{2, 8, 18}));
}

TEST_F(GradientTest, ValuesThatDoNotDependHaveZeros) {
  const Array one = Of({7});
  const auto [value, d] = value_and_grad([&](const Array&) { return one; })(x_);
  EXPECT_EQ(*value.item<float>(), 7);
  EXPECT_EQ(ValuesOf(d), (Floats{0, 0, 0}));
  EXPECT_EQ(ValuesOf(grad([](const Array& x) { return x; })(one)), (Floats{1}));
}

TEST_F(GradientTest, OfGradients) {
  const auto fourth = [](const Array& x) { return Total(pow(x, 4)); };
  const auto first = [=](const Array& x) { return Total(grad(fourth)(x)); };
  const auto second = [=](const Array& x) { return Total(grad(first)(x)); };
  EXPECT_EQ(ValuesOf(grad(first)(x_)), (Floats{12, 48, 108}));
  EXPECT_EQ(ValuesOf(grad(second)(x_)), (Floats{24, 48, 72}));
  // Scalars: a gradient is a value of its own.
  const auto cube = [](const Array& x) { return x * x * x; };
  EXPECT_EQ(ValuesOf(grad(grad(grad(cube)))(Of({5}))), (Floats{6}));
  // The inner one is by y alone: d/dx (x * d/dy (x y)) = d/dx (x x).
  const auto nested = [](const Array& x) {
    return x * grad([&](const Array& y) { return x * y; })(x);
  };
  EXPECT_EQ(ValuesOf(grad(nested)(Of({3}))), (Floats{6}));
}

TEST_F(GradientTest, RecordsAndReplaysInATrace) {
  const auto step = [](const Array& w, const Array& x, float rate) {
    const auto [loss, d] = value_and_grad(Weighted)(w, x);
    return std::array{loss, w - rate * d};
  };
  float rate = 0.5f;
  auto traced = trace([&](const Array& w, const Array& x) { return step(w, x, rate); }, Plain());
  Array w = w_;
  for (int i = 0; i < 5; ++i) {
    const Array before = w;
    const auto [loss, next] = traced(w, x_);
    ASSERT_TRUE(loss.status().ok()) << loss.status();
    const auto [want_loss, want] = step(before, x_, rate);
    EXPECT_EQ(ValuesOf(loss), ValuesOf(want_loss));
    EXPECT_EQ(ValuesOf(next), ValuesOf(want));
    w = next;
    rate *= 0.5f;  // a number is an input of the program
  }
  EXPECT_EQ(traced.stats().records, 1);
  EXPECT_EQ(traced.stats().replays, 4);
  EXPECT_EQ(traced.stats().segments, 1);
  EXPECT_EQ(traced.stats().runs, 5);
  auto direct = trace(value_and_grad(Weighted), Plain());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ValuesOf(direct(w_, x_)[1]), (Floats{8, 20, 36}));
  auto frozen = freeze([](const Array& x) { return grad(Squares)(x); }, Plain());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ValuesOf(frozen(x_)), (Floats{2, 4, 6}));
  EXPECT_EQ(frozen.stats().frozen_calls, 2);
}

TEST_F(GradientTest, AnotherFunctionInATraceIsAMismatch) {
  bool other = false;
  auto traced = trace(
      [&](const Array& x) {
        return grad([&](const Array& a) { return Total(other ? exp(a) : sin(a)); })(x);
      },
      Plain());
  traced(x_);
  other = true;
  const absl::Status status = traced(x_).status();
  EXPECT_TRUE(TraceErrorOf(status).has_value()) << status;
  EXPECT_NE(status.message().find("gradient_test.cc:"), std::string::npos) << status;
}

// Constants of several elements are part of a record, for any thread: counts of windows.
TEST_F(GradientTest, ConstantsOfThePoolArePartOfTheRecord) {
  TraceOptions options = Plain();
  options.capture_as_const = true;
  const auto pooled = [](const Array& x) {
    const Array y = average_pool(x, {.kernel = {2, 2}, .pads = {1, 1, 0, 0}});
    return Total(y * y);
  };
  auto traced = trace(grad(pooled), options);
  const Array x = Array::from(Floats{1, 2, 3, 4}.data(), {1, 1, 2, 2});
  const Floats first = ValuesOf(traced(x));
  std::vector<Floats> later;
  std::thread([&] { later.push_back(ValuesOf(traced(x))); }).join();
  later.push_back(ValuesOf(traced(x)));
  EXPECT_EQ(traced.stats().replays, 2) << traced.status();
  EXPECT_EQ(later, (std::vector<Floats>{first, first}));
  EXPECT_EQ(first, ValuesOf(grad(pooled)(x)));
}

// ---- Errors

std::string ErrorOf(const Array& array) { return std::string(array.status().message()); }

TEST_F(GradientTest, ErrorsNameWhatIsWrong) {
  EXPECT_NE(ErrorOf(grad([](const Array& x) { return x * x; })(x_)).find("f32 [3]"),
            std::string::npos);
  const auto counted = [](const Array& x) { return cast(Total(x), {.to = DType::kI32}); };
  EXPECT_NE(ErrorOf(grad(counted)(x_)).find("is i32 []"), std::string::npos);
  const Array whole = Array::from(std::vector<int32_t>{1, 2});
  for (const Array& d : grad<0, 1>(Weighted)(x_, whole))
    EXPECT_NE(ErrorOf(d).find("argument 1 is i32 [2]"), std::string::npos) << ErrorOf(d);
  EXPECT_EQ(grad(Squares)(whole).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(grad(Squares)(Array()).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(grad([](const Array&) { return Array(); })(x_).status().ok());
  EXPECT_FALSE(grad([](const Array&) { return std::vector<Array>(); })(x_).status().ok());
  const absl::Status bad = grad([&](const Array& x) { return Total(x + Of({1, 2})); })(x_).status();
  EXPECT_NE(bad.message().find("do not broadcast"), std::string::npos) << bad;
}

TEST_F(GradientTest, AReadInTheFunctionIsAnError) {
  const auto reads = [](const Array& x) {
    const absl::StatusOr<float> s = Total(x).item<float>();
    return s.ok() && *s > 0 ? Total(x) : Total(-x);
  };
  const Array d = grad(reads)(x_);
  EXPECT_NE(ErrorOf(d).find("a value is read at gradient_test.cc:"), std::string::npos)
      << d.status();
  auto traced = trace(grad(reads), Plain());
  EXPECT_NE(ErrorOf(traced(x_)).find("a value is read at"), std::string::npos);
  // What is captured may be read.
  const Array pending = Total(x_ * 2.0f);
  const auto looks = [&](const Array& x) { return Total(x * pending.item<float>().value_or(0)); };
  EXPECT_EQ(ValuesOf(grad(looks)(x_)), (Floats{12, 12, 12}));
  EXPECT_EQ(ValuesOf(grad(Squares)(x_)), (Floats{2, 4, 6}));
}

TEST_F(GradientTest, WhatLeavesTheFunctionHasNoElements) {
  Array held;
  const auto leaks = [&](const Array& x) {
    held = x * 2.0f;
    return Total(held);
  };
  EXPECT_EQ(ValuesOf(grad(leaks)(x_)), (Floats{2, 2, 2}));
  EXPECT_NE(ErrorOf(held).find("gradient: a value"), std::string::npos) << held.status();
}

TEST_F(GradientTest, TracesAndRegionsInTheFunctionAreErrors) {
  auto inner = trace(Squares, Plain());
  const Array d = grad([&](const Array& x) { return inner(x); })(x_);
  EXPECT_EQ(TraceErrorOf(d.status()), TraceError::kNested) << d.status();
  auto traced = trace(grad([](const Array& x) {
                        const ExcludeFromTrace scope;
                        return Total(x);
                      }),
                      Plain());
  EXPECT_EQ(TraceErrorOf(traced(x_).status()), TraceError::kExclusion) << traced.status();
  // Without a trace there is nothing to leave out of.
  const Array free = grad([](const Array& x) {
    const ExcludeFromTrace scope;
    return Squares(x);
  })(x_);
  EXPECT_EQ(ValuesOf(free), (Floats{2, 4, 6}));
  // And the other way round: a gradient in a region that is left out is lazy.
  auto outside = trace(
      [&](const Array& x) {
        Floats d;
        {
          const ExcludeFromTrace scope;
          d = ValuesOf(grad(Squares)(x_));
        }
        return x * d[1];
      },
      Plain());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ValuesOf(outside(x_)), (Floats{4, 8, 12}));
}

TEST_F(GradientTest, AnExceptionLeavesTheThreadAsItWas) {
  EXPECT_THROW(grad([](const Array& x) -> Array {
                 (void)(x * 2.0f);
                 throw 1;
               })(x_),
               int);
  EXPECT_EQ(ValuesOf(grad(Squares)(x_)), (Floats{2, 4, 6}));
  EXPECT_EQ(ValuesOf(x_ + 1.0f), (Floats{2, 3, 4}));
}

// ---- Random functions against finite differences

// A smooth function of values of shapes that broadcast to [2, 3].
Array Random(uint64_t seed, const std::vector<Array>& inputs) {
  std::mt19937_64 random(seed);
  std::vector<Array> values = inputs;
  const auto some = [&]() -> const Array& { return values[random() % values.size()]; };
  const Array whole = Array::full({2, 3}, 1, DType::kF64);
  for (int i = 0; i < 10; ++i) {
    const Array a = some(), b = some(), full = a * whole;
    switch (random() % 13) {
      case 0:
        values.push_back(a + b);
        break;
      case 1:
        values.push_back(a - b * 0.5);
        break;
      case 2:
        values.push_back(tanh(a * b));
        break;
      case 3:
        values.push_back(a / (b * b + 1));
        break;
      case 4:
        values.push_back(sigmoid(a));
        break;
      case 5:
        values.push_back(sqrt(a * a + 0.3));
        break;
      case 6:
        values.push_back(softmax(full, {.axis = 1}));
        break;
      case 7:
        values.push_back(reduce_mean(a, {.axes = {1}, .keepdims = 1}));
        break;
      case 8:
        values.push_back(tanh(matmul(matmul(full, transpose(b * whole)), full) * 0.1));
        break;
      case 9:
        values.push_back(
            concat({full({Slice{}, Slice{1}}), full({Slice{}, Slice{0, 1}})}, {.axis = 1}));
        break;
      case 10:
        values.push_back(where(a > b, sin(a), b * 2));
        break;
      case 11:
        values.push_back(reduce_max(full, {.axes = {0}, .keepdims = 1}));
        break;
      default:
        values.push_back(pow(tanh(a), 3));
        break;
    }
  }
  return reduce_mean(tanh(values.back()) + sin(values[values.size() - 2]), {.keepdims = 0});
}

const std::array<std::vector<int64_t>, 3> kShapes = {{{2, 3}, {1, 3}, {2, 1}}};

Array Perturbed(const Doubles& at, const std::vector<int64_t>& shape, size_t i, double by) {
  Doubles moved = at;
  moved[i] += by;
  return Array::from(moved.data(), shape);
}

// By the difference of f at both sides of each element of argument k.
template <typename F>
Doubles Differences(F f, const std::vector<Array>& inputs, size_t k) {
  constexpr double kStep = 1e-5;
  const Doubles at = DoublesOf(inputs[k]);
  Doubles differences;
  for (size_t i = 0; i < at.size(); ++i) {
    std::vector<Array> up = inputs, down = inputs;
    up[k] = Perturbed(at, kShapes[k], i, kStep);
    down[k] = Perturbed(at, kShapes[k], i, -kStep);
    differences.push_back((*f(up).template item<double>() - *f(down).template item<double>()) /
                          (2 * kStep));
  }
  return differences;
}

void ExpectNear(const Doubles& got, const Doubles& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-6 * (1 + std::abs(want[i]))) << what << ", element " << i;
}

TEST_F(GradientTest, RandomFunctionsHaveTheGradientsOfFiniteDifferences) {
  for (uint64_t seed = 1; seed <= 16 && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::vector<Array> inputs;
    for (const std::vector<int64_t>& shape : kShapes) {
      Doubles values(static_cast<size_t>(shape[0] * shape[1]));
      for (double& v : values) v = normal(random);
      inputs.push_back(Array::from(values.data(), shape));
    }
    const auto f = [&](const Array& a, const Array& b, const Array& c) {
      return Random(seed, {a, b, c});
    };
    const auto of_list = [&](const std::vector<Array>& v) { return Random(seed, v); };
    const std::array<Array, 3> d = grad<0, 1, 2>(f)(inputs[0], inputs[1], inputs[2]);
    for (size_t k = 0; k < 3; ++k)
      ExpectNear(DoublesOf(d[k]), Differences(of_list, inputs, k), absl::StrCat("by ", k));
    auto traced = trace(grad<0, 1, 2>(f), Plain());
    for (int round = 0; round < 3; ++round) {
      const std::array<Array, 3> again = traced(inputs[0], inputs[1], inputs[2]);
      for (size_t k = 0; k < 3; ++k) EXPECT_EQ(DoublesOf(again[k]), DoublesOf(d[k])) << round;
    }
    if (seed % 4 != 0) continue;  // second order: the gradient of a sum of gradients
    const auto slope = [&](const Array& a, const Array& b, const Array& c) {
      const std::array<Array, 3> g = grad<0, 1, 2>(f)(a, b, c);
      return Total(sin(g[0]) + g[1]) + Total(g[2]);
    };
    const auto slope_of_list = [&](const std::vector<Array>& v) { return slope(v[0], v[1], v[2]); };
    const std::array<Array, 3> dd = grad<0, 1, 2>(slope)(inputs[0], inputs[1], inputs[2]);
    for (size_t k = 0; k < 3; ++k)
      ExpectNear(DoublesOf(dd[k]), Differences(slope_of_list, inputs, k),
                 absl::StrCat("second, by ", k));
  }
}

}  // namespace
}  // namespace kiln
