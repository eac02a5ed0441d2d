// SPDX-License-Identifier: Apache-2.0
// Snippets of docs/trace.md, as they stand there. Each gives the status of its last call.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

absl::Status Frozen() {
  // frozen
  auto act = kiln::freeze([](const Array& a) { return relu(a * 3.0f) + 1.0f; });
  for (int i = 0; i < 5; ++i) {
    const Array y = act(Array::full({4}, i));  // the lambda runs in the first two calls
    if (!y.status().ok()) return y.status();
  }
  return act.status();
}

absl::Status Extents() {
  // extents
  auto differences = kiln::trace([](const Array& a) {
    const ArrayDim n = a.shape()[0];
    return a({Slice{1, n}}) - a({Slice{0, n - 1}});
  });
  for (const int64_t n : {3, 4, 5, 6}) differences(Array::full({n}, 1));  // one program for all n
  return differences.status();
}

absl::Status Dumped() {
  // dumped
  TraceOptions options;
  options.capture_as_const = true;
  auto act = kiln::trace([](const Array& a) { return relu(a * 3.0f) + 1.0f; }, options);
  act(Array::full({4}, 2));
  DumpOptions dump;
  dump.arg_names = {"x"};
  dump.output_names = {"y"};
  return act.dump("act.onnx", dump).status();
}

absl::Status DumpedElsewhere() {
  // dumped elsewhere
  for (const char* const level : {"x86-64-v3", "cuda-sm90"}) {
    TraceOptions options;
    options.record_only = true;
    options.compile.target = Target::Parse(level);
    auto act = kiln::trace([](const Array& a) { return relu(a * 3.0f) + 1.0f; }, options);
    act(Array::full({4}, 0));
    const absl::StatusOr<DumpInfo> info = act.dump(absl::StrCat("act-", level, ".kiln"));
    if (!info.ok()) return info.status();
  }
  return absl::OkStatus();
}

std::string Contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string Page() { return Contents(KILN_SOURCE_DIR "/docs/trace.md"); }

// The lines of a function of this file from the comment with its name on, less the indentation.
std::string SourceOf(const std::string& name) {
  std::stringstream lines(Contents(KILN_SOURCE_DIR "/tests/trace/page_test.cc"));
  std::string line, text;
  while (std::getline(lines, line) && line != absl::StrCat("  // ", name)) continue;
  while (std::getline(lines, line) && line != "}")
    absl::StrAppend(&text, absl::StripPrefix(line, "  "), "\n");
  return text;
}

class TracePage : public testing::Test {
 protected:
  // Snippets write into the working directory.
  void SetUp() override { std::filesystem::current_path(dir_.path()); }
  void TearDown() override { std::filesystem::current_path("/"); }
  TempDir dir_;
};

TEST_F(TracePage, ItsSnippetsRun) {
  struct {
    const char* name;
    absl::Status (*run)();
  } const snippets[] = {{"extents", Extents},
                        {"frozen", Frozen},
                        {"dumped", Dumped},
                        {"dumped elsewhere", DumpedElsewhere}};
  for (const auto& [name, run] : snippets) {
    EXPECT_EQ(run(), absl::OkStatus()) << name;
    const std::string text = absl::StrCat("```cpp\n", SourceOf(name), "```\n");
    EXPECT_NE(Page().find(text), std::string::npos) << text;
  }
  for (const char* const file : {"act.onnx", "act-x86-64-v3.kiln", "act-cuda-sm90.kiln"})
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
}

// trace_page_first runs it.
TEST_F(TracePage, ItsProgramIsThatOfTheTest) {
  const std::string program = Contents(KILN_SOURCE_DIR "/tests/trace/page_first.cc");
  const std::string text =
      absl::StrCat("```cpp\n", program.substr(program.find('\n') + 1), "```\n");
  EXPECT_NE(Page().find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace kiln
