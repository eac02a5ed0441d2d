// SPDX-License-Identifier: Apache-2.0
#include "base/file_system.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kPlenty = 1 << 20;

class FileSystemTest : public testing::Test {
 protected:
  absl::Status Write(const std::string& path, absl::string_view content) {
    KILN_ASSIGN_OR_RETURN(const auto file, fs_.CreateExclusive(path, 0600));
    KILN_RETURN_IF_ERROR(file->Append(content));
    KILN_RETURN_IF_ERROR(file->Sync());
    return file->Close();
  }

  TempDir dir_;
  FileSystem& fs_ = RealFileSystem();
};

TEST_F(FileSystemTest, ReadsBackWhatItWrote) {
  const std::string content("a\0b\n", 4);
  KILN_ASSERT_OK(Write(dir_.File("f"), content));
  KILN_ASSERT_OK_AND_ASSIGN(const std::string back, fs_.ReadFile(dir_.File("f"), 4));
  EXPECT_EQ(back, content);
  EXPECT_THAT(fs_.ReadFile(dir_.File("f"), 3),
              StatusIs(StatusCode::kOutOfRange, HasSubstr("4 bytes, more than the limit of 3")));
}

TEST_F(FileSystemTest, AppendsInOrder) {
  KILN_ASSERT_OK_AND_ASSIGN(auto file, fs_.CreateExclusive(dir_.File("f"), 0600));
  KILN_EXPECT_OK(file->Append("one "));
  KILN_EXPECT_OK(file->Append(""));
  KILN_EXPECT_OK(file->Append("two"));
  KILN_EXPECT_OK(file->Close());
  EXPECT_THAT(fs_.ReadFile(dir_.File("f"), kPlenty).value(), "one two");
}

TEST_F(FileSystemTest, AbsentFilesAreNotFoundEverywhere) {
  const std::string absent = dir_.File("absent");
  EXPECT_THAT(
      fs_.ReadFile(absent, kPlenty),
      StatusIs(StatusCode::kNotFound, "\"" + absent + "\": open: No such file or directory"));
  EXPECT_THAT(fs_.Rename(absent, dir_.File("b")), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(fs_.Unlink(absent), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(fs_.ListDir(absent), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(fs_.Stat(absent), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(fs_.Touch(absent), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(fs_.SyncDir(absent), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(fs_.CreateExclusive(absent + "/f", 0600), StatusIs(StatusCode::kNotFound));
}

TEST_F(FileSystemTest, CreatesOnlyNewFiles) {
  KILN_ASSERT_OK(Write(dir_.File("f"), "old"));
  EXPECT_THAT(fs_.CreateExclusive(dir_.File("f"), 0600), StatusIs(StatusCode::kAlreadyExists));
  ASSERT_EQ(symlink("nowhere", dir_.File("link").c_str()), 0);
  EXPECT_THAT(fs_.CreateExclusive(dir_.File("link"), 0600), StatusIs(StatusCode::kAlreadyExists));
}

TEST_F(FileSystemTest, ReadsRegularFilesOnly) {
  KILN_ASSERT_OK(Write(dir_.File("f"), "x"));
  ASSERT_EQ(symlink("f", dir_.File("link").c_str()), 0);
  ASSERT_EQ(mkfifo(dir_.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(fs_.ReadFile(dir_.File("link"), kPlenty), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(fs_.ReadFile(dir_.File("fifo"), kPlenty), StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(fs_.ReadFile(dir_.path(), kPlenty), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(FileSystemTest, RenameReplacesTheTarget) {
  KILN_ASSERT_OK(Write(dir_.File("a"), "new"));
  KILN_ASSERT_OK(Write(dir_.File("b"), "old"));
  KILN_ASSERT_OK(fs_.Rename(dir_.File("a"), dir_.File("b")));
  EXPECT_EQ(fs_.ReadFile(dir_.File("b"), kPlenty).value(), "new");
  EXPECT_THAT(fs_.Stat(dir_.File("a")), StatusIs(StatusCode::kNotFound));
}

TEST_F(FileSystemTest, MakeDirAcceptsADirectoryButNothingElse) {
  KILN_EXPECT_OK(fs_.MakeDir(dir_.File("d"), 0700));
  KILN_EXPECT_OK(fs_.MakeDir(dir_.File("d"), 0700));
  KILN_EXPECT_OK(fs_.SyncDir(dir_.File("d")));
  KILN_ASSERT_OK(Write(dir_.File("f"), ""));
  ASSERT_EQ(symlink("d", dir_.File("link").c_str()), 0);
  EXPECT_THAT(fs_.MakeDir(dir_.File("f"), 0700), StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(fs_.MakeDir(dir_.File("link"), 0700), StatusIs(StatusCode::kAlreadyExists));
}

TEST_F(FileSystemTest, ListsNamesInOrder) {
  KILN_ASSERT_OK(Write(dir_.File("b"), ""));
  KILN_ASSERT_OK(Write(dir_.File("a"), ""));
  KILN_ASSERT_OK(fs_.MakeDir(dir_.File("c"), 0700));
  KILN_ASSERT_OK_AND_ASSIGN(const auto names, fs_.ListDir(dir_.path()));
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(fs_.ListDir(dir_.File("a")), StatusIs(StatusCode::kNotFound));  // ENOTDIR
}

TEST_F(FileSystemTest, StatDescribesFilesDirectoriesAndLinks) {
  KILN_ASSERT_OK(Write(dir_.File("f"), std::string(5000, 'x')));
  KILN_ASSERT_OK_AND_ASSIGN(const FileInfo file, fs_.Stat(dir_.File("f")));
  EXPECT_EQ(file.size, 5000);
  EXPECT_GE(file.allocated_bytes, 0);
  EXPECT_EQ(file.mode, 0600u);
  EXPECT_EQ(file.uid, getuid());
  EXPECT_TRUE(file.is_regular && !file.is_dir && !file.is_symlink);

  KILN_ASSERT_OK_AND_ASSIGN(const FileInfo dir, fs_.Stat(dir_.path()));
  EXPECT_TRUE(dir.is_dir && !dir.is_regular);
  EXPECT_EQ(dir.mode, 0700u);
  EXPECT_EQ(dir.device, file.device);
  EXPECT_NE(dir.inode, file.inode);

  ASSERT_EQ(symlink("f", dir_.File("link").c_str()), 0);
  KILN_ASSERT_OK_AND_ASSIGN(const FileInfo link, fs_.Stat(dir_.File("link")));
  EXPECT_TRUE(link.is_symlink && !link.is_regular);
}

TEST_F(FileSystemTest, TouchSetsTheTimeOfAFileOrLinkItself) {
  KILN_ASSERT_OK(Write(dir_.File("f"), "x"));
  const timespec old[2] = {{1000, 0}, {1000, 5}};
  ASSERT_EQ(utimensat(AT_FDCWD, dir_.File("f").c_str(), old, 0), 0);
  EXPECT_EQ(fs_.Stat(dir_.File("f"))->mtime_ns, 1000'000'000'005);
  ASSERT_EQ(symlink("f", dir_.File("link").c_str()), 0);
  KILN_ASSERT_OK(fs_.Touch(dir_.File("link")));
  EXPECT_EQ(fs_.Stat(dir_.File("f"))->mtime_ns, 1000'000'000'005);
  KILN_ASSERT_OK(fs_.Touch(dir_.File("f")));
  const int64_t now = static_cast<int64_t>(time(nullptr)) * 1'000'000'000;
  EXPECT_NEAR(fs_.Stat(dir_.File("f"))->mtime_ns, now, 60e9);
}

TEST_F(FileSystemTest, ReadsRangesAndStopsAtTheEnd) {
  KILN_ASSERT_OK(Write(dir_.File("f"), "0123456789"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto file, fs_.OpenRead(dir_.File("f")));
  EXPECT_EQ(file->info().size, 10);
  EXPECT_EQ(file->Read(3, 4).value(), "3456");
  EXPECT_EQ(file->Read(8, int64_t{1} << 60).value(), "89");
  EXPECT_EQ(file->Read(50, 4).value(), "");
  EXPECT_THAT(file->Read(-1, 4), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(fs_.OpenRead(dir_.path()), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(FileSystemTest, LocksBytesOfAFileApart) {
  const std::string path = dir_.File("lock");
  KILN_ASSERT_OK_AND_ASSIGN(auto first, fs_.TryLock(path, 7));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(fs_.TryLock(path, 7).value(), nullptr);
  EXPECT_NE(fs_.TryLock(path, int64_t{1} << 61).value(), nullptr);
  first.reset();
  EXPECT_NE(fs_.TryLock(path, 7).value(), nullptr);
}

TEST_F(FileSystemTest, LockOfADeadProcessIsGone) {
  const std::string path = dir_.File("lock");
  const pid_t child = fork();
  if (child == 0) {
    const auto held = fs_.TryLock(path, 0);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_NE(fs_.TryLock(path, 0).value(), nullptr);
}

TEST_F(FileSystemTest, TellsTheDisk) {
  KILN_ASSERT_OK_AND_ASSIGN(const DiskInfo disk, fs_.Disk(dir_.path()));
  EXPECT_GT(disk.total_bytes, 0);
  EXPECT_LE(disk.free_bytes, disk.total_bytes);
  EXPECT_FALSE(disk.kind.empty());
}

TEST_F(FileSystemTest, RemovesEmptyDirectoriesOnly) {
  KILN_ASSERT_OK(fs_.MakeDir(dir_.File("d"), 0700));
  KILN_ASSERT_OK(Write(dir_.File("d/f"), ""));
  EXPECT_FALSE(fs_.Unlink(dir_.File("d")).ok());
  KILN_ASSERT_OK(fs_.Unlink(dir_.File("d/f")));
  KILN_EXPECT_OK(fs_.Unlink(dir_.File("d")));
}

}  // namespace
}  // namespace kiln
