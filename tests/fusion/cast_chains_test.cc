// SPDX-License-Identifier: Apache-2.0
// Chains of two and three casts over all types, of the values at which types differ: at -O0 they
// are what a plain model of the rules says, and at every other level the same.
//
// The model: float to integer truncates and saturates, NaN gives 0; integer to integer wraps; to
// bool is x != 0; to a float rounds to nearest even, to f16 and bf16 by way of f32. Every cast
// rounds, also where the next one widens again.
//
//   KILN_CAST_CHAINS   every which chain of three is run: 97 unless given, 1 for all
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/compare.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "graph/graph.h"
#include "kiln/graph.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

using Wide = __int128;

constexpr DType Type(int k) { return static_cast<DType>(k); }

// A value of any type: a float or an integer.
struct Number {
  double f = 0;
  Wide i = 0;
};

// ---- The model. It shares no code with the library but the names of types.

int BitsOf(DType type) { return static_cast<int>(8 * SizeOf(type)); }
bool IsUnsigned(DType type) {
  return type == DType::kU8 || type == DType::kU16 || type == DType::kU32 || type == DType::kU64;
}

// A float with `digits` bits after the leading one, exponents from `least` on, and `most`.
double Nearest(double value, int digits, int least, double most) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int unit = std::max(std::ilogb(value), least) - digits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) > most ? std::copysign(INFINITY, value) : rounded;
}

double ToFloat(const Number& x, DType from, DType to) {
  const bool whole = !IsFloat(from);
  if (to == DType::kF64) {
    if (!whole) return x.f;
    return IsUnsigned(from) ? static_cast<double>(static_cast<uint64_t>(x.i))
                            : static_cast<double>(static_cast<int64_t>(x.i));
  }
  const float single = !whole             ? static_cast<float>(x.f)
                       : IsUnsigned(from) ? static_cast<float>(static_cast<uint64_t>(x.i))
                                          : static_cast<float>(static_cast<int64_t>(x.i));
  if (to == DType::kF16) return Nearest(static_cast<double>(single), 10, -14, 65504);
  if (to == DType::kBF16) return Nearest(static_cast<double>(single), 7, -126, 0x1.fep127);
  return static_cast<double>(single);
}

Wide ToInteger(const Number& x, DType from, DType to) {
  if (to == DType::kBool) return IsFloat(from) ? (x.f != 0 ? 1 : 0) : (x.i != 0 ? 1 : 0);
  const bool is_signed = !IsUnsigned(to);
  const int bits = BitsOf(to);
  const Wide least = is_signed ? -(Wide{1} << (bits - 1)) : 0;
  const Wide most = (Wide{1} << (is_signed ? bits - 1 : bits)) - 1;
  if (!IsFloat(from)) {
    const Wide low = x.i & ((Wide{1} << bits) - 1);
    return is_signed && low > most ? low - (Wide{1} << bits) : low;
  }
  if (std::isnan(x.f)) return 0;
  const double whole = std::trunc(x.f);
  if (whole >= std::ldexp(1.0, is_signed ? bits - 1 : bits)) return most;
  return whole <= static_cast<double>(least) ? least : static_cast<Wide>(whole);
}

Number Converted(const Number& x, DType from, DType to) {
  Number result;
  if (IsFloat(to)) {
    result.f = ToFloat(x, from, to);
  } else {
    result.i = ToInteger(x, from, to);
  }
  return result;
}

// ---- Elements of tensors.

template <typename T>
T Load(const Tensor& tensor, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(tensor.data()) + i * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

double HalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

double BFloatValue(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return static_cast<double>(value);
}

Number Element(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return {static_cast<double>(Load<float>(tensor, i)), 0};
    case DType::kF64:
      return {Load<double>(tensor, i), 0};
    case DType::kF16:
      return {HalfValue(Load<uint16_t>(tensor, i)), 0};
    case DType::kBF16:
      return {BFloatValue(Load<uint16_t>(tensor, i)), 0};
    case DType::kI8:
      return {0, Load<int8_t>(tensor, i)};
    case DType::kI16:
      return {0, Load<int16_t>(tensor, i)};
    case DType::kI32:
      return {0, Load<int32_t>(tensor, i)};
    case DType::kI64:
      return {0, Load<int64_t>(tensor, i)};
    case DType::kU16:
      return {0, Load<uint16_t>(tensor, i)};
    case DType::kU32:
      return {0, Load<uint32_t>(tensor, i)};
    case DType::kU64:
      return {0, Load<uint64_t>(tensor, i)};
    default:
      return {0, Load<uint8_t>(tensor, i)};
  }
}

bool Same(const Number& a, const Number& b) {
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  return a.i == b.i && a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

// ---- Running.

absl::StatusOr<Graph> ChainOf(const std::vector<DType>& types) {
  GraphBuilder b("chain");
  ValueId value = b.Input("x", types[0], {BoundaryValues(types[0]).num_elements()});
  for (size_t k = 1; k < types.size(); ++k) value = b.Op("cast", {value}, {{"to", types[k]}});
  b.Output(value, "y");
  return std::move(b).Finish();
}

absl::StatusOr<Tensor> RunAt(int level, const Graph& graph, const Tensor& x) {
  CompileOptions options;
  options.graph_opt_level = level;
  options.threads = 1;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  KILN_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model.Run({{"x", x}}));
  return outputs[0];
}

std::string NameOf(const std::vector<DType>& types) {
  return absl::StrJoin(types, " -> ", [](std::string* out, DType type) {
    absl::StrAppend(out, std::string(Name(type)));
  });
}

// What is wrong with a chain, or "".
std::string Wrong(const std::vector<DType>& types) {
  const Tensor x = BoundaryValues(types[0]);
  const auto graph = ChainOf(types);
  if (!graph.ok()) return graph.status().ToString();
  const auto plain = RunAt(0, *graph, x);
  if (!plain.ok()) return plain.status().ToString();
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Number want = Element(x, i);
    for (size_t k = 1; k < types.size(); ++k) want = Converted(want, types[k - 1], types[k]);
    const Number got = Element(*plain, i);
    if (!Same(got, want)) {
      return absl::StrCat("-O0: element ", i, " is ", got.f + static_cast<double>(got.i),
                          ", the model says ", want.f + static_cast<double>(want.i));
    }
  }
  for (const int level : {1, 2, 3}) {
    const auto result = RunAt(level, *graph, x);
    if (!result.ok()) return result.status().ToString();
    const Comparison comparison = CompareBits(*result, *plain);
    if (!comparison.ok) return absl::StrCat("-O", level, " against -O0: ", comparison.what);
  }
  return "";
}

class CastChains : public testing::TestWithParam<int> {
 protected:
  void Check(const std::vector<DType>& types) {
    ++chains_;
    const std::string wrong = Wrong(types);
    if (wrong.empty()) return;
    if (++failures_ <= 5) ADD_FAILURE() << NameOf(types) << ": " << wrong;
  }
  void TearDown() override {
    EXPECT_EQ(failures_, 0) << "of " << chains_ << " chains from " << Name(Type(GetParam()));
    EXPECT_GT(chains_, 0);
  }

  int chains_ = 0;
  int failures_ = 0;
};

TEST_P(CastChains, OfTwoAreTheModelAtEveryLevel) {
  for (int b = 0; b < kNumDTypes; ++b) {
    for (int c = 0; c < kNumDTypes; ++c) Check({Type(GetParam()), Type(b), Type(c)});
  }
}

int Step() { return static_cast<int>(FromEnvironment("KILN_CAST_CHAINS", 97)); }

TEST_P(CastChains, OfThreeAreTheModelAtEveryLevel) {
  const int step = Step();
  const int all = kNumDTypes * kNumDTypes * kNumDTypes;
  for (int k = GetParam() * 7 % step; k < all; k += step) {
    Check({Type(GetParam()), Type(k % kNumDTypes), Type(k / kNumDTypes % kNumDTypes),
           Type(k / kNumDTypes / kNumDTypes)});
  }
}

INSTANTIATE_TEST_SUITE_P(From, CastChains, testing::Range(0, kNumDTypes),
                         [](const auto& info) { return std::string(Name(Type(info.param))); });

// Compiled, the second casts of each pair of types being outputs of one kernel.
TEST(CompiledCastChains, OfTwoAreTheBitsOfTheVm) {
  const TempDir cache;
  const int step = Step();
  for (int pair = 0; pair < kNumDTypes * kNumDTypes; pair += std::max(1, step / 4)) {
    const DType from = Type(pair / kNumDTypes), by = Type(pair % kNumDTypes);
    const Tensor x = BoundaryValues(from);
    GraphBuilder b("chains");
    const ValueId first = b.Op("cast", {b.Input("x", from, {x.num_elements()})}, {{"to", by}});
    for (int to = 0; to < kNumDTypes; ++to)
      b.Output(b.Op("cast", {first}, {{"to", Type(to)}}), absl::StrCat("y", to));
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
    CompileOptions options;
    options.threads = 1;
    options.cache.directory = cache.path();
    KILN_ASSERT_OK_AND_ASSIGN(Model compiled, Compile(graph, options));
    options.graph_opt_level = 0;
    options.compile_mode = CompileMode::kNever;
    KILN_ASSERT_OK_AND_ASSIGN(Model plain, Compile(graph, options));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, compiled.Run({{"x", x}}));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, plain.Run({{"x", x}}));
    for (size_t k = 0; k < want.size(); ++k) {
      const Comparison comparison = CompareBits(got[k], want[k]);
      EXPECT_TRUE(comparison.ok) << NameOf({from, by, Type(static_cast<int>(k))}) << ": "
                                 << comparison.what;
    }
  }
}

}  // namespace
}  // namespace kiln
