// SPDX-License-Identifier: Apache-2.0
#include "base/catch_exceptions.h"

#include <pthread.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/try_allocate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

template <typename Exception>
absl::Status Caught(Exception exception) {
  return CatchExceptions("work", [&]() -> absl::Status { throw exception; });
}

TEST(CatchExceptionsTest, GivesWhatTheFunctionReturns) {
  const auto seven = CatchExceptions(
      "work", []() -> absl::StatusOr<std::unique_ptr<int>> { return std::make_unique<int>(7); });
  ASSERT_TRUE(seven.ok());
  EXPECT_EQ(**seven, 7);
}

TEST(CatchExceptionsTest, EveryExceptionHasAStatus) {
  EXPECT_EQ(Caught(std::bad_alloc()), absl::ResourceExhaustedError("work: out of memory"));
  EXPECT_TRUE(absl::IsResourceExhausted(Caught(std::length_error("vector"))));
  EXPECT_TRUE(absl::IsUnavailable(
      Caught(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)))));
  EXPECT_EQ(Caught(std::logic_error("why")), absl::InternalError("work: why"));
  EXPECT_TRUE(absl::IsInternal(Caught(7)));
}

TEST(CatchExceptionsTest, ACancelledThreadIsUnwound) {
  pthread_t thread{};
  bool after = false;
  const auto work = +[](void* argument) -> void* {
    const absl::Status done =
        CatchExceptions("work", []() -> absl::Status { pthread_exit(nullptr); });
    *static_cast<bool*>(argument) = true;
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, work, &after), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_FALSE(after);
}

TEST(TryAllocateTest, WhatIsNotToBeHadIsAStatus) {
  EXPECT_TRUE(TryAllocate(DType::kF32, {2, 3}).ok());
  const auto message = [](const std::vector<int64_t>& shape, int64_t most = INT64_MAX) {
    const absl::Status status = TryAllocate(DType::kF32, shape, most).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message({int64_t{1} << 62}),
            "tensor f32 [4611686018427387904]: its size in bytes does not fit in 64 bits");
  EXPECT_EQ(message({2, -1}), "tensor f32 [2, -1]: its size in bytes does not fit in 64 bits");
  EXPECT_EQ(message({int64_t{1} << 60}),
            "tensor f32 [1152921504606846976]: no memory for 4611686018427387904 bytes");
  EXPECT_EQ(message({(INT64_MAX - 3) / 4}),
            "tensor f32 [2305843009213693951]: no memory for 9223372036854775804 bytes");
  EXPECT_EQ(message({5}, 16), "tensor f32 [5]: 20 bytes, more than the limit of 16");
}

}  // namespace
}  // namespace kiln
