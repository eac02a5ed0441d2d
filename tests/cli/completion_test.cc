// SPDX-License-Identifier: Apache-2.0
// The scripts of `kiln completion`: their shells read them, bash and fish answer by them.
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/help.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::Not;

class CompletionTest : public testing::Test {
 protected:
  // Where the script for a shell is.
  std::string Script(const std::string& shell) {
    const ProcessResult script = Kiln({"completion", shell});
    EXPECT_EQ(script.exit, 0) << script.err;
    const std::string path = dir_.File(shell);
    std::ofstream(path) << script.out;
    return path;
  }
  static bool IsThere(const std::string& shell) {
    return access(absl::StrCat("/usr/bin/", shell).c_str(), X_OK) == 0;
  }
  static std::string Output(const std::vector<std::string>& command) {
    const ProcessResult result = RunProcess(command);
    EXPECT_EQ(result.exit, 0) << absl::StrJoin(command, " ");
    EXPECT_EQ(result.err, "");
    return result.out;
  }

  // What bash offers for the last of these words, each list of them a command line.
  std::vector<std::vector<std::string>> Bash(const std::vector<std::vector<std::string>>& lines) {
    std::string asks = absl::StrCat("source ", Script("bash"), "\ncompopt() { echo \"$*\"; }\n");
    for (const std::vector<std::string>& words : lines) {
      absl::StrAppend(&asks, "COMP_WORDS=('", absl::StrJoin(words, "' '"), "')\n",
                      "COMP_CWORD=", words.size() - 1,
                      "; _kiln; echo \"${COMPREPLY[@]}\"; echo --\n");
    }
    std::ofstream(dir_.File("asks")) << asks;
    std::vector<std::vector<std::string>> answers;
    for (absl::string_view answer :
         absl::StrSplit(Output({"/bin/bash", "--norc", dir_.File("asks")}), "--\n"))
      answers.push_back(absl::StrSplit(answer, absl::ByAnyChar(" \n"), absl::SkipEmpty()));
    answers.pop_back();  // behind the last mark
    return answers;
  }

  TempDir dir_;
};

TEST_F(CompletionTest, ShellsReadTheirScripts) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (IsThere(shell)) Output({"/usr/bin/" + shell, "-n", Script(shell)});
  }
  EXPECT_TRUE(IsThere("bash"));
}

TEST_F(CompletionTest, BashAnswers) {
  const auto answers = Bash({{"kiln", "ca"},
                             {"kiln", "cache", ""},
                             {"kiln", "run", "--comp"},
                             {"kiln", "compile", "--target", ""},
                             {"kiln", "run", "--compile-mode", "=", "b"},
                             {"kiln", "run", "-O", ""},
                             {"kiln", "completion", ""},
                             {"kiln", "cache", "verify", "--pro"},
                             {"kiln", "run", "--input", "x"},
                             {"kiln", "run", "m"},
                             {"kiln", "run", "--machine", "m"},
                             {"kiln", "run", "--cache-dir", "c"}});
  ASSERT_EQ(answers.size(), 12u);
  EXPECT_THAT(answers[0], ElementsAre("cache"));
  EXPECT_THAT(answers[1], ElementsAre("stats", "ls", "show", "diff", "why-miss", "verify", "prune",
                                      "clear", "pack", "unpack", "merge", "doctor"));
  EXPECT_THAT(answers[2], ElementsAre("--compile-mode"));
  EXPECT_THAT(answers[3], ElementsAre("x86-64-v3", "x86-64-v4", "cuda-sm80", "cuda-sm90",
                                      "cuda-sm100", "cuda-sm120"));
  EXPECT_THAT(answers[4], ElementsAre("block", "background"));
  EXPECT_THAT(answers[5], ElementsAre("0", "1", "2", "3"));
  EXPECT_THAT(answers[6], ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(answers[7], ElementsAre("--prove"));
  EXPECT_THAT(answers[8], ElementsAre()) << "any text";
  EXPECT_THAT(answers[9], ElementsAre("-o", "default")) << "a file";
  EXPECT_THAT(answers[10], ElementsAre("-o", "default")) << "a file";
  EXPECT_THAT(answers[11], ElementsAre("-o", "dirnames")) << "a directory";
}

TEST_F(CompletionTest, BashHasAllThatTheHelpsHave) {
  const std::vector<std::string> verbs = Verbs();
  std::vector<std::vector<std::string>> lines;
  for (const std::string& verb : verbs) {
    lines.push_back(absl::StrSplit("kiln " + verb, ' '));
    lines.back().push_back("-");
    lines.push_back(absl::StrSplit("kiln " + verb, ' '));
  }
  const auto answers = Bash(lines);
  ASSERT_EQ(answers.size(), 2 * verbs.size());
  for (size_t k = 0; k < verbs.size(); ++k) {
    for (const std::string& flag : FlagsOf(verbs[k]))
      EXPECT_THAT(answers[2 * k], testing::Contains(flag)) << verbs[k];
    EXPECT_THAT(answers[2 * k + 1], testing::Contains(lines[2 * k + 1].back()));
  }
}

TEST_F(CompletionTest, ZshAndFishHaveAllThatTheHelpsHave) {
  const std::string zsh = Kiln({"completion", "zsh"}).out;
  const std::string fish = Kiln({"completion", "fish"}).out;
  for (const std::string& verb : Verbs()) {
    std::string name = "\n_kiln_" + verb;
    for (char& c : name) c = c == ' ' || c == '-' ? '_' : c;
    const size_t begin = zsh.find(name + "() {");
    ASSERT_NE(begin, std::string::npos) << verb;
    const std::string function = zsh.substr(begin, zsh.find("\n}\n", begin) - begin);
    for (const std::string& flag : FlagsOf(verb)) {
      EXPECT_THAT(function, testing::ContainsRegex(absl::StrCat("[^a-z-]", flag, "[^a-z-]")));
      const bool is_long = flag[1] == '-';
      const std::string option =
          absl::StrCat(is_long ? "-l " : "-s ", flag.substr(is_long ? 2 : 1), " ");
      const std::string at = absl::StrCat("__kiln_at kiln ", verb, "'[^\n]* ", option);
      EXPECT_THAT(fish, testing::ContainsRegex(at));
    }
  }
}

TEST_F(CompletionTest, FishAnswers) {
  if (!IsThere("fish")) GTEST_SKIP() << "no fish";
  const std::string source = absl::StrCat("source ", Script("fish"), "; complete -C ");
  const auto fish = [&](const std::string& line) {
    return Output({"/usr/bin/fish", "--no-config", "-c", absl::StrCat(source, "'", line, "'")});
  };
  EXPECT_EQ(fish("kiln ca"), "cache\tLook into the kernel cache\n");
  EXPECT_THAT(fish("kiln run --comp"), testing::StartsWith("--compile-mode\t"));
  EXPECT_THAT(fish("kiln compile --target "), testing::HasSubstr("x86-64-v3"));
  const std::string cache = fish("kiln cache ");
  EXPECT_THAT(cache, testing::HasSubstr("why-miss\t"));
  EXPECT_THAT(cache, Not(testing::HasSubstr("compile\t")));
}

TEST_F(CompletionTest, AnotherShellIsWrongUsage) {
  const ProcessResult result = Kiln({"completion", "zhs"});
  EXPECT_EQ(result.exit, 2);
  EXPECT_EQ(result.err,
            "kiln: SHELL: is \"zhs\", expected one of bash, zsh, fish; did you mean \"zsh\"?\n");
}

}  // namespace
}  // namespace kiln
