// SPDX-License-Identifier: Apache-2.0
// Planted faults: each is found, by its kind and line, and the sound twin has no finding.
#include "gmock/gmock.h"
#include "tests/ptx_emulator/run_ptx.h"

namespace kiln::ptx {
namespace {

using testing::HasSubstr;

struct Fault {
  const char* name;
  const char* body;
  const char* finding;  // "": none
  cuda::Result result = cuda::kSuccess;
  uint32_t grid = 1, block = 32, shared_bytes = 0;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

// %rd1: &buffer[thread], words. The first 2048 bytes of 4096 are written.
constexpr char kPrologue[] = "mad.wide.u32 %rd1, %r0, 4, %rd0;\n";

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, IsFound) {
  const Fault& fault = GetParam();
  PtxRun run(
      KernelText(std::string(kPrologue) + fault.body,
                 ".shared .align 16 .b8 tile[512];\n.extern .shared .align 16 .b8 more[];\n"));
  run.options.warp_instructions = 100000;
  run.Fill(std::vector<uint32_t>(512, 7));
  EXPECT_EQ(run.Launch({fault.grid, 1, 1}, {fault.block, 1, 1}, fault.shared_bytes), fault.result)
      << run.findings.ToString();
  const std::string found = run.findings.ToString();
  if (fault.finding[0] == '\0') {
    EXPECT_EQ(found, "");
  } else {
    EXPECT_THAT(found, HasSubstr(std::string(fault.finding) + ": kernel k, line "));
  }
}

constexpr Fault kFaults[] = {
    {"nothing", "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1+512], %r1;", ""},
    {"load_out_of_bounds", "ld.global.u32 %r1, [%rd1+4000];", "access out of bounds",
     cuda::kIllegalAddress},
    {"store_out_of_bounds", "st.global.u32 [%rd1+-4], %r0;", "access out of bounds",
     cuda::kIllegalAddress},
    {"null", "mov.u64 %rd2, 0;\nld.u32 %r1, [%rd2];", "access out of bounds",
     cuda::kIllegalAddress},
    {"misaligned", "ld.global.u32 %r1, [%rd1+2];", "misaligned access", cuda::kMisalignedAddress},
    {"misaligned_vector", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];", "misaligned access",
     cuda::kMisalignedAddress},
    {"unwritten_global", "ld.global.u32 %r1, [%rd1+2048];",
     "read of global memory that nobody wrote"},
    {"two_writers", "st.global.u32 [%rd0], %r0;",
     "two threads write different values to one byte of global memory"},
    {"two_writers_same_value", "st.global.u32 [%rd0], 7;", ""},
    {"two_writers_of_bytes",
     "cvt.u16.u32 %h1, %r0;\nshr.u32 %r1, %r0, 1;\ncvt.u64.u32 %rd2, %r1;\n"
     "add.s64 %rd2, %rd2, %rd0;\nst.global.u8 [%rd2], %h1;",
     "two threads write different values to one byte of global memory"},
    {"bytes_of_one_word",
     "cvt.u16.u32 %h1, %r0;\ncvt.u64.u32 %rd2, %r0;\n"
     "add.s64 %rd2, %rd2, %rd0;\nst.global.u8 [%rd2], %h1;",
     ""},
    {"read_of_other_block",
     "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 0;\n"
     "@%p1 st.global.u32 [%rd1], %r0;\n@!%p1 ld.global.u32 %r2, [%rd1];",
     "read of what another block wrote in this launch", cuda::kSuccess, 2},
    {"write_after_read_of_other_block",
     "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 1;\n"
     "@%p1 st.global.u32 [%rd1], %r0;\n@!%p1 ld.global.u32 %r2, [%rd1];",
     "write of what another block read in this launch", cuda::kSuccess, 2},
    {"blocks_apart",
     "mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd2, %r1, 128;\n"
     "add.s64 %rd2, %rd1, %rd2;\nld.global.u32 %r2, [%rd2];\nadd.s32 %r2, %r2, %r1;\n"
     "st.global.u32 [%rd2], %r2;",
     "", cuda::kSuccess, 4},
    {"barrier_removed",
     "mul.lo.u32 %r1, %r0, 4;\nst.shared.u32 [%r1], %r0;\n"
     "xor.b32 %r2, %r1, 128;\nld.shared.u32 %r3, [%r2];",
     "shared memory race: read after write", cuda::kSuccess, 1, 64, 256},
    {"barrier_there",
     "mul.lo.u32 %r1, %r0, 4;\nst.shared.u32 [%r1], %r0;\nbar.sync 0;\n"
     "xor.b32 %r2, %r1, 128;\nld.shared.u32 %r3, [%r2];",
     "", cuda::kSuccess, 1, 64, 256},
    {"second_barrier_removed",
     "mul.lo.u32 %r1, %r0, 4;\nst.shared.u32 [%r1], %r0;\nbar.sync 0;\n"
     "xor.b32 %r2, %r1, 128;\nld.shared.u32 %r3, [%r2];\nst.shared.u32 [%r1], %r3;",
     "shared memory race: write after read", cuda::kSuccess, 1, 64, 256},
    {"shared_two_writers",
     "and.b32 %r1, %r0, 31;\nmul.lo.u32 %r1, %r1, 4;\n"
     "st.shared.u32 [%r1], %r0;",
     "shared memory race: two writers", cuda::kSuccess, 1, 64, 256},
    {"shared_race_in_warp",
     "mul.lo.u32 %r1, %r0, 4;\nst.shared.u32 [%r1], %r0;\n"
     "xor.b32 %r2, %r1, 4;\nld.shared.u32 %r3, [%r2];",
     "shared memory race within a warp", cuda::kSuccess, 1, 32, 128},
    {"shared_store_removed", "mul.lo.u32 %r1, %r0, 4;\nld.shared.u32 %r3, [%r1];",
     "read of shared memory that nobody wrote", cuda::kSuccess, 1, 32, 128},
    {"shared_of_the_block_before",
     "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 0;\n"
     "mul.lo.u32 %r2, %r0, 4;\n@%p1 st.shared.u32 [%r2], 1;\nbar.sync 0;\n"
     "ld.shared.u32 %r3, [%r2];",
     "read of shared memory that nobody wrote", cuda::kSuccess, 2, 32, 128},
    {"shared_bytes_too_few", "mul.lo.u32 %r1, %r0, 4;\nst.shared.u32 [%r1], %r0;",
     "access out of bounds", cuda::kIllegalAddress, 1, 32, 124},
    {"static_shared",
     "mul.lo.u32 %r1, %r0, 4;\nmov.u32 %r2, tile;\nadd.s32 %r1, %r1, %r2;\n"
     "st.shared.u32 [%r1], %r0;\nst.shared.u32 [%r1+384], %r0;",
     ""},
    {"dynamic_shared_after_static",
     "mov.u32 %r2, tile;\nmov.u32 %r3, more;\n"
     "st.shared.u32 [%r3+4], 1;",
     "access out of bounds", cuda::kIllegalAddress, 1, 1, 4},
    {"misaligned_shared", "mul.lo.u32 %r1, %r0, 4;\nst.shared.v2.u32 [%r1], {%r0, %r0};",
     "misaligned access", cuda::kMisalignedAddress, 1, 32, 256},
    {"divergent_barrier",
     "setp.lt.u32 %p1, %r0, 5;\n@%p1 bra $L;\nbar.sync 0;\n$L:\nmov.u32 %r1, 0;",
     "barrier in divergent code"},
    {"barrier_not_met", "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra $L;\nbar.sync 0;\n$L:\nret;",
     "barrier not met by all threads", cuda::kSuccess, 1, 64},
    {"barriers_meet",
     "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra $L;\nbar.sync 0;\nret;\n$L:\nbar.sync 0;",
     "barriers at different places meet", cuda::kSuccess, 1, 64},
    {"other_barriers",
     "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra $L;\nbar.sync 0;\nret;\n$L:\nbar.sync 1;",
     "deadlock: lanes of the member mask, or of the barrier, never come", cuda::kLaunchTimeout, 1,
     64},
    {"barrier_of_the_last_number", "mov.u32 %r1, 15;\nbar.sync %r1;\nbar.sync 15;", ""},
    {"barrier_of_no_number", "add.s32 %r1, %r0, 16;\nbarrier.sync %r1;",
     "barrier whose number is not below 16", cuda::kIllegalInstruction},
    {"barrier_of_a_negative_number", "mov.u32 %r1, -1;\nbar.sync %r1;",
     "barrier whose number is not below 16", cuda::kIllegalInstruction},
    {"mask_too_small", "shfl.sync.down.b32 %r1, %r0, 1, 31, 65535;",
     "member mask without the lane itself"},
    {"absent_lane",
     "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra $L;\nret;\n$L:\n"
     "shfl.sync.down.b32 %r1, %r0, 8, 31, -1;",
     "shuffle from an absent lane"},
    {"guarded_lane", "setp.lt.u32 %p1, %r0, 16;\n@%p1 shfl.sync.bfly.b32 %r1, %r0, 16, 31, 65535;",
     "shuffle from an absent lane"},
    {"half_warps_shuffle",
     "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra $L;\n"
     "shfl.sync.bfly.b32 %r1, %r0, 4, 4127, 0xffff0000;\nbra $E;\n$L:\n"
     "shfl.sync.bfly.b32 %r1, %r0, 4, 4127, 0x0000ffff;\n$E:\nmov.u32 %r2, 0;",
     ""},
    {"shuffle_waits",
     "setp.lt.u32 %p1, %r0, 16;\nmov.u32 %r2, 1;\n@%p1 bra $S;\nmov.u32 %r2, 2;\n"
     "bra $T;\n$S:\nshfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\nret;\n$T:\nbra $S;",
     ""},
    {"shuffle_deadlock",
     "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra $L;\n"
     "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\nbra $E;\n$L:\n"
     "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\n$E:\nret;",
     "deadlock: lanes of the member mask, or of the barrier, never come", cuda::kLaunchTimeout},
    {"endless_loop", "$L:\nbra $L;", "more instructions than a launch may have",
     cuda::kLaunchTimeout},
    {"trap", "trap;", "trap", cuda::kLaunchFailed},
    {"guarded_trap", "setp.eq.u32 %p1, %r0, 99;\n@%p1 trap;", ""},
    {"unwritten_local",
     ".local .align 4 .b8 depot[16];\nmov.b64 %rd2, depot;\n"
     "ld.local.u32 %r1, [%rd2+4];",
     "read of local memory that nobody wrote"},
    {"local_out_of_bounds",
     ".local .align 4 .b8 depot[16];\nmov.b64 %rd2, depot;\n"
     "st.local.u32 [%rd2+16], %r0;",
     "access out of bounds", cuda::kIllegalAddress},
    {"generic_local",
     ".local .align 4 .b8 depot[16];\nmov.b64 %rd2, depot;\n"
     "cvta.local.u64 %rd3, %rd2;\nst.u32 [%rd3+4], %r0;\nld.local.u32 %r1, [%rd2+4];\n"
     "st.global.u32 [%rd1], %r1;",
     ""},
    {"parameter_out_of_bounds", "ld.param.u64 %rd2, [p+8];", "access out of bounds",
     cuda::kIllegalAddress},
    {"branch_table", "$T: .branchtargets $A, $B;\nbrx.idx %r0, $T;\n$A:\nret;\n$B:\nret;",
     "branch index outside its table", cuda::kInvalidPc},
};

INSTANTIATE_TEST_SUITE_P(Faults, PlantedFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Findings, NameTheLineItsTextAndTheCount) {
  PtxRun run(KernelText("ld.global.u32 %r1, [%rd0+2048];"));
  EXPECT_EQ(run.Launch({3, 1, 1}, {1, 1, 1}), cuda::kSuccess);
  EXPECT_EQ(run.findings.ToString(),
            "read of global memory that nobody wrote: kernel k, line 12: "
            "ld.global.u32 %r1, [%rd0+2048]; (3 times)\n");
  EXPECT_EQ(run.findings.count(), 3u);
}

TEST(Findings, TellAFreedAllocationFromNone) {
  PtxRun run(KernelText("ld.global.u32 %r1, [%rd0];"));
  const uint64_t other = run.memory.Allocate(64);
  EXPECT_NE(other, 0u);
  EXPECT_TRUE(run.memory.Free(run.buffer));
  EXPECT_FALSE(run.memory.Free(run.buffer));
  EXPECT_EQ(run.Launch({1, 1, 1}, {1, 1, 1}), cuda::kIllegalAddress);
  EXPECT_THAT(run.findings.ToString(), HasSubstr("use after free"));
}

TEST(Findings, AreOnlyFaultsWithoutChecks) {
  PtxRun run(KernelText("ld.global.u32 %r1, [%rd0+2048];\nst.global.u32 [%rd0], %r0;"));
  run.options.checks = false;
  EXPECT_EQ(run.Launch({1, 1, 1}, {32, 1, 1}), cuda::kSuccess);
  EXPECT_EQ(run.findings.count(), 0u);
}

TEST(Limits, OfALaunch) {
  PtxRun run(KernelText("mov.u32 %r1, 0;"));
  EXPECT_EQ(run.Launch({1, 1, 1}, {1024, 1, 1}), cuda::kSuccess);
  EXPECT_EQ(run.Launch({1, 1, 1}, {1025, 1, 1}), cuda::kInvalidValue);
  EXPECT_EQ(run.Launch({1, 1, 1}, {32, 32, 2}), cuda::kInvalidValue);
  EXPECT_EQ(run.Launch({1, 1, 1}, {1, 1, 65}), cuda::kInvalidValue);
  EXPECT_EQ(run.Launch({1, 65536, 1}, {1, 1, 1}), cuda::kInvalidValue);
  EXPECT_EQ(run.Launch({1, 1, 65536}, {1, 1, 1}), cuda::kInvalidValue);
  EXPECT_EQ(run.Launch({0, 1, 1}, {1, 1, 1}), cuda::kInvalidValue);
  EXPECT_EQ(run.Launch({0x80000000, 1, 1}, {1, 1, 1}), cuda::kInvalidValue);
}

}  // namespace
}  // namespace kiln::ptx
