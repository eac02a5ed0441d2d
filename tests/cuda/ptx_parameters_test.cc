// SPDX-License-Identifier: Apache-2.0
// exec/cuda/ptx_parameters.h against the emulator's parser: of a text that both take, changed at
// random, a function has the same parameters for both. KILN_PTX_TEXTS texts, from KILN_SEED on.
#include "exec/cuda/ptx_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ptx_emulator/parser.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"

namespace kiln::cuda {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kText[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k1(\n\t.param .u64 .ptr .global .align 16 k1_param_0,\n"
    "\t.param .u32 k1_param_1,\n\t.param .align 4 .b8 k1_param_2[12]\n)\n.maxntid 512, 1, 1\n"
    "{\n\t.reg .b32 %r<2>;\n\tmov.u32 %r1, 7;\n\tret;\n}\n"
    ".visible .entry k10()\n{\n\tret;\n}\n"
    ".visible .entry k(.param .f64 x, .param .b16 y)\n{\n\tret;\n}\n";

TEST(PtxParameters, AreWhatTheFunctionDeclares) {
  const std::string with_end(kText, sizeof(kText));
  KILN_EXPECT_OK(CheckPtx(kText));
  KILN_EXPECT_OK(CheckPtx(with_end));
  EXPECT_THAT(*PtxParameters(kText, "k1"), ElementsAre(8, 4, 12));
  EXPECT_THAT(*PtxParameters(kText, "k10"), IsEmpty());
  EXPECT_THAT(*PtxParameters(kText, "k"), ElementsAre(8, 2));
}

std::string ErrorOf(const std::string& text, const char* entry = "k1") {
  return std::string(PtxParameters(text, entry).status().message());
}

TEST(PtxParameters, OfWhatIsNoneAreRefused) {
  EXPECT_THAT(ErrorOf(kText, "k2"), HasSubstr("is not in the text"));
  EXPECT_THAT(ErrorOf(std::string(kText) + kText), HasSubstr("stands there twice"));
  EXPECT_THAT(ErrorOf(".entry k1(.param .u64 a"), HasSubstr("without an end"));
  EXPECT_THAT(ErrorOf(".entry k1(.param .u64 a, .param .u7 b)"), HasSubstr("parameter 1"));
  EXPECT_THAT(ErrorOf(".entry k1(.param .b8 a[99999999999])"), HasSubstr("parameter 0"));
  EXPECT_THAT(ErrorOf(".entry k1(.reg .u64 a)"), HasSubstr("not understood"));
  for (const std::string& text :
       {std::string("\x7f"
                    "ELF.entry k1()"),
        std::string(".version 7.0 // .entry k1()"), std::string(".version 7.0 /* .entry k1() */"),
        std::string(".entry\0 k1()", 13), std::string()})
    EXPECT_THAT(CheckPtx(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
}

std::string Changed(std::string text, std::mt19937_64& random) {
  for (size_t times = 1 + random() % 2; times > 0; --times) {
    const size_t at = random() % text.size(), length = random() % 24;
    const std::string piece = text.substr(random() % text.size(), length);
    if (random() % 3 == 0)
      text.insert(at, piece);
    else if (random() % 2 == 0)
      text.erase(at, length);
    else
      text[at] = ".,()[]{}0123456789 \n%bu/*"[random() % 25];
    if (text.empty()) text = ".";
  }
  return text;
}

TEST(PtxParameters, AreThoseOfTheParser) {
  const uint64_t first = FromEnvironment("KILN_SEED", 1);
  const uint64_t count = FromEnvironment("KILN_PTX_TEXTS", 20'000);
  int both = 0, other = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    const std::string text = Changed(kText, random);
    const absl::StatusOr<ptx::Module> parsed = ptx::Parse(text);
    if (!parsed.ok() || !CheckPtx(text).ok()) continue;
    for (const char* const entry : {"k", "k1", "k10"}) {
      const ptx::Kernel* const kernel = parsed->Find(entry);
      const auto bytes = PtxParameters(text, entry);
      if (kernel == nullptr || !bytes.ok()) continue;
      std::vector<int64_t> want;
      for (const ptx::Parameter& parameter : kernel->parameters) want.push_back(parameter.bytes);
      ASSERT_EQ(*bytes, want) << "KILN_SEED=" << seed << ", " << entry << "\n" << text;
      ++both;
      if (want != *PtxParameters(kText, entry)) ++other;
    }
  }
  EXPECT_GT(both, 1000);
  EXPECT_GT(other, 50);
}

}  // namespace
}  // namespace kiln::cuda
