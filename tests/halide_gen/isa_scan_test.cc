// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/isa_scan.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(IsaScanTest, BaselineCodeUsesNothing) {
  EXPECT_EQ(
      IsaOf(
          "\t.section .text\nk:\n\taddps %xmm1, %xmm0 # vaddps %zmm0\n\tjmp *kiln(%rip)\n\tret\n"),
      "");
}

TEST(IsaScanTest, FindsWhatEachInstructionNeeds) {
  EXPECT_EQ(IsaOf("\tvaddps %ymm1, %ymm0, %ymm0"), "avx");
  EXPECT_EQ(IsaOf("\tvpaddd %ymm1, %ymm0, %ymm0"), "avx avx2");
  EXPECT_EQ(IsaOf("\tvfmadd213ps %ymm1, %ymm0, %ymm0"), "avx fma");
  EXPECT_EQ(IsaOf("\tvcvtph2ps (%rdi), %ymm0"), "avx f16c");
  EXPECT_EQ(IsaOf("\troundps $8, %xmm0, %xmm0"), "sse41");
  EXPECT_EQ(IsaOf("\tandnl %eax, %ecx, %edx"), "bmi1");
  EXPECT_EQ(IsaOf("\tshlxl %eax, %ecx, %edx"), "bmi2");
}

TEST(IsaScanTest, TellsThePartsOfAvx512Apart) {
  EXPECT_EQ(IsaOf("\tvaddps %zmm1, %zmm0, %zmm0"), "avx avx2 avx512f");
  EXPECT_EQ(IsaOf("\tvaddps %ymm17, %ymm0, %ymm0"), "avx avx2 avx512f avx512vl");
  EXPECT_EQ(IsaOf("\tvmovups (%rdi), %ymm0 {%k1} {z}"), "avx avx2 avx512f avx512vl");
  EXPECT_EQ(IsaOf("\tvxorps %zmm1, %zmm0, %zmm0"), "avx avx2 avx512dq avx512f");
  EXPECT_EQ(IsaOf("\tvpaddw %zmm1, %zmm0, %zmm0"), "avx avx2 avx512bw avx512f");
  EXPECT_EQ(IsaOf("\tvpaddd %zmm1, %zmm0, %zmm0"), "avx avx2 avx512f");
  EXPECT_EQ(IsaOf("\tkandw %k1, %k2, %k3"), "avx avx2 avx512f");
  EXPECT_EQ(IsaOf("\tkandb %k1, %k2, %k3"), "avx avx2 avx512dq avx512f");
  EXPECT_EQ(IsaOf("\tkmovq %k1, %rax"), "avx avx2 avx512bw avx512f");
}

}  // namespace
}  // namespace kiln
