// SPDX-License-Identifier: Apache-2.0
// How much of compiled code the probes of its validation execute: what no probe reaches may be
// wrong and nobody sees it. Code is run one instruction at a time, and what was executed is
// compared with what there is. As many random kernels as KILN_RANDOM_KERNELS says;
// KILN_COVERAGE_DIR names a folder for the code and what is missed of it, as offsets.
#include <elf.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/cpu_features.h"
#include "compiler/kernel_service.h"
#include "exec/validate/validation.h"
#include "kernel/text.h"
#include "schedule/choose.h"
#include "schedule/device.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/kernel/random.h"

namespace kiln {
namespace {

constexpr size_t kMostCode = size_t{4} << 20;
constexpr size_t kLongestInstruction = 15;  // bytes
constexpr size_t kMostPadding = 15;         // after a function
constexpr size_t kStub = 16;                // a jump to an imported function

// What the handler of the trap after each instruction sees. The file offset of an instruction is
// its address less `base`.
struct Stepped {
  uintptr_t begin = 0, end = 0, base = 0;
  bool executed[kMostCode] = {};
};
Stepped& TheStepped() {
  static Stepped stepped;
  return stepped;
}

void OnStep(int, siginfo_t*, void* context) {
  const auto at =
      static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  Stepped& stepped = TheStepped();
  if (at >= stepped.begin && at < stepped.end && at - stepped.base < kMostCode)
    stepped.executed[at - stepped.base] = true;
}

// The mapping that holds the code.
void FindCode(KernelFn code) {
  Stepped& stepped = TheStepped();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    uintptr_t begin = 0, end = 0, offset = 0;
    char dash = 0;
    std::string rights;
    words >> std::hex >> begin >> dash >> end >> rights >> offset;
    const auto at = reinterpret_cast<uintptr_t>(code);
    if (at < begin || at >= end) continue;
    stepped.begin = begin;
    stepped.end = end;
    stepped.base = begin - offset;
    stepped.executed[at - stepped.base] = true;
  }
}

// Steps through a launch, unless it is so long that this would take minutes.
int CallStepped(const Kernel& kernel, KernelFn code, void** argv) {
  constexpr int64_t kMostSteppedThrough = 1 << 14;
  int64_t elements = 1;
  for (int d = 0; d < kernel.num_iterated(); ++d)
    elements *= *static_cast<int32_t*>(argv[1 + kernel.inputs.size() + static_cast<size_t>(d)]);
  if (elements > kMostSteppedThrough) return code(argv);
  FindCode(code);
  asm volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "cc", "memory");
  const int error = code(argv);
  asm volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "cc", "memory");
  return error;
}

struct Part {
  size_t begin = 0, end = 0;
};

// The parts of a file that hold code.
std::vector<Part> CodeOf(const std::string& elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  std::vector<Part> parts;
  for (int k = 0; k < header.e_shnum; ++k) {
    Elf64_Shdr part;
    std::memcpy(&part, elf.data() + header.e_shoff + static_cast<size_t>(k) * sizeof(part),
                sizeof(part));
    if (part.sh_type == SHT_PROGBITS && (part.sh_flags & SHF_EXECINSTR) != 0)
      parts.push_back({part.sh_offset, part.sh_offset + part.sh_size});
  }
  return parts;
}

// Runs of code that are longer than an instruction and of which nothing was executed. Jumps to
// imported functions, which are the last, do not count.
std::vector<Part> Unreached(const std::string& elf) {
  std::vector<Part> gaps;
  for (Part part : CodeOf(elf)) {
    part.end -= std::min(part.end - part.begin, kNumImports * kStub);
    size_t last = part.begin;
    for (size_t at = part.begin; at <= part.end; ++at) {
      if (at < part.end && !TheStepped().executed[at]) continue;
      if (at - last > kLongestInstruction + kMostPadding) gaps.push_back({last, at});
      last = at;
    }
  }
  return gaps;
}

class ProbeCoverage : public testing::Test {
 protected:
  ProbeCoverage() {
    struct sigaction step = {};
    step.sa_sigaction = &OnStep;
    step.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &step, nullptr);
    options_.cache.enabled = false;
    service_ = std::make_unique<KernelService>(options_);
  }
  ~ProbeCoverage() override { signal(SIGTRAP, SIG_DFL); }

  // The share of a kernel's code that is executed.
  void Measure(const std::string& name, const Kernel& kernel) {
    const SizeClass sizes{std::vector<int64_t>(kernel.dims.size(), kUnbounded)};
    Measure(name, kernel, ChooseSchedule(kernel, sizes, ShippedMachine(HostTarget())));
  }
  void Measure(const std::string& name, const Kernel& kernel, const Schedule& schedule) {
    KILN_ASSERT_OK_AND_ASSIGN(
        const CodegenAnswer answer,
        service_->Emit(service_->Identify(Print(kernel), schedule.ToString()), {"elf"}));
    const std::string& elf = answer.sections[0].second;
    const ValidationRequest request{elf, Print(kernel), schedule.Info().ToString(), {}, {}};
    const std::clock_t start = std::clock();
    KILN_ASSERT_OK(ValidateKernel(request).status());
    const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::fill(std::begin(TheStepped().executed), std::end(TheStepped().executed), false);
    KILN_ASSERT_OK(ValidateKernel(request, [&](KernelFn code, void** argv) {
                     return CallStepped(kernel, code, argv);
                   }).status());
    size_t all = 0, missed = 0;
    for (const Part& part : CodeOf(elf)) all += part.end - part.begin;
    const std::vector<Part> gaps = Unreached(elf);
    for (const Part& gap : gaps) missed += gap.end - gap.begin;
    const double share = 1 - static_cast<double>(missed) / static_cast<double>(all);
    shares_.push_back(share);
    if (const char* const dir = std::getenv("KILN_COVERAGE_DIR"); dir != nullptr) {
      std::ofstream(absl::StrCat(dir, "/", name, ".so"), std::ios::binary) << elf;
      std::ofstream text(absl::StrCat(dir, "/", name, ".txt"));
      text << Print(kernel) << schedule.ToString() << "\n" << std::hex;
      for (const Part& gap : gaps) text << gap.begin << " " << gap.end << "\n";
    }
    std::cout << absl::StrFormat("%s: %.1f %% of %d bytes, %d gaps, %.1f ms: %s", name, 100 * share,
                                 all, gaps.size(), ms, schedule.ToString())
              << std::endl;
  }

  CompileOptions options_;
  std::unique_ptr<KernelService> service_;
  std::vector<double> shares_;
};

// Element-wise code has no part for extents that probes cannot have: tails, tasks, and the stores
// for whole lines all run.
TEST_F(ProbeCoverage, OfElementwiseKernelsIsWhole) {
  Measure("line", *ParseKernel("kernel v1 math 1\ndims a\nin   0 f32 [a] dense\n"
                               "out  0 f32 [a] dense = mul(in0[a], in0[a])\n"));
  Measure("rows", *ParseKernel("kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
                               "in   1 f32 [b] dense\n"
                               "out  0 f32 [a, b] dense = add(in0[a, b], in1[b])\n"));
  Measure("transposed", *ParseKernel("kernel v1 math 1\ndims a b\nin   0 f32 [b, a] dense\n"
                                     "out  0 f32 [a, b] dense = neg(in0[b, a])\n"));
  Measure("planes", *ParseKernel("kernel v1 math 1\ndims a b c\nin   0 f32 [a, c, b] dense\n"
                                 "in   1 f32 [a, b, c] dense\n"
                                 "out  0 f32 [a, b, c] dense = add(in0[a, c, b], in1[a, b, c])\n"));
  // With AVX2, tiles of "transposed" and "planes" at the end of a row have a loop of their own, and
  // that once more for rows of whole lines, which end with a whole tile: nothing runs it.
  const double least = HostTarget() == *Target::Parse("x86-64-v4") ? 0.94 : 0.75;
  for (const double share : shares_) EXPECT_GE(share, least);
}

// Pieces of a row. That of an operand without elements is not launched.
TEST_F(ProbeCoverage, OfCutAndMovedRows) {
  Measure("moved", *ParseKernel("kernel v1 math 1\ndims a b c\nin   0 f32 [a, b, c] dense\n"
                                "out  0 f32 [b, c, a] dense = neg(in0[a, b, c])\n"));
  Measure("joined",
          *ParseKernel("kernel v1 math 1\ndims a b\nsizes n0\nin   0 f32 [a, n0] dense\n"
                       "in   1 f32 [a, b] dense\nout  0 f32 [a, b] dense = "
                       "guard(lt(index(b), extent(n0)), in0[a, b], in1[a, b])\n"),
          *Schedule::Parse("memory_order segments=1 in_place=1:0", DeviceKind::kCpu));
  // Rows of "joined" that are one vector at most have code of their own, and that once more for
  // whole lines, which are two vectors of AVX2: nothing runs it, nor loops of an empty part that
  // only prefetch.
  const double least = HostTarget() == *Target::Parse("x86-64-v4") ? 0.78 : 0.66;
  for (const double share : shares_) EXPECT_GE(share, least);
}

// Of a reduction the levels of its tree that only longer rows have are left out here.
TEST_F(ProbeCoverage, OfReductions) {
  Measure("row", *ParseKernel("kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
                              "s0 : f32 [a] = reduce add over b (in0[a, b])\n"
                              "out  0 f32 [a, b] dense = sub(in0[a, b], s0[a])\n"));
  Measure("column", *ParseKernel("kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
                                 "s0 : f32 [b] = reduce add over a (in0[a, b])\n"
                                 "out  0 f32 [b] dense = s0[b]\n"));
  const double least = HostTarget() == *Target::Parse("x86-64-v4") ? 0.8 : 0.74;
  for (const double share : shares_) EXPECT_GE(share, least);
}

TEST_F(ProbeCoverage, OfRandomKernels) {
  const uint64_t count = FromEnvironment("KILN_RANDOM_KERNELS", 2);
  for (uint64_t seed = 0; seed < count; ++seed)
    Measure(absl::StrCat("random", seed), RandomKernel(seed + 702));
  double sum = 0;
  for (const double share : shares_) sum += share;
  EXPECT_GE(sum, 0.8 * static_cast<double>(shares_.size()));
}

}  // namespace
}  // namespace kiln
