// SPDX-License-Identifier: Apache-2.0
// Random graphs from an empty cache, then once more from what that left: every kernel is validated,
// none is built twice, and the bits are the VM's. 12 graphs of each kind, or as many as
// KILN_RANDOM_GRAPHS says. Kernels whose code was broken on purpose are never used.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "exec/validate/probe_fit.h"
#include "exec/validate/validator.h"
#include "graph/text.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/random_moves.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

int NumGraphs() { return static_cast<int>(FromEnvironment("KILN_RANDOM_GRAPHS", 12)); }

absl::StatusOr<std::vector<Tensor>> RunGraph(const Graph& graph, const std::vector<Tensor>& tensors,
                                             const CompileOptions& options) {
  KILN_ASSIGN_OR_RETURN(Model model, Compile(graph, options));
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (size_t k = 0; k < tensors.size(); ++k)
    inputs.emplace_back(graph.value(graph.inputs()[k]).name, tensors[k]);
  return model.Run(inputs);
}

void ExpectSameBits(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Comparison comparison = CompareBits(got[i], want[i]);
    EXPECT_TRUE(comparison.ok) << "output " << i << ": " << comparison.what;
  }
}

void CheckColdAndWarm(const Graph& graph, const std::vector<Tensor>& inputs,
                      const std::string& cache) {
  CompileOptions options;
  options.threads = 1;
  options.cache.directory = cache;
  CompileOptions vm = options;
  vm.compile_mode = CompileMode::kNever;
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, RunGraph(graph, inputs, vm));
  for (const bool warm : {false, true}) {
    SCOPED_TRACE(warm ? "warm" : "cold");
    options.kernels = std::make_shared<KernelService>(options);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, RunGraph(graph, inputs, options));
    ExpectSameBits(got, want);
    const KernelCounts counts = options.kernels->counts();
    EXPECT_EQ(counts.kernels, counts.cached + counts.built + counts.vm);
    EXPECT_EQ(counts.failed, 0);
    EXPECT_EQ(counts.unvalidated, 0);
    if (warm) {
      EXPECT_EQ(counts.built, 0);
    }
    options.kernels = nullptr;  // publishes
  }
}

class ValidatedGraphs : public testing::TestWithParam<int> {};
TEST_P(ValidatedGraphs, ColdThenWarm) {
  const TempDir cache;
  for (int seed = GetParam(); seed < NumGraphs() && !HasFailure(); seed += 4) {
    KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net,
                              MakeRandomNet(static_cast<uint64_t>(seed) + 5000, 20'000));
    SCOPED_TRACE(absl::StrCat("net ", seed, "\n", Print(net.graph)));
    if (!net.library) CheckColdAndWarm(net.graph, net.inputs, cache.path());
  }
}
TEST_P(ValidatedGraphs, OfMovesColdThenWarm) {
  const TempDir cache;
  for (int seed = GetParam(); seed < 2 * NumGraphs() && !HasFailure(); seed += 4) {
    const absl::StatusOr<RandomMoves> moves = MakeRandomMoves(static_cast<uint64_t>(seed));
    if (!moves.ok()) continue;  // a step that some value does not allow
    SCOPED_TRACE(absl::StrCat("moves ", seed, "\n", Print(moves->graph)));
    CheckColdAndWarm(moves->graph, moves->inputs, cache.path());
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, ValidatedGraphs, testing::Range(0, 4));

program::Program ProgramOf(const Kernel& kernel, const SizeClass& sizes) {
  program::Program program;
  program::KernelDef* const def = program.add_kernels();
  def->set_text(Print(kernel));
  program::KernelChoice* const choice = def->add_choices();
  choice->set_schedule(ChooseSchedule(kernel, sizes, ShippedMachine(HostTarget())).ToString());
  for (const int64_t most : sizes.at_most) choice->add_at_most(most == kUnbounded ? -1 : most);
  return program;
}

// Rows that have fewer elements than a vector, of values that are expensive enough to be made
// first.
TEST(ShortRows, OfDearValuesAreReducedRight) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a b c\nsizes n0\nin   0 f32 [a, b, c] dense\n"
      "in   1 f32 [a, n0, c] dense\nin   2 i64 [a, c] dense\n"
      "s0 : f32 [a, c] = reduce max over b (in0[a, b, c])\n"
      "s1 : f32 [a, c] = reduce add over b (exp(sub(in0[a, b, c], s0[a, c])))\n"
      "s2 : f32 []     = reduce add over a c (neg(sub(sub(in1[a, [in2[a, c]], c], s0[a, c]), "
      "log(s1[a, c]))))\n"
      "out  0 f32 [] dense = s2[]\n");
  const TempDir cache;
  CompileOptions options;
  options.cache.directory = cache.path();
  for (const int64_t most : {1, 2, 3, 4, 7, 8, 15, 16, 17, 40}) {
    SCOPED_TRACE(most);
    KernelService service(options);
    KILN_ASSERT_OK(
        service.GetAll(ProgramOf(kernel, {{kUnbounded, kUnbounded, most, kUnbounded}})).status());
    EXPECT_EQ(service.counts().failed, 0);
    EXPECT_EQ(service.counts().vm, 0);
  }
}

// Launches that reduce nothing of what is not empty are the VM's, whose sum of none is +0: code of
// an open class looks for a first element, which may lie behind the operand.
TEST(EmptySlices, AreReducedRight) {
  const Graph graph = *ParseGraph(
      "graph g\ninput x : f32 [4, m]\nt = slice(x) {starts = [2], ends = [9999], axes = [1]}\n"
      "s = reduce_sum(t) {axes = [1], keepdims = 0}\ny = mul(s, s)\nz = neg(s)\noutput y\n"
      "output z\n");
  const TempDir cache;
  for (const int64_t m : {9, 2}) {
    Tensor x = Tensor::Allocate(DType::kF32, {4, m});
    for (int64_t i = 0; i < x.num_elements(); ++i) static_cast<float*>(x.data())[i] = 1;
    CheckColdAndWarm(graph, {x}, cache.path());
  }
}

// Compiled code of all candidates' schedules, and the VM, between guard pages: they touch nothing
// but their operands, which end where what is read of them does.
class BetweenGuardPages : public testing::Test {
 protected:
  void Check(const Kernel& kernel, const std::vector<int64_t>& extents, const SizeClass& sizes) {
    std::vector<int64_t> at_most = sizes.at_most;
    std::replace(at_most.begin(), at_most.end(), kUnbounded, int64_t{-1});
    for (const auto& [target, service] : services_) {
      const std::vector<Candidate> all = CandidatesFor(kernel, sizes, ShippedMachine(target));
      for (size_t k = 0; k < all.size(); ++k) {
        if (met_++ % every_ != 0) continue;
        const Schedule& schedule = all[k].schedule;
        SCOPED_TRACE(absl::StrCat(target.name(), ": ", schedule.ToString(), "\nat most ",
                                  FormatClass(at_most), "\n", Print(kernel)));
        KILN_ASSERT_OK_AND_ASSIGN(
            const CodegenAnswer answer,
            service->Emit(service->Identify(Print(kernel), schedule.ToString()), {"elf"}));
        ASSERT_EQ(answer.outcome, CodegenAnswer::Outcome::kOk) << answer.error;
        KILN_EXPECT_OK(validator_
                           .Validate({answer.sections[0].second, Print(kernel),
                                      schedule.Info().ToString(), at_most, extents})
                           .status());
        ++checked_;
      }
    }
  }

  // Of a class of all extents, and of one where those of the iteration space are known.
  void CheckBoth(const Kernel& kernel, const std::vector<int64_t>& extents) {
    SizeClass sizes{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
    Check(kernel, extents, sizes);
    std::copy_n(extents.begin(), kernel.num_iterated(), sizes.at_most.begin());
    Check(kernel, extents, sizes);
  }

  void SetUp() override {
    for (const auto& [target, name, doc] : AllTargets()) {
      if (!target.compiles() || !target.RunsOn(HostTarget())) continue;
      CompileOptions options;
      options.target = target;
      options.cache.enabled = false;
      services_.emplace_back(target, std::make_unique<KernelService>(options));
    }
  }

  std::vector<std::pair<Target, std::unique_ptr<KernelService>>> services_;
  Validator validator_{"", 1};
  size_t every_ = 1, met_ = 0, checked_ = 0;  // candidates
};

TEST_F(BetweenGuardPages, ShortRowsThatAreSlices) {
  const Kernel kernel = *ParseKernel(
      "kernel v1 math 1\ndims a b\nsizes n0 n1\nin   0 f32 [a, n0] dense\nin   1 f32 [] dense\n"
      "s0 : f32 [a] = reduce min over b (min(in0[a, b+|n1|], in1[]))\n"
      "out  0 f32 [a] dense = s0[a]\n");
  Check(kernel, {2, 7, 70, 63}, {{2, 7, kUnbounded, kUnbounded}});
}

// Every 17th candidate of a few kernels, or all of as many as KILN_RANDOM_KERNELS says.
class Views : public BetweenGuardPages, public testing::WithParamInterface<int> {};
TEST_P(Views, AreReadWithinTheirOperands) {
  const uint64_t kernels = FromEnvironment("KILN_RANDOM_KERNELS", 0);
  if (kernels == 0) every_ = 17;
  for (auto seed = static_cast<uint64_t>(GetParam()); seed < std::max<uint64_t>(kernels, 24);
       seed += 4) {
    const Kernel kernel = RandomViews(seed);
    std::vector<int64_t> wanted = MakeRandomRun(kernel, seed, 3000).extents;
    for (int64_t& extent : wanted) extent = seed / 4 % 2 == 0 ? extent : 1 + extent % 9;
    const auto extents = ProbeFitter(kernel, {}).FitFreely(std::move(wanted), seed);
    if (extents.has_value()) CheckBoth(kernel, *extents);
  }
  EXPECT_GT(checked_, 0u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, Views, testing::Range(0, 4));

// The bytes of an ELF file's functions, as offsets.
std::vector<size_t> CodeOf(const std::string& elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  std::vector<size_t> code;
  for (int k = 0; k < header.e_shnum; ++k) {
    Elf64_Shdr part;
    std::memcpy(&part, elf.data() + header.e_shoff + static_cast<size_t>(k) * sizeof(part),
                sizeof(part));
    if (part.sh_type != SHT_PROGBITS || (part.sh_flags & SHF_EXECINSTR) == 0) continue;
    for (size_t at = part.sh_offset; at < part.sh_offset + part.sh_size; ++at) code.push_back(at);
  }
  return code;
}

// One bit of the code of a right kernel is wrong: most are refused. What passes gives the VM's bits
// on other extents too (padding, a prefetch, what no extents reach), but for one in 200 or so: the
// code, and so the bits, are those of the processor at hand.
TEST(BrokenCode, IsRefusedOrHarmless) {
  SetLogLevel(LogLevel::kOff);
  CompileOptions options;
  options.cache.enabled = false;
  KernelService service(options);
  Validator validator("", 1);
  std::mt19937 random(1);
  int refused = 0, late = 0, tried = 0;
  const int kernels = std::max(3, NumGraphs() / 4);
  for (int seed = 0; seed < kernels; ++seed) {
    const Kernel kernel = RandomKernel(static_cast<uint64_t>(seed) + 100);
    const SizeClass any{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
    const Schedule schedule = ChooseSchedule(kernel, any, ShippedMachine(HostTarget()));
    KILN_ASSERT_OK_AND_ASSIGN(
        const CodegenAnswer answer,
        service.Emit(service.Identify(Print(kernel), schedule.ToString()), {"elf"}));
    ValidationRequest request{
        answer.sections[0].second, Print(kernel), schedule.Info().ToString(), {}, {}};
    KILN_ASSERT_OK(validator.Validate(request).status());
    const std::vector<size_t> code = CodeOf(request.code);
    ASSERT_FALSE(code.empty());
    for (int k = 0; k < 12; ++k, ++tried) {
      ValidationRequest broken = request;
      const size_t at = code[random() % code.size()];
      broken.code[at] = static_cast<char>(broken.code[at] ^ (1 << random() % 8));
      const absl::StatusOr<Validation> done = validator.Validate(broken);
      if (!done.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(done.status())) << done.status();
        ++refused;
        continue;
      }
      broken.example = MakeRandomRun(kernel, random(), 3000).extents;
      if (validator.Validate(broken).ok()) continue;
      std::cout << "seed " << seed << " byte " << at << " is refused for other extents alone\n";
      ++late;
    }
  }
  std::cout << refused << " of " << tried << " broken kernels are refused, " << late
            << " more for extents that are no probes\n";
  EXPECT_GT(refused, tried / 4);
  EXPECT_LE(late, 2 + tried / 200);
  SetLogLevel(LogLevel::kWarning);
}

}  // namespace
}  // namespace kiln
