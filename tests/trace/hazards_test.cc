// SPDX-License-Identifier: Apache-2.0
// What changes between two calls of a traced or frozen function: random functions for each kind of
// change, 50 of them in trace_hazards_full. A call gives the bits of the function as it is then,
// each operation alone, or an error of one of the classes that docs/trace.md names; a frozen one
// may give those of the function as it was recorded, where the page says so. Never another answer.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/base/environment.h"
#include "tests/trace/hazards.h"

namespace kiln {
namespace {

using Results = std::vector<Array>;

// A Traced of whatever type.
struct Callable {
  std::function<Results(const Array&, const Array&)> call;
  std::function<absl::Status()> status;
};

// What a frozen function finds: it captures nothing.
Program* frozen_program = nullptr;

Callable MakeCallable(Program& program, Way way) {
  TraceOptions options;
  options.compile = OnVm();
  const auto wrap = [&program](auto made) {
    auto traced = std::make_shared<decltype(made)>(std::move(made));
    program.forget = [traced = traced.get()] { traced->forget(); };
    return Callable{[traced](const Array& a, const Array& b) { return (*traced)(a, b); },
                    [traced] { return traced->status(); }};
  };
  if (way == Way::kTraced) {
    return wrap(
        trace([&program](const Array& a, const Array& b) { return Run(program, a, b); }, options));
  }
  frozen_program = &program;
  return wrap(
      freeze([](const Array& a, const Array& b) { return Run(*frozen_program, a, b); }, options));
}

// Of four inputs. False: this seed suits the hazard not.
bool MakeHost(const Hazard& hazard, uint64_t seed, Random& random, Host& host) {
  RandomFunctionOptions options;
  options.steps = 4 + static_cast<int>(seed % 12);
  options.inputs = 4;
  if (hazard.extents != nullptr) options.extents = hazard.extents(random);
  host.f = MakeRandomFunction(seed, options);
  for (RandomStep& step : host.f.steps) step.reads = step.reads && (hazard.flags & kReads) != 0;
  host.inputs = RandomInputs(host.f, random);
  for (size_t k = 0; k < 2; ++k) host.captured[k] = Array::of(host.inputs[2 + k]);
  if (hazard.prepare != nullptr && !hazard.prepare(host, random)) return false;
  Host probe = host;
  Random same = random;
  return hazard.change(probe, same);
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

// One function, called before and after a change, and at last as it was at first.
class Trial {
 public:
  Trial(const Hazard& hazard, Way way, std::set<TraceError>& seen)
      : hazard_(hazard), way_(way), outcome_(hazard.Of(way)), seen_(seen) {}

  // False: this seed suits the hazard not.
  bool Run(uint64_t seed) {
    Random random(seed);
    if (!MakeHost(hazard_, seed, random, program_.host)) return false;
    Random as_tried = random;  // the change that suits
    TraceOptions options;
    options.compile = OnVm();
    auto inner = trace([](const Array& x) { return -(-x); }, options);
    program_.inner = [&inner](const Array& x) { return inner(x); };
    const Callable callable = MakeCallable(program_, way_);
    program_.call = [&](const Array& a, const Array& b) {
      for (const Array& result : callable.call(a, b)) program_.told.Update(result.status());
    };
    was_ = program_.host;
    if ((hazard_.flags & kDrops) != 0) was_.captured = {};
    for (int call = 0; call < 4 && !testing::Test::HasFailure(); ++call) {
      if (call == (way_ == Way::kLater ? 2 : 1)) changed_ = hazard_.change(program_.host, as_tried);
      Call(callable, call, random);
    }
    if ((hazard_.flags & kDrops) == 0) {
      program_.host = was_;
      changed_ = false;
      Call(callable, 4, random);
    }
    for (const auto& [result, copy] : results_)
      EXPECT_TRUE(SameBits(result, copy)) << "a result has changed later";
    return true;
  }

 private:
  // Whether a call may have errors of the hazard: all may, where it is there from the first on.
  bool MayFail(int call) const {
    if (changed_) return true;
    const bool unfit = outcome_.errors.contains(TraceError::kNotFrozen);
    return hazard_.prepare != nullptr && (unfit || ((hazard_.flags & kLasts) != 0 && call > 0));
  }

  void Expect(const absl::Status& status, int call) {
    const std::optional<TraceError> error = TraceErrorOf(status);
    ASSERT_TRUE(error && MayFail(call) && outcome_.errors.contains(*error))
        << "call " << call << ": " << status << "\n"
        << program_.host.f.ToString();
    EXPECT_TRUE(TellsThemApart(status.message())) << status;
    seen_.insert(*error);
  }

  // The same for all, as their functions are the same: it keeps what it has compiled.
  static EagerRunner& Eager() {
    static EagerRunner eager;
    return eager;
  }

  // What the call has to give: with these arguments, as the function is or as it was.
  absl::StatusOr<std::vector<Tensor>> WantNow() {
    const Host& is = program_.host;
    if (!changed_ || outcome_.seen) return Want(is, Eager());
    Host host = was_;
    host.inputs[0] = is.argument_is_captured ? is.inputs[2] : is.inputs[0];
    host.inputs[1] = is.one_argument_twice ? host.inputs[0] : is.inputs[1];
    return Want(host, Eager());
  }

  // Nothing: the host's exception has passed through.
  std::optional<Results> Got(const Callable& callable) {
    std::optional<Results> got;
    const auto call = [&] {
      ASSERT_TRUE(SetLazyOptions(OnVm()).ok());
      try {
        const auto [a, b] = ArgumentsOf(program_.host);
        got = callable.call(a, b);
      } catch (int) {
        EXPECT_EQ(program_.host.deed, Deed::kThrow);
        EXPECT_NE(callable.status().message().find("exception"), std::string::npos);
      }
    };
    if (program_.host.other_thread)
      std::thread(call).join();  // NOLINT: a test's
    else
      call();
    return got;
  }

  void Call(const Callable& callable, int call, Random& random) {
    if (call > 0) {
      // New values where the arguments lie.
      for (size_t k = 0; k < 2; ++k) {
        const Tensor& x = program_.host.inputs[k];
        const Tensor values = RandomTensors({x.shape()}, random)[0];
        std::copy_n(static_cast<const float*>(values.data()), x.num_elements(),
                    static_cast<float*>(x.data()));
      }
    }
    program_.told = absl::OkStatus();
    program_.kept.clear();
    const std::optional<Results> got = Got(callable);
    if (!got) return;
    if (!program_.told.ok()) Expect(program_.told, call);
    absl::StatusOr<std::vector<Tensor>> want = WantNow();
    absl::Status status = callable.status();
    for (const Array& result : *got) status.Update(result.status());
    if (!status.ok()) {
      // Of an operator, whoever calls it.
      if (!TraceErrorOf(status) && !want.ok()) return;
      return Expect(status, call);
    }
    ASSERT_TRUE(want.ok()) << want.status() << "\n" << program_.host.f.ToString();
    Check(*got, *want, call);
  }

  void Check(const Results& got, const std::vector<Tensor>& want, int call) {
    ASSERT_EQ(got.size(), want.size());
    const RandomFunction& f = program_.host.f;
    for (size_t k = 0; k < got.size(); ++k) {
      const absl::StatusOr<Tensor> found = got[k].tensor();
      if (!found.ok()) {
        Expect(found.status(), call);
        continue;
      }
      EXPECT_TRUE(SameBits(*found, want[k])) << "call " << call << ", result " << k << "\n"
                                             << f.ToString();
      // Arguments are written into; all else stays as it is.
      if (got.size() == f.results.size() && f.results[k] >= static_cast<int>(f.inputs.size()))
        results_.emplace_back(*found, found->Clone());
    }
    for (const Array& kept : program_.kept) {
      const absl::StatusOr<Tensor> found = kept.tensor();
      if (!found.ok()) {
        Expect(found.status(), call);
        continue;
      }
      Host host = program_.host;
      host.f.results = {static_cast<int>(f.inputs.size() + program_.host.at) - 1};
      const absl::StatusOr<std::vector<Tensor>> there = Want(host, Eager());
      ASSERT_TRUE(there.ok()) << there.status();
      EXPECT_TRUE(SameBits(*found, (*there)[0])) << "kept\n" << f.ToString();
    }
  }

  const Hazard& hazard_;
  const Way way_;
  const Outcome& outcome_;
  std::set<TraceError>& seen_;
  Program program_;
  Host was_;
  bool changed_ = false;
  std::vector<std::pair<Tensor, Tensor>> results_;  // and what they were
};

class HazardTest : public testing::TestWithParam<std::tuple<size_t, Way>> {};

TEST_P(HazardTest, IsRightOrAnError) {
  const Hazard& hazard = Hazards()[std::get<0>(GetParam())];
  const Way way = std::get<1>(GetParam());
  const auto wanted = FromEnvironment("KILN_TRACE_HAZARDS", 3);
  std::set<TraceError> seen;
  uint64_t programs = 0;
  const uint64_t first = FromEnvironment("KILN_SEED", 1);
  // What the page names is met, if there are enough programs; some classes are rare.
  const bool meets_all = wanted >= 50;
  const auto met = [&] { return !meets_all || seen == hazard.Of(way).errors; };
  for (uint64_t seed = first; (programs < wanted || (!met() && programs < 20 * wanted)) &&
                              seed < first + 20000 && !HasFailure();
       ++seed) {
    SCOPED_TRACE(absl::StrCat(hazard.name, ", KILN_SEED=", seed));
    Trial trial(hazard, way, seen);
    if (trial.Run(seed)) ++programs;
  }
  EXPECT_GE(programs, wanted) << hazard.name;
  if (meets_all) {
    std::string names;
    for (const TraceError error : seen) absl::StrAppend(&names, Name(error), " ");
    EXPECT_EQ(seen, hazard.Of(way).errors) << "seen: " << names;
  }
}

std::string NameOf(const testing::TestParamInfo<std::tuple<size_t, Way>>& info) {
  const Way way = std::get<1>(info.param);
  return absl::StrCat(Hazards()[std::get<0>(info.param)].name, "_",
                      way == Way::kTraced   ? "Traced"
                      : way == Way::kSecond ? "FrozenSecondCall"
                                            : "FrozenLater");
}

INSTANTIATE_TEST_SUITE_P(Hazards, HazardTest,
                         testing::Combine(testing::Range(size_t{0}, Hazards().size()),
                                          testing::Values(Way::kTraced, Way::kSecond, Way::kLater)),
                         NameOf);

// KILN_WRITE_TRACE_HAZARDS=1 prints the table anew.
TEST(TraceHazards, ThePageHasTheTable) {
  std::stringstream page;
  page << std::ifstream(KILN_SOURCE_DIR "/docs/trace.md").rdbuf();
  EXPECT_NE(page.str().find("\n\n" + HazardTable() + "\n"), std::string::npos) << HazardTable();
  if (FromEnvironment("KILN_WRITE_TRACE_HAZARDS", 0) != 0) std::cout << HazardTable();
}

}  // namespace
}  // namespace kiln
