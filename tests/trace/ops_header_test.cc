// SPDX-License-Identifier: Apache-2.0
// include/kiln/trace_ops.h is what the registry says: made again and compared, but for layout.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "kiln/trace_ops.h"
#include "tests/trace/ops_header.h"

namespace kiln {
namespace {

constexpr char kPath[] = KILN_SOURCE_DIR "/include/kiln/trace_ops.h";

// Without spaces, line breaks and the marks of comments: what clang-format may change.
std::string Bare(const std::string& text) {
  std::string bare;
  for (const char c : text)
    if (c != ' ' && c != '\n' && c != '/') bare += c;
  return bare;
}

TEST(TraceOpsHeader, IsThatOfTheRegistry) {
  const std::string made = OpsHeader();
  if (getenv("KILN_WRITE_TRACE_OPS") != nullptr) std::ofstream(kPath) << made;
  std::stringstream found;
  found << std::ifstream(kPath).rdbuf();
  EXPECT_EQ(Bare(made), Bare(found.str()))
      << "KILN_WRITE_TRACE_OPS=1 writes " << kPath << " anew; clang-format -i it then";
}

TEST(TraceOpsHeader, HasMostOperators) {
  size_t functions = 0;
  for (const OpDef* const op : AllOps()) functions += HasFunction(*op) ? 1 : 0;
  EXPECT_GT(functions, 100u);
  EXPECT_TRUE(HasFunction(*FindOp("softmax")));
  EXPECT_FALSE(HasFunction(*FindOp("nonzero")));
  EXPECT_FALSE(HasFunction(*FindOp("range")));
  EXPECT_FALSE(HasFunction(*FindOp("loop")));
}

}  // namespace
}  // namespace kiln
