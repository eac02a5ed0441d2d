// SPDX-License-Identifier: Apache-2.0
// Each lowering pass changes the statement of some kernel: a Halide that says it otherwise would
// make a pass idle without a word.
#include "halide_gen/cpu/lowering_passes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "halide_gen/common/worker.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

CodegenAnswer Served(const std::string& kernel, const std::string& schedule, Target target,
                     std::vector<std::string> without = {}) {
  return Serve({.kernel = kernel,
                .schedule = schedule,
                .target = std::string(target.name()),
                .sections = {"ir"},
                .without = std::move(without)});
}

// The passes that ran and those of them that changed something.
struct Passes {
  std::set<std::string> ran, fired;
};
void Note(const std::string& trace, Passes& passes) {
  for (absl::string_view line : absl::StrSplit(trace, '\n')) {
    if (!absl::ConsumePrefix(&line, "// after ")) continue;
    const bool idle = absl::ConsumeSuffix(&line, ": no change");
    absl::ConsumeSuffix(&line, " (needed)");
    passes.ran.emplace(line);
    if (!idle) passes.fired.emplace(line);
  }
}

struct Case {
  const char* kernel;
  std::vector<int64_t> at_most;
};

// In every candidate for them.
void NoteAll(const Kernel& kernel, const SizeClass& sizes, Passes& passes) {
  for (const char* level : {"x86-64-v3", "x86-64-v4"}) {
    const Machine& machine = ShippedMachine(*Target::Parse(level));
    for (const Candidate& candidate : CandidatesFor(kernel, sizes, machine)) {
      const CodegenAnswer answer =
          Served(Print(kernel), candidate.schedule.ToString(), machine.target);
      if (answer.outcome == CodegenAnswer::Outcome::kOk) Note(answer.sections[0].second, passes);
    }
  }
}

TEST(LoweringPasses, EachFiresInSomeKernel) {
  constexpr int64_t kAny = kUnbounded;
  const Case kCases[] = {
      {"dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = neg(in0[b, a])\n", {kAny, kAny}},
      {"dims a b\nsizes n0\nin 0 f32 [a, n0] dense\nin 1 f32 [a] dense\n"
       "s0 : f32 [a] = reduce max over b (mul(in0[a, 3*b], in1[a]))\n"
       "s1 : f32 [a, b] = exp(sub(in0[a, 3*b], s0[a]))\n"
       "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
       "out 0 f32 [a, b] dense = div(s1[a, b], s2[a])\n",
       {kAny, kAny, kAny}},
      {"dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [] dense\n"
       "out 0 f32 [a, b] dense = add(sin(in0[a, b]), in1[])\n",
       {kAny, kAny}},
      {"dims a b c\nin 0 f32 [a, c, b] dense\nout 0 f32 [a, b, c] dense = neg(in0[a, c, b])\n",
       {kAny, 3, 5}},
      {"dims a b c\nin 0 bool [a, c] dense\nout 0 f32 [a, b, c] dense = cast<f32>(in0[a, c])\n",
       {kAny, kAny, 2}},
      {"dims a b c\nin 0 f32 [a, c] dense\n"
       "out 0 u8 [a, b, c] dense = select(ne(in0[a, c], 0), u8:7, u8:9)\n",
       {kAny, kAny, 4}},
      {"dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\n"
       "s0 : f32 [a] = reduce max over b (in0[a, b])\n"
       "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\n"
       "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
       "out 0 f32 [a, b] dense = mul(div(s1[a, b], s2[a]), in1[a])\n",
       {kAny, 6}},
      {"dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [a] dense\nin 2 f32 [b] dense\n"
       "s0 : f32 [a] = reduce max over b (max(in0[a, b], in1[a]))\n"
       "s1 : f32 [a, b] = min(div(max(in0[a, b], in1[a]), s0[a]), in2[b])\n"
       "s2 : f32 [a] = reduce add over b (s1[a, b])\n"
       "out 0 f32 [a, b] dense = abs(mul(s1[a, b], s2[a]))\n",
       {16, 1024}},
      {"dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce max over b (in0[a, b])\n"
       "s1 : i64 [a] = reduce min over b (select(eq(in0[a, b], s0[a]), index(b), i64:9999))\n"
       "out 0 i64 [a] dense = s1[a]\n",
       {kAny, kAny}},
      {"dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [b] = reduce add over a (in0[a, b])\n"
       "out 0 f32 [b] dense = s0[b]\n",
       {kAny, kAny}},
  };
  Passes passes;
  for (const Case& of : kCases) {
    const absl::StatusOr<Kernel> kernel =
        ParseKernel(absl::StrCat("kernel v1 math 1\n", of.kernel));
    ASSERT_TRUE(kernel.ok()) << kernel.status() << of.kernel;
    NoteAll(*kernel, {of.at_most}, passes);
  }
  for (uint64_t seed = 0; seed < 40 && passes.fired.size() < AllLoweringPasses().size(); ++seed) {
    const Kernel kernel = RandomKernel(seed);
    NoteAll(kernel, {std::vector<int64_t>(kernel.dims.size(), kAny)}, passes);
  }
  for (const LoweringPass& pass : AllLoweringPasses())
    EXPECT_EQ(passes.fired.count(pass.name), 1u) << pass.name << ": " << pass.reason;
}

// Halide computes the lanes of a masked vector one by one if it meets a call that it does not mask.
TEST(LoweringPasses, TailsBesideScalarInputsAreVectors) {
  for (const char* type : {"bool", "i8", "u16", "i32", "u64", "bf16", "f32", "f64"}) {
    for (const char* rest :
         {"out 0 f32 [a, b] dense = add(in0[a, b], cast<f32>(in1[]))\n",
          "s0 : f32 [a] = reduce max over b (in0[a, b])\n"
          "out 0 f32 [a, b] dense = mul(sub(in0[a, b], s0[a]), cast<f32>(in1[]))\n"}) {
      const absl::StatusOr<Kernel> kernel = ParseKernel(absl::StrCat(
          "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\nin 1 ", type, " [] dense\n", rest));
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      const Machine& machine = ShippedMachine(*Target::Parse("x86-64-v4"));
      const Candidate first = CandidatesFor(*kernel, {{kUnbounded, kUnbounded}}, machine).front();
      const CodegenAnswer answer = Serve({.kernel = Print(*kernel),
                                          .schedule = first.schedule.ToString(),
                                          .target = std::string(machine.target.name()),
                                          .sections = {"stmt"}});
      ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
      const std::string& stmt = answer.sections[0].second;
      EXPECT_TRUE(absl::StrContains(stmt, "predicate (")) << stmt;
      const std::vector<std::string> stores = absl::StrSplit(stmt, "out0[");
      for (size_t k = 1; k < stores.size(); ++k)
        EXPECT_TRUE(absl::StartsWith(stores[k], "ramp(")) << stmt;
    }
  }
}

TEST(LoweringPasses, RunInTheOrderOfTheTableButForThoseLeftOut) {
  const std::string kernel =
      "kernel v1 math 1\ndims a\nin   0 f32 [a] dense\nout  0 f32 [a] dense = exp(in0[a])\n";
  const CodegenAnswer answer =
      Served(kernel, "pointwise", LowestTarget(), {"prefetch", "opaque_loads", "remainder_loops"});
  ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
  Passes passes;
  Note(answer.sections[0].second, passes);
  EXPECT_EQ(passes.ran.count("prefetch"), 0u);
  EXPECT_EQ(passes.ran.count("remainder_loops"), 0u);
  EXPECT_EQ(passes.ran.count("opaque_loads"), 1u);  // it is needed
  size_t at = 0;
  for (const LoweringPass& pass : AllLoweringPasses()) {
    if (passes.ran.count(pass.name) == 0) continue;
    const size_t here = answer.sections[0].second.find(absl::StrCat("// after ", pass.name));
    EXPECT_GT(here, at) << pass.name;
    at = here;
    // bench/ablate.py reads the mark.
    EXPECT_EQ(absl::StrContains(answer.sections[0].second,
                                absl::StrCat("// after ", pass.name, " (needed)")),
              pass.needed)
        << pass.name;
  }
}

}  // namespace
}  // namespace kiln
