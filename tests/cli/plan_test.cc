// SPDX-License-Identifier: Apache-2.0
// kiln plan as a user calls it: exit codes, JSON, files, and files made to do harm.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tools/interval_file.h"
#include "tools/memory_plan_page.h"

namespace kiln {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kFour[] = "id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,2,4,4\nd,3,5,8\n";

std::string Data(const char* name) {
  return absl::StrCat(KILN_TEST_DATA_DIR, "/minimalloc/", name);
}

class PlanTest : public testing::Test {
 protected:
  std::string Written(const std::string& text) {
    const std::string path = dir_.File("i.csv");
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  json Results(std::vector<std::string> arguments, int exit = 0) {
    arguments.insert(arguments.begin(), "plan");
    arguments.push_back("--json");
    const ProcessResult result = Kiln(arguments);
    EXPECT_EQ(result.exit, exit) << result.err;
    const json object = json::parse(result.out, nullptr, false);
    EXPECT_EQ(object["schema"], "kiln.plan/1");
    return object["results"];
  }
  TempDir dir_;
};

TEST_F(PlanTest, SaysWhatItFound) {
  const json found = Results({Written(kFour)});
  EXPECT_EQ(found["peak"], 12);
  EXPECT_EQ(found["lower_bound"], 12);
  EXPECT_EQ(found["best_bound"], 12);
  EXPECT_EQ(found["sum"], 20);
  EXPECT_EQ(found["intervals"], 4);
  EXPECT_EQ(found["optimal"], true);
  EXPECT_EQ(found["complete"], true);
  EXPECT_TRUE(found["seconds"].is_number());
  EXPECT_TRUE(found["order"].is_string());
  EXPECT_TRUE(found["nodes"].is_number_integer());
}

TEST_F(PlanTest, WritesOffsetsThatCanBeReadAgain) {
  const std::string out = dir_.File("o.csv");
  EXPECT_EQ(Kiln({"plan", Written(kFour), "-o", out}).exit, 0);
  EXPECT_EQ(Contents(out).substr(0, 27), "id,lower,upper,size,offset\n");
  EXPECT_THAT(Contents(out), HasSubstr("\nd,3,5,8,"));
  EXPECT_EQ(Results({out})["peak"], 12);
}

TEST_F(PlanTest, TakesColumnsInAnyOrderAndLinesOfOtherSystems) {
  EXPECT_EQ(
      Results({Written(
          "\xEF\xBB\xBFsize, upper,id,lower,offset\r\n8,2,a b,0,x\r\n\r\n4,-3,\"q\",-7,")})["sum"],
      12);
  EXPECT_EQ(Results({Written("id,lower,upper,size\n")})["peak"], 0);
}

TEST_F(PlanTest, FitsTheHardInstances) {
  for (const char* name : {"A", "B", "C", "D", "E"}) {
    const std::string out = dir_.File(name);
    const json found =
        Results({Data(absl::StrCat(name, ".1048576.csv").c_str()), "--capacity", "1M", "-o", out});
    EXPECT_LE(found["peak"], 1048576) << name;
  }
  const json least = Results({Data("C.1048576.csv")});
  EXPECT_EQ(least["peak"], 1039360);
  EXPECT_EQ(least["optimal"], true);
}

TEST_F(PlanTest, TheFileIsTheSameForAllThreads) {
  for (const char* threads : {"1", "2", "3"}) {
    EXPECT_EQ(Kiln({"plan", Data("B.1048576.csv"), "--capacity", "1048576", "--threads", threads,
                    "-o", dir_.File(threads)})
                  .exit,
              0);
  }
  EXPECT_EQ(Contents(dir_.File("1")), Contents(dir_.File("2")));
  EXPECT_EQ(Contents(dir_.File("1")), Contents(dir_.File("3")));
}

TEST_F(PlanTest, ACapacityThatCannotBeIsExitOne) {
  const std::string out = dir_.File("o.csv");
  const ProcessResult none = Kiln({"plan", Written(kFour), "--capacity", "11", "-o", out});
  EXPECT_EQ(none.exit, 1);
  EXPECT_THAT(none.err, HasSubstr("no plan fits in 11 bytes; every one needs 12, and this one 12"));
  EXPECT_TRUE(std::filesystem::exists(out));
  EXPECT_EQ(Results({Written(kFour), "--capacity", "11"}, 1)["peak"], 12);
  EXPECT_EQ(Kiln({"plan", Written(kFour), "--capacity", "many"}).exit, 2);
}

TEST_F(PlanTest, TimeStopsIt) {
  const ProcessResult result =
      Kiln({"plan", Data("D.1048576.csv"), "--capacity", "986112", "--time", "0.2"});
  EXPECT_EQ(result.exit, 1) << result.out;
  EXPECT_THAT(result.err, HasSubstr("no plan was found that fits in 986112 bytes"));
  EXPECT_THAT(result.err, HasSubstr("--time"));
  EXPECT_LT(result.seconds, 10);
}

TEST_F(PlanTest, RefusesWhatIsNoListOfIntervals) {
  const std::string head = "id,lower,upper,size\n";
  const struct {
    std::string text;
    const char* says;
  } kFiles[] = {
      {"", "is empty; the first line names the columns id,lower,upper,size"},
      {"id,lower,size\n", "line 1: has no column \"upper\"; columns are"},
      {"id,lower,upper,size,id\n", "line 1: column \"id\" comes twice"},
      {"id,lower,upper,size,alignment\n", "line 1: there is no column \"alignment\"; columns are"},
      {head + "a,0,1\n", "line 2: has 3 values, and the head 4 columns: \"a,0,1\""},
      {head + "a,0,1,2,3\n", "line 2: has 5 values"},
      {head + "\na,0,x,2\n", "line 3: upper is \"x\"; it must be an integer of 64 bits"},
      {head + "a,0,99999999999999999999,2\n", "line 2: upper is \"99999999999999999999\""},
      {head + "a,3,3,2\n", "line 2: lives from 3 to before 3; lower must be less than upper"},
      {head + "a,0,1,-2\n", "line 2: has size -2; it may not be negative"},
      {head + "a,0,1,2\nb,0,1,2\na,0,1,2\n", "line 4: has the id of line 2, \"a\""},
      {head + "a,0,1,9223372036854775807\nb,0,1,1\n", "the sum of all sizes exceeds 64 bits"},
      {head + std::string("a,0,1,2\x1b[31m\0", 13), "line 2: size is \"2\\x1b[31m\\x00\""},
      {head + std::string(5000, 'a') + ",0,1,2\n", "line 2: has 5006 bytes; there may be 4096"},
  };
  for (const auto& file : kFiles) {
    const ProcessResult result = Kiln({"plan", Written(file.text)});
    EXPECT_EQ(result.exit, 3) << file.says << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(file.says));
    EXPECT_THAT(result.err, HasSubstr("i.csv\": "));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(PlanTest, RefusesMoreThanItTakes) {
  std::string rows = "id,lower,upper,size\n";
  for (size_t i = 0; i <= kMostIntervals; ++i) absl::StrAppend(&rows, i, ",0,1,1\n");
  EXPECT_THAT(
      ParseIntervals(rows),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr(absl::StrCat("line ", kMostIntervals + 2, ": is one interval too many"))));
  const ProcessResult endless = Kiln({"plan", "/dev/zero"});
  EXPECT_EQ(endless.exit, 3);
  EXPECT_THAT(endless.err, HasSubstr("\"/dev/zero\": has more than 64 MiB"));
}

TEST_F(PlanTest, APageShowsThePlan) {
  const std::string page = dir_.File("p.html");
  EXPECT_EQ(Kiln({"plan", Written(kFour), "--page", page}).exit, 0);
  const std::string text = Contents(page);
  EXPECT_EQ(text.substr(0, 15), "<!DOCTYPE html>");
  EXPECT_THAT(text,
              HasSubstr("<title>d: 8 B (8 bytes) at 0, from step 3 to before step 5</title>"));
  EXPECT_THAT(text, HasSubstr("Memory plan of "));
  EXPECT_THAT(text, testing::Not(HasSubstr("http:")));
  EXPECT_THAT(text, testing::Not(HasSubstr("https:")));
  EXPECT_EQ(Kiln({"plan", Written(kFour), "--page", "/dev/null"}).exit, 7);
}

TEST(MemoryPlanHtml, NamesStayText) {
  MemoryPlanPage page;
  page.title = "a<b";
  page.steps = {"<script>alert(1)</script>", "two"};
  page.intervals = {{"</title><script>x</script>\"'&\x1b[2J", 0, 2, 0, 64}, {"b", 1, 7, 64, 64}};
  page.peak = page.lower_bound = page.sum = 128;
  const std::string text = MemoryPlanHtml(page);
  EXPECT_THAT(text, HasSubstr("<h1>a&lt;b</h1>"));
  EXPECT_THAT(text,
              HasSubstr("&lt;/title&gt;&lt;script&gt;x&lt;/script&gt;&quot;&#39;&amp;\\x1B[2J"));
  EXPECT_THAT(text,
              HasSubstr("from step 0 (&lt;script&gt;alert(1)&lt;/script&gt;) to before step 2"));
  EXPECT_THAT(text, HasSubstr("from step 1 (two) to before step 7"));
  size_t scripts = 0;
  for (size_t at = 0; (at = text.find("<script", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 1u);
}

TEST(MemoryPlanHtml, OfVeryMuchItShowsTheLargest) {
  MemoryPlanPage page;
  for (int64_t i = 0; i < 20010; ++i)
    page.intervals.push_back({absl::StrCat("i", i), i, i + 1, 0, 1 + i});
  page.peak = page.lower_bound = 20010;
  const std::string text = MemoryPlanHtml(page);
  EXPECT_THAT(text, HasSubstr("The 20000 largest are shown."));
  EXPECT_EQ(text.find("<title>i9:"), std::string::npos);
  EXPECT_NE(text.find("<title>i10:"), std::string::npos);
  EXPECT_NE(MemoryPlanHtml({}).find("0 bytes"), std::string::npos);
}

TEST_F(PlanTest, FilesThatCannotBeReadOrWrittenAreExitSeven) {
  EXPECT_EQ(Kiln({"plan", dir_.File("none")}).exit, 7);
  EXPECT_THAT(Kiln({"plan", dir_.File("none")}).err, HasSubstr("none\": open: No such file"));
  EXPECT_EQ(Kiln({"plan", dir_.path()}).exit, 7);
  EXPECT_EQ(Kiln({"plan", Written(kFour), "-o", "/dev/null"}).exit, 7);
  EXPECT_THAT(Kiln({"plan", Written(kFour), "-o", "/dev/null"}).err,
              HasSubstr("--output: \"/dev/null\" is no regular file"));
  EXPECT_EQ(Kiln({"plan", Written(kFour), "-o", dir_.File("no/such/o.csv")}).exit, 7);
}

}  // namespace
}  // namespace kiln
