// SPDX-License-Identifier: Apache-2.0
// Every class of error, with an example. docs/trace.md has these functions as they stand here, and
// the messages; the last test compares.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kiln/trace.h"
#include "kiln/trace_ops.h"

namespace kiln {
namespace {

const TraceOptions& Plain() {
  static const TraceOptions options = [] {
    TraceOptions made;
    made.name = "step";
    made.compile.threads = 1;
    made.compile.compile_mode = CompileMode::kNever;
    made.compile.cache.enabled = false;
    return made;
  }();
  return options;
}

const Array x = Array::from(std::vector<float>{1, 2}), y = Array::from(std::vector<float>{3, 4});

// Each gives the status of its last call.
absl::Status Operation() {
  // operation
  bool up = true;
  auto step = kiln::trace([&](const Array& a) { return up ? exp(a) : log(a); }, Plain());
  step(x);
  up = false;
  return step(x).status();
}

absl::Status Attributes() {
  // attributes
  int64_t first = 0;
  auto step = kiln::trace([&](const Array& a) { return a({Slice{first, 1 + first}}); }, Plain());
  step(x);
  first = 1;
  return step(x).status();
}

absl::Status InputCount() {
  // input count
  std::vector<Array> parts = {x, y};
  auto step = kiln::trace([&](const Array&) { return concat(parts, {.axis = 0}); }, Plain());
  step(x);
  parts.pop_back();
  return step(x).status();
}

absl::Status Wiring() {
  // wiring
  bool flip = false;
  auto step =
      kiln::trace([&](const Array& a, const Array& b) { return flip ? b - a : a - b; }, Plain());
  step(x, y);
  flip = true;
  return step(x, y).status();
}

absl::Status ExpectedInternal() {
  // expected internal
  Array last;
  auto step = kiln::trace(
      [&](const Array& a) {
        const Array b = a * 2.0f;
        return (last.valid() ? last : b) + 1.0f;
      },
      Plain());
  step(x);
  last = y;
  return step(x).status();
}

absl::Status ExpectedExternal() {
  // expected external
  Array other = y;
  auto step = kiln::trace([&](const Array& a) { return a + (other.valid() ? other : a); }, Plain());
  step(x);
  other = Array();
  return step(x).status();
}

absl::Status Dtype() {
  // dtype
  auto step = kiln::trace([](const Array& a) { return a * 2.0f; }, Plain());
  step(x);
  return step(cast(x, {.to = DType::kF64})).status();
}

absl::Status OfShape() {
  // shape
  Array captured = x;
  auto step = kiln::trace([&](const Array& a) { return a * captured; }, Plain());
  step(x);
  captured = Array::full({1}, 5);
  return step(x).status();
}

absl::Status OtherDevice() {
  // device
  float memory[2] = {1, 2};  // which a GPU would have
  const Array there =
      Array::of(Tensor::View(memory, DType::kF32, {2}, {}, nullptr, {DeviceKind::kCuda, 0}));
  auto step = kiln::trace([](const Array& a) { return a * 2.0f; }, Plain());
  step(x);
  return step(there).status();
}

absl::Status Constant() {
  // constant
  TraceOptions options = Plain();
  options.capture_as_const = true;
  float rate = 0.5f;
  auto step = kiln::trace([&](const Array& a) { return a * rate; }, options);
  step(x);
  rate = 0.25f;
  return step(x).status();
}

absl::Status TooMany() {
  // too many operations
  int rounds = 2;
  auto step = kiln::trace(
      [&](const Array& a) {
        Array b = a;
        for (int i = 0; i < rounds; ++i) b = b * 2.0f;
        return b;
      },
      Plain());
  step(x);
  rounds = 3;
  return step(x).status();
}

absl::Status TooFew() {
  // too few operations
  int rounds = 2;
  auto step = kiln::trace(
      [&](const Array& a) {
        Array b = a;
        for (int i = 0; i < rounds; ++i) b = b * 2.0f;
        return b;
      },
      Plain());
  step(x);
  rounds = 1;
  return step(x).status();
}

absl::Status Read() {
  // read
  bool prints = false;
  auto step = kiln::trace(
      [&](const Array& a) {
        const Array sum = reduce_sum(a, {.keepdims = 0});
        if (prints) (void)sum.item<float>();
        return a / sum;
      },
      Plain());
  step(x);
  prints = true;
  return step(x).status();
}

absl::Status Unreadable() {
  // unreadable
  Array kept;
  bool keeps = false;
  auto step = kiln::trace(
      [&](const Array& a) {
        const Array b = a * 2.0f;
        if (keeps) kept = b;
        return b + 1.0f;
      },
      Plain());
  step(x);
  keeps = true;
  step(x);
  return kept.status();
}

absl::Status OfResults() {
  // results
  bool first = true;
  auto step = kiln::trace(
      [&](const Array& a) {
        const Array b = a * 2.0f, c = b + 1.0f;
        return first ? b : c;
      },
      Plain());
  step(x);
  first = false;
  return step(x).status();
}

absl::Status Exclusion() {
  // exclusion
  bool leaves = true;
  auto step = kiln::trace(
      [&](const Array& a) {
        if (leaves) const ExcludeFromTrace scope;
        return a + 1.0f;
      },
      Plain());
  step(x);
  leaves = false;
  return step(x).status();
}

absl::Status Nested() {
  // nested
  auto inner = kiln::trace([](const Array& a) { return a + 1.0f; }, Plain());
  auto step = kiln::trace([&](const Array& a) { return inner(a) * 2.0f; }, Plain());
  return step(x).status();
}

absl::Status Thread() {
  // thread
  const Array pending = x * 2.0f;
  absl::Status status;
  std::thread other([&] { status = (pending + 1.0f).status(); });
  other.join();
  return status;
}

absl::Status NotFrozen() {
  // not frozen
  auto step = kiln::freeze([](const Array& a) { return reduce_sum(a).item<float>().ok() ? a : -a; },
                           Plain());
  return step(x).status();
}

struct Example {
  TraceError error;
  absl::Status (*run)();
};
using E = TraceError;
constexpr Example kExamples[] = {
    {E::kOperation, Operation},
    {E::kAttributes, Attributes},
    {E::kInputCount, InputCount},
    {E::kWiring, Wiring},
    {E::kExpectedInternal, ExpectedInternal},
    {E::kExpectedExternal, ExpectedExternal},
    {E::kDtype, Dtype},
    {E::kShape, OfShape},
    {E::kDevice, OtherDevice},
    {E::kConstant, Constant},
    {E::kTooMany, TooMany},
    {E::kTooFew, TooFew},
    {E::kRead, Read},
    {E::kUnreadable, Unreadable},
    {E::kResults, OfResults},
    {E::kExclusion, Exclusion},
    {E::kNested, Nested},
    {E::kThread, Thread},
    {E::kNotFrozen, NotFrozen},
};
// What a compiler refuses in C++; tests/python/trace_test.py has it.
constexpr TraceError kWithoutExample[] = {E::kArguments};

std::string Contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Line numbers of this file as N, so that an edit of it leaves the page as it is.
std::string WithoutLines(const std::string& message) {
  std::string text;
  for (size_t i = 0; i < message.size(); ++i) {
    text += message[i];
    if (!absl::EndsWith(text, ".cc:")) continue;
    text += "N";
    while (i + 1 < message.size() && isdigit(message[i + 1]) != 0) ++i;
  }
  return text;
}

TEST(TraceErrors, EveryClassHasAnExample) {
  std::set<TraceError> seen(std::begin(kWithoutExample), std::end(kWithoutExample));
  for (const Example& example : kExamples) {
    const absl::Status status = example.run();
    EXPECT_EQ(TraceErrorOf(status), example.error) << Name(example.error) << ": " << status;
    seen.insert(example.error);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kNumTraceErrors));
}

// What the call did and what was recorded, of a message.
std::pair<std::string, std::string> BothOf(absl::string_view message) {
  const size_t is = message.find(" is "), was = message.find(", recorded was ");
  if (is == absl::string_view::npos || was == absl::string_view::npos) return {};
  const auto upto = [](absl::string_view text) { return text.substr(0, text.rfind(" at ")); };
  const absl::string_view end = message.substr(was + 15);
  return {std::string(upto(message.substr(is + 4, was - is - 4))),
          std::string(upto(end.substr(0, end.find("; "))))};
}

TEST(TraceErrors, BothTextsDiffer) {
  for (const Example& example : kExamples) {
    const auto [is, was] = BothOf(example.run().message());
    if (!is.empty()) {
      EXPECT_NE(is, was) << example.run();
    }
  }
  TraceOptions exact = Plain();
  exact.capture_as_const = true;
  for (const bool as_const : {false, true}) {
    Array a = x, b = y;
    double power = 2, rate = 0.1;
    size_t part = 0;
    auto step = kiln::trace(
        [&](const Array& in) {
          const std::vector<Array> parts = split(in, {.split = {1, 1}});
          const Array scaled = elu(pow(in, power) * a + b, {.alpha = rate}) * parts[part];
          Array sum = scaled;
          for (int i = 0; i < 2; ++i) sum = sum + 1.0f;
          return part == 2 ? sum : sum * scaled;
        },
        as_const ? exact : Plain());
    ASSERT_TRUE(step(x).status().ok()) << step.status();
    const auto differs = [&](TraceError error) {
      const absl::Status status = step(x).status();
      EXPECT_EQ(TraceErrorOf(status), error) << status;
      const auto [is, was] = BothOf(status.message());
      EXPECT_FALSE(is.empty()) << status;
      EXPECT_NE(is, was) << status;
    };
    b = x;  // captured arrays that become one
    differs(TraceError::kExpectedExternal);
    a = x, b = y, power = 3;
    differs(TraceError::kConstant);
    power = 2, rate = 0.1 + 1e-15;
    differs(TraceError::kAttributes);
    rate = 0.1, part = 1;
    differs(TraceError::kWiring);
    part = 0;
    if (as_const) {
      a = Array::from(std::vector<float>{1, 2});
      differs(TraceError::kConstant);
    }
  }
}

TEST(TraceErrors, OneArrayTwiceInOneOperation) {
  Array a = x, b = y;
  auto step = kiln::trace([&](const Array&) { return min(a, b); }, Plain());
  ASSERT_TRUE(step(x).status().ok());
  b = x;
  EXPECT_EQ(TraceErrorOf(step(x).status()), TraceError::kExpectedExternal) << step.status();
  step.forget();
  ASSERT_TRUE(step(x).status().ok());
  b = y;
  EXPECT_EQ(TraceErrorOf(step(x).status()), TraceError::kExpectedInternal) << step.status();
}

// A function's lines from the comment with its class to the end, less the indentation.
std::string SourceOf(const std::string& source, TraceError error) {
  const std::string mark = absl::StrCat("  // ", Name(error), "\n");
  const size_t begin = source.find(mark);
  if (begin == std::string::npos) return "";
  std::stringstream lines(source.substr(begin + mark.size()));
  std::string line, text;
  while (std::getline(lines, line) && line != "}")
    absl::StrAppend(&text, absl::StripPrefix(line, "  "), "\n");
  return text;
}

// KILN_WRITE_TRACE_ERRORS=1 prints the section anew.
TEST(TraceErrors, ThePageHasThem) {
  const std::string page = Contents(KILN_SOURCE_DIR "/docs/trace.md");
  const std::string source = Contents(KILN_SOURCE_DIR "/tests/trace/errors_test.cc");
  const size_t begin = source.find("const TraceOptions& Plain()");
  std::string section =
      absl::StrCat("```cpp\nusing namespace kiln;\n\n",
                   source.substr(begin, source.find("\n// Each gives") - begin), "```\n\n");
  EXPECT_NE(page.find(section), std::string::npos) << section;
  for (const Example& example : kExamples) {
    const std::string code = SourceOf(source, example.error);
    ASSERT_FALSE(code.empty()) << Name(example.error);
    const std::string text =
        absl::StrCat("### ", Name(example.error), "\n```cpp\n", code, "```\n```\n",
                     WithoutLines(std::string(example.run().message())), "\n```\n");
    EXPECT_NE(page.find(text), std::string::npos) << text;
    absl::StrAppend(&section, text, "\n");
  }
  if (std::getenv("KILN_WRITE_TRACE_ERRORS") != nullptr) std::cout << section;
}

}  // namespace
}  // namespace kiln
