// SPDX-License-Identifier: Apache-2.0
// The judges that use ForEachCase can fail.
#include "tests/fuzz/forked_cases.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::pair<uint64_t, std::string>> Failures(
    uint64_t count, const std::function<std::string(uint64_t number)>& run) {
  std::vector<std::pair<uint64_t, std::string>> failures;
  for (const FailedCase& failed :
       ForEachCase(1, count, {.time = std::chrono::milliseconds(50)}, run))
    failures.emplace_back(failed.number, failed.what);
  return failures;
}

TEST(ForkedCases, SayWhatIsWrongEndsLastsOrGrows) {
  EXPECT_THAT(Failures(2500, [](uint64_t) { return ""; }), IsEmpty());
  EXPECT_THAT(
      Failures(1200,
               [](uint64_t number) {
                 if (number == 3) std::abort();
                 if (number == 1100) std::_Exit(0);
                 return number == 1150 ? "a complaint" : "";
               }),
      ElementsAre(Pair(3, "signal 6"), Pair(1100, "exit code 0"), Pair(1150, "a complaint")));
  const auto late = Failures(3, [](uint64_t number) {
    for (volatile bool forever = number == 2; forever;) continue;
    return "";
  });
  ASSERT_EQ(late.size(), 1);
  EXPECT_THAT(late[0], Pair(2, testing::StartsWith("more than")));
}

#if !defined(__SANITIZE_ADDRESS__)  // its own options limit memory
TEST(ForkedCases, SayWhatTakesTooMuchMemory) {
  EXPECT_THAT(Failures(3,
                       [](uint64_t number) {
                         std::vector<char>(number == 2 ? size_t{1} << 30 : 1);
                         return "";
                       }),
              ElementsAre(Pair(2, "more memory than the limit")));
}
#endif

}  // namespace
}  // namespace kiln
