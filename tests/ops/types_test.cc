// SPDX-License-Identifier: Apache-2.0
// Which types every operator takes and what it makes of them: a table that people read, held
// against the records. A change of a type rule shows as a change of types.txt.
//
//   KILN_WRITE_TYPES=1 build/ci/tests/bin/ops_test --gtest_filter=Types.*    writes the table anew
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/op.h"
#include "gtest/gtest.h"
#include "tests/ops/one_call.h"

namespace kiln {
namespace {

constexpr char kPath[] = KILN_OPS_TYPES;
constexpr char kHead[] =
    "# Types that an operator takes as its inputs x0, x1, ..., and -> what it makes of them where "
    "that is another.\n";

// "f32", or "f32->bool" where results have other types.
std::string Entry(DType type, const Graph& graph) {
  std::vector<std::string> made;
  bool same = true;
  for (const Graph::Output& output : graph.outputs()) {
    const DType result = graph.value(output.value).type;
    made.push_back(std::string(Name(result)));
    same = same && result == type;
  }
  return same ? std::string(Name(type)) : absl::StrCat(Name(type), "->", absl::StrJoin(made, ","));
}

std::string Table() {
  std::string table = kHead;
  for (const OpDef* op : AllOps()) {
    if (!HasPlainCall(*op)) continue;
    std::vector<std::string> entries;
    for (const DType type : kTypes) {
      if (const absl::StatusOr<Graph> graph = OneCall(*op, type); graph.ok())
        entries.push_back(Entry(type, *graph));
    }
    absl::StrAppend(&table, op->name, ": ", absl::StrJoin(entries, " "), "\n");
  }
  return table;
}

TEST(Types, AreThoseOfTheTable) {
  const std::string table = Table();
  if (std::getenv("KILN_WRITE_TYPES") != nullptr) std::ofstream(kPath) << table;
  std::ifstream file(kPath);
  const std::string want(std::istreambuf_iterator<char>(file), {});
  EXPECT_EQ(table, want) << "look at each difference; if it is meant, write " << kPath << " anew";
}

}  // namespace
}  // namespace kiln
