// SPDX-License-Identifier: Apache-2.0
// Random functions: recorded, replayed, lazy, and on the compiled code of a second sight, against
// each operation alone on the VM. All bits are equal.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/trace.h"
#include "tests/trace/random_function.h"

namespace kiln {
namespace {

int64_t Setting(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

CompileOptions OnVm() {
  CompileOptions options;
  options.threads = 1;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  return options;
}

std::vector<Array> ArraysOf(const std::vector<Tensor>& tensors) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : tensors) arrays.push_back(Array::of(tensor));
  return arrays;
}

class Judge {
 public:
  explicit Judge(const RandomFunction& function) : function_(function) {}
  // That arrays, computed in whichever way, are what the operations give one by one.
  void Check(const std::vector<Array>& got, const std::vector<Tensor>& inputs,
             const std::string& how) {
    const absl::StatusOr<std::vector<Tensor>> want = eager_.Run(function_, inputs);
    ASSERT_TRUE(want.ok()) << want.status() << "\n" << function_.ToString();
    ASSERT_EQ(got.size(), want->size());
    for (size_t k = 0; k < got.size(); ++k) {
      const absl::StatusOr<Tensor> found = got[k].tensor();
      ASSERT_TRUE(found.ok()) << how << ": " << found.status() << "\n" << function_.ToString();
      EXPECT_TRUE(SameBits(*found, (*want)[k])) << how << ", result " << k << "\n"
                                                << function_.ToString();
    }
  }

 private:
  const RandomFunction& function_;
  EagerRunner eager_;
};

// The function as one of one, two or three arrays.
template <typename Use>
void WithTrace(const RandomFunction& f, const TraceOptions& options, Use use) {
  if (f.inputs.size() == 1) {
    auto traced = trace([&f](const Array& a) { return Compute(f, {a}); }, options);
    use([&](const std::vector<Array>& x) { return traced(x[0]); }, traced);
  } else if (f.inputs.size() == 2) {
    auto traced = trace(
        [&f](const Array& a, const Array& b) {
          return Compute(f, {a, b});
        },
        options);
    use([&](const std::vector<Array>& x) { return traced(x[0], x[1]); }, traced);
  } else {
    auto traced = trace(
        [&f](const Array& a, const Array& b, const Array& c) {
          return Compute(f, {a, b, c});
        },
        options);
    use([&](const std::vector<Array>& x) { return traced(x[0], x[1], x[2]); }, traced);
  }
}

TEST(TraceRandom, TracedReplayedAndLazyGiveTheBitsOfEachOperationAlone) {
  const int64_t count = Setting("KILN_TRACE_PROGRAMS", 300), first = Setting("KILN_SEED", 1);
  ASSERT_TRUE(SetLazyOptions(OnVm()).ok());
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    const RandomFunction f = MakeRandomFunction(static_cast<uint64_t>(seed), 4 + seed % 40);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    Judge judge(f);
    TraceOptions options;
    options.compile = OnVm();
    WithTrace(f, options, [&](auto call, auto& traced) {
      for (int round = 0; round < 3; ++round) {
        const std::vector<Tensor> inputs = RandomInputs(f, random);
        judge.Check(call(ArraysOf(inputs)), inputs, absl::StrCat("call ", round));
      }
      EXPECT_EQ(traced.stats().replays, 2) << traced.status();
    });
    for (int round = 0; round < 2; ++round) {
      const std::vector<Tensor> inputs = RandomInputs(f, random);
      judge.Check(Compute(f, ArraysOf(inputs)), inputs, absl::StrCat("lazy, round ", round));
    }
  }
}

TEST(TraceRandom, CompiledCodeGivesTheSameBits) {
  const int64_t count = Setting("KILN_TRACE_COMPILED", 4), first = Setting("KILN_SEED", 1);
  TraceOptions options;
  options.compile.threads = 1;
  options.compile.compile_mode = CompileMode::kBlock;
  for (int64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    const RandomFunction f = MakeRandomFunction(static_cast<uint64_t>(seed), 12);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    Judge judge(f);
    WithTrace(f, options, [&](auto call, auto&) {
      for (int round = 0; round < 3; ++round) {
        const std::vector<Tensor> inputs = RandomInputs(f, random);
        judge.Check(call(ArraysOf(inputs)), inputs, absl::StrCat("call ", round));
      }
    });
  }
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
