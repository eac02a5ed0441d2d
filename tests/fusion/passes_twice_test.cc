// SPDX-License-Identifier: Apache-2.0
// Every pass over every graph there is, twice: what it leaves verifies, and a second run changes
// nothing. Passes run on the graph as it was made, and in their order, each on what those before it
// have left.
//
//   KILN_PASSES_GRAPHS   how many random graphs of each kind: 150 unless given
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fusion/pipeline.h"
#include "graph/onnx/import.h"
#include "graph/text.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/fusion/random_graph.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

// What is wrong with running `pass` on `graph`, which then is what it leaves.
std::string RunTwice(const Pass& pass, Graph& graph, const PassContext& context) {
  const std::string before = Print(graph);
  const absl::StatusOr<bool> first = pass.run(graph, context);
  if (!first.ok()) return first.status().ToString();
  const std::string once = Print(graph);
  if (!*first && once != before) return "says that it changes nothing, and changes the graph";
  if (const absl::Status status = Verify(graph); !status.ok()) return status.ToString();
  const absl::StatusOr<bool> second = pass.run(graph, context);
  if (!second.ok()) return absl::StrCat("again: ", second.status().ToString());
  const std::string twice = Print(graph);
  if (*second || twice != once) return absl::StrCat("changes what it has left:\n", once, twice);
  return "";
}

void CheckAll(const Graph& graph, const std::string& name) {
  for (const bool fast : {false, true}) {
    const PassContext context{.fast = fast};
    Graph ordered = graph;
    for (const Pass& pass : AllPasses()) {
      Graph alone = graph;
      for (Graph* each : {&alone, &ordered}) {
        const std::string wrong = RunTwice(pass, *each, context);
        EXPECT_TRUE(wrong.empty()) << name << (fast ? ", fast: " : ": ") << pass.name
                                   << (each == &alone ? " alone: " : " in order: ") << wrong;
        if (!wrong.empty()) return;
      }
    }
  }
}

uint64_t NumGraphs() { return FromEnvironment("KILN_PASSES_GRAPHS", 150); }

TEST(PassesTwice, OnGraphsOfAllTypes) {
  for (uint64_t seed = 0; seed < NumGraphs() && !HasFailure(); ++seed) {
    KILN_ASSERT_OK_AND_ASSIGN(const TypedGraph net, MakeTypedGraph(500'000 + seed));
    CheckAll(net.graph, absl::StrCat("typed graph ", seed));
  }
}

TEST(PassesTwice, OnGraphsWithLibraryOperators) {
  for (uint64_t seed = 0; seed < NumGraphs() && !HasFailure(); ++seed) {
    KILN_ASSERT_OK_AND_ASSIGN(const RandomNet net, MakeRandomNet(seed, 20'000));
    CheckAll(net.graph, absl::StrCat("random net ", seed));
  }
}

// Every model among the tests' data.
TEST(PassesTwice, OnModels) {
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(KILN_TEST_DATA_DIR)) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string path = entry.path().string();
    const absl::StatusOr<OnnxImport> model = ImportOnnx(path);
    if (!model.ok()) continue;  // values of inputs decide its structure
    ++models;
    CheckAll(model->graph, path.substr(std::string(KILN_TEST_DATA_DIR).size() + 1));
  }
  EXPECT_GE(models, 13);
}

}  // namespace
}  // namespace kiln
