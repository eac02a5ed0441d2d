// SPDX-License-Identifier: Apache-2.0
#include "tools/man.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/help.h"
#include "tests/cli/process.h"
#include "tools/flags.h"

namespace kiln {
namespace {

// The page as a reader sees it. A warning is a failure.
std::string Rendered(const std::string& path) {
  const ProcessResult result =
      RunProcess({"/usr/bin/man", "--warnings", "-l", path},
                 {.environment = {{"MANWIDTH", "400"}, {"LC_ALL", "C.UTF-8"}, {"MANPAGER", ""}}});
  EXPECT_EQ(result.exit, 0) << path;
  EXPECT_EQ(result.err, "") << path;
  return result.out;
}

class ManTest : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/bin/man", X_OK) != 0) GTEST_SKIP() << "no man";
  }
  TempDir dir_;
};

TEST_F(ManTest, PagesHaveAllThatTheHelpsHave) {
  ASSERT_EQ(Kiln({"man", dir_.File("man1")}).exit, 0);
  std::set<std::string> pages;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.File("man1")))
    pages.insert(entry.path().filename());
  EXPECT_EQ(pages.count("kiln.1"), 1u);
  const std::string program = Rendered(dir_.File("man1/kiln.1"));
  EXPECT_THAT(program, testing::HasSubstr("EXIT STATUS"));
  for (const std::string& verb : Verbs()) {
    const std::string first = verb.substr(0, verb.find(' '));
    ASSERT_EQ(pages.count(absl::StrCat("kiln-", first, ".1")), 1u);
    EXPECT_THAT(program, testing::HasSubstr(absl::StrCat("See kiln-", first, "(1).")));
    const std::string page = Rendered(absl::StrCat(dir_.File("man1/kiln-"), first, ".1"));
    EXPECT_THAT(page, testing::HasSubstr("kiln " + verb));
    for (const std::string& flag : FlagsOf(verb))
      EXPECT_THAT(page, testing::ContainsRegex(absl::StrCat("  ", flag, "|, ", flag))) << verb;
  }
}

TEST_F(ManTest, TextIsShownAsItIs) {
  const std::string doc = R"('quoted', .5 \fB "n=@a.npy" -x --y ^~` %)";
  bool value = false;
  Flags program("kiln", "Program", "kiln 1");
  Flags& verb = program.Command("verb", doc);
  verb.Switch("--flag", value, doc);
  verb.Switch("--dot", value, ".SH is no macro here");
  std::ofstream(dir_.File("page.1")) << ManualPage(verb.Table(), program.Table());
  const std::string shown = Rendered(dir_.File("page.1"));
  EXPECT_THAT(shown, testing::HasSubstr("kiln-verb - " + doc + "\n"));
  EXPECT_THAT(shown, testing::HasSubstr("--flag " + doc + ".\n"));
  EXPECT_THAT(shown, testing::HasSubstr("--dot  .SH is no macro here.\n"));
}

TEST_F(ManTest, ADirectoryThatCannotBeMadeIsExit7) {
  std::ofstream(dir_.File("file")) << "";
  const ProcessResult result = Kiln({"man", dir_.File("file")});
  EXPECT_EQ(result.exit, 7);
  EXPECT_THAT(result.err, testing::HasSubstr(dir_.File("file/kiln.1")));
}

}  // namespace
}  // namespace kiln
