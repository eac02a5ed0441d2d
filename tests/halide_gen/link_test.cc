// SPDX-License-Identifier: Apache-2.0
#include "halide_gen/cpu/link.h"

#include <gtest/gtest.h>

#include "halide_gen/common/files.h"
#include "halide_gen/common/run_tool.h"
#include "tests/base/in_child.h"

namespace kiln {
namespace {

constexpr char kFunction[] = ".globl k_argv\n.text\nk_argv:\n  ret\n";

// The code of LinkKernel on a text in a child whose files grow to `limit` bytes at most.
int CodeOfLinking(const std::string& text, rlim_t limit) {
  return InChild(
      [&] {
        const auto dir = ScratchDir::Make();
        if (!dir.ok() || !WriteBytes(dir->path() + "/k.s", text).ok() || !LimitFiles(limit))
          return 255;
        return static_cast<int>(LinkKernel(dir->path()).status().code());
      },
      60);
}

TEST(LinkTest, TellsARefusalFromALackOfSpace) {
  const size_t stub = ImportStub().size();  // the first file that is written
  EXPECT_EQ(CodeOfLinking(kFunction, RLIM_INFINITY), 0);
  EXPECT_EQ(CodeOfLinking("  no instruction\n", RLIM_INFINITY),
            static_cast<int>(absl::StatusCode::kInternal));
  const std::string large = std::string(kFunction) + ".zero " + std::to_string(stub + 65536) + "\n";
  EXPECT_EQ(CodeOfLinking(large, RLIM_INFINITY), 0);
  EXPECT_EQ(CodeOfLinking(large, stub + 16384), static_cast<int>(absl::StatusCode::kUnavailable));
}

TEST(LinkTest, AToolWithoutSpaceMayWorkAnotherTime) {
  // Its words go to the disk that is full: none, some, or all of them are there.
  for (const char* said : {"", "as: k.o: No spa", "as: k.o: No space left on device\n",
                           "ld: final link failed: No space left on device\n",
                           "as: k.o: Disk quota exceeded\n", "ld: k.so: memory exhausted\n"}) {
    EXPECT_EQ(RefusalOf("as", said).code(), absl::StatusCode::kUnavailable) << said;
  }
  const absl::Status refused = RefusalOf("as", "k.s:1: Error: no such instruction\n");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(refused.message(), "as: refuses the kernel: k.s:1: Error: no such instruction\n");
}

}  // namespace
}  // namespace kiln
