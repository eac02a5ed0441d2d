// SPDX-License-Identifier: Apache-2.0
// kiln verify --per-group: sound groups pass, planted defects are found, named and cut down.
#include "tools/verify_groups.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/kernel_service.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "nlohmann/json.hpp"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tools/inputs.h"

namespace kiln {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A random graph over [n, 8]: element-wise nodes, and a few others if `mixed`.
Graph RandomGraph(std::mt19937_64& random, bool mixed) {
  GraphBuilder b("random");
  const Dim n = Dim::Symbol("n");
  std::vector<ValueId> values = {b.Input("x", DType::kF32, {n, 8}),
                                 b.Input("z z", DType::kF32, {n, 8})};
  const ValueId w = b.Constant(FilledTensor(DType::kF32, {8, 8}, 0.125), "w");
  const int nodes = 4 + static_cast<int>(random() % 12);
  for (int k = 0; k < nodes; ++k) {
    const auto any = [&] {
      return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 4)];
    };
    const std::string name = absl::StrCat("n", k);
    switch (random() % (mixed ? 9 : 5)) {
      case 0:
        values.push_back(b.Op("tanh", {any()}, {}, name));
        break;
      case 1:
        values.push_back(b.Op("mul", {any(), any()}, {}, name));
        break;
      case 2:
        values.push_back(b.Op("sub", {any(), values[random() % 2]}, {}, name));
        break;
      case 3:
        values.push_back(b.Op("sigmoid", {any()}, {}, name));
        break;
      case 5:
        values.push_back(b.Op("softmax", {any()}, {{"axis", int64_t{1}}}, name));
        break;
      case 6:
        values.push_back(b.Op("matmul", {any(), w}, {}, name));
        break;
      case 7: {
        const ValueId flat = b.Op("reshape", {any()}, {{"shape", std::string("[8*n]")}}, name);
        values.push_back(b.Op("reshape", {b.Op("tanh", {flat}, {}, name + "t")},
                              {{"shape", std::string("[n, 8]")}}, name + "r"));
        break;
      }
      case 8: {
        const Attrs swap = {{"perm", std::vector<int64_t>{1, 0}}};
        const ValueId swapped = b.Op("transpose", {any()}, swap, name);
        values.push_back(
            b.Op("transpose", {b.Op("tanh", {swapped}, {}, name + "t")}, swap, name + "r"));
        break;
      }
      default:
        values.push_back(b.Op("add", {any(), any()}, {}, name));
    }
  }
  b.Output(values.back(), "y");
  absl::StatusOr<Graph> graph = std::move(b).Finish();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

CompileOptions OnVm(int level) {
  CompileOptions options;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  options.threads = 1;
  options.graph_opt_level = level;
  return options;
}

absl::StatusOr<std::vector<Tensor>> InputsOf(const Graph& graph) {
  CommonOptions common;
  common.quiet = true;
  common.dims = {"n=3"};
  std::vector<std::string> specs;
  for (const ValueId id : graph.inputs())
    specs.push_back(absl::StrCat(graph.value(id).name, "=random:5"));
  return MakeInputs(graph, specs, common);
}

TEST(CheckGroups, FindsNoFaultWithTheVm) {
  int kernels = 0, same = 0, groups = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Graph graph = RandomGraph(random, /*mixed=*/true);
    const CompileOptions options = OnVm(static_cast<int>(seed % 4));
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> inputs, InputsOf(graph));
    KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, options));
    const RunFn run = [&](const Graph& part, const std::vector<Tensor>& values) {
      return RunGraph(part, values, options);
    };
    KILN_ASSERT_OK_AND_ASSIGN(const GroupsCheck found,
                              CheckGroups(compiled, inputs, options, run, 1));
    for (const GroupCheck& group : found.groups) {
      EXPECT_TRUE(group.ok()) << group.nodes[0] << ": " << group.refused;
      EXPECT_LE(group.of_bound, 1);
      kernels += group.same_kernel ? 1 : 0;
      same += group.same_kernel.value_or(false) ? 1 : 0;
      ++groups;
    }
    EXPECT_FALSE(found.repro.has_value());
    EXPECT_EQ(found.no_repro, "");
  }
  EXPECT_GT(groups, 150);
  EXPECT_GE(same, kernels * 95 / 100) << "of " << kernels;
}

// The interpreter, but that its first output is off where all of `cause` are in the graph.
RunFn Defective(const std::set<std::string>& cause) {
  return [cause](const Graph& graph,
                 const std::vector<Tensor>& inputs) -> absl::StatusOr<std::vector<Tensor>> {
    absl::StatusOr<std::vector<Tensor>> results = Interpret(graph, inputs);
    size_t found = 0;
    for (const Node& node : graph.nodes()) found += cause.count(node.name);
    if (results.ok() && found == cause.size()) {
      for (int64_t i = 0; i < (*results)[0].num_elements(); ++i)
        WriteFloat((*results)[0], i, ReadFloat((*results)[0], i) + 3);
    }
    return results;
  };
}

TEST(CheckGroups, CutsAPlantedDefectDownToItsCause) {
  int several = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Graph graph = RandomGraph(random, /*mixed=*/false);
    const CompileOptions options = OnVm(3);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> inputs, InputsOf(graph));
    KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, options));
    std::vector<size_t> kernels;
    for (size_t k = 0; k < compiled.grouping.groups.size(); ++k)
      if (compiled.grouping.groups[k].kind == Group::Kind::kKernel) kernels.push_back(k);
    ASSERT_FALSE(kernels.empty());
    const size_t wrong = kernels[random() % kernels.size()];
    const std::vector<NodeId>& nodes = compiled.grouping.groups[wrong].nodes;
    std::set<std::string> cause, labels;
    for (uint64_t k = 1 + random() % 3; k > 0; --k) {
      const Node& node = compiled.graph.node(nodes[random() % nodes.size()]);
      cause.insert(node.name);
      labels.insert(absl::StrCat(node.name, " (", node.op->name, ")"));
    }
    KILN_ASSERT_OK_AND_ASSIGN(const GroupsCheck found,
                              CheckGroups(compiled, inputs, options, Defective(cause), 1));
    ASSERT_TRUE(found.worst.has_value());
    EXPECT_EQ(found.groups[*found.worst].group, wrong);
    EXPECT_GT(found.groups[*found.worst].of_bound, 1);
    ASSERT_TRUE(found.repro.has_value()) << found.no_repro;
    const Repro& repro = *found.repro;
    EXPECT_EQ(std::set<std::string>(repro.nodes.begin(), repro.nodes.end()), labels);
    EXPECT_TRUE(repro.minimal);
    EXPECT_EQ(repro.seed, 1u);
    EXPECT_FALSE(repro.output.comparison.ok);
    KILN_ASSERT_OK_AND_ASSIGN(const Graph again, ParseGraph(repro.text));
    EXPECT_EQ(again.nodes().size(), cause.size());
    several += cause.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 10);
}

// Only values of this run make it differ, and no random ones.
TEST(CheckGroups, KeepsTheInputsWhereNoSeedShowsIt) {
  GraphBuilder b("values");
  const ValueId x = b.Input("x", DType::kF32, {4});
  b.Output(b.Op("relu", {b.Op("exp", {x}, {}, "e")}, {}, "r"), "y");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  const RunFn run = [](const Graph& part,
                       const std::vector<Tensor>& inputs) -> absl::StatusOr<std::vector<Tensor>> {
    absl::StatusOr<std::vector<Tensor>> results = Interpret(part, inputs);
    if (results.ok() && ReadFloat(inputs[0], 0) > 1.5) WriteFloat((*results)[0], 0, -100);
    return results;
  };
  const std::vector<Tensor> inputs = {FilledTensor(DType::kF32, {4}, 2)};
  KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, OnVm(3)));
  KILN_ASSERT_OK_AND_ASSIGN(const GroupsCheck found,
                            CheckGroups(compiled, inputs, OnVm(3), run, 1));
  ASSERT_TRUE(found.repro.has_value()) << found.no_repro;
  EXPECT_FALSE(found.repro->seed.has_value());
  ASSERT_EQ(found.repro->inputs.size(), 1u);
  EXPECT_EQ(found.repro->nodes.size(), 1u);
}

// Numbers for extents compile to something else, which is right.
TEST(CheckGroups, KeepsSymbolsWhereNumbersDoNotShowIt) {
  GraphBuilder b("symbols");
  const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), 2});
  b.Output(b.Op("relu", {b.Op("exp", {x}, {}, "e")}, {}, "r"), "y");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  const RunFn run = [](const Graph& part,
                       const std::vector<Tensor>& inputs) -> absl::StatusOr<std::vector<Tensor>> {
    absl::StatusOr<std::vector<Tensor>> results = Interpret(part, inputs);
    const bool symbol = !part.value(part.inputs()[0]).shape[0].constant().has_value();
    if (results.ok() && symbol) WriteFloat((*results)[0], 0, -100);
    return results;
  };
  const std::vector<Tensor> inputs = {FilledTensor(DType::kF32, {3, 2}, 2)};
  KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, OnVm(3)));
  KILN_ASSERT_OK_AND_ASSIGN(const GroupsCheck found,
                            CheckGroups(compiled, inputs, OnVm(3), run, 1));
  ASSERT_TRUE(found.repro.has_value()) << found.no_repro;
  EXPECT_EQ(found.repro->symbols, (SymbolValues{{"n", 3}}));
  EXPECT_EQ(found.repro->seed, 1u);
  EXPECT_THAT(found.repro->text, HasSubstr("f32 [n, 2]"));
}

// A wrong kernel from the code generator, past a validator that trusts it.
class PlantedTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_symlink(KILN_TEST_BIN_DIR "/planting_codegen", codegen_);
    std::string row = "0.5";
    for (int i = 1; i < 64; ++i) row += ", 0.5";
    std::ofstream(model_) << "graph m\nconst w : f32 [8, 8] = [" << row
                          << "]\ninput x : f32 [n, 8]\na = tanh(x)\nb = neg(a)\n"
                             "c = matmul(b, w)\noutput c\n";
  }
  ProcessResult Planted(const std::vector<std::string>& arguments, bool planted = true) {
    ProcessOptions options;
    options.directory = dir_.path();
    options.environment = {{"KILN_CACHE_DIR", dir_.File(planted ? "wrong" : "right")}};
    if (planted) {
      options.environment.emplace_back("KILN_CODEGEN", codegen_);
      options.environment.emplace_back("KILN_VALIDATE", KILN_TEST_BIN_DIR "/trusting_validator");
    }
    return Kiln(arguments, options);
  }
  TempDir dir_;
  const std::string model_ = dir_.File("m.graph");
  const std::string codegen_ = dir_.File("planting_2");  // out = in * in
};

TEST_F(PlantedTest, AWrongKernelIsFoundNamedAndCutDown) {
  const std::vector<std::string> command = {"verify",  "m.graph",    "-q", "--dim",
                                            "n=4",     "--jit",      "1",  "--per-group",
                                            "--repro", "small.graph"};
  EXPECT_EQ(Planted(command, false).exit, 0);
  const ProcessResult text = Planted(command);
  EXPECT_EQ(text.exit, 1) << text.out << text.err;
  EXPECT_THAT(text.out, HasSubstr("worst: group 0, "));
  EXPECT_THAT(text.out, HasSubstr("a (tanh), b (neg)"));
  EXPECT_THAT(text.out, HasSubstr("written to small.graph; this shows it:\n  kiln verify "
                                  "small.graph -O3 --jit 1 --seed "));
  std::vector<std::string> with_json = command;
  with_json.push_back("--json");
  const ProcessResult result = Planted(with_json);
  const json results = json::parse(result.out, nullptr, false)["results"];
  EXPECT_EQ(results["ok"], false);
  EXPECT_EQ(results["worst"], 0);
  EXPECT_EQ(results["groups"][0]["ok"], false);
  EXPECT_EQ(results["groups"][0]["same_kernel"], true);
  const json& repro = results["repro"];
  EXPECT_EQ(repro["nodes"].size(), 1u) << "the code is wrong for either";
  EXPECT_EQ(repro["minimal"], true);
  // The command that is printed shows it, with the wrong code generator, and not with the right.
  std::vector<std::string> shown =
      absl::StrSplit(repro["command"].get<std::string>(), ' ', absl::SkipEmpty());
  shown.erase(shown.begin());
  EXPECT_EQ(Planted(shown).exit, 1);
  EXPECT_EQ(Planted(shown, false).exit, 0);
  std::ifstream file(dir_.File("small.graph"));
  std::string first;
  std::getline(file, first);
  EXPECT_EQ(first, absl::StrCat("# ", repro["command"].get<std::string>()));
}

TEST_F(PlantedTest, AReproThatCannotBeWrittenIsAnError) {
  const ProcessResult result =
      Planted({"verify", "m.graph", "-q", "--per-group", "--repro", "no/where.graph"});
  EXPECT_EQ(result.exit, 7) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("--repro"));
}

}  // namespace
}  // namespace kiln
