// SPDX-License-Identifier: Apache-2.0
// What is said of names that are mistyped; those that need a model are in flags_test.cc.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cli/process.h"

namespace kiln {
namespace {

struct Row {
  std::vector<std::string> words;
  const char* err;
};

TEST(UnknownName, IsToldWithTheNearestOne) {
  const Row rows[] = {
      {{"rn", "x"}, "kiln: no verb \"rn\"; did you mean \"run\"?\n"},
      {{"nonsense"}, "kiln: no verb \"nonsense\"; see kiln --help\n"},
      {{"--vresion"}, "kiln: no flag \"--vresion\"; did you mean \"--version\"?\n"},
      {{"cache", "stast"}, "kiln: cache: no verb \"stast\"; did you mean \"stats\"?\n"},
      {{"cache", "nonsense"}, "kiln: cache: no verb \"nonsense\"; see kiln cache --help\n"},
      {{"run", "m.onnx", "--thraeds=3"},
       "kiln: run: no flag \"--thraeds\"; did you mean \"--threads\"?\n"},
      {{"run", "--jsn"}, "kiln: run: no flag \"--jsn\"; did you mean \"--json\"?\n"},
      {{"run", "m.onnx", "--nonsense"}, "kiln: run: no flag \"--nonsense\"; see kiln run --help\n"},
      {{"cache", "ls", "--knid", "tune"},
       "kiln: cache ls: no flag \"--knid\"; did you mean \"--kind\"?\n"},
      {{"run", "m.onnx", "--compile-mode", "nevr"},
       "kiln: --compile-mode: is \"nevr\", expected one of block, background, never; did you mean "
       "\"never\"?\n"},
      {{"opt", "m.graph", "--passes", "dead_cod"},
       "kiln: pass \"dead_cod\": there is none of that name; see kiln opt --list-passes; did you "
       "mean \"dead_code\"?\n"},
      {{"run", "m.onnx", "--device", "cup"},
       "kiln: device \"cup\": is none of cpu, cuda[:i], cuda-emulated, reference; did you mean "
       "\"cpu\"?\n"},
      {{"run", "m.onnx", "--device", "cuda-emulate"},
       "kiln: device \"cuda-emulate\": is none of cpu, cuda[:i], cuda-emulated, reference; did you "
       "mean \"cuda-emulated\"?\n"},
  };
  for (const Row& row : rows) {
    const ProcessResult result = Kiln(row.words);
    EXPECT_EQ(result.exit, 2) << row.err;
    EXPECT_EQ(result.err, row.err);
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace kiln
