// SPDX-License-Identifier: Apache-2.0
// include/kiln/trace_ops.h and python/kiln/ops.py are what the registry says: made again and
// compared, the header but for layout.
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
constexpr char kModule[] = KILN_SOURCE_DIR "/python/kiln/ops.py";

std::string Contents(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

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
  EXPECT_EQ(Bare(made), Bare(Contents(kPath)))
      << "KILN_WRITE_TRACE_OPS=1 writes " << kPath << " anew; clang-format -i it then";
}

TEST(TraceOpsHeader, SoIsTheModuleOfPython) {
  const std::string made = OpsModule();
  if (getenv("KILN_WRITE_TRACE_OPS") != nullptr) std::ofstream(kModule) << made;
  EXPECT_EQ(made, Contents(kModule)) << "KILN_WRITE_TRACE_OPS=1 writes " << kModule << " anew";
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
