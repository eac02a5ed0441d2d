// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cerrno>
#include <memory>

#include "absl/strings/cord.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using testing::Not;

absl::StatusOr<std::unique_ptr<int>> Boxed(int value) {
  if (value < 0) return absl::OutOfRangeError("negative");
  return std::make_unique<int>(value);
}

absl::StatusOr<int> SumOf(int a, int b) {
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<int> x, Boxed(a));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<int> y, Boxed(b));
  return *x + *y;
}

absl::Status Both(const absl::Status& first, int& calls) {
  KILN_RETURN_IF_ERROR(first);
  KILN_RETURN_IF_ERROR((++calls, absl::OkStatus()));
  return absl::AbortedError("end");
}

TEST(StatusMacrosTest, AssignTakesMoveOnlyValuesAndPassesErrorsOn) {
  KILN_ASSERT_OK_AND_ASSIGN(const int sum, SumOf(2, 3));
  EXPECT_EQ(sum, 5);
  EXPECT_THAT(SumOf(2, -3), StatusIs(absl::StatusCode::kOutOfRange, "negative"));
}

TEST(StatusMacrosTest, ReturnIfErrorStopsAtTheFirstError) {
  int calls = 0;
  EXPECT_THAT(Both(absl::CancelledError("c"), calls), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(Both(absl::OkStatus(), calls), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(calls, 1);
}

TEST(StatusTest, AnnotatePrependsAndKeepsCodeAndPayload) {
  absl::Status status = absl::InvalidArgumentError("rank 3");
  status.SetPayload("kiln/test", absl::Cord("p"));
  const absl::Status annotated = Annotate(status, "importing \"m.onnx\"");
  EXPECT_THAT(annotated,
              StatusIs(absl::StatusCode::kInvalidArgument, "importing \"m.onnx\": rank 3"));
  EXPECT_EQ(annotated.GetPayload("kiln/test"), absl::Cord("p"));
  EXPECT_THAT(Annotate(absl::OkStatus(), "x"), IsOk());
}

TEST(StatusTest, ErrnoBecomesCodeAndText) {
  EXPECT_THAT(
      ErrnoStatus(ENOSPC, "/a b", "write"),
      StatusIs(absl::StatusCode::kResourceExhausted, "\"/a b\": write: No space left on device"));
  EXPECT_THAT(ErrnoStatus(ENOENT, "x", "open"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ErrnoStatus(EIO, "x", "read"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(StatusMatchersTest, TellErrorsApart) {
  EXPECT_THAT(absl::InternalError("x"), Not(IsOk()));
  EXPECT_THAT(absl::InternalError("x"), Not(StatusIs(absl::StatusCode::kAborted)));
  EXPECT_THAT(absl::InternalError("x"), Not(StatusIs(absl::StatusCode::kInternal, "y")));
}

TEST(CheckDeathTest, NamesTheConditionThatDoesNotHold) {
  KILN_CHECK(1 + 1 == 2);
  EXPECT_DEATH(KILN_CHECK(1 + 1 == 3), "status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace kiln
