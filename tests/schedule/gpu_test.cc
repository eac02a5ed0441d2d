// SPDX-License-Identifier: Apache-2.0
// The descriptions of GPUs, and what kernels cost on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernel/operands.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "schedule/picture.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr const char* kLevels[] = {"cuda-sm80", "cuda-sm90", "cuda-sm100", "cuda-sm120"};

constexpr char kSoftmax[] =
    "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce max over b (in0[a, b])\n"
    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\ns2 : f32 [a] = reduce add over b (s1[a, b])\n"
    "out 0 f32 [a, b] dense = div(s1[a, b], s2[a])\n";
constexpr char kLayerNorm[] =
    "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\nin 2 f32 [b] dense\n"
    "s0 : f32 [a] = reduce add over b (in0[a, b])\ns1 : f32 [a] = mul(s0[a], 0x1p-10)\n"
    "s2 : f32 [a, b] = sub(in0[a, b], s1[a])\n"
    "s3 : f32 [a] = reduce add over b (mul(s2[a, b], s2[a, b]))\n"
    "s4 : f32 [a] = sqrt(fma(s3[a], 0x1p-10, 0x1p-16))\n"
    "out 0 f32 [a, b] dense = fma(div(s2[a, b], s4[a]), in1[b], in2[b])\n";
constexpr char kRowSum[] =
    "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce add over b (in0[a, b])\n"
    "out 0 f32 [a] dense = s0[a]\n";
constexpr char kFullSum[] =
    "dims a\nin 0 f32 [a] dense\ns0 : f32 [] = reduce add over a (in0[a])\n"
    "out 0 f32 [] dense = s0[]\n";
constexpr char kColumnSum[] =
    "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [b] = reduce add over a (in0[a, b])\n"
    "out 0 f32 [b] dense = s0[b]\n";
constexpr char kColumnSoftmax[] =
    "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [b] = reduce max over a (in0[a, b])\n"
    "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[b]))\ns2 : f32 [b] = reduce add over a (s1[a, b])\n"
    "out 0 f32 [a, b] dense = div(s1[a, b], s2[b])\n";
constexpr char kTranspose[] =
    "dims a b\nin 0 f32 [b, a] dense\nout 0 f32 [a, b] dense = neg(in0[b, a])\n";
constexpr char kFma[] =
    "dims a\nin 0 f32 [a] dense\nin 1 f32 [a] dense\n"
    "out 0 f32 [a] dense = max(fma(in0[a], in1[a], in0[a]), 0)\n";
constexpr char kBias[] =
    "dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\n"
    "out 0 f32 [a, b] dense = tanh(add(in0[a, b], in1[b]))\n";

struct Case {
  const char* name;
  const char* expected;
  const char* text;
  std::vector<int64_t> extents;
};

// Extents with no less than 2^26 elements.
const std::vector<int64_t> kLarge[] = {{1 << 16, 1024}, {1 << 10, 1 << 16}, {1 << 14, 1 << 14}};

const Machine& Shipped(const char* level) { return ShippedMachine(*Target::Parse(level)); }
const Machine& H100() { return Shipped("cuda-sm90"); }

Kernel KernelOf(const std::string& text) {
  const auto kernel = ParseKernel("kernel v1 math 1\n" + text);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  return kernel.ok() ? *kernel : Kernel();
}

double NsOf(const Price& price) { return price.ns + price.idle_ns; }

double NsAt(const Kernel& kernel, const std::vector<int64_t>& extents, const std::string& schedule,
            const Machine& machine = H100()) {
  const absl::StatusOr<Schedule> parsed = Schedule::Parse(schedule, DeviceKind::kCuda);
  EXPECT_THAT(parsed, IsOk()) << schedule;
  return parsed.ok() ? NsOf(PriceOf(kernel, extents, machine, *parsed)) : 0;
}

std::string Offered(const std::vector<Candidate>& candidates) {
  std::string offered;
  for (const Candidate& candidate : candidates)
    absl::StrAppend(&offered, candidate.ns, " ", candidate.schedule.ToString(), "\n");
  return offered;
}

TEST(GpuMachine, EachLevelHasItsOwn) {
  for (const char* level : kLevels) EXPECT_EQ(Shipped(level).target.name(), level);
  EXPECT_EQ(ShippedMachine({DeviceKind::kCuda, 0}).target.name(), "cuda-sm80");
}

TEST(GpuMachine, FilesAreWhatIsPrinted) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(KILN_SOURCE_DIR "/schedule/cuda")) {
    if (file.path().extension() != ".machine") continue;
    SCOPED_TRACE(file.path());
    ++files;
    std::ifstream in(file.path());
    KILN_ASSERT_OK_AND_ASSIGN(const Machine machine,
                              ParseMachine(std::string{std::istreambuf_iterator<char>(in), {}}));
    KILN_ASSERT_OK_AND_ASSIGN(const Machine again, ParseMachine(ToString(machine)));
    EXPECT_EQ(ToString(again), ToString(machine));
    EXPECT_EQ(again.add_ns, machine.add_ns);
    // The lanes do as many multiplications with additions as the data sheet says.
    EXPECT_NEAR(2 / machine.add_ns, machine.gflops, 0.02 * machine.gflops);
    EXPECT_GT(machine.GbPerS(0), 2 * machine.GbPerS(1e9)) << "a cache is faster than memory";
  }
  EXPECT_EQ(files, 5);
}

TEST(GpuMachine, RefusesFactsOfOtherDevices) {
  const std::string text = ToString(H100());
  const auto refused = [](const std::string& wrong, const char* why) {
    EXPECT_THAT(ParseMachine(wrong), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)))
        << wrong;
  };
  refused(text + "gather 2\n", "\"gather 2\"");
  refused(text + "clock 2\n", "\"clock 2\"");
  refused(text + "add 1\n", "\"add 1\"");
  refused("kiln machine 4\nlaunch 1\n" + text.substr(text.find('\n') + 1), "target");
  std::string without = text;
  without.erase(without.find("lanes64"),
                without.find('\n', without.find("lanes64")) - without.find("lanes64") + 1);
  refused(without, "lacks lanes64");
}

TEST(GpuPrice, IsFiniteAndPositiveForWhateverIsOffered) {
  const uint64_t kernels = FromEnvironment("KILN_RANDOM_KERNELS", 300);
  constexpr uint64_t kSums = 16;  // and so many that add at places
  std::set<std::string> templates;
  for (uint64_t seed = 0; seed < kernels + kSums; ++seed) {
    const Kernel kernel = seed < kernels ? RandomKernel(seed) : RandomSums(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
    const Machine& machine = Shipped(kLevels[seed % 4]);
    const bool accepted = static_cast<bool>(AcceptsKernel(kernel, machine.target));
    ASSERT_TRUE(accepted || Scatters(kernel));  // sums of reductions run on the VM
    if (!accepted) continue;
    for (const int64_t bound : {kUnbounded, int64_t{0}, int64_t{1}, int64_t{7}, int64_t{5000}}) {
      const SizeClass sizes{std::vector<int64_t>(kernel.dims.size(), bound)};
      const std::vector<Candidate> candidates = CandidatesFor(kernel, sizes, machine);
      ASSERT_FALSE(candidates.empty());
      for (const Candidate& candidate : candidates) {
        const std::string text = candidate.schedule.ToString();
        EXPECT_TRUE(std::isfinite(candidate.ns) && candidate.ns > 0.999 * machine.launch_ns)
            << text;
        const absl::StatusOr<Schedule> again = Schedule::Parse(text, DeviceKind::kCuda);
        ASSERT_THAT(again, IsOk());
        EXPECT_EQ(again->ToString(), text);
        templates.insert(candidate.schedule.name());
      }
      const std::vector<int64_t> extents = RepresentativeExtents(sizes)[0];
      EXPECT_THAT(Picture(kernel, extents, candidates[0].schedule, machine), HasSubstr("price of"));
    }
  }
  EXPECT_EQ(templates.size(), ModelOf(DeviceKind::kCuda).templates().size());
}

// The least price of more elements is no lower; powers of two, whose rows are whole vectors.
TEST(GpuPrice, MoreIsNeverCheaper) {
  const uint64_t kernels = FromEnvironment("KILN_RANDOM_KERNELS", 300);
  int compared = 0;
  for (uint64_t seed = 0; seed < kernels; ++seed) {
    const Kernel kernel = RandomKernel(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
    const Machine& machine = Shipped(kLevels[seed % 4]);
    for (size_t dim = 0; dim < static_cast<size_t>(kernel.num_iterated()); ++dim) {
      std::vector<int64_t> extents(kernel.dims.size(), 64);
      double before = 0;
      for (; extents[dim] <= 1 << 16; extents[dim] *= 4) {
        const double now = NsOf(PriceOf(kernel, extents, machine));
        EXPECT_GE(now, before * 0.999) << "dim " << dim << " of " << extents[dim] << "\n"
                                       << Offered(CandidatesFor(kernel, {extents}, machine));
        before = now;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

// So it is along each dim of kernels of which each template is made for one, up to where a template
// with more launches takes over.
TEST(GpuPrice, MoreRowsAndLongerOnesAreNeverCheaper) {
  for (const char* text : {kSoftmax, kLayerNorm, kRowSum, kFullSum, kColumnSum, kColumnSoftmax,
                           kTranspose, kFma, kBias}) {
    const Kernel kernel = KernelOf(text);
    for (const char* level : kLevels) {
      for (size_t dim = 0; dim < kernel.dims.size(); ++dim) {
        for (const int64_t others : {16, 512, 8192}) {
          std::vector<int64_t> extents(kernel.dims.size(), others);
          double before = 0;
          for (extents[dim] = 16; extents[dim] <= 1 << 20; extents[dim] *= 4) {
            const double now = NsOf(PriceOf(kernel, extents, Shipped(level)));
            EXPECT_GE(now, before * 0.999)
                << level << " dim " << dim << " of " << testing::PrintToString(extents) << "\n"
                << text << Offered(CandidatesFor(kernel, {extents}, Shipped(level)));
            before = now;
          }
        }
      }
    }
  }
}

// Chains of operations over [a, b], cut in two at each place: one kernel takes no longer.
TEST(GpuPrice, AFusedChainIsNoDearerThanItsParts) {
  const char* kOps[] = {"neg(#)",         "tanh(#)",          "add(#, in1[a, b])",
                        "mul(#, in2[b])", "max(#, 0)",        "div(#, in1[a, b])",
                        "exp(#)",         "fma(#, #, in2[b])"};
  const auto chain = [&](uint64_t seed, int first, int last) {
    std::string value = "in0[a, b]";
    for (int k = first; k < last; ++k) {
      const std::string op = kOps[(seed >> (3 * k)) % 8];
      std::string next;
      for (const char c : op) next += c == '#' ? value : std::string(1, c);
      value = next;
    }
    // Operands that are not read are none of the kernel.
    std::string text = "dims a b\nin 0 f32 [a, b] dense\n";
    std::string named = value;
    int inputs = 1;
    for (const auto& [name, type] :
         {std::pair<std::string, std::string>{"in1[a, b]", "[a, b]"}, {"in2[b]", "[b]"}}) {
      if (named.find(name) == std::string::npos) continue;
      text += absl::StrCat("in ", inputs, " f32 ", type, " dense\n");
      const std::string own = absl::StrCat("IN", inputs, name.substr(3));
      for (size_t at; (at = named.find(name)) != std::string::npos;)
        named.replace(at, name.size(), own);
      ++inputs;
    }
    for (size_t at; (at = named.find("IN")) != std::string::npos;) named.replace(at, 2, "in");
    return KernelOf(absl::StrCat(text, "out 0 f32 [a, b] dense = ", named, "\n"));
  };
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const uint64_t mixed = seed * 0x9E3779B97F4A7C15;
    constexpr int kLength = 4;
    for (const std::vector<int64_t>& extents :
         {std::vector<int64_t>{3, 70}, {512, 768}, {4096, 4096}, {16384, 16384}}) {
      const Machine& machine = Shipped(kLevels[seed % 4]);
      const Price whole = PriceOf(chain(mixed, 0, kLength), extents, machine);
      for (int cut = 1; cut < kLength; ++cut) {
        const Price first = PriceOf(chain(mixed, 0, cut), extents, machine);
        const Price second = PriceOf(chain(mixed, cut, kLength), extents, machine);
        const double set = std::max({whole.bytes, first.bytes, second.bytes});
        EXPECT_LT(whole.ns, NsWithin(first, set, machine) + NsWithin(second, set, machine))
            << "seed " << seed << " cut at " << cut << " over " << testing::PrintToString(extents);
      }
    }
  }
}

TEST(GpuPrice, FollowsTheBandwidthOfLargeStreams) {
  const Kernel relu =
      KernelOf("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = max(in0[a], 0)\n");
  const std::vector<int64_t> large = {int64_t{1} << 26};
  const double bytes = 8.0 * (1 << 26);
  for (const char* level : kLevels) {
    const Machine& machine = Shipped(level);
    const Price price = PriceOf(relu, large, machine);
    EXPECT_NEAR(price.memory_ns, bytes / machine.GbPerS(bytes), 0.1 * price.memory_ns) << level;
    EXPECT_LT(price.ns, 1.3 * price.memory_ns + machine.launch_ns) << level;
  }
}

// A thread with four bytes on their way does not fill the memory's queue.
TEST(GpuPrice, WideAccessesAreFaster) {
  const Kernel relu =
      KernelOf("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = max(in0[a], 0)\n");
  const std::vector<int64_t> large = {int64_t{1} << 26};
  EXPECT_LT(NsAt(relu, large, "streaming vector=4"), NsAt(relu, large, "streaming vector=1"));
}

// Few rows leave most multiprocessors idle.
TEST(GpuPrice, LittleParallelismCosts) {
  const Kernel sum = KernelOf(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce add over b (in0[a, b])\n"
      "out 0 f32 [a] dense = s0[a]\n");
  const double few = NsOf(PriceOf(sum, std::vector<int64_t>{4, 1 << 20}, H100()));
  const double many = NsOf(PriceOf(sum, std::vector<int64_t>{1 << 12, 1 << 10}, H100()));
  EXPECT_GT(NsAt(sum, {4, 1 << 20}, "warp_rows threads=16 rows=8 levels=2"), 10 * many);
  EXPECT_GE(few, many);
}

// Threads of a block that find nothing left to share are no help: a column of one run, a row of one
// block.
TEST(GpuPrice, IdleThreadsAreNoHelp) {
  const Kernel columns = KernelOf(kColumnSum), rows = KernelOf(kRowSum);
  EXPECT_GE(NsAt(columns, {32, 4096}, "columns columns=32 rows=32 runs=32"),
            NsAt(columns, {32, 4096}, "columns columns=32 rows=1 runs=1"));
  EXPECT_LT(NsAt(columns, {1024, 4096}, "columns columns=32 rows=32 runs=32"),
            0.5 * NsAt(columns, {1024, 4096}, "columns columns=32 rows=1 runs=32"));
  EXPECT_GE(NsAt(rows, {64, 4096}, "long_rows blocks=16"),
            NsAt(rows, {64, 4096}, "long_rows blocks=2"));
  EXPECT_LT(NsAt(rows, {64, 65536}, "long_rows blocks=16"),
            0.5 * NsAt(rows, {64, 65536}, "warp_rows levels=2"));
}

TEST(GpuPrice, EachLaunchStarts) {
  const Kernel sum = KernelOf(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce add over b (in0[a, b])\n"
      "out 0 f32 [a] dense = s0[a]\n");
  Machine machine = H100();
  const auto at = [&] { return NsAt(sum, {64, 64}, "stages levels=1 outer_levels=1", machine); };
  const double before = at();
  machine.launch_ns += 1000;
  EXPECT_NEAR(at(), before + 2000, 1e-6) << "the sum, and the output";
}

TEST(GpuPrice, OneElementIsALaunch) {
  const Kernel kernel = KernelOf("dims\nin 0 f32 [] dense\nout 0 f32 [] dense = neg(in0[])\n");
  EXPECT_EQ(NsAt(kernel, {}, "stages"), H100().launch_ns);
}

// Kernels like those of the benchmark: what is chosen for each on every GPU.
TEST(GpuChoice, TakesTheTemplateMadeForTheKernel) {
  const Case kCases[] = {
      {"element-wise", "streaming", kFma, {1 << 24}},
      {"bias", "streaming", kBias, {1024, 1024}},
      {"softmax, rows of 768", "warp_rows", kSoftmax, {512, 768}},
      {"softmax, short rows", "warp_rows", kSoftmax, {4096, 128}},
      {"softmax, long rows", "long_rows", kSoftmax, {1024, 8192}},
      {"softmax, few rows", "long_rows", kSoftmax, {64, 65536}},
      {"layer norm", "warp_rows", kLayerNorm, {4096, 1024}},
      {"layer norm, long rows", "long_rows", kLayerNorm, {512, 16384}},
      {"transpose", "tiles", kTranspose, {1024, 1024}},
      {"transpose, large", "tiles", kTranspose, {8192, 8192}},
      {"row sums", "warp_rows", kRowSum, {4096, 1024}},
      {"row sums, long rows", "long_rows", kRowSum, {256, 1 << 16}},
      {"row sums, one row", "long_rows", kRowSum, {1, 1 << 22}},
      {"full sum", "long_rows", kFullSum, {1 << 20}},
      {"column sums", "columns", kColumnSum, {4096, 1024}},
      {"column sums, short", "columns", kColumnSum, {512, 4096}},
      {"column sums, one launch", "columns", kColumnSum, {1024, 1 << 16}},
      {"softmax of columns", "columns", kColumnSoftmax, {256, 4096}},
  };
  for (const Case& c : kCases) {
    const Kernel kernel = KernelOf(c.text);
    for (const char* level : kLevels) {
      const auto candidates = CandidatesFor(kernel, {c.extents}, Shipped(level));
      EXPECT_STREQ(candidates[0].schedule.name(), c.expected)
          << c.name << " on " << level << "\n"
          << Offered(candidates)
          << Picture(kernel, c.extents, candidates[0].schedule, Shipped(level));
    }
  }
}

// Nobody knows the length of a row or a column: of the two classes the usual one has the template
// of its length, and the other one that goes to any.
TEST(GpuChoice, UnknownLengthsTakeATemplateForThem) {
  const Case kCases[] = {
      {"softmax", "(warp|long)_rows long_rows", kSoftmax, {kUnbounded, kUnbounded}},
      {"layer norm", "(warp|long)_rows long_rows", kLayerNorm, {kUnbounded, kUnbounded}},
      {"row sums", "(warp|long)_rows long_rows", kRowSum, {kUnbounded, kUnbounded}},
      {"full sum", "long_rows long_rows", kFullSum, {kUnbounded}},
      {"column sums", "columns columns", kColumnSum, {kUnbounded, kUnbounded}},
      {"softmax of columns", "columns columns", kColumnSoftmax, {kUnbounded, kUnbounded}},
      {"transpose", "tiles", kTranspose, {kUnbounded, kUnbounded}},
      {"bias", "streaming", kBias, {kUnbounded, kUnbounded}},
  };
  for (const Case& c : kCases) {
    const Kernel kernel = KernelOf(c.text);
    for (const char* level : kLevels) {
      std::string names, offered;
      for (const SizeClass& sizes : SizeClassesFor(kernel, {c.extents})) {
        const auto candidates = CandidatesFor(kernel, sizes, Shipped(level));
        absl::StrAppend(&names, names.empty() ? "" : " ", candidates[0].schedule.name());
        absl::StrAppend(&offered, Offered(candidates), "\n");
      }
      EXPECT_THAT(names, MatchesRegex(c.expected)) << c.name << " on " << level << "\n" << offered;
    }
  }
}

// Of dense inputs that are read at dims, not beside them, with one launch for all outputs.
bool IsPlain(const Kernel& kernel) {
  for (const KernelInput& input : kernel.inputs)
    if (input.layout != Layout::kDense) return false;
  for (const KernelOutput& output : kernel.outputs)
    if (output.dims != kernel.outputs[0].dims) return false;
  for (const ScalarExpr* expr : Expressions(kernel))
    for (const ExprNode& node : expr->nodes())
      for (const IndexExpr& index : node.index)
        if (!index.IsDim()) return false;
  return true;
}

// A template that reads its inputs for each reduction and for all outputs is no dearer than a
// launch for each stage, which reads them for each.
TEST(GpuPrice, FewerPassesAreNoDearer) {
  const uint64_t kernels = FromEnvironment("KILN_RANDOM_KERNELS", 3000);
  std::map<std::string, int> compared;
  for (uint64_t seed = 0; seed < kernels; ++seed) {
    const Kernel kernel = RandomKernel(seed);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << Print(kernel));
    const Machine& machine = Shipped(kLevels[seed % 4]);
    for (const std::vector<int64_t>& large : kLarge) {
      if (kernel.num_iterated() != 2 || !IsPlain(kernel)) continue;
      std::vector<int64_t> extents(kernel.dims.size(), 1);
      std::copy(large.begin(), large.end(), extents.begin());
      std::map<std::string, double> least;
      const auto candidates = CandidatesFor(kernel, {extents}, machine);
      for (const Candidate& candidate : candidates)
        least.try_emplace(candidate.schedule.name(), candidate.ns);
      for (const char* name : {"columns", "tiles", "long_rows", "warp_rows"}) {
        if (least.count(name) == 0) continue;
        if (name == std::string("warp_rows") && large[1] > kReduceBlock) continue;
        ++compared[name];
        EXPECT_LE(least[name], 1.001 * least["stages"]) << name << "\n" << Offered(candidates);
      }
    }
  }
  EXPECT_EQ(compared.size(), 4u);
  for (const auto& [name, times] : compared) EXPECT_GE(times, 5) << name;
}

// What a kernel must read and write, its launches, and the longest chain of loads of a thread: 64
// of which four at least are on their way together.
TEST(GpuPrice, IsWhatBytesAndLaunchesTake) {
  const Case kCases[] = {
      {"column sums", "3", kColumnSum, {4096, 1024}},
      {"column sums, large", "1", kColumnSum, {1024, 1 << 17}},
      {"transpose", "1", kTranspose, {1024, 1024}},
      {"transpose, large", "1", kTranspose, {8192, 8192}},
      {"full sum", "3", kFullSum, {1 << 20}},
      {"full sum, large", "3", kFullSum, {1 << 27}},
      {"row sums", "1", kRowSum, {4096, 1024}},
      {"row sums, large", "1", kRowSum, {1 << 14, 1 << 14}},
      {"layer norm, large", "1", kLayerNorm, {1 << 17, 1024}},
  };
  for (const Case& c : kCases) {
    const Kernel kernel = KernelOf(c.text);
    for (const char* level : {"cuda-sm80", "cuda-sm90"}) {
      const Machine& machine = Shipped(level);
      const Schedule schedule = ChooseSchedule(kernel, {c.extents}, machine);
      const Price price = PriceOf(kernel, c.extents, machine, schedule);
      const double least =
          price.bytes / machine.GbPerS(price.bytes) + std::stod(c.expected) * machine.launch_ns;
      EXPECT_GT(NsOf(price), 0.999 * least) << c.name << " on " << level;
      EXPECT_LT(NsOf(price), 1.25 * least + 16 * machine.gpu.latency_ns)
          << c.name << " on " << level << "\n"
          << Picture(kernel, c.extents, schedule, machine);
    }
  }
}

// Rows stay in registers from pass to pass where they fit, and vectors are whole accesses.
TEST(GpuChoice, KeepsRowsInRegisters) {
  const Kernel softmax = KernelOf(
      "dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce max over b (in0[a, b])\n"
      "s1 : f32 [a, b] = exp(sub(in0[a, b], s0[a]))\ns2 : f32 [a] = reduce add over b (s1[a, b])\n"
      "out 0 f32 [a, b] dense = div(s1[a, b], s2[a])\n");
  EXPECT_THAT(ChooseSchedule(softmax, {{4096, 512}}, H100()).ToString(), HasSubstr("steps=8"));
  const Kernel relu =
      KernelOf("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = max(in0[a], 0)\n");
  for (const int64_t elements : {1 << 16, 1 << 20, 1 << 24}) {
    EXPECT_EQ(ChooseSchedule(relu, {{elements}}, H100()).ToString(), "streaming in_place=0:0")
        << elements;
  }
  EXPECT_STREQ(ChooseSchedule(relu, {{(1 << 20) + 1}}, H100()).name(), "streaming");
  EXPECT_EQ(ChooseSchedule(relu, {{kUnbounded}}, H100()).ToString(), "streaming in_place=0:0");
  EXPECT_STREQ(ChooseSchedule(softmax, {{kUnbounded, 4096}, {false, true}}, H100()).name(),
               "warp_rows");
}

// Threads walk down rows that share an operand where there are more rows than threads at once.
TEST(GpuChoice, WalksDownRowsOfLargeShapes) {
  const Kernel bias = KernelOf(kBias), chain = KernelOf(kFma);
  for (const char* level : kLevels) {
    SCOPED_TRACE(level);
    const auto chosen = [&](const Kernel& kernel, std::vector<int64_t> extents) {
      return ChooseSchedule(kernel, {std::move(extents)}, Shipped(level)).ToString();
    };
    for (const std::vector<int64_t>& extents : kLarge)
      EXPECT_THAT(chosen(bias, extents), HasSubstr("walked="));
    EXPECT_THAT(chosen(bias, {4, 1024}), Not(HasSubstr("walked=")));
    EXPECT_THAT(chosen(chain, {1 << 26}), Not(HasSubstr("walked=")));
  }
}

}  // namespace
}  // namespace kiln
