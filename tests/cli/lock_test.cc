// SPDX-License-Identifier: Apache-2.0
// kiln lock, and --locked of run and compile.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tools/diff_lines.h"
#include "tools/lock_text.h"

namespace kiln {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(DiffLines, KeepsWhatIsInBothAndShortensIt) {
  EXPECT_EQ(DiffLines("a\nb\nc\n", "a\nx\nc\n"), "  a\n- b\n+ x\n  c\n");
  EXPECT_EQ(DiffLines("", "a\n"), "+ a\n");
  EXPECT_EQ(DiffLines("a\na\n", "a\n"), "  a\n- a\n");
  EXPECT_EQ(WithContext("  a\n  b\n- c\n  d\n  e\n", 1), " ...\n  b\n- c\n  d\n ...\n");
  EXPECT_EQ(WithContext("  a\n", 1), " ...\n");
}

TEST(LockText, IsReadAsItIsWritten) {
  const LockText lock{"kiln lock 1\nx\n", {"variant a\nb\n", "plan a\n"}};
  const auto read = LockText::Parse(lock.ToString());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->head, lock.head);
  EXPECT_EQ(read->blocks, lock.blocks);
  EXPECT_THAT(std::string(LockText::Parse("kiln lock 2\n").status().message()),
              HasSubstr("begins with \"kiln lock 2\", expected \"kiln lock 1\""));
  EXPECT_FALSE(LockText::Parse("").ok());
}

TEST(LockText, NotLockedIsWhatIsMissing) {
  const LockText locked{
      "h\n", {"variant v3\nk 1\n", "variant v3 where n == 1\nk 2\n", "plan v3 x [2]\na 1\n"}};
  EXPECT_EQ(NotLocked(locked, {"h\n", {"variant v3\nk 1\n"}}), "") << "a part will do";
  EXPECT_EQ(NotLocked(locked, {"h\n", {"plan v3 x [3]\na 7\n"}}), "") << "of other inputs";
  EXPECT_THAT(NotLocked(locked, {"h\n", {"plan v3 x [2]\na 7\n"}}), HasSubstr("- a 1\n+ a 7\n"));
  EXPECT_THAT(NotLocked(locked, {"h\n", {"variant v3\nk 5\n"}}), HasSubstr("- k 1\n+ k 5\n"));
  EXPECT_THAT(NotLocked(locked, {"h\n", {"variant v4\nk 1\n"}}),
              HasSubstr("not in the lock: variant v4"));
  EXPECT_THAT(NotLocked(locked, {"i\n", {}}), HasSubstr("- h\n+ i\n"));
}

class LockTest : public testing::Test {
 protected:
  void SetUp() override { Write("tanh"); }
  void Write(const std::string& op) {
    std::ofstream(model_) << "graph g\ninput x : f32 [n, 32]\ninput w : f32 [32, 8]\ne = " << op
                          << "(x)\ns = softmax(e) {axis = 1}\nm = matmul(s, w)\noutput m\n";
  }
  ProcessResult Do(std::vector<std::string> arguments, const ProcessOptions& options = {}) {
    arguments.insert(arguments.end(), {"-q", "--cache-dir", dir_.File("cache")});
    return Kiln(arguments, options);
  }
  TempDir dir_;
  const std::string model_ = dir_.File("g.graph"), lock_ = model_ + ".lock";
};

TEST_F(LockTest, SaysWhatIsCompiledAndNothingOfTheMachine) {
  ASSERT_EQ(Do({"lock", model_, "--dim", "n=5", "--target", "x86-64-v3"}).exit, 0);
  const std::string lock = Contents(lock_);
  EXPECT_THAT(lock, testing::StartsWith("kiln lock 1\noptions: level 3, jit 2"));
  for (const char* const part :
       {"\ninput \"x\" f32 [n, 32]\n", "\nvariant x86-64-v3", "\nkernel ",
        "\n  at most -1,32: ", "\nlaunch kernel ", "\nlaunch matmul ", "160*n + 1024 bytes\n",
        "\ntotal 2 launches, ", "\nplan x86-64-v3 \"x\" [5, 32], \"w\" [32, 8]\narena "})
    EXPECT_THAT(lock, HasSubstr(part));
  EXPECT_THAT(lock, Not(HasSubstr(dir_.path())));

  std::filesystem::create_directories(dir_.File("other"));
  std::filesystem::copy_file(model_, dir_.File("other/renamed.graph"));
  const ProcessResult there = Do({"lock", "renamed.graph", "-o", "-", "--dim", "n=5", "--target",
                                  "x86-64-v3", "--threads", "7"},
                                 {.directory = dir_.File("other")});
  EXPECT_EQ(there.out, lock) << there.err;
}

TEST_F(LockTest, CheckTellsWhatHasChanged) {
  ASSERT_EQ(Do({"lock", model_, "--dim", "n=5"}).exit, 0);
  const std::string was = Contents(lock_);
  EXPECT_EQ(Do({"lock", model_, "--check", "--dim", "n=5"}).exit, 0);
  Write("sigmoid");
  const ProcessResult differs = Do({"lock", model_, "--check", "--dim", "n=5"});
  EXPECT_EQ(differs.exit, 1);
  EXPECT_THAT(differs.out, HasSubstr("\n- kernel "));
  EXPECT_THAT(differs.out, HasSubstr("\n+ kernel "));
  EXPECT_THAT(differs.out, Not(HasSubstr("input \"x\""))) << "what is the same";
  EXPECT_EQ(Contents(lock_), was);
  const ProcessResult told = Do({"lock", model_, "--check", "--dim", "n=5", "--json"});
  EXPECT_EQ(told.exit, 1);
  EXPECT_EQ(json::parse(told.out)["results"]["same"], false);
  EXPECT_EQ(Do({"lock", model_, "--check", "-o", dir_.File("none")}).exit, 7);
}

// A model of which no program is compiled: its one operator runs on the host.
TEST_F(LockTest, HasTheStepsOfAScript) {
  const auto write = [&](int sorted) {
    std::ofstream(model_) << "graph g\ninput x : f32 [n]\n"
                          << "u, f, v, c = unique(x) {extents = [k, k, n, k], sorted = " << sorted
                          << "}\noutput u\n";
  };
  write(1);
  ASSERT_EQ(Do({"lock", model_, "--dim", "n=5"}).exit, 0);
  EXPECT_THAT(Contents(lock_), HasSubstr("\nscript \"g\"\nstep unique \"u\" sorted=1\n"));
  const std::vector<std::string> run = {"run", model_, "--dim", "n=5", "--locked", lock_};
  EXPECT_EQ(Do(run).exit, 0);
  write(0);
  const ProcessResult differs = Do(run);
  EXPECT_EQ(differs.exit, 1);
  EXPECT_THAT(differs.err, HasSubstr("\n- step unique \"u\" sorted=1\n"));
  EXPECT_THAT(differs.err, HasSubstr("\n+ step unique \"u\" sorted=0\n"));
}

TEST_F(LockTest, LockedRunsWhatStandsThereAndRefusesAllElse) {
  ASSERT_EQ(Do({"lock", model_, "--dim", "n=5"}).exit, 0);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"run", model_, "--locked", lock_, "--compile-mode", "never"};
    all.insert(all.end(), more.begin(), more.end());
    return Do(all);
  };
  EXPECT_EQ(run({"--dim", "n=5"}).exit, 0);
  EXPECT_EQ(run({"--dim", "n=6"}).exit, 0) << "the same variant";
  const ProcessResult level = run({"--dim", "n=5", "-O0"});
  EXPECT_EQ(level.exit, 1);
  EXPECT_EQ(level.out, "") << "it has not run";
  EXPECT_THAT(level.err, HasSubstr("what would be compiled differs"));
  EXPECT_THAT(level.err, HasSubstr("- options: level 3"));
  EXPECT_THAT(level.err, HasSubstr("+ options: level 0"));
  Write("sigmoid");
  EXPECT_EQ(run({"--dim", "n=5"}).exit, 1);
}

TEST_F(LockTest, LockedCompilesWhatStandsThereAndRefusesAllElse) {
  ASSERT_EQ(
      Do({"lock", model_, "--dim", "n=5", "--target", "x86-64-v3", "--target", "x86-64-v4"}).exit,
      0);
  const std::string package = dir_.File("m.kiln");
  const auto compile = [&](const std::string& target) {
    return Do(
        {"compile", model_, "-o", package, "--dim", "n=5", "--locked", lock_, "--target", target});
  };
  EXPECT_EQ(compile("x86-64-v3").exit, 0) << "one of two";
  std::filesystem::remove(package);
  Write("sigmoid");
  EXPECT_EQ(compile("x86-64-v3").exit, 1);
  EXPECT_FALSE(std::filesystem::exists(package));
  std::ofstream(lock_) << "kiln lock 9\n";
  const ProcessResult bad = compile("x86-64-v3");
  EXPECT_EQ(bad.exit, 2);
  EXPECT_THAT(bad.err, HasSubstr("begins with \"kiln lock 9\", expected \"kiln lock 1\""));
}

}  // namespace
}  // namespace kiln
