// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/elf_loader.h"

#include <alloca.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "exec/cpu/elf_check.h"
#include "exec/support/kernel_code.h"
#include "exec/support/launch.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

std::string TestKernel(int value) {
  std::ifstream file(std::string(TEST_KERNEL_DIR) + "/test_kernel_" + std::to_string(value) + ".so",
                     std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// The factor that the loaded kernel multiplies with, by running it on two threads; -1 if it does
// not.
int FactorOf(const LoadedKernel& kernel) {
  Pool pool(2);
  Launcher launcher(&pool);
  std::vector<int> out(100, -1);
  int n = 100;
  void* argv[] = {nullptr, out.data(), &n};
  if (launcher.Launch(kernel.function(), nullptr, argv) != 0) return -1;
  for (int i = 0; i < n; ++i) {
    if (out[static_cast<size_t>(i)] != i * out[1]) return -1;
  }
  return out[1];
}

int MappedKernels() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:kernel") != std::string::npos;
  return count;
}

TEST(LoaderTest, RunsAKernel) {
  const auto kernel = LoadElf(TestKernel(1));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(FactorOf(*kernel), 1);
}

// Where the frames of the tasks of a kernel begin, in bytes from the start of a page.
std::vector<uintptr_t>* frames = nullptr;

int KernelOfFrames(void** argv) {
  LaunchContext* const context = *static_cast<LaunchContext**>(argv[0]);
  const TaskFn task = [](void*, int index, uint8_t*) {
    (*frames)[static_cast<size_t>(index)] =
        reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) % 4096;
    return 0;
  };
  return context->parallel_for(context, task, 0, static_cast<int>(frames->size()), nullptr);
}

// Launches from `depth` bytes further down on the stack.
[[gnu::noinline]] void LaunchBelow(Launcher& launcher, size_t depth) {
  *static_cast<volatile char*>(alloca(depth + 1)) = 0;
  void* argv[] = {nullptr};
  EXPECT_EQ(launcher.Launch(KernelOfFrames, nullptr, argv), 0);
}

TEST(LoaderTest, TasksBeginAtTheEndOfAPageOfTheStack) {
  constexpr uintptr_t kNear = 256;
  std::vector<uintptr_t> seen(4);
  frames = &seen;
  for (const int threads : {1, 2}) {
    Pool pool(threads);
    Launcher launcher(&pool);
    for (size_t depth = 0; depth < 4096; depth += 128) {
      LaunchBelow(launcher, depth);
      for (const uintptr_t frame : seen) EXPECT_GE(frame, 4096 - kNear) << "depth " << depth;
    }
  }
}

TEST(LoaderTest, NeverConfusesKernelsWhoseDescriptorsHaveOneNumber) {
  std::vector<LoadedKernel> kernels;
  for (int i = 0; i < 200; ++i) {
    auto kernel = LoadElf(TestKernel(1 + i % 2));
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    kernels.push_back(*std::move(kernel));
  }
  for (int i = 0; i < 200; ++i) EXPECT_EQ(FactorOf(kernels[static_cast<size_t>(i)]), 1 + i % 2);
}

TEST(LoaderTest, UnloadsWithTheLastCopy) {
  const int before = MappedKernels();
  {
    const auto kernel = LoadElf(TestKernel(2));
    ASSERT_TRUE(kernel.ok());
    EXPECT_GT(MappedKernels(), before);
    const LoadedKernel copy = *kernel;
    EXPECT_EQ(FactorOf(copy), 2);
  }
  EXPECT_EQ(MappedKernels(), before);
}

TEST(LoaderTest, DebugLoadKeepsTheFile) {
  const std::string folder = std::string(TEST_KERNEL_DIR) + "/debug_load";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  setenv("KILN_DEBUG_LOAD", "file", 1);
  const auto kernel = LoadElf(TestKernel(2), "softmax/1");
  unsetenv("KILN_DEBUG_LOAD");
  unsetenv("TMPDIR");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(FactorOf(*kernel), 2);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_EQ(entry.path().filename(), "softmax.1.so");
  }
  EXPECT_EQ(files, 1);
}

TEST(ElfCheckTest, RefusesWhatIsNoKernel) {
  EXPECT_EQ(CheckKernelElf("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CheckKernelElf(std::string(5000, 'x')).status().code(), absl::StatusCode::kDataLoss);
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::stringstream program;
  program << self.rdbuf();
  EXPECT_EQ(LoadElf(program.str()).status().code(), absl::StatusCode::kDataLoss);
}

TEST(ElfCheckTest, RefusesEveryShortening) {
  const std::string bytes = TestKernel(1);
  auto headers = [](const std::string& b) {
    Elf64_Ehdr header;
    std::memcpy(&header, b.data(), sizeof(header));
    return header;
  };
  ASSERT_TRUE(CheckKernelElf(bytes).ok());
  for (size_t size = 0; size < bytes.size() && size < headers(bytes).e_shoff; size += 13) {
    EXPECT_FALSE(CheckKernelElf(bytes.substr(0, size)).ok()) << size;
  }
}

TEST(ElfCheckTest, RefusesAnotherInterface) {
  std::string bytes = TestKernel(1);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.e_machine = EM_AARCH64;
  std::memcpy(bytes.data(), &header, sizeof(header));
  const absl::Status status = CheckKernelElf(bytes).status();
  EXPECT_EQ(status.message(),
            "kernel object: machine 183, expected x86-64; remove it from the cache");
}

// Gives each program header of an ELF file to `change`, and writes what becomes of it.
void ChangeSegments(std::string& bytes, const std::function<void(Elf64_Phdr&)>& change) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    char* const at = bytes.data() + header.e_phoff + static_cast<size_t>(i) * sizeof(segment);
    std::memcpy(&segment, at, sizeof(segment));
    change(segment);
    std::memcpy(at, &segment, sizeof(segment));
  }
}

// Whether such a segment faults when it is read depends on the processor.
TEST(ElfCheckTest, RefusesSegmentsThatAreNotReadable) {
  int loads = 2;
  for (int which = 0; which < loads; ++which) {
    std::string bytes = TestKernel(1);
    int seen = 0;
    ChangeSegments(bytes, [&](Elf64_Phdr& segment) {
      if (segment.p_type == PT_LOAD && seen++ == which)
        segment.p_flags &= ~static_cast<Elf64_Word>(PF_R);
    });
    loads = seen;
    EXPECT_EQ(CheckKernelElf(bytes).status().message(),
              "kernel object: segment not readable; remove it from the cache");
  }
  EXPECT_GE(loads, 2);
}

// The test kernel with dynamic tags added, and its first segment writable; a relocation of
// `target` lies where the frames' descriptions were.
std::string WithRelocation(uint64_t target, bool sizes) {
  std::string bytes = TestKernel(1);
  uint64_t table = 0;
  ChangeSegments(bytes, [&](Elf64_Phdr& segment) {
    if (segment.p_type == PT_LOAD && segment.p_offset == 0) segment.p_flags = PF_R | PF_W;
    if (segment.p_type == PT_GNU_EH_FRAME) table = (segment.p_offset + 7) / 8 * 8;
    if (segment.p_type != PT_DYNAMIC) return;
    Elf64_Dyn* tag = reinterpret_cast<Elf64_Dyn*>(bytes.data() + segment.p_offset);
    while (tag->d_tag != DT_NULL) ++tag;
    *tag++ = {DT_RELA, {0}};  // its place is set below
    if (sizes) *tag++ = {DT_RELASZ, {sizeof(Elf64_Rela)}};
    if (sizes) *tag++ = {DT_RELAENT, {sizeof(Elf64_Rela)}};
    *tag = {DT_NULL, {0}};
  });
  const size_t rela = bytes.find(std::string("\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
  std::memcpy(bytes.data() + rela + 8, &table, sizeof(table));
  const Elf64_Rela relocation = {target, R_X86_64_RELATIVE, 0};
  std::memcpy(bytes.data() + table, &relocation, sizeof(relocation));
  return bytes;
}

uint64_t DynamicValue(int64_t tag) {
  const std::string bytes = TestKernel(1);
  for (size_t at = 0; at + 16 <= bytes.size(); at += 8) {
    Elf64_Dyn entry;
    std::memcpy(&entry, bytes.data() + at, sizeof(entry));
    if (entry.d_tag == tag && entry.d_un.d_val > 0 && entry.d_un.d_val < bytes.size() && at > 0x400)
      return entry.d_un.d_val;
  }
  return 0;
}

// A linker reads them after it has relocated.
TEST(ElfCheckTest, RefusesRelocationsOfWhatTheLinkerReads) {
  for (const int64_t tag : {int64_t{DT_GNU_HASH}, int64_t{DT_SYMTAB}, int64_t{DT_STRTAB}}) {
    const uint64_t table = DynamicValue(tag);
    ASSERT_GT(table, 0U);
    for (const uint64_t at : {table - 7, table, table + 16}) {
      EXPECT_EQ(CheckKernelElf(WithRelocation(at, true)).status().message(),
                "kernel object: relocation of what the linker reads; remove it from the cache");
    }
  }
}

// A linker that finds the one takes the others to be there.
TEST(ElfCheckTest, RefusesTagsWithoutThoseThatGoWithThem) {
  EXPECT_EQ(CheckKernelElf(WithRelocation(0, false)).status().message(),
            "kernel object: dynamic tags are missing; remove it from the cache");
}

TEST(HostRunsTest, WhatDoesNotSayWhatItNeedsRunsNowhere) {
  EXPECT_TRUE(RunsHere({{"device", "cpu"}, {"isa", ""}}));
  EXPECT_FALSE(RunsHere({{"device", "cpu"}, {"isa", "of tomorrow"}}));
  EXPECT_FALSE(RunsHere({{"device", "cpu"}, {"target", "x86-64-v3"}}));
  EXPECT_FALSE(RunsHere({{"device", "of tomorrow"}, {"isa", ""}}));
}

// What the checker lets pass must load or fail in peace; code itself may be anything, so it is not
// run.
TEST(ElfCheckTest, SurvivesMutations) {
  const std::string original = TestKernel(1);
  std::mt19937 random(1);
  int passed = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = original;
    const size_t range = i % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 1024);
    for (int k = 0; k <= i % 4; ++k)
      bytes[random() % range] = static_cast<char>(i % 3 == 0 ? 0xff : random());
    if (!CheckKernelElf(bytes).ok()) continue;
    ++passed;
    if (i % 5 == 0) (void)LoadElf(bytes);
  }
  EXPECT_GT(passed, 0);
  EXPECT_LT(passed, 3000);
}

}  // namespace
}  // namespace kiln
