// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/non_temporal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "halide_gen/common/worker.h"
#include "kernel/abi.h"
#include "tests/halide_gen/harness.h"

namespace kiln {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A loop with these instructions, and the entry, as LLVM prints them.
std::string Assembly(const std::string& body) {
  return absl::StrCat(
      "\t.section\t.rodata,\"a\",@progbits\n.LCPI0_0:\n\t.long\t1\n"
      "\t.section\t.text.k,\"ax\",@progbits\n\t.globl\tk\n\t.type\tk,@function\nk:\n.LBB0_1:\n",
      body,
      "\tjne\t.LBB0_1\n\tretq\n.Lfunc_end0:\n\t.size\tk, .Lfunc_end0-k\n"
      "\t.section\t.text.k_argv,\"ax\",@progbits\n\t.globl\tk_argv\nk_argv:\n\tcallq\tk@PLT\n"
      "\tretq\n\t.section\t\".note.GNU-stack\",\"\",@progbits\n");
}

// The lines of `text` after the line `label`, up to the next label.
std::string After(const std::string& text, const std::string& label) {
  const size_t at = text.find("\n" + label + ":\n");
  if (at == std::string::npos) return "no " + label;
  const size_t begin = at + label.size() + 3;
  size_t end = begin;
  while (end < text.size() && text[end] == '\t') end = text.find('\n', end) + 1;
  return text.substr(begin, end - begin);
}

TEST(WithNonTemporalStores, AlignedStoresToMemoryAreThereTwice) {
  const std::string text = WithNonTemporalStores(
      Assembly("\tprefetcht0\t512(%rsi)\n\tvmovaps\t.LCPI0_0(%rip), %zmm1\n"
               "\tvmovaps\t%zmm0, 64(%rdi,%rax,4)  # a store\n\tvmovdqa\t%ymm2, (%rdi)\n"));
  EXPECT_EQ(After(text, ".LBB0_1"),
            "\tprefetcht0\t512(%rsi)\n\tvmovaps\t.LCPI0_0(%rip), %zmm1\n"
            "\tvmovups\t%zmm0, 64(%rdi,%rax,4)\n\tvmovdqu\t%ymm2, (%rdi)\n"
            "\tjne\t.LBB0_1\n\tretq\n");
  EXPECT_EQ(After(text, ".LBB0_1.lines"),
            "\tprefetcht0\t512(%rsi)\n\tvmovaps\t.LCPI0_0(%rip), %zmm1\n"
            "\tvmovntps\t%zmm0, 64(%rdi,%rax,4)\n"
            "\tvmovntps\t%ymm2, (%rdi)\n\tjne\t.LBB0_1.lines\n\tsfence\n\tretq\n");
  EXPECT_THAT(text, HasSubstr("\t.size\tk.lines, .Lfunc_end0.lines-k.lines\n"));
}

// The function that is jumped to returns for the one that has written.
TEST(WithNonTemporalStores, WhoLeavesWithAJumpHasWritten) {
  const std::string text = WithNonTemporalStores(
      Assembly("\tvmovaps\t%zmm0, (%rdi)\n\tje\tmemcpy@PLT\n\tjmpq\t*%rax\n"));
  EXPECT_EQ(After(text, ".LBB0_1.lines"),
            "\tvmovntps\t%zmm0, (%rdi)\n\tsfence\n\tje\tmemcpy@PLT\n\tsfence\n\tjmpq\t*%rax\n"
            "\tjne\t.LBB0_1.lines\n\tsfence\n\tretq\n");
}

TEST(WithPrefetches, WhatStandsThereTwiceIsNotBesideStreams) {
  const std::string named = WithPrefetches(
      Assembly("\tprefetchnta\t(%rsi)\n\tprefetchnta\t(%rdi)\n\tvaddps\t%zmm0, %zmm0, %zmm0\n"
               "\tprefetchnta\t(%rdi)\n\tprefetchnta\t64(%rsi)\n\tvmovaps\t%zmm0, (%rdi)\n"));
  EXPECT_THAT(named, Not(HasSubstr("prefetchnta")));
  const std::string text = WithNonTemporalStores(named);
  EXPECT_THAT(
      After(text, ".LBB0_1"),
      HasSubstr("\tprefetcht0\t(%rsi)\n\tprefetcht0\t(%rdi) # not with non-temporal stores\n"
                "\tvaddps\t%zmm0, %zmm0, %zmm0\n\tprefetcht0\t64(%rsi)\n\tvmovups"));
  EXPECT_THAT(After(text, ".LBB0_1.lines"),
              HasSubstr("\tprefetcht0\t(%rsi)\n\tvaddps\t%zmm0, %zmm0, %zmm0\n"
                        "\tprefetcht0\t64(%rsi)\n\tvmovntps"));
}

TEST(WithPrefetches, TwoBlocksMayAskForOneLine) {
  const std::string text = WithPrefetches(
      "\tprefetchnta\t(%rsi)\n\tjne\t.LBB0_1\n\tprefetchnta\t(%rsi)\n.LBB0_1:\n"
      "\tprefetchnta\t(%rsi)\n");
  EXPECT_EQ(text,
            "\tprefetcht0\t(%rsi)\n\tjne\t.LBB0_1\n\tprefetcht0\t(%rsi)\n.LBB0_1:\n"
            "\tprefetcht0\t(%rsi)\n\n");
}

TEST(WithNonTemporalStores, TheEntryChooses) {
  const std::string text = WithNonTemporalStores(Assembly("\tvmovaps\t%zmm0, (%rdi)\n"));
  EXPECT_EQ(After(text, "k_argv.anywhere"),
            "\tcallq\tk@PLT\n\tretq\n\t.section\t"
            "\".note.GNU-stack\",\"\",@progbits\n");
  EXPECT_THAT(After(text, "k_argv.lines"), HasSubstr("\tcallq\tk.lines@PLT\n"));
  EXPECT_THAT(After(text, "k_argv"),
              HasSubstr(absl::StrCat("\tcmpb\t$0, ", offsetof(LaunchContext, non_temporal),
                                     "(%rax)\n\tjne\tk_argv.lines\n\tjmp\tk_argv.anywhere\n")));
}

TEST(WithNonTemporalStores, TheEntryLooksAtExtents) {
  const std::vector<LineExtent> extents = {{0, 16}, {2, 64}};
  const std::string text =
      WithNonTemporalStores(Assembly("\tvmovaps\t%zmm0, (%rdi)\n"), extents, 3);
  EXPECT_THAT(After(text, "k_argv"),
              StartsWith("\tmovq\t32(%rdi), %rax\n\ttestl\t$15, (%rax)\n\tjne\tk_argv.anywhere\n"
                         "\tmovq\t48(%rdi), %rax\n\ttestl\t$63, (%rax)\n\tjne\tk_argv.anywhere\n"
                         "\tmovq\t(%rdi), %rax\n"));
}

TEST(WithNonTemporalStores, OneFormWithoutNonTemporalStores) {
  for (const std::string body :
       {"\tvmovups\t%zmm0, (%rdi)\n", "\tvmovaps\t%zmm0, 64(%rsp)\n", "\tvmovaps\t(%rdi), %zmm0\n",
        "\tvmovaps\t%zmm0, %zmm1\n", "\tvmovaps\t%zmm0, (%rdi) {%k1}\n"}) {
    const std::string text = WithNonTemporalStores(Assembly(body));
    EXPECT_THAT(text, Not(HasSubstr("vmovnt"))) << body;
    EXPECT_THAT(text, Not(HasSubstr(".lines"))) << body;
  }
  const std::string masked = WithNonTemporalStores(Assembly("\tvmovaps\t%zmm0, (%rdi) {%k1}\n"));
  EXPECT_THAT(masked, HasSubstr("\tvmovups\t%zmm0, (%rdi) {%k1}\n"));
}

TEST(WithNonTemporalStores, OneFormWithTablesOfJumps) {
  const std::string text = WithNonTemporalStores("\t.section\t.rodata\n.LJTI0_0:\n" +
                                                 Assembly("\tvmovaps\t%zmm0, (%rdi)\n"));
  EXPECT_THAT(text, HasSubstr("\tvmovups\t%zmm0, (%rdi)\n"));
  EXPECT_THAT(text, Not(HasSubstr("vmovnt")));
}

// Kernels whose stores are of lines where rows are; Check runs them at lines and elsewhere.
struct Case {
  const char* text;
  std::vector<std::vector<int32_t>> extents;
  bool non_temporal;
};

const Case kCases[] = {
    {"dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n",
     {{16}, {64}, {1000}, {1024}, {70000}, {65536}},
     true},
    {"dims a b\nin 0 f32 [a, b] dense\nin 1 f32 [b] dense\n"
     "out 0 f32 [a, b] dense = add(in0[a, b], in1[b])\n"
     "out 1 f64 [a, b] dense = cast<f64>(in0[a, b])\n",
     {{3, 16}, {5, 64}, {7, 80}, {9, 100}, {300, 256}, {2, 8}},
     true},
    {"dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [a] = reduce add over b (in0[a, b])\n"
     "out 0 f32 [a, b] dense = sub(in0[a, b], s0[a])\n",
     {{3, 64}, {5, 128}, {64, 100}, {40, 1024}},
     true},
    {"dims a b c\nin 0 f32 [a, c, b] dense\nout 0 f32 [a, b, c] dense = neg(in0[a, c, b])\n",
     {{2, 16, 32}, {3, 17, 64}, {2, 40, 40}},
     true},
    {"dims a b\nin 0 u8 [a, b] dense\nout 0 u8 [a, b] dense = add(in0[a, b], in0[a, b])\n",
     {{3, 64}, {5, 128}, {64, 100}, {9, 1024}},
     true},
    {"dims a b\nin 0 f32 [a, b] dense\nout 0 f32 [a, b] strided = neg(in0[a, b])\n",
     {{3, 64}, {5, 128}},
     false},
    // Cut at lines, elsewhere though rows are of lines, and never at lines.
    {"dims a b\nsizes n0 n1\nin 0 f32 [a, n0] dense\nin 1 f32 [a, n1] dense\nout 0 f32 [a, b] "
     "dense = guard(lt(index(b), extent(n0)), in0[a, b], in1[a, b-|n0|])\n",
     {{3, 64, 32, 32}, {5, 80, 16, 64}, {40, 64, 9, 55}, {7, 23, 9, 14}, {3, 64, 64, 0}},
     true},
    {"dims a b\nsizes n0\nin 0 f32 [a, n0] dense\nout 0 f32 [a, b] dense = "
     "guard(le(i64:3, index(b)), in0[a, b-3], 0)\n",
     {{3, 64, 61}, {5, 128, 125}, {9, 20, 17}},
     true},
};

TEST(NonTemporalStores, BitsAreTheSameAtLinesAndElsewhere) {
  for (const IsaLevel isa : RunnableLevels()) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(c.text);
      CompiledKernel kernel(std::string("kernel v1 math 1\n") + c.text, isa);
      ASSERT_TRUE(kernel.ok());
      uint32_t seed = 1;
      for (const std::vector<int32_t>& extents : c.extents) kernel.Check(extents, ++seed);
      const CodegenAnswer answer = Serve({.kernel = std::string("kernel v1 math 1\n") + c.text,
                                          .schedule = kernel.schedule().ToString(),
                                          .target = std::string(Name(isa)),
                                          .sections = {"asm"}});
      EXPECT_EQ(answer.sections[0].second.find("movntps") != std::string::npos, c.non_temporal);
    }
  }
}

}  // namespace
}  // namespace kiln
