// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernel_key.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <span>
#include <string>

#include "compiler/assembler.h"
#include "compiler/program_cache.h"

namespace kiln {
namespace {

// Adds the names of the fields of a struct, read from its source.
void AddFields(const std::string& file, const std::string& name, std::set<std::string>& fields) {
  std::ifstream in(KILN_SOURCE_DIR "/include/kiln/" + file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = text.find("\nstruct " + name + " ");
  ASSERT_NE(begin, std::string::npos) << name;
  const std::string body = text.substr(begin, text.find("\n};", begin) - begin);
  const std::regex field(R"(\n  [\w:<>, &()]+ (\w+)(\{\}| = [^;]+)?;)");
  for (std::sregex_iterator it(body.begin(), body.end(), field), end; it != end; ++it)
    fields.insert((*it)[1]);
}

TEST(KernelKey, EveryOptionIsInTheKeyOrSaysWhyNot) {
  for (const std::span<const KeyOption> table : {KeyOptions(), ProgramKeyOptions()}) {
    std::set<std::string> listed;
    for (const KeyOption& option : table) {
      EXPECT_TRUE(listed.insert(option.name).second) << option.name << " stands twice";
      EXPECT_FALSE(std::string(option.reason).empty()) << option.name;
    }
    std::set<std::string> fields;
    AddFields("model.h", "RunOptions", fields);
    AddFields("options.h", "CompileOptions", fields);
    EXPECT_GT(fields.size(), 8u);
    EXPECT_EQ(listed, fields);
  }
}

TEST(KernelKey, ChangesWithEverythingThatIsInIt) {
  const KernelIdentity base{"kernel v1 math 1\n", "row_reduction", *Target::Parse("x86-64-v3"),
                            MathMode::kStrict};
  KernelIdentity text = base;
  text.text += "#";
  KernelIdentity schedule = base;
  schedule.schedule = "row_reduction step=8";
  KernelIdentity target = base;
  target.target = *Target::Parse("x86-64-v4");
  KernelIdentity math = base;
  math.math = MathMode::kFast;
  std::set<CacheKey> keys = {KernelPreimage(base).Key()};
  for (const KernelIdentity& other : {text, schedule, target, math})
    EXPECT_TRUE(keys.insert(KernelPreimage(other).Key()).second);
  EXPECT_EQ(KernelPreimage(base).Key(), KernelPreimage(KernelIdentity(base)).Key());
}

// Of code that an assembler goes on with; other code knows of none.
TEST(KernelKey, NamesTheAssembler) {
  const auto key = [](const char* target, const char* assembler) {
    return KernelPreimage({"kernel v1 math 1\n", "streaming", *Target::Parse(target),
                           MathMode::kStrict, assembler})
        .Key();
  };
  EXPECT_NE(key("cuda-sm90", ""), key("cuda-sm90", "ptxas 13.0.88"));
  EXPECT_NE(key("cuda-sm90", "ptxas 12.8.93"), key("cuda-sm90", "ptxas 13.0.88"));
  EXPECT_EQ(key("x86-64-v3", ""), key("x86-64-v3", "ptxas 13.0.88"));
  EXPECT_EQ(AssemblerOf(*Target::Parse("x86-64-v3")), "");
  EXPECT_EQ(AssemblerOf(*Target::Parse("cuda-sm90")), HostAssembler().name);
}

TEST(Assembler, IsKnownByItsVersion) {
  EXPECT_EQ(AssemblerVersion("ptxas: NVIDIA (R) Ptx optimizing assembler\n"
                             "Cuda compilation tools, release 13.0, V13.0.88\nBuild x\n"),
            "13.0.88");
  EXPECT_EQ(AssemblerVersion("GNU assembler, Version 2.40, V2.40"), "");
  EXPECT_EQ(AssemblerVersion(""), "");
  EXPECT_EQ(AssemblerVersion(", V"), "");
}

// One that was replaced while a process ran makes nothing under the old key.
TEST(Assembler, IsTheOneOfTheKey) {
  const auto made_by = [](const char* version) {
    CodegenAnswer answer;
    answer.sections = {{"ptx", ", V1.2.3"}, {"cubin", std::string("ELF\0, ", 6) + version}};
    return CheckMadeBy("ptxas 13.0.88", answer).ok();
  };
  EXPECT_TRUE(made_by("V13.0.88"));
  EXPECT_FALSE(made_by("V13.1.2"));
  EXPECT_TRUE(made_by("")) << "it does not say";
}

}  // namespace
}  // namespace kiln
