// SPDX-License-Identifier: Apache-2.0
// Assertions on absl::Status and absl::StatusOr, which Debian's abseil comes without.
//
//   KILN_EXPECT_OK(file->Close());
//   KILN_ASSERT_OK_AND_ASSIGN(const Tensor t, ReadNpy(path));
//   EXPECT_THAT(ReadNpy("absent"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"absent\"")));
#ifndef KILN_TESTS_BASE_STATUS_MATCHERS_H_
#define KILN_TESTS_BASE_STATUS_MATCHERS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, negation ? "is an error" : "is ok") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P2(StatusIs, code, message, "") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         testing::ExplainMatchResult(message, std::string(status.message()), result_listener);
}

MATCHER_P(StatusIs, code, "") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

}  // namespace kiln

#define KILN_EXPECT_OK(expr) EXPECT_THAT((expr), ::kiln::IsOk())
#define KILN_ASSERT_OK(expr) ASSERT_THAT((expr), ::kiln::IsOk())
#define KILN_ASSERT_OK_AND_ASSIGN(lhs, expr) \
  KILN_ASSERT_OK_AND_ASSIGN_IMPL_(KILN_TEST_CONCAT_(kiln_test_statusor_, __LINE__), lhs, expr)
#define KILN_ASSERT_OK_AND_ASSIGN_IMPL_(statusor, lhs, expr)  \
  auto statusor = (expr);                                     \
  ASSERT_TRUE(statusor.ok()) << statusor.status().ToString(); \
  lhs = *std::move(statusor)
#define KILN_TEST_CONCAT_(a, b) KILN_TEST_CONCAT_IMPL_(a, b)
#define KILN_TEST_CONCAT_IMPL_(a, b) a##b

#endif  // KILN_TESTS_BASE_STATUS_MATCHERS_H_
