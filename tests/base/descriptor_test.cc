// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/base/in_child.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(Descriptor, ClosesWhatItWasGiven) {
  int fd = -1;
  {
    Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    fd = null.get();
    ASSERT_TRUE(null.IsOurs());
    const Descriptor moved = std::move(null);
    EXPECT_TRUE(moved.IsOurs());
    EXPECT_FALSE(null);  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
  Descriptor none;
  EXPECT_FALSE(none.IsOurs());
  EXPECT_EQ(none.Close(), 0);
}

TEST(Descriptor, LeavesAFileOfTheHostsOpen) {
  int fd = -1;
  {
    Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    fd = null.get();
    const int other = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(dup2(other, fd), fd);
    close(other);
    EXPECT_FALSE(null.IsOurs());
    EXPECT_EQ(null.Close(), 0);
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

TEST(Descriptor, LiesAboveTheStandardOnes) {
  EXPECT_EQ(InChild(
                [] {
                  close(0);
                  const Descriptor null(open("/dev/null", O_RDONLY));
                  if (null.get() <= 2 || !null.IsOurs() || IsOpen(0)) return 1;
                  const rlimit three = {3, 3};
                  if (setrlimit(RLIMIT_NOFILE, &three) != 0) return 2;
                  const Descriptor none(open("/dev/null", O_RDONLY));
                  return !none && errno == EMFILE && !IsOpen(0) ? 0 : 3;
                },
                10),
            0);
}

// At its limit a file grows no more, and SIGXFSZ would end the process.
TEST(WriteAll, TheLimitOfAFileIsAnError) {
  const TempDir dir;
  EXPECT_EQ(InChild(
                [&] {
                  if (!LimitFiles(10)) return 1;
                  const std::string path = dir.File("f");
                  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
                  if (!WriteAll(file, "1234567890", path).ok()) return 2;
                  if (!absl::IsResourceExhausted(WriteAll(file, "1", path))) return 3;
                  const Descriptor wide(open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
                  return absl::IsResourceExhausted(WriteAll(wide, "12345678901", path)) ? 0 : 4;
                },
                10),
            0);
}

}  // namespace
}  // namespace kiln
