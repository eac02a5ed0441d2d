// SPDX-License-Identifier: Apache-2.0
// What changes between two calls of a traced function: 50 random functions for each kind of change.
// A call gives the bits of the function as it is then, each operation alone, or an error of one of
// the classes that the kind may have; never another answer.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "tests/trace/random_function.h"

namespace kiln {
namespace {

using Random = std::mt19937_64;

// A function of two arguments and a captured array, as the host has it at the moment.
struct Host {
  RandomFunction f;
  std::vector<Tensor> inputs;  // two arguments, and what is captured
  Array captured;
  bool one_argument_twice = false;
  bool f64_argument = false;
};

struct Hazard {
  const char* name;
  // Between the first call and those after it. False: nothing to change here.
  bool (*change)(Host& host, Random& random);
  std::set<TraceError> errors;  // that it may give; none: it is always right
};

size_t Below(Random& random, size_t n) { return random() % n; }

// A step for which `wanted` holds.
template <typename F>
RandomStep* Pick(Host& host, Random& random, F wanted) {
  std::vector<RandomStep*> found;
  for (RandomStep& step : host.f.steps)
    if (wanted(step)) found.push_back(&step);
  return found.empty() ? nullptr : found[Below(random, found.size())];
}

bool IsUnary(const RandomStep& step) { return step.operands.size() == 1 && step.attrs.empty(); }

bool ChangeNumber(Host& host, Random& random) {
  RandomStep* const step =
      Pick(host, random, [](const RandomStep& s) { return s.operands.back() == -1; });
  if (step == nullptr) return false;
  step->number += 0.375;
  return true;
}

bool ChangeOperator(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, IsUnary);
  if (step == nullptr) return false;
  step->op = step->op == "abs" ? "neg" : "abs";
  return true;
}

bool ChangeAttributes(Host& host, Random& random) {
  RandomStep* const step =
      Pick(host, random, [](const RandomStep& s) { return s.op == "reduce_sum"; });
  if (step == nullptr) return false;
  step->op = "reduce_sum";
  auto& axes = std::get<std::vector<int64_t>>(step->attrs.at("axes"));
  axes[0] = axes[0] == 0 ? -1 : 0;
  return true;
}

bool SwapOperands(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) {
    return s.operands.size() == 2 && s.operands[1] >= 0 && s.operands[0] != s.operands[1] &&
           !s.forgets;
  });
  if (step == nullptr) return false;
  std::swap(step->operands[0], step->operands[1]);
  return true;
}

bool AnotherOperandIsUsed(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) {
    return s.operands.size() == 2 && s.operands[1] >= 0 && s.operands[0] != s.operands[1] &&
           !s.forgets;
  });
  if (step == nullptr) return false;
  step->operands[1] = -1;
  return true;
}

bool NumberBecomesArray(Host& host, Random& random) {
  RandomStep* const step =
      Pick(host, random, [](const RandomStep& s) { return s.operands.back() == -1 && !s.forgets; });
  if (step == nullptr) return false;
  step->operands.back() = step->operands[0];
  return true;
}

bool MoreOperations(Host& host, Random&) {
  const int last = static_cast<int>(host.f.inputs.size() + host.f.steps.size()) - 1;
  host.f.steps.push_back({.op = "abs", .operands = {last}});
  return true;
}

bool FewerOperations(Host& host, Random&) {
  const int last = static_cast<int>(host.f.inputs.size() + host.f.steps.size()) - 1;
  host.f.steps.pop_back();
  for (int& result : host.f.results)
    if (result == last) result = 0;
  return true;
}

bool MoreReads(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) { return !s.reads; });
  if (step == nullptr) return false;
  step->reads = true;
  return true;
}

bool FewerReads(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) { return s.reads; });
  if (step == nullptr) return false;
  step->reads = false;
  return true;
}

bool OtherResults(Host& host, Random&) {
  host.f.results.back() = host.f.results.back() == 0 ? 1 : 0;
  return true;
}

bool MoreResults(Host& host, Random&) {
  host.f.results.push_back(0);
  return true;
}

bool HoldsMore(Host& host, Random& random) {
  RandomStep* const step = Pick(host, random, [](const RandomStep& s) { return s.forgets; });
  if (step == nullptr) return false;
  step->forgets = false;
  return true;
}

bool ReplaceCaptured(Host& host, Random& random) {
  host.inputs[2] = RandomInputs(host.f, random)[2];
  host.captured = Array::of(host.inputs[2]);
  return true;
}

bool WriteIntoCaptured(Host& host, Random&) {
  auto* const data = static_cast<float*>(host.inputs[2].data());
  for (int64_t i = 0; i < host.inputs[2].num_elements(); ++i) data[i] += 1;
  return true;
}

bool WriteIntoArgument(Host& host, Random&) {
  auto* const data = static_cast<float*>(host.inputs[0].data());
  for (int64_t i = 0; i < host.inputs[0].num_elements(); ++i) data[i] -= 1;
  return true;
}

bool OneArgumentTwice(Host& host, Random&) {
  if (host.f.inputs[0] != host.f.inputs[1]) return false;
  host.inputs[1] = host.inputs[0];
  host.one_argument_twice = true;
  return true;
}

bool ArgumentIsCapturedToo(Host& host, Random&) {
  if (host.f.inputs[0] != host.f.inputs[2]) return false;
  host.inputs[0] = host.inputs[2];
  return true;
}

bool AnotherType(Host& host, Random&) {
  host.f64_argument = true;
  return true;
}

using E = TraceError;
const std::vector<Hazard>& Hazards() {
  static const std::vector<Hazard> kHazards = {
      {"another number in the closure", ChangeNumber, {}},
      {"another operator", ChangeOperator, {E::kOperation}},
      {"other attributes", ChangeAttributes, {E::kAttributes}},
      {"operands swapped", SwapOperands, {E::kWiring, E::kExpectedExternal, E::kExpectedInternal}},
      {"a number in place of a value",
       AnotherOperandIsUsed,
       {E::kExpectedInternal, E::kExpectedExternal, E::kWiring}},
      {"a value in place of a number",
       NumberBecomesArray,
       {E::kExpectedExternal, E::kExpectedInternal}},
      {"more operations", MoreOperations, {E::kTooMany}},
      {"fewer operations", FewerOperations, {E::kTooFew, E::kResults}},
      {"a read more", MoreReads, {E::kRead}},
      {"a read less", FewerReads, {E::kRead}},
      {"other results", OtherResults, {E::kResults, E::kExpectedInternal}},
      {"more results", MoreResults, {E::kResults}},
      {"a value that is held longer", HoldsMore, {E::kUnreadable}},
      {"another captured array", ReplaceCaptured, {}},
      {"written into the captured array", WriteIntoCaptured, {}},
      {"written into an argument", WriteIntoArgument, {}},
      {"one array as two arguments", OneArgumentTwice, {}},
      {"the captured array as an argument", ArgumentIsCapturedToo, {}},
      {"an argument of another type", AnotherType, {E::kDtype}},
  };
  return kHazards;
}

CompileOptions OnVm() {
  CompileOptions options;
  options.threads = 1;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  return options;
}

// Of three inputs; its arguments have one shape half of the time.
std::optional<Host> MakeHost(uint64_t seed, Random& random) {
  Host host;
  host.f = MakeRandomFunction(seed, 4 + static_cast<int>(seed % 12));
  if (host.f.inputs.size() != 3) return std::nullopt;
  host.inputs = RandomInputs(host.f, random);
  host.captured = Array::of(host.inputs[2]);
  return host;
}

// Whether a message tells the operation from the recorded one, beyond their lines.
bool TellsThemApart(absl::string_view message) {
  const size_t is = message.find(" is "), was = message.find(", recorded was ");
  if (is == absl::string_view::npos || was == absl::string_view::npos) return true;
  const auto bare = [](absl::string_view text) { return text.substr(0, text.rfind(" at ")); };
  const absl::string_view recorded = message.substr(was + 15);
  return bare(message.substr(is + 4, was - is - 4)) !=
         bare(recorded.substr(0, recorded.find("; ")));
}

class HazardTest : public testing::TestWithParam<size_t> {};

TEST_P(HazardTest, IsRightOrAnError) {
  const Hazard& hazard = Hazards()[GetParam()];
  const char* const asked = std::getenv("KILN_TRACE_HAZARDS");
  const int wanted = asked != nullptr ? std::atoi(asked) : 50;
  int programs = 0, errors = 0;
  for (uint64_t seed = 1; programs < wanted && seed < 20000 && !HasFailure(); ++seed) {
    Random random(seed);
    std::optional<Host> host = MakeHost(seed, random);
    if (!host) continue;
    Host now = *host;
    if (!hazard.change(now, random)) continue;
    now = *host;
    SCOPED_TRACE(absl::StrCat(hazard.name, ", seed ", seed));
    TraceOptions options;
    options.compile = OnVm();
    auto traced = trace(
        [&now](const Array& a, const Array& b) {
          return Compute(now.f, {a, b, now.captured});
        },
        options);
    EagerRunner eager;
    for (int call = 0; call < 3 && !HasFailure(); ++call) {
      if (call == 1) {
        Random again(seed);
        (void)RandomInputs(now.f, again);
        ASSERT_TRUE(hazard.change(now, again));
      }
      Array a = Array::of(now.inputs[0]);
      const Array b = now.one_argument_twice ? a : Array::of(now.inputs[1]);
      if (now.f64_argument) a = cast(a, {.to = DType::kF64});
      const std::vector<Array> got = traced(a, b);
      if (!traced.status().ok()) {
        const std::optional<TraceError> error = TraceErrorOf(traced.status());
        ASSERT_GT(call, 0) << traced.status();
        ASSERT_TRUE(error && hazard.errors.contains(*error)) << traced.status() << "\n"
                                                             << now.f.ToString();
        EXPECT_TRUE(TellsThemApart(traced.status().message())) << traced.status();
        ++errors;
        continue;
      }
      const absl::StatusOr<std::vector<Tensor>> want = eager.Run(now.f, now.inputs);
      ASSERT_TRUE(want.ok()) << want.status() << "\n" << now.f.ToString();
      for (size_t k = 0; k < got.size(); ++k) {
        const absl::StatusOr<Tensor> found = got[k].tensor();
        if (!found.ok()) {
          EXPECT_TRUE(hazard.errors.contains(TraceErrorOf(found.status()).value_or(E::kNested)))
              << found.status();
          continue;
        }
        EXPECT_TRUE(SameBits(*found, (*want)[k])) << "result " << k << "\n" << now.f.ToString();
      }
    }
    ++programs;
  }
  EXPECT_EQ(programs, wanted) << hazard.name;
  if (hazard.errors.empty()) {
    EXPECT_EQ(errors, 0);
  }
  RecordProperty("errors", errors);
}

INSTANTIATE_TEST_SUITE_P(Replay, HazardTest, testing::Range(size_t{0}, Hazards().size()));

}  // namespace
}  // namespace kiln
