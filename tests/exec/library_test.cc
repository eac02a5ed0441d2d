// SPDX-License-Identifier: Apache-2.0
#include "exec/library/library.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/library_call.h"

namespace kiln::library {
namespace {

using testing::HasSubstr;

// numpy's matmul for operands of rank 2 and more, straight from its definition.
std::vector<double> NaiveMatmul(const Array<float>& a, const Array<float>& b, const Extents& out,
                                bool trans_a, bool trans_b) {
  const auto at = [](const Array<float>& x, const Extents& batch, int64_t row, int64_t col,
                     bool trans) {
    const size_t own = x.shape.size() - 2;
    int64_t index = 0;
    for (size_t i = 0; i < own; ++i) {
      const int64_t coordinate = batch[batch.size() - own + i];
      index = index * x.shape[i] + (x.shape[i] == 1 ? 0 : coordinate);
    }
    if (trans) std::swap(row, col);
    return x[(index * x.shape[own] + row) * x.shape[own + 1] + col];
  };
  const int64_t m = out[out.size() - 2], n = out[out.size() - 1];
  const int64_t k = trans_a ? a.shape[a.shape.size() - 2] : a.shape.back();
  std::vector<double> want;
  for (int64_t i = 0; i < Count(out); ++i) {
    Extents batch(out.size() - 2);
    int64_t rest = i / (m * n);
    for (size_t d = batch.size(); d-- > 0; rest /= out[d]) batch[d] = rest % out[d];
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      sum += static_cast<double>(at(a, batch, i / n % m, j, trans_a)) *
             at(b, batch, j, i % n, trans_b);
    }
    want.push_back(sum);
  }
  return want;
}

struct MatmulCase {
  Extents a, b, out;
  bool trans_a = false, trans_b = false;
};

TEST(Matmul, AgreesWithItsDefinition) {
  const MatmulCase cases[] = {
      {{3, 4}, {4, 5}, {3, 5}},
      {{1, 1}, {1, 1}, {1, 1}},
      {{1, 64}, {64, 128}, {1, 128}},
      {{1, 75}, {75, 4200}, {1, 4200}},
      {{1, 75}, {43, 75}, {1, 43}, false, true},
      {{75, 1}, {75, 43}, {1, 43}, true, false},
      {{43, 75}, {75, 1}, {43, 1}},
      {{75, 43}, {1, 75}, {43, 1}, true, true},
      {{1, 0}, {0, 4}, {1, 4}},
      {{4, 3}, {4, 5}, {3, 5}, true, false},
      {{3, 4}, {5, 4}, {3, 5}, false, true},
      {{4, 3}, {5, 4}, {3, 5}, true, true},
      {{2, 7, 16}, {16, 9}, {2, 7, 9}},
      {{2, 1, 16}, {16, 9}, {2, 1, 9}},
      {{2, 16, 7}, {16, 9}, {2, 7, 9}, true, false},
      {{2, 3, 8, 16}, {2, 3, 16, 8}, {2, 3, 8, 8}},
      {{2, 3, 8, 16}, {2, 3, 8, 16}, {2, 3, 8, 8}, false, true},
      {{3, 8, 16}, {2, 1, 16, 8}, {2, 3, 8, 8}},
      {{2, 1, 8, 16}, {1, 3, 16, 4}, {2, 3, 8, 4}},
      {{5, 1, 2, 1, 4, 6}, {3, 1, 2, 6, 3}, {5, 3, 2, 2, 4, 3}},
      {{6, 10}, {4, 10, 5}, {4, 6, 5}},
      {{2, 3, 0}, {0, 4}, {2, 3, 4}},
  };
  for (const MatmulCase& c : cases) {
    const Array<float> a = Random(c.a, 1), b = Random(c.b, 2);
    for (const bool constant : {false, true}) {
      Array<float> y(c.out, std::numeric_limits<float>::quiet_NaN());
      Request request;
      if (c.trans_a) request.attributes["trans_a"] = {1};
      if (c.trans_b) request.attributes["trans_b"] = {1};
      request.inputs = {Describe(a, DType::kF32), Describe(b, DType::kF32, constant)};
      request.outputs = {Describe(y, DType::kF32)};
      KILN_ASSERT_OK(
          RunOp("matmul", request, {a.data.data(), b.data.data()}, y.data.data(), NewSession()));
      ExpectNear(y, NaiveMatmul(a, b, c.out, c.trans_a, c.trans_b),
                 testing::PrintToString(c.a) + testing::PrintToString(c.b));
    }
  }
}

TEST(Matmul, TakesVectorsAsNumpyDoes) {
  const Array<float> v = Random({4}, 1), w = Random({4}, 2), m = Random({4, 3}, 3);
  Array<float> dot({}), row({3});
  Request request;
  request.inputs = {Describe(v, DType::kF32), Describe(w, DType::kF32)};
  request.outputs = {Describe(dot, DType::kF32)};
  KILN_ASSERT_OK(
      RunOp("matmul", request, {v.data.data(), w.data.data()}, dot.data.data(), NewSession()));
  double sum = 0;
  for (int64_t i = 0; i < 4; ++i) sum += static_cast<double>(v[i]) * w[i];
  EXPECT_NEAR(dot[0], sum, 1e-5);
  request.inputs[1] = Describe(m, DType::kF32);
  request.outputs = {Describe(row, DType::kF32)};
  KILN_ASSERT_OK(
      RunOp("matmul", request, {v.data.data(), m.data.data()}, row.data.data(), NewSession()));
  for (int64_t j = 0; j < 3; ++j) {
    double want = 0;
    for (int64_t i = 0; i < 4; ++i) want += static_cast<double>(v[i]) * m[i * 3 + j];
    EXPECT_NEAR(row[j], want, 1e-5);
  }
}

TEST(Matmul, OfAVectorHasTheSameBitsForAnyNumberOfThreadsAndEitherWay) {
  for (const bool along : {false, true}) {
    const Array<float> v = Random({1, 301}, 1),
                       m = Random(along ? Extents{533, 301} : Extents{301, 533}, 2);
    std::vector<float> first;
    const std::vector<std::shared_ptr<Session>> sessions = {NewSession(1), NewSession(2),
                                                            NewSession(3)};
    // The second product of a session walks the matrix backwards.
    for (size_t i = 0; i < 2 * sessions.size(); ++i) {
      Array<float> y({1, 533});
      Request request;
      if (along) request.attributes["trans_b"] = {1};
      request.inputs = {Describe(v, DType::kF32), Describe(m, DType::kF32)};
      request.inputs[1].constant = m.data.data();
      request.outputs = {Describe(y, DType::kF32)};
      const auto primitive = Make(*Find("matmul"), request, sessions[i / 2]);
      KILN_ASSERT_OK(primitive.status());
      EXPECT_EQ((*primitive)->considered().back().implementation, "matrix times vector");
      LaunchContext context;
      context.parallel_for = [](LaunchContext* c, TaskFn task, int min, int n, uint8_t* closure) {
        for (int i = min; i < min + n; ++i) task(c, i, closure);
        return 0;
      };
      void* in[] = {const_cast<float*>(v.data.data()), const_cast<float*>(m.data.data())};
      void* out = y.data.data();
      std::vector<float> scratch(static_cast<size_t>((*primitive)->scratch_bytes()) /
                                 sizeof(float));
      KILN_ASSERT_OK((*primitive)->Run({in, &out, scratch.data(), &context}));
      if (first.empty()) first = y.data;
      EXPECT_EQ(std::memcmp(first.data(), y.data.data(), first.size() * sizeof(float)), 0);
    }
  }
}

TEST(Matmul, TakesStridedOperands) {
  // A is columns 1..3 of a wider matrix, B a broadcast row: oneDNN takes the first, the loop the
  // second.
  const Array<float> wide = Random({4, 5}, 1), b = Random({3, 2}, 2), row = Random({3}, 3);
  Array<float> y({4, 2});
  Request request;
  request.inputs = {{true, DType::kF32, {4, 3}, {5, 1}, nullptr}, Describe(b, DType::kF32)};
  request.outputs = {Describe(y, DType::kF32)};
  KILN_ASSERT_OK(
      RunOp("matmul", request, {wide.data.data() + 1, b.data.data()}, y.data.data(), NewSession()));
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      double want = 0;
      for (int64_t k = 0; k < 3; ++k)
        want += static_cast<double>(wide[i * 5 + 1 + k]) * b[k * 2 + j];
      EXPECT_NEAR(y[i * 2 + j], want, 1e-5);
    }
  }
  request.inputs[1] = {true, DType::kF32, {3, 2}, {1, 0}, nullptr};
  KILN_ASSERT_OK(RunOp("matmul", request, {wide.data.data() + 1, row.data.data()}, y.data.data(),
                       NewSession()));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(y[i * 2], y[i * 2 + 1]);
}

TEST(Matmul, IntegersWrapAndDoublesAreExact) {
  Array<int32_t> a({1, 2}), b({2, 1}), c({1, 1});
  a.data = {std::numeric_limits<int32_t>::max(), 1};
  b.data = {2, 5};
  Request request;
  request.inputs = {Describe(a, DType::kI32), Describe(b, DType::kI32)};
  request.outputs = {Describe(c, DType::kI32)};
  KILN_ASSERT_OK(
      RunOp("matmul", request, {a.data.data(), b.data.data()}, c.data.data(), NewSession()));
  EXPECT_EQ(c[0], 3);
  Array<double> x({1, 2}), y({2, 1}), z({1, 1});
  x.data = {1e16, 1};
  y.data = {1, 1};
  request.inputs = {Describe(x, DType::kF64), Describe(y, DType::kF64)};
  request.outputs = {Describe(z, DType::kF64)};
  KILN_ASSERT_OK(
      RunOp("matmul", request, {x.data.data(), y.data.data()}, z.data.data(), NewSession()));
  EXPECT_EQ(z[0], 1e16 + 1);
}

TEST(Matmul, KeepsNanAndInfinity) {
  Array<float> a({2, 16}, 0), b({16, 16}, 1), y({2, 16});
  a[3] = std::numeric_limits<float>::quiet_NaN();
  a[16] = std::numeric_limits<float>::infinity();
  Request request;
  request.inputs = {Describe(a, DType::kF32), Describe(b, DType::kF32, true)};
  request.outputs = {Describe(y, DType::kF32)};
  KILN_ASSERT_OK(
      RunOp("matmul", request, {a.data.data(), b.data.data()}, y.data.data(), NewSession()));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isinf(y[31]));
}

TEST(Matmul, ConstantWeightsArePackedOnce) {
  const auto session = NewSession();
  const Array<float> a = Random({64, 256}, 1), b = Random({256, 512}, 2);
  Array<float> y({64, 512});
  Request request;
  request.inputs = {Describe(a, DType::kF32), Describe(b, DType::kF32, true)};
  request.outputs = {Describe(y, DType::kF32)};
  KILN_ASSERT_OK_AND_ASSIGN(const auto first, Make(*Find("matmul"), request, session));
  KILN_ASSERT_OK_AND_ASSIGN(const auto second, Make(*Find("matmul"), request, session));
  EXPECT_EQ(first->packed_bytes(), second->packed_bytes());
}

// oneDNN makes the code of a request once, and others wait for it; a child of a fork has nobody who
// makes it.
TEST(LibraryTest, AChildMakesPrimitivesThatItsParentWasAbout) {
  const auto make = [](int64_t n) {
    const Operand operand{true, DType::kF32, {n, 64}, {64, 1}, nullptr};
    Request request;
    request.inputs = {operand, {true, DType::kF32, {64, 64}, {64, 1}, nullptr}};
    request.outputs = {operand};
    return Make(*Find("matmul"), request, NewSession(), {.first = "oneDNN"}).ok();
  };
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int64_t n = 32; !stop; n = 32 + (n + 1) % 8) {
        EXPECT_TRUE(make(n));
        if (n == 32) ForgetUnusedCode();
      }
    });
  }
  for (int i = 0; i < 40; ++i) {
    const int ended = InChild(
        [&] {
          for (int64_t n = 32; n < 40; ++n)
            if (!make(n)) return 1;
          return 0;
        },
        20);
    EXPECT_EQ(ended, 0) << i;
    if (ended != 0) break;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Matmul, NamesShapesThatDoNotFit) {
  const Array<float> a({3, 4}), b({5, 6}), y({3, 6});
  Request request;
  request.inputs = {Describe(a, DType::kF32), Describe(b, DType::kF32)};
  request.outputs = {Describe(y, DType::kF32)};
  EXPECT_THAT(Make(*Find("matmul"), request, NewSession()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("[3, 4] and [5, 6] do not give [3, 6]")));
  request.attributes["alpha"] = {2};
  EXPECT_THAT(Make(*Find("matmul"), request, NewSession()),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("\"alpha\"")));
  request.inputs.pop_back();
  EXPECT_THAT(Make(*Find("matmul"), request, NewSession()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// An operand that nothing reads afterwards may lie where the output does; where it does not, the
// bits are the same.
TEST(Matmul, AddsToASpentOperandInItsPlace) {
  const int64_t cases[][3] = {{100, 48, 700}, {300, 200, 64}, {64, 1, 33}, {40, 600, 40}};
  for (const auto& [m, k, n] : cases) {
    for (const int64_t trans_a : {0, 1}) {
      for (const bool more : {false, true}) {
        const std::string what = absl::StrCat(m, " ", k, " ", n, " ", trans_a, " ", more);
        const Array<float> a = Random(trans_a != 0 ? Extents{k, m} : Extents{m, k}, 1),
                           b = Random({k, n}, 2), added = Random({m, n}, 3);
        Array<float> apart({m, n}), once = added;
        Request request;
        request.attributes = {{"trans_a", std::vector<int64_t>{trans_a}}};
        for (const auto* x : {&a, &b, &added}) request.inputs.push_back(Describe(*x, DType::kF32));
        request.outputs = {Describe(apart, DType::kF32)};
        request.post_ops = {{"add", {}}};
        if (more) request.post_ops.push_back({"linear", {2, 0.5}});
        EXPECT_FALSE(Make(*Find("matmul"), request, NewSession()).value()->in_place()) << what;
        request.spent = 2;
        const auto made = Make(*Find("matmul"), request, NewSession());
        ASSERT_TRUE(made.ok());
        ASSERT_EQ((*made)->in_place(), 2u) << what << " " << (*made)->description();
        std::vector<double> want = NaiveMatmul(a, b, {m, n}, trans_a != 0, false);
        for (size_t i = 0; i < want.size(); ++i) {
          want[i] += added.data[i];
          if (more) want[i] = 2 * want[i] + 0.5;
        }
        ASSERT_TRUE(RunOp("matmul", request, {a.data.data(), b.data.data(), added.data.data()},
                          apart.data.data(), NewSession())
                        .ok());
        ExpectNear(apart, want, what);
        std::vector<uint8_t> scratch(static_cast<size_t>((*made)->scratch_bytes()) + 64);
        void* at = scratch.data();
        size_t room = scratch.size();
        void* in[] = {const_cast<float*>(a.data.data()), const_cast<float*>(b.data.data()),
                      once.data.data()};
        void* out[] = {once.data.data()};
        ASSERT_TRUE((*made)->Run({in, out, std::align(64, room - 63, at, room), nullptr}).ok());
        EXPECT_EQ(once.data, apart.data) << what;
      }
    }
  }
}

}  // namespace
}  // namespace kiln::library
