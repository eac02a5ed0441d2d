// SPDX-License-Identifier: Apache-2.0
// A set-uid program believes neither directory nor packs of its caller's environment.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

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

}  // namespace
}  // namespace kiln
