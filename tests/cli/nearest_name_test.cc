// SPDX-License-Identifier: Apache-2.0
#include "tools/nearest_name.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

const std::vector<std::string> kVerbs = {"run", "bench", "compile", "inspect", "ops", "opt"};

TEST(NearestName, CountsEachKindOfEditOnce) {
  EXPECT_EQ(NearestName("rn", kVerbs), "run") << "dropped";
  EXPECT_EQ(NearestName("runn", kVerbs), "run") << "inserted";
  EXPECT_EQ(NearestName("ran", kVerbs), "run") << "replaced";
  EXPECT_EQ(NearestName("rnu", kVerbs), "run") << "exchanged";
  EXPECT_EQ(NearestName("cmpolie", kVerbs), "") << "an exchange, one dropped, one more exchange";
  EXPECT_EQ(NearestName("compiel", kVerbs), "compile");
  EXPECT_EQ(NearestName("run", kVerbs), "run");
}

TEST(NearestName, AllowsAThirdOfTheLongerName) {
  EXPECT_EQ(NearestName("y", {"x"}), "") << "none of one character";
  EXPECT_EQ(NearestName("xx", {"x"}), "x");
  EXPECT_EQ(NearestName("abcd", {"abxy"}), "") << "one of four";
  EXPECT_EQ(NearestName("abcde", {"abcxy"}), "abcxy") << "two of five";
  EXPECT_EQ(NearestName("", {"x", "run"}), "");
  EXPECT_EQ(NearestName("nonsense", kVerbs), "");
}

TEST(NearestName, IsTheFirstOfSeveralThatAreAsNear) {
  EXPECT_EQ(NearestName("opa", {"opt", "ops"}), "opt");
  EXPECT_EQ(NearestName("opa", {"ops", "opt"}), "ops");
  EXPECT_EQ(NearestName("input_mas", {"input_mass", "input_mas"}), "input_mas");
}

TEST(NearestName, LeavesNamesOfAnyLengthAlone) {
  EXPECT_EQ(NearestName(std::string(1 << 20, 'a'), {std::string(1 << 20, 'a'), "run"}), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

TEST(NearestName, IsAskedForInAMessage) {
  EXPECT_EQ(DidYouMean("rn", kVerbs), "; did you mean \"run\"?");
  EXPECT_EQ(DidYouMean("nonsense", kVerbs), "");
}

}  // namespace
}  // namespace kiln
