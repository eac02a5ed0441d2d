// SPDX-License-Identifier: Apache-2.0
// kiln bench --trace and --memory-plan: files that others read.
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/cli/trace_rules.h"
#include "tools/trace_file.h"

namespace kiln {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string Trace(const std::string& events) {
  return absl::StrCat(R"({"displayTimeUnit":"ms","traceEvents":[)", events, "]}");
}
std::string Event(const std::string& fields) {
  return absl::StrCat(R"({"name":"n","pid":1,"tid":1,)", fields, "}");
}
std::string SliceOf(double ts, double dur) {
  return Event(absl::StrCat(R"("ph":"X","ts":)", ts, R"(,"dur":)", dur));
}

TEST(TraceRules, FindEveryFault) {
  EXPECT_THAT(TraceFaults(Trace("")), IsEmpty());
  EXPECT_THAT(TraceFaults("[]"), ElementsAre("no object"));
  EXPECT_THAT(TraceFaults("{"), ElementsAre("no JSON in UTF-8"));
  EXPECT_THAT(TraceFaults("{}"), ElementsAre("traceEvents is no array"));
  EXPECT_THAT(TraceFaults(Trace(R"({"name":")"
                                "\xff"
                                R"(","ph":"i","ts":0,"pid":1,"tid":1})")),
              ElementsAre("no JSON in UTF-8"));
  EXPECT_THAT(TraceFaults(Trace(R"({"name":"n","ph":"i","ts":0,"pid":1})")),
              ElementsAre(HasSubstr("tid: ")));
  const auto fault = [](const std::string& fields) {
    const std::vector<std::string> faults = TraceFaults(Trace(Event(fields)));
    return faults.empty() ? std::string() : faults[0].substr(0, faults[0].find(':'));
  };
  EXPECT_EQ(fault(R"("ph":"i","ts":0,"s":"t")"), "");
  EXPECT_EQ(fault(R"("ph":"M")"), "");
  EXPECT_EQ(fault(R"("ph":"?","ts":0)"), "ph");
  EXPECT_EQ(fault(R"("ts":0)"), "ph");
  EXPECT_EQ(fault(R"("ph":"i")"), "ts");
  EXPECT_EQ(fault(R"("ph":"i","ts":-1)"), "ts");
  EXPECT_EQ(fault(R"("ph":"X","ts":1)"), "dur");
  EXPECT_EQ(fault(R"("ph":"X","ts":1,"dur":-2)"), "dur");
  EXPECT_EQ(fault(R"("ph":"i","ts":0,"s":"q")"), "s");
  EXPECT_EQ(fault(R"("ph":"C","ts":0)"), "counter");
  EXPECT_EQ(fault(R"("ph":"C","ts":0,"args":{"a":"b"})"), "counter");
  EXPECT_EQ(fault(R"("ph":"B","ts":0)"), "B without E");
  EXPECT_EQ(fault(R"("ph":"E","ts":0)"), "E without its B");
  EXPECT_THAT(TraceFaults(Trace(SliceOf(0, 4) + "," + SliceOf(1, 3) + "," + SliceOf(4, 2))),
              IsEmpty());
  EXPECT_THAT(TraceFaults(Trace(SliceOf(0, 4) + "," + SliceOf(3, 2))),
              ElementsAre("slices overlap at 3000 ns"));
}

TEST(TraceFile, WritesAnyBytesAsUtf8AndNoTimeBelowZero) {
  TraceFile trace;
  trace.Slice(TraceFile::Track::kLaunches, "\xff\"\n\\\x01", -5, -9, {{"kind", "\xc3"}});
  trace.Instant(TraceFile::Track::kCache, "", 7, json::object());
  trace.Counter(TraceFile::Track::kLaunches, "arena", 7, {{"live bytes", 64}});
  EXPECT_THAT(TraceFaults(trace.Write()), IsEmpty());
}

class BenchFilesTest : public testing::Test {
 protected:
  std::string Model(const std::string& text) {
    std::ofstream(dir_.File("m.graph"), std::ios::binary) << text;
    return dir_.File("m.graph");
  }
  std::string Read(const std::string& file) {
    std::ifstream in(dir_.File(file), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  ProcessResult Bench(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"bench", "-q", "--iters", "2", "--threads", "1"});
    return Kiln(arguments, {.environment = {{"KILN_CACHE_DIR", dir_.File("cache")}}});
  }
  TempDir dir_;
};

// Names that end a quote, a line, a tag and a JSON string, and that are no UTF-8.
constexpr char kHostile[] =
    "graph m\n"
    "input `x\" 12 bytes\\x0ab1 ` : f32 [n, 64]\n"
    "`a\": b0 f32[1] -> b1 f32[1]; 9 bytes\\x0a` = softmax(`x\" 12 bytes\\x0ab1 `) {axis = 1}"
    " \"<script>alert(1)</script>\"\n"
    "`\\xff\\x0a` = matmul(`a\": b0 f32[1] -> b1 f32[1]; 9 bytes\\x0a`, w) \"w\\\"\\n\"\n"
    "c = softmax(`\\xff\\x0a`) {axis = 1}\n"
    "output c\n";

std::string WithWeights(std::string text) {
  std::string row = "[0.5";
  for (int i = 1; i < 64 * 64; ++i) row += ", 0.5";
  return text.insert(text.find('\n') + 1, absl::StrCat("const w : f32 [64, 64] = ", row, "]\n"));
}

TEST_F(BenchFilesTest, ATraceHasItsTracksWhateverTheNames) {
  const std::string model = Model(WithWeights(kHostile));
  for (const std::string source : {"built", "cached"}) {
    const ProcessResult result =
        Bench({model, "--dim", "n=8", "--trace", dir_.File("t.json"), "--json"});
    ASSERT_EQ(result.exit, 0) << result.err;
    const std::string text = Read("t.json");
    EXPECT_THAT(TraceFaults(text), IsEmpty());
    const json events = json::parse(text)["traceEvents"];
    std::map<std::string, int> compile, cache;
    std::set<std::string> sources;
    int launches = 0, arena = 0;
    for (const json& event : events) {
      const std::string name = event["name"], phase = event["ph"];
      if (event["tid"] == 1 && phase == "X") ++compile[name];
      if (event["tid"] == 2 && phase == "X") sources.insert(event["args"]["from"]);
      if (event["tid"] == 3 && phase == "i") ++cache[name];
      if (event["tid"] == 4 && phase == "C") ++arena;
      if (event["tid"] != 4 || phase != "X") continue;
      ++launches;
      for (const char* field : {"kind", "bytes", "vm"})
        EXPECT_TRUE(event["args"].contains(field)) << event;
    }
    for (const char* step :
         {"import", "inputs", "passes, groups, lowering", "kernels", "model", "first run"})
      EXPECT_EQ(compile[step], 1) << step;
    EXPECT_THAT(sources, ElementsAre(source));
    const json results = json::parse(result.out)["results"];
    EXPECT_EQ(launches, results["groups"]);
    EXPECT_TRUE(arena == 0 || arena == launches + 1) << arena;
    const int kernels = results["compile"]["kernels"];
    EXPECT_EQ(cache[source == "built" ? "miss" : "hit"], kernels);
    EXPECT_EQ(cache.size(), 1u);
  }
}

constexpr char kChain[] =
    "graph m\n"
    "input x : f32 [n, 64]\n"
    "a = matmul(x, w)\n"
    "b = matmul(a, w)\n"
    "c = matmul(b, w)\n"
    "output c\n";

TEST_F(BenchFilesTest, ThePageOfTheArenaNamesBuffersAndLaunches) {
  const std::string model = Model(WithWeights(kChain));
  const ProcessResult result = Bench({model, "--dim", "n=8", "--memory-plan", dir_.File("p.html"),
                                      "--trace", dir_.File("t.json"), "--json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const std::string page = Read("p.html");
  EXPECT_THAT(page, HasSubstr("Arena of "));
  EXPECT_THAT(page, HasSubstr("<td>a</td><td>2048</td>"));
  EXPECT_THAT(page, HasSubstr("<td>b</td><td>2048</td>"));
  EXPECT_THAT(page, HasSubstr("0 (library a)"));
  EXPECT_THAT(page, Not(HasSubstr("<td>c</td>"))) << "an output is the caller's memory";
  const json memory = json::parse(result.out)["results"]["memory"];
  EXPECT_THAT(page, HasSubstr(absl::StrCat("(", memory["arena"].get<int64_t>(), " bytes)")));
  std::vector<int64_t> live;
  const json trace = json::parse(Read("t.json"));
  for (const json& event : trace["traceEvents"])
    if (event["name"] == "arena") live.push_back(event["args"]["live bytes"]);
  EXPECT_THAT(live, ElementsAre(2048, 4096, 2048, 0));
}

TEST_F(BenchFilesTest, ThePageIsHarmlessWhateverTheNames) {
  const ProcessResult result =
      Bench({Model(WithWeights(kHostile)), "--dim", "n=8", "--memory-plan", dir_.File("p.html")});
  // A name may make the text none, which is told; it does no other harm.
  if (result.exit == 0) {
    EXPECT_THAT(Read("p.html"), Not(HasSubstr("<script>alert")));
  } else {
    EXPECT_EQ(result.exit, 70) << result.err;
    EXPECT_THAT(result.err, HasSubstr("text of a plan: byte "));
  }
}

TEST_F(BenchFilesTest, FilesThatCannotBeWrittenAreErrors) {
  const std::string model = Model(kChain);
  for (const char* flag : {"--trace", "--memory-plan"}) {
    const ProcessResult result = Bench({Model(WithWeights(kChain)), flag, dir_.File("no/where")});
    EXPECT_EQ(result.exit, 7) << result.err;
    EXPECT_THAT(result.err, HasSubstr(flag));
  }
}

TEST_F(BenchFilesTest, AProfileSaysWhatPartOfTheMachineItTook) {
  const ProcessResult result =
      Bench({Model(WithWeights(kHostile)), "--dim", "n=512", "--profile", "--json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json results = json::parse(result.out)["results"];
  const json& probes = results["probes"];
  EXPECT_EQ(probes["threads"], 1);
  EXPECT_GT(probes["bandwidth_gb_s"], 0.1);
  int products = 0, kernels = 0;
  for (const json& row : results["profile"]) {
    const double seconds = row["ms"].get<double>() / 1000;
    if (seconds <= 0) continue;
    EXPECT_NEAR(row["bandwidth_percent"],
                row["bytes"].get<double>() / seconds / 1e7 / probes["bandwidth_gb_s"].get<double>(),
                1e-3 * row["bandwidth_percent"].get<double>());
    kernels += row["kind"] == "kernel" ? 1 : 0;
    if (row["kind"] != "library" || !row.contains("flops")) continue;
    ++products;
    EXPECT_EQ(row["flops"], 2.0 * 512 * 64 * 64);
    EXPECT_GT(row["matmul_percent"], 0);
    EXPECT_GT(probes["matmul_gflop_s"], 0.1);
  }
  EXPECT_GT(kernels, 0);
}

TEST_F(BenchFilesTest, AProductsWorkIsKnown) {
  const ProcessResult result =
      Bench({Model(WithWeights(kChain)), "--dim", "n=512", "--profile", "--json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json results = json::parse(result.out)["results"];
  int products = 0;
  for (const json& row : results["profile"])
    products += row.value("flops", 0.0) == 2.0 * 512 * 64 * 64 ? 1 : 0;
  EXPECT_EQ(products, 3);
  EXPECT_THAT(Bench({Model(WithWeights(kChain)), "--dim", "n=512", "--profile"}).out,
              HasSubstr(" GFLOP/s\n"));
}

TEST_F(BenchFilesTest, ComparedSettingsHaveAnIntervalOfTheirRatio) {
  const std::string model = Model(WithWeights(kChain));
  const ProcessResult text = Bench({model, "--compare", "-O0,-O3"});
  EXPECT_THAT(text.out, HasSubstr("95 % interval of the medians' ratio: "));
  const ProcessResult result = Bench({model, "--compare", "-O0,-O3", "--json"});
  ASSERT_EQ(result.exit, 0) << result.err;
  const json rows = json::parse(result.out)["results"]["compare"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["ratio"]["low"], 1);
  EXPECT_EQ(rows[0]["ratio"]["high"], 1);
  EXPECT_EQ(rows[0]["ratio"]["contains_1"], true);
  const json& ratio = rows[1]["ratio"];
  EXPECT_LE(ratio["low"], ratio["medians"]);
  EXPECT_LE(ratio["medians"], ratio["high"]);
  EXPECT_NEAR(
      ratio["minima"],
      rows[0]["latency_ms"]["min"].get<double>() / rows[1]["latency_ms"]["min"].get<double>(),
      1e-9);
  EXPECT_EQ(ratio["contains_1"], ratio["low"] <= 1 && 1 <= ratio["high"]);
}

}  // namespace
}  // namespace kiln
