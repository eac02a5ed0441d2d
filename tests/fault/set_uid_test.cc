// SPDX-License-Identifier: Apache-2.0
// What a caller can have a program with more rights read or run: a set-uid program believes neither
// directory nor packs of its environment, and no program runs helpers of its working directory.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

constexpr uid_t kNobody = 65534;

TEST(SetUid, CacheAndPacksAreOff) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a set-uid program of another user";
  const TempDir dir;
  const std::string program = dir.File("secure");
  std::filesystem::copy_file(KILN_TEST_BIN_DIR "/secure_cache", program);
  ASSERT_EQ(chown(program.c_str(), kNobody, static_cast<gid_t>(-1)), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  const ProcessOptions options = {.environment = {{"KILN_CACHE_DIR", "/tmp/of-the-caller"},
                                                  {"KILN_CACHE_PACKS", "/tmp/a:/tmp/b"},
                                                  {"KILN_CACHE_SHARED", "/tmp/shared"}}};
  const ProcessResult result = RunProcess({program}, options);
  if (result.out.find("secure 1") == std::string::npos)
    GTEST_SKIP() << "this file system ignores set-uid: " << result.err;
  EXPECT_EQ(result.exit, 1) << result.out;
  EXPECT_EQ(result.out.find("of-the-caller"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("packs 0"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("shared \n"), std::string::npos) << result.out;
  // The same program, not set-uid, takes them.
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  EXPECT_NE(RunProcess({program}, options).out.find("directory /tmp/of-the-caller"),
            std::string::npos);
}

// A program that is found by PATH has a name without a folder; where it then looks for its helpers,
// anybody may have put one.
TEST(SetUid, HelpersOfTheWorkingDirectoryAreNotRun) {
  const TempDir dir;
  for (const char* folder : {"app", "evil", "evil/bin"})
    ASSERT_EQ(mkdir(dir.File(folder).c_str(), 0755), 0);
  std::filesystem::copy_file(KILN_TEST_BIN_DIR "/kiln", dir.File("app/kiln"));
  for (const char* helper : {"evil/kiln-codegen", "evil/bin/kiln-codegen"}) {
    std::ofstream(dir.File(helper)) << "#!/bin/sh\ntouch " << dir.File("was-run") << "\n";
    ASSERT_EQ(chmod(dir.File(helper).c_str(), 0755), 0);
  }
  std::ofstream(dir.File("g.graph")) << "graph g\ninput x : f32 [2]\ny = sin(x)\noutput y\n";
  ProcessOptions options;
  options.directory = dir.File("evil");
  options.environment = {{"PATH", dir.File("app") + ":/usr/bin:/bin"},
                         {"KILN_CODEGEN", ""},
                         {"KILN_CACHE_DIR", dir.File("cache")}};
  const ProcessResult result =
      RunProcess({"/usr/bin/env", "kiln", "run", dir.File("g.graph")}, options);
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_NE(result.err.find("kiln-codegen\": not at"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(dir.File("was-run")));
}

}  // namespace
}  // namespace kiln
