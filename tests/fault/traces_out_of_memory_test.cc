// SPDX-License-Identifier: Apache-2.0
// Arrays and traces where any allocation may fail: a call gives its values or a Status, the process
// goes on, and the same calls after it are right. Each failure is in a child of its own, so that
// nothing is cached.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "kiln/trace.h"
#include "kiln/trace_grad.h"
#include "kiln/trace_ops.h"
#include "tests/base/environment.h"
#include "tests/fault/failing_resources.h"

namespace kiln {
namespace {

using Floats = std::vector<float>;

CompileOptions OnVm() {
  CompileOptions options;
  options.threads = 1;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  return options;
}

struct Scenario {
  const char* name;
  Array (*run)(const Array& x);  // x = 1, 2, 3, 4
  std::array<float, 4> expected;
};

Array Lazy(const Array& x) {
  const Array y = x * 2.0f + 1.0f;
  return exp(y) * 0.0f + y;
}
Array Looped(const Array& x) {
  Array y = x;
  for (int i = 0; i < 100; ++i) y = y + 0.5f;
  return y;
}
Array Sliced(const Array& x) { return concat({x({Slice{2, 4}}), x({Slice{0, 2}})}, {.axis = 0}); }
Array Padded(const Array& x) { return pad(x({Slice{0, 2}}), {.pads = {1, 1}}, 7); }
Array Differentiated(const Array& x) {
  return grad(
      [](const Array& a) { return reduce_sum(tanh(a) * 0.0f + a * a + a, {.keepdims = 0}); })(x);
}
TraceOptions Options() {
  TraceOptions options;
  options.compile = OnVm();
  return options;
}
Array Traced(const Array& x) {
  auto f = trace(Lazy, Options());
  const Array first = f(x), second = f(x);
  return f(x) + 0.0f * (first + second);
}
Array Frozen(const Array& x) {
  auto f = freeze(Lazy, Options());
  const Array first = f(x), second = f(x);
  return f(x) + 0.0f * (first + second);
}
Array TracedGradient(const Array& x) {
  auto f = trace([](const Array& a) { return Differentiated(a); }, Options());
  return f(x) + 0.0f * f(x);
}

Array LeftOut(const Array& x) {
  auto f = trace(
      [](const Array& a) {
        const Array b = a * 2.0f;
        {
          const ExcludeFromTrace scope;
          (void)(a + 1.0f).eval();
        }
        return b + 1.0f;
      },
      Options());
  return f(x) + 0.0f * f(x);
}

constexpr Scenario kScenarios[] = {{"Lazy", Lazy, {3, 5, 7, 9}},
                                   {"Looped", Looped, {51, 52, 53, 54}},
                                   {"Sliced", Sliced, {3, 4, 1, 2}},
                                   {"Padded", Padded, {7, 1, 2, 7}},
                                   {"Differentiated", Differentiated, {3, 5, 7, 9}},
                                   {"Traced", Traced, {3, 5, 7, 9}},
                                   {"Frozen", Frozen, {3, 5, 7, 9}},
                                   {"LeftOut", LeftOut, {3, 5, 7, 9}},
                                   {"TracedGradient", TracedGradient, {3, 5, 7, 9}}};

bool IsRight(const absl::StatusOr<Floats>& values, const Scenario& scenario) {
  return values.ok() && *values == Floats(scenario.expected.begin(), scenario.expected.end());
}

// A list that an operator is given is the host's: making one may throw.
absl::StatusOr<Floats> Values(const Scenario& scenario, const Array& x) {
  try {
    return scenario.run(x).to_vector<float>();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("");
  }
}

// 0: all was right; 77: so was it, and no allocation was left to fail.
int InChild(const Scenario& scenario, int64_t k) {
  const auto only = static_cast<int64_t>(FromEnvironment("KILN_FAILING_ONLY", 0));  // to debug
  if (only > 0) k = only;
  const pid_t child = only > 0 ? 0 : fork();
  if (child == 0) {
    const Array x = Array::from(Floats{1, 2, 3, 4});
    FailAt(Resource::kMemory, k);
    const absl::StatusOr<Floats> values = Values(scenario, x);
    const int64_t asked = FailNone();
    if (values.ok() && !IsRight(values, scenario)) _exit(1);
    for (int again = 0; again < 3; ++again)
      if (const auto now = scenario.run(x).to_vector<float>(); !IsRight(now, scenario)) {
        std::cerr << scenario.name << " after " << values.status() << ": " << now.status() << "\n";
        _exit(2);
      }
    for (const Scenario& other : kScenarios)  // what they share is right as well
      if (!IsRight(other.run(x).to_vector<float>(), other)) _exit(3);
    _exit(asked < k ? 77 : 0);
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

class TracesOutOfMemory : public testing::TestWithParam<Scenario> {};

TEST_P(TracesOutOfMemory, GiveAStatusAndGoOn) {
  ASSERT_TRUE(SetLazyOptions(OnVm()).ok());
  const auto stride = static_cast<int64_t>(FromEnvironment("KILN_FAILING_STRIDE", 193));
  int64_t tried = 0;
  int result = 0;
  for (int64_t k = 1; result == 0; k += k < 300 ? 1 + stride / 10 : stride) {
    result = InChild(GetParam(), k);
    EXPECT_TRUE(result == 0 || result == 77) << "allocation " << k << ": " << result;
    ++tried;
  }
  std::cout << tried << " failures\n";
  EXPECT_GT(tried, 20);
}

INSTANTIATE_TEST_SUITE_P(All, TracesOutOfMemory, testing::ValuesIn(kScenarios),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace kiln
