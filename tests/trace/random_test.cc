// SPDX-License-Identifier: Apache-2.0
// Random functions: traced, frozen and lazy, in one thread and in three, on the VM and on compiled
// code, against each operation alone on the VM. All bits are equal.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/runtime.h"
#include "kiln/trace.h"
#include "tests/base/environment.h"
#include "tests/trace/random_function.h"

namespace kiln {
namespace {

std::vector<Array> ArraysOf(const std::vector<Tensor>& tensors) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : tensors) arrays.push_back(Array::of(tensor));
  return arrays;
}

// One function, and inputs with what it gives on them.
class Judge {
 public:
  Judge(const RandomFunction& function, uint64_t seed, size_t sets) : function_(function) {
    std::mt19937_64 random(seed);
    EagerRunner eager;
    for (size_t k = 0; k < sets; ++k) {
      inputs_.push_back(RandomInputs(function, random));
      const absl::StatusOr<std::vector<Tensor>> want = eager.Run(function, inputs_.back());
      EXPECT_TRUE(want.ok()) << want.status() << "\n" << function.ToString();
      if (want.ok()) wanted_.push_back(*want);
    }
  }
  const RandomFunction& function() const { return function_; }

  using Way = std::function<std::vector<Array>(const std::vector<Array>&)>;
  // That a way to compute the function gives what the operations give one by one, call after call.
  void Check(const Way& way, const std::string& how) const {
    for (size_t call = 0; call < wanted_.size() && !testing::Test::HasFailure(); ++call) {
      const std::vector<Array> got = way(ArraysOf(inputs_[call]));
      ASSERT_EQ(got.size(), wanted_[call].size());
      for (size_t k = 0; k < got.size(); ++k) {
        const absl::StatusOr<Tensor> found = got[k].tensor();
        ASSERT_TRUE(found.ok()) << how << ": " << found.status() << "\n" << function_.ToString();
        EXPECT_TRUE(SameBits(*found, wanted_[call][k]))
            << how << ", call " << call << ", result " << k << "\n"
            << function_.ToString();
      }
    }
  }

 private:
  const RandomFunction& function_;
  std::vector<std::vector<Tensor>> inputs_, wanted_;
};

// What a frozen function computes: it captures nothing.
const RandomFunction* frozen = nullptr;

// `make` traces a function of one, two or three arrays.
template <typename Make, typename Use>
void WithArity(size_t arity, Make make, Use use) {
  if (arity == 1) {
    auto made = make([](const Array& a) { return Compute(*frozen, {a}); });
    use([&](const std::vector<Array>& x) { return made(x[0]); }, made);
  } else if (arity == 2) {
    auto made = make([](const Array& a, const Array& b) { return Compute(*frozen, {a, b}); });
    use([&](const std::vector<Array>& x) { return made(x[0], x[1]); }, made);
  } else {
    auto made = make([](const Array& a, const Array& b, const Array& c) {
      return Compute(*frozen, {a, b, c});
    });
    use([&](const std::vector<Array>& x) { return made(x[0], x[1], x[2]); }, made);
  }
}

void Traced(const Judge& judge, const CompileOptions& options, const std::string& how) {
  TraceOptions traced;
  traced.compile = options;
  frozen = &judge.function();
  WithArity(
      judge.function().inputs.size(), [&](auto f) { return trace(f, traced); },
      [&](auto call, auto& made) {
        judge.Check(call, how);
        EXPECT_EQ(made.stats().records, 1) << made.status();
        EXPECT_EQ(made.stats().replays, made.stats().calls - 1) << made.status();
      });
}

void Frozen(const Judge& judge, const CompileOptions& options, const std::string& how) {
  TraceOptions traced;
  traced.compile = options;
  RandomFunction without_reads = judge.function();
  for (RandomStep& step : without_reads.steps) step.reads = false;
  frozen = &without_reads;
  WithArity(
      judge.function().inputs.size(), [&](auto f) { return freeze(f, traced); },
      [&](auto call, auto& made) {
        judge.Check(call, how);
        EXPECT_EQ(made.stats().frozen_calls, made.stats().calls - 2) << made.status();
      });
}

void Lazy(const Judge& judge, const CompileOptions& options, const std::string& how) {
  ASSERT_TRUE(SetLazyOptions(options).ok());
  judge.Check([&](const std::vector<Array>& x) { return Compute(judge.function(), x); }, how);
}

// The ways to compute a function. One more is one line here.
struct Way {
  const char* name;
  void (*run)(const Judge& judge, const CompileOptions& options, const std::string& how);
};
constexpr Way kWays[] = {{"traced", Traced}, {"frozen", Frozen}, {"lazy", Lazy}};

// `count` functions of up to `most` steps, each in every way, by the same code as each other.
void CheckAll(uint64_t count, int most, CompileOptions options) {
  const uint64_t first = FromEnvironment("KILN_SEED", 1);
  for (uint64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    const int steps = 4 + static_cast<int>(seed % static_cast<uint64_t>(most - 3));
    const RandomFunction f = MakeRandomFunction(seed, {.steps = steps});
    const Judge judge(f, seed, /*sets=*/4);
    for (const Way& way : kWays) {
      options.threads = seed % 2 == 0 ? 1 : 3;
      way.run(judge, options, absl::StrCat(way.name, ", ", options.threads, " threads"));
    }
  }
}

TEST(TraceRandom, EachWayGivesTheBitsOfEachOperationAlone) {
  CheckAll(FromEnvironment("KILN_TRACE_PROGRAMS", 100), 40, OnVm());
}

// From the second call on: compiled code, which the call waits for.
TEST(TraceRandom, CompiledCodeGivesTheSameBits) {
  CompileOptions options;
  options.compile_mode = CompileMode::kBlock;
  const RuntimeMetrics before = Runtime::Default()->metrics();
  CheckAll(FromEnvironment("KILN_TRACE_COMPILED", 4), 16, options);
  const RuntimeMetrics after = Runtime::Default()->metrics();
  EXPECT_EQ(after.kernels_failed, before.kernels_failed);
  EXPECT_GT(after.kernels_built + after.kernels_cached,
            before.kernels_built + before.kernels_cached);
}

// The judge has teeth: another number in one step is found.
TEST(TraceRandom, AWrongStepIsSeen) {
  RandomFunction f;
  f.inputs = {{3}};
  f.steps = {{.op = "mul", .operands = {0, -1}, .number = 2}};
  f.results = {1};
  std::mt19937_64 random(7);
  const std::vector<Tensor> inputs = RandomInputs(f, random);
  RandomFunction other = f;
  other.steps[0].number = 2.0000002384185791015625;  // the next float
  const std::vector<Array> got = Compute(other, ArraysOf(inputs));
  const absl::StatusOr<std::vector<Tensor>> want = EagerRunner().Run(f, inputs);
  ASSERT_TRUE(want.ok()) << want.status();
  const absl::StatusOr<Tensor> found = got[0].tensor();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(SameBits(*found, (*want)[0]));
}

}  // namespace
}  // namespace kiln
