// SPDX-License-Identifier: Apache-2.0
#include "exec/library/library.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/tensor.h"
#include "exec/support/pool.h"
#include "gtest/gtest.h"
#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"

namespace kiln::library {
namespace {

using testing::HasSubstr;
using Extents = std::vector<int64_t>;

int64_t Count(const Extents& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

template <typename T>
struct Array {
  Extents shape;
  std::vector<T> data;

  explicit Array(Extents s, T value = T())
      : shape(std::move(s)), data(static_cast<size_t>(Count(shape)), value) {}
  T& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  const T& operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
};

Array<float> Random(Extents shape, uint64_t seed) {
  Array<float> a(std::move(shape));
  std::mt19937_64 random(seed);
  for (float& x : a.data)
    x = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 1000.0F;
  return a;
}

template <typename T>
Operand Describe(const Array<T>& a, DType type, bool constant = false) {
  return {true, type, a.shape, DenseStrides(a.shape), constant ? a.data.data() : nullptr};
}

std::shared_ptr<Session> NewSession(int threads = 1) {
  static std::map<int, kiln::Pool> pools;
  return *Session::Create(&pools.try_emplace(threads, threads).first->second);
}

absl::Status RunOp(absl::string_view name, const Request& request, std::vector<const void*> inputs,
                   void* output, const std::shared_ptr<Session>& session) {
  const Operator* op = Find(name);
  if (op == nullptr) return absl::NotFoundError("no operator");
  auto primitive = Make(*op, request, session);
  if (!primitive.ok()) return primitive.status();
  std::vector<void*> in;
  for (const void* p : inputs) in.push_back(const_cast<void*>(p));
  void* scratch =
      std::aligned_alloc(64, static_cast<size_t>(((*primitive)->scratch_bytes() + 64) / 64 * 64));
  // Twice: a primitive keeps nothing of a run.
  absl::Status status = (*primitive)->Run({in.data(), &output, scratch, nullptr});
  if (status.ok()) status = (*primitive)->Run({in.data(), &output, scratch, nullptr});
  std::free(scratch);
  return status;
}

void ExpectNear(const Array<float>& got, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(got.data.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got.data[i], want[i], 1e-4 * (1 + std::abs(want[i]))) << what << " element " << i;
  }
}

// ---- matmul

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

// ---- convolution

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
