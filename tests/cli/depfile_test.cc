// SPDX-License-Identifier: Apache-2.0
#include "tools/depfile.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

TEST(Depfile, ListsEachFileOnce) {
  EXPECT_EQ(*DepfileText("m.kiln", {"a.onnx", "b", "a.onnx"}), "m.kiln: \\\n  a.onnx \\\n  b\n");
  EXPECT_EQ(*DepfileText("m.kiln", {}), "m.kiln:\n");
  for (const char* ends : {"a\nb", "w;touch${IFS}x", "a|b"})
    EXPECT_FALSE(DepfileText("m.kiln", {ends}).ok())
        << "make would read more than a name: " << ends;
}

// make itself says what it reads: the files of the rule, which are there under their own names.
TEST(Depfile, MakeReadsTheNamesThatWereWritten) {
  TempDir dir;
  const std::vector<std::string> names = {"plain",   "two words", "a$b", "a${b}", "x#y",
                                          "back\\s", "b\\ c",     "a:b", "c\\:d"};
  for (const std::string& name : names) std::ofstream(dir.File(name)) << name;
  std::ofstream(dir.File("Makefile"))
      << *DepfileText("out", names) << "\techo made > out\n.SUFFIXES:\n";
  const auto make = [&] { return RunProcess({"/usr/bin/make", "-rR"}, {.directory = dir.path()}); };
  const ProcessResult made = make();
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_THAT(make().out, testing::HasSubstr("up to date"));
  for (const std::string& name : names) {
    std::filesystem::last_write_time(
        dir.File(name), std::filesystem::last_write_time(dir.File("out")) + std::chrono::hours(1));
    EXPECT_THAT(make().out, testing::HasSubstr("echo made")) << name;
    std::filesystem::last_write_time(
        dir.File(name), std::filesystem::last_write_time(dir.File("out")) - std::chrono::hours(1));
    EXPECT_THAT(make().out, testing::HasSubstr("up to date")) << name;
  }
}

TEST(Depfile, CompileNamesAllThatItRead) {
  TempDir dir;
  std::ofstream(dir.File("w.bin")) << std::string(8, '\0');
  std::ofstream(dir.File("m.onnx"), std::ios::binary) << OnnxModel(
      17, OnnxGraph({OnnxNode("Add", {"x", "w"}, {"y"})}, {OnnxValue("x", kFloat, {"n", 2})},
                    {OnnxValue("y")}, {OnnxExternal("w", kFloat, {2}, {{"location", "w.bin"}})}));
  std::ofstream(dir.File("shapes")) << "n=2  # a set\nn=3\n";
  const ProcessResult made = Kiln({"compile", "m.onnx", "-o", "m.kiln", "--depfile", "m.d",
                                   "--shapes", "shapes", "-q", "--cache-dir", dir.File("cache")},
                                  {.directory = dir.path()});
  ASSERT_EQ(made.exit, 0) << made.err;
  EXPECT_EQ(Contents(dir.File("m.d")), "m.kiln: \\\n  m.onnx \\\n  ./w.bin \\\n  shapes\n");
  EXPECT_EQ(Kiln({"compile", dir.File("m.onnx"), "--cache-only", "--depfile", dir.File("d")}).exit,
            2)
      << "nothing depends";
  const ProcessResult nowhere =
      Kiln({"compile", dir.File("m.onnx"), "-o", dir.File("n.kiln"), "-q", "--depfile",
            dir.File("none/m.d"), "--cache-dir", dir.File("cache")});
  EXPECT_EQ(nowhere.exit, 7) << nowhere.err;
  EXPECT_FALSE(std::filesystem::exists(dir.File("n.kiln"))) << "one without its depfile";
}

}  // namespace
}  // namespace kiln
