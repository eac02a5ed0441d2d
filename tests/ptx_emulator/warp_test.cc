// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together, special forms of instructions, and counters.
#include "tests/ptx_emulator/run_ptx.h"

namespace kiln::ptx {
namespace {

// Runs `body`, which leaves a result in %r1, in one warp; the result of each lane.
std::vector<uint32_t> Lanes(const std::string& body, uint32_t threads = 32) {
  PtxRun run(
      KernelText("mad.wide.u32 %rd1, %r0, 4, %rd0;\n" + body + "\nst.global.u32 [%rd1], %r1;"));
  run.Fill(std::vector<uint32_t>(1024, 0));
  EXPECT_EQ(run.Launch({1, 1, 1}, {threads, 1, 1}), cuda::kSuccess) << run.findings.ToString();
  EXPECT_EQ(run.findings.ToString(), "");
  std::vector<uint32_t> values(threads);
  for (uint32_t i = 0; i < threads; ++i) values[i] = run.Read<uint32_t>(i);
  return values;
}

uint32_t Scalar(const std::string& body) { return Lanes(body, 1)[0]; }

TEST(Warp, ShufflesWithinSegments) {
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t in16 = i % 16;
    EXPECT_EQ(Lanes("shfl.sync.down.b32 %r1, %r0, 3, 31, -1;")[i], i + 3 < 32 ? i + 3 : i);
    EXPECT_EQ(Lanes("shfl.sync.up.b32 %r1, %r0, 3, 0, -1;")[i], i >= 3 ? i - 3 : i);
    EXPECT_EQ(Lanes("shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;")[i], i ^ 5);
    EXPECT_EQ(Lanes("shfl.sync.idx.b32 %r1, %r0, 7, 31, -1;")[i], 7u);
    // 16 lanes a segment: 16 << 8 | 31.
    EXPECT_EQ(Lanes("shfl.sync.down.b32 %r1, %r0, 8, 4127, -1;")[i], in16 < 8 ? i + 8 : i);
    EXPECT_EQ(Lanes("shfl.sync.idx.b32 %r1, %r0, 2, 4127, -1;")[i], i - in16 + 2);
    EXPECT_EQ(Lanes("shfl.sync.down.b32 %r2|%p1, %r0, 8, 4127, -1;\n"
                    "selp.b32 %r1, 1, 0, %p1;")[i],
              in16 < 8 ? 1u : 0u);
  }
}

TEST(Warp, VotesAndReduces) {
  const std::string odd = "and.b32 %r2, %r0, 1;\nsetp.ne.u32 %p1, %r2, 0;\n";
  const std::string to_number = "\nselp.b32 %r1, 1, 0, %p2;";
  EXPECT_EQ(Lanes(odd + "vote.sync.ballot.b32 %r1, %p1, -1;")[3], 0xaaaaaaaau);
  EXPECT_EQ(Lanes(odd + "vote.sync.all.pred %p2, %p1, -1;" + to_number)[0], 0u);
  EXPECT_EQ(Lanes(odd + "vote.sync.any.pred %p2, %p1, -1;" + to_number)[0], 1u);
  EXPECT_EQ(Lanes(odd + "vote.sync.uni.pred %p2, !%p1, -1;" + to_number)[0], 0u);
  EXPECT_EQ(Lanes("redux.sync.add.s32 %r1, %r0, -1;")[5], 31u * 16);
  EXPECT_EQ(Lanes("sub.s32 %r2, %r0, 9;\nredux.sync.min.s32 %r1, %r2, -1;")[5], 0xfffffff7u);
  EXPECT_EQ(Lanes("redux.sync.or.b32 %r1, %r0, -1;")[31], 31u);
  EXPECT_EQ(Lanes("setp.lt.u32 %p1, %r0, 7;\nmov.u32 %r1, 0;\n@%p1 activemask.b32 %r1;")[6], 127u);
}

TEST(Warp, ReconvergesAfterBranchesAndLoops) {
  // Lane i counts to i; all then shuffle with the full mask.
  const std::vector<uint32_t> values = Lanes(
      "mov.u32 %r2, 0;\n$L:\nsetp.ge.u32 %p1, %r2, %r0;\n@%p1 bra $E;\nadd.u32 %r2, %r2, 1;\n"
      "bra.uni $L;\n$E:\nshfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;");
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], i ^ 1);
}

TEST(Warp, BranchesByTable) {
  const std::vector<uint32_t> values = Lanes(
      "and.b32 %r2, %r0, 1;\n$T:\n.branchtargets $A, $B;\nbrx.idx %r2, $T;\n$A:\n"
      "mov.u32 %r1, 10;\nbra $E;\n$B:\nmov.u32 %r1, 20;\n$E:\nmov.u32 %r3, 0;");
  EXPECT_EQ(values[4], 10u);
  EXPECT_EQ(values[5], 20u);
}

TEST(Warp, BarriersOrderWarpsThroughSharedMemory) {
  PtxRun run(
      KernelText("mad.wide.u32 %rd1, %r0, 4, %rd0;\nmul.lo.u32 %r1, %r0, 4;\n"
                 "st.shared.u32 [%r1], %r0;\nbar.sync 0;\nmov.u32 %r2, 508;\n"
                 "sub.u32 %r2, %r2, %r1;\nld.shared.u32 %r3, [%r2];\n"
                 "st.global.u32 [%rd1], %r3;"));
  EXPECT_EQ(run.Launch({1, 1, 1}, {128, 1, 1}, 512), cuda::kSuccess);
  EXPECT_EQ(run.findings.ToString(), "");
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(run.Read<uint32_t>(i), 127 - i);
  EXPECT_EQ(run.counters.barriers, 1u);
}

TEST(Warp, AtomicsAreDoneLaneByLane) {
  PtxRun run(
      KernelText("atom.global.add.u32 %r1, [%rd0], 2;\nred.global.max.s32 [%rd0+4], %r0;\n"
                 "atom.global.cas.b32 %r2, [%rd0+8], 5, %r0;\n"
                 "atom.add.u64 %rd2, [%rd0+16], 1;\nred.global.inc.u32 [%rd0+24], 9;\n"
                 "red.global.min.s32 [%rd0+28], -3;"));
  run.Fill(std::vector<uint32_t>{0, 0, 5, 0, 0xffffffff, 0, 0, 0});
  EXPECT_EQ(run.Launch({2, 1, 1}, {32, 1, 1}), cuda::kSuccess) << run.findings.ToString();
  EXPECT_EQ(run.Read<uint32_t>(0), 128u);
  EXPECT_EQ(run.Read<uint32_t>(1), 31u);
  EXPECT_EQ(run.Read<uint32_t>(2), 0u);  // lane 0 came first
  EXPECT_EQ(run.Read<uint64_t>(2), uint64_t{0xffffffff} + 64);
  EXPECT_EQ(run.Read<uint32_t>(6), 4u);  // 0..9 and round: 64 steps
  EXPECT_EQ(run.Read<int32_t>(7), -3);
}

TEST(Instructions, SpecialForms) {
  EXPECT_EQ(Scalar("mov.b32 %r2, 0x12345678;\nmov.b32 {%h1, %h2}, %r2;\nmov.b32 %r1, {%h2, %h1};"),
            0x56781234u);
  EXPECT_EQ(Scalar("mov.b64 %rd2, 0x1122334455667788;\n{ .reg .b32 t; mov.b64 {t, %r1}, %rd2; }"),
            0x11223344u);
  EXPECT_EQ(Scalar("mov.b64 %rd2, 0x1122334455667788;\nmov.b64 {%r1, _}, %rd2;"), 0x55667788u);
  EXPECT_EQ(Scalar("mov.b32 %r1, 0f3F800000;"), 0x3f800000u);
  EXPECT_EQ(Scalar("mov.f32 %r1, 1.5;"), 0x3fc00000u);
  EXPECT_EQ(Scalar("setp.lt.u32 %p1|%p2, %r0, 1;\nselp.b32 %r2, 1, 0, %p1;\n"
                   "selp.b32 %r3, 2, 0, %p2;\nadd.u32 %r1, %r2, %r3;"),
            1u);
  EXPECT_EQ(Scalar("setp.ne.u32 %p1, %r0, 0;\nsetp.eq.and.u32 %p2, %r0, 0, !%p1;\n"
                   "selp.b32 %r1, 1, 0, %p2;"),
            1u);
  EXPECT_EQ(Scalar("set.eq.u32.u32 %r1, %r0, 0;"), 0xffffffffu);
  EXPECT_EQ(Scalar("set.eq.f32.u32 %r1, %r0, 0;"), 0x3f800000u);
  EXPECT_EQ(Scalar("mov.b32 %r2, 0x7c013c00;\nmov.b32 %r3, 0x3c003c00;\n"
                   "setp.equ.f16x2 %p1|%p2, %r2, %r3;\nselp.b32 %r2, 1, 0, %p1;\n"
                   "selp.b32 %r3, 2, 0, %p2;\nadd.u32 %r1, %r2, %r3;"),
            3u);
  EXPECT_EQ(Scalar("mov.u32 %r2, 0x01020384;\ndp4a.s32.u32 %r1, %r2, 0x02010101, 10;"),
            static_cast<uint32_t>(2 + 2 + 3 - 124 + 10));
  EXPECT_EQ(Scalar("mov.b32 %r2, 0x80000000;\ncopysign.f32 %r1, %r2, 0f3F800000;"), 0xbf800000u);
  EXPECT_EQ(Scalar("mov.b32 %r2, 0x00000001;\ntestp.subnormal.f32 %p1, %r2;\n"
                   "selp.b32 %r1, 1, 0, %p1;"),
            1u);
  EXPECT_EQ(Scalar("mov.b32 %r2, 0xff800000;\nadd.rn.f32 %r1, %r2, 0f7F800000;"), 0x7fffffffu);
  EXPECT_EQ(Scalar("mov.b32 %r2, 0x40000000;\nadd.sat.f32 %r1, %r2, 0f7F800000;"), 0x3f800000u);
  EXPECT_EQ(Scalar("mov.u32 %r1, %ntid.x;"), 1u);
  EXPECT_EQ(Lanes("mov.u32 %r1, %lanemask_lt;")[4], 15u);
  EXPECT_EQ(Scalar("ld.global.s8 %r2, [%rd0];\nmov.u32 %r1, 5;"), 5u);
}

TEST(Instructions, VariablesOfTheModule) {
  PtxRun run(
      KernelText("mov.u64 %rd2, numbers;\nld.const.u32 %r1, [%rd2+4];\n"
                 "ld.global.u16 %h1, [counter];\ncvt.u32.u16 %r2, %h1;\n"
                 "add.u32 %r1, %r1, %r2;\nst.global.u32 [%rd0], %r1;",
                 ".const .align 4 .u32 numbers[3] = {1, 20, 3};\n"
                 ".global .u16 counter = 300;\n"));
  EXPECT_EQ(run.Launch({1, 1, 1}, {1, 1, 1}), cuda::kSuccess) << run.findings.ToString();
  EXPECT_EQ(run.Read<uint32_t>(0), 320u);
}

TEST(Counters, OfAccessesAndConflicts) {
  PtxRun run(
      KernelText("mad.wide.u32 %rd1, %r0, 16, %rd0;\n"
                 "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n"
                 "mad.wide.u32 %rd2, %r0, 64, %rd0;\nst.global.u32 [%rd2], %r1;\n"
                 "mul.lo.u32 %r5, %r0, 8;\nst.shared.u32 [%r5], %r1;\n"
                 "mul.lo.u32 %r5, %r0, 128;\nst.shared.u32 [%r5+4096], %r1;\n"
                 "mul.lo.u32 %r5, %r0, 16;\n"
                 "st.shared.v4.u32 [%r5+8192], {%r1, %r1, %r1, %r1};\n"
                 "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\nsetp.lt.u32 %p1, %r0, 3;\n"
                 "@%p1 bra $L;\nmov.u32 %r2, 0;\n$L:\nmov.u32 %r3, 0;"));
  run.Fill(std::vector<uint32_t>(1024, 1));
  run.options.checks = false;
  EXPECT_EQ(run.Launch({1, 1, 1}, {32, 1, 1}, 16384), cuda::kSuccess) << run.findings.ToString();
  const Counters& c = run.counters;
  EXPECT_EQ(c.load_requests, 1u);
  EXPECT_EQ(c.load_sectors, 16u);
  EXPECT_EQ(c.load_bytes, 512u);
  EXPECT_EQ(c.unique_load_sectors, 16u);
  EXPECT_EQ(c.full_warp_loads[4], 1u);
  EXPECT_EQ(c.store_sectors, 32u);
  EXPECT_EQ(c.store_bytes, 128u);
  EXPECT_EQ(c.unique_store_sectors, 32u);
  EXPECT_EQ(c.shared_requests, 3u);
  EXPECT_EQ(c.shared_wavefronts, 2u + 32u + 4u);
  EXPECT_EQ(c.ideal_wavefronts, 1u + 1u + 4u);
  EXPECT_EQ(c.shuffles, 1u);
  EXPECT_EQ(c.divergent_branches, 1u);
  EXPECT_EQ(c.warp_instructions, 18u);
  EXPECT_EQ(c.thread_instructions, 17u * 32 + 29);
}

}  // namespace
}  // namespace kiln::ptx
