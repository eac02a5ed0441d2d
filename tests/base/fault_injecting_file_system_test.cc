// SPDX-License-Identifier: Apache-2.0
#include "tests/base/fault_injecting_file_system.h"

#include <cerrno>
#include <string>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

using absl::StatusCode;

class FaultInjectingFileSystemTest : public testing::Test {
 protected:
  // The four steps of publishing a file, a fifth when `sync`.
  absl::Status Publish(bool sync) {
    KILN_ASSIGN_OR_RETURN(const auto file, faults_.CreateExclusive(dir_.File("tmp"), 0600));
    KILN_RETURN_IF_ERROR(file->Append("content"));
    if (sync) KILN_RETURN_IF_ERROR(file->Sync());
    KILN_RETURN_IF_ERROR(file->Close());
    return faults_.Rename(dir_.File("tmp"), dir_.File("entry"));
  }

  std::string Content(const std::string& name) {
    return RealFileSystem().ReadFile(dir_.File(name), 100).value_or("absent");
  }

  TempDir dir_;
  FaultInjectingFileSystem faults_{RealFileSystem()};
};

TEST_F(FaultInjectingFileSystemTest, PassesCallsThroughAndCountsThem) {
  KILN_EXPECT_OK(Publish(/*sync=*/true));
  EXPECT_EQ(faults_.calls(), 5);
  EXPECT_EQ(faults_.log().back().op, "Rename");
  EXPECT_EQ(faults_.log().back().path, dir_.File("tmp"));
  EXPECT_EQ(Content("entry"), "content");
}

TEST_F(FaultInjectingFileSystemTest, FailsOneCall) {
  faults_.FailCall(4, EACCES);
  EXPECT_THAT(Publish(true), StatusIs(StatusCode::kPermissionDenied));
  EXPECT_EQ(Content("entry"), "absent");
  EXPECT_EQ(Content("tmp"), "content");
  KILN_EXPECT_OK(faults_.Unlink(dir_.File("tmp")));
}

TEST_F(FaultInjectingFileSystemTest, FailsAllCallsOfAKind) {
  faults_.FailAll("Sync", EIO);
  EXPECT_THAT(Publish(true), StatusIs(StatusCode::kUnavailable));
  faults_.SetHook(nullptr);
  KILN_EXPECT_OK(faults_.Unlink(dir_.File("tmp")));
  KILN_EXPECT_OK(Publish(true));
}

TEST_F(FaultInjectingFileSystemTest, TearsAFailingAppend) {
  faults_.TearAppends(3);
  faults_.FailCall(1, ENOSPC);
  EXPECT_THAT(Publish(true), StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(Content("tmp"), "con");
}

TEST_F(FaultInjectingFileSystemTest, NothingWorksAfterACrash) {
  faults_.CrashAtCall(3);
  EXPECT_THAT(Publish(true), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(faults_.Unlink(dir_.File("tmp")), StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(Content("tmp"), "content");
}

TEST_F(FaultInjectingFileSystemTest, CutsAReadShort) {
  KILN_ASSERT_OK(Publish(true));
  faults_.SetHook([](const FaultInjectingFileSystem::Call& call) {
    return call.op == "Read" ? FaultInjectingFileSystem::kShort : 0;
  });
  KILN_ASSERT_OK_AND_ASSIGN(const auto file, faults_.OpenRead(dir_.File("entry")));
  EXPECT_EQ(file->Read(0, 7).value(), "con");
}

TEST_F(FaultInjectingFileSystemTest, LosesDataThatWasNotSynced) {
  KILN_ASSERT_OK(Publish(/*sync=*/false));
  faults_.LoseUnsyncedData();
  EXPECT_EQ(Content("entry"), "");
}

TEST_F(FaultInjectingFileSystemTest, KeepsDataThatWasSynced) {
  KILN_ASSERT_OK(Publish(/*sync=*/true));
  faults_.LoseUnsyncedData();
  EXPECT_EQ(Content("entry"), "content");
}

}  // namespace
}  // namespace kiln
