// SPDX-License-Identifier: Apache-2.0
// Files made to do harm: each is refused as an invalid model, in little time and memory, with a
// message that names the place.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

constexpr int kInvalidModel = 3;
// A run takes a tenth of this on an idle machine.
#if defined(__SANITIZE_ADDRESS__)
constexpr double kMostSeconds = 20;
constexpr int64_t kMostKib = 2 << 20;
#else
constexpr double kMostSeconds = 2;
constexpr int64_t kMostKib = 128 << 10;
#endif

const OnnxDim kTwo = 2;

class HostileFile : public testing::Test {
 protected:
  // Every verb that reads a model refuses the file, and says `part`.
  void ExpectRefused(const std::string& bytes, const std::string& part) {
    const std::string path = dir_.File("m.onnx");
    std::ofstream(path, std::ios::binary) << bytes;
    for (const char* verb : {"run", "inspect", "verify"}) {
      const ProcessResult result = Kiln({verb, path, "-q"});
      EXPECT_EQ(result.exit, kInvalidModel) << verb << ": " << result.err;
      EXPECT_NE(result.err.find(part), std::string::npos) << verb << ": " << result.err;
      EXPECT_LT(result.seconds, kMostSeconds) << verb;
      EXPECT_LT(result.peak_kib, kMostKib) << verb;
    }
  }
  // A model of one node with a constant operand.
  void ExpectConstantRefused(const std::string& tensor, const std::string& part) {
    ExpectRefused(OnnxModel(17, OnnxGraph({OnnxNode("Identity", {"w"}, {"y"})}, {},
                                          {OnnxValue("y")}, {tensor})),
                  part);
  }
  void ExpectExternalRefused(const std::string& location) {
    ExpectConstantRefused(OnnxExternal("w", kFloat, {2}, {{"location", location}}),
                          "initializer \"w\"");
  }
  TempDir dir_;
};

std::string OneNode(const std::string& node, const std::vector<std::string>& initializers = {},
                    const std::vector<OnnxDim>& shape = {1}) {
  return OnnxModel(
      17, OnnxGraph({node}, {OnnxValue("x", kFloat, shape)}, {OnnxValue("y")}, initializers));
}

// A model with functions of domain "f"; `functions` are a name and what it calls, one after the
// other.
std::string WithFunctions(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& functions) {
  std::string model =
      OnnxModel(17, OnnxGraph({OnnxNode(functions[0].first, {"x"}, {"y"}, {}, "f")},
                              {OnnxValue("x", kFloat, {kTwo})}, {OnnxValue("y", kFloat, {kTwo})}));
  model += BytesField(8, BytesField(1, "f") + NumberField(2, 1));
  for (const auto& [name, calls] : functions) {
    std::string body = BytesField(1, name) + BytesField(4, "x") + BytesField(5, "y") +
                       BytesField(9, BytesField(1, "") + NumberField(2, 17)) + BytesField(10, "f");
    std::string last = "x";
    for (size_t k = 0; k < calls.size(); ++k) {
      const std::string next = k + 1 == calls.size() ? "y" : "v" + std::to_string(k);
      body += BytesField(7, OnnxNode(calls[k], {last}, {next}, {}, calls[k] == "Relu" ? "" : "f"));
      last = next;
    }
    model += BytesField(25, body);
  }
  return model;
}

TEST_F(HostileFile, WithNegativeOrTooLargeExtents) {
  ExpectConstantRefused(OnnxTensor("w", kFloat, {-2, 3}, "abcd"), "initializer \"w\"");
  ExpectConstantRefused(OnnxTensor("w", kFloat, {int64_t{1} << 33, int64_t{1} << 33}, "abcd"),
                        "initializer \"w\"");
}

TEST_F(HostileFile, WithMoreOrFewerElementsThanItsShapeSays) {
  ExpectConstantRefused(OnnxFloats("w", {1, 2}) + NumberField(1, 2), "initializer \"w\"");
  ExpectConstantRefused(OnnxTensor("w", kFloat, {3}, "abcd"), "initializer \"w\"");
}

TEST_F(HostileFile, WithResultsBeyondAllMemory) {
  const std::string big = OnnxInts("s", {int64_t{1} << 40});
  ExpectRefused(OneNode(OnnxNode("Expand", {"x", "s"}, {"y"}), {big}), "node \"n_y\" (Expand)");
  ExpectRefused(OneNode(OnnxNode("Tile", {"x", "s"}, {"y"}), {big}), "node \"n_y\" (Tile)");
  ExpectRefused(OneNode(OnnxNode("ConstantOfShape", {"s"}, {"y"}), {big}),
                "node \"n_y\" (ConstantOfShape)");
  ExpectRefused(OneNode(OnnxNode("Relu", {"x"}, {"y"}), {}, {1 << 20, 1 << 20}), "input \"x\"");
}

TEST_F(HostileFile, WithFunctionsThatNeverEnd) {
  ExpectRefused(WithFunctions({{"A", {"A"}}}), "function \"A\"");
  ExpectRefused(WithFunctions({{"A", {"B"}}, {"B", {"C"}}, {"C", {"A"}}}), "cyclic");
}

TEST_F(HostileFile, WithFunctionsThatMakeMillionsOfNodes) {
  std::vector<std::pair<std::string, std::vector<std::string>>> functions;
  for (int i = 0; i < 24; ++i) {
    const std::string next = i < 23 ? "F" + std::to_string(i + 1) : "Relu";
    functions.push_back({"F" + std::to_string(i), {next, next}});
  }
  ExpectRefused(WithFunctions(functions), "functions expand to more than 100000 nodes");
}

TEST_F(HostileFile, WithFunctionsCalledTooDeep) {
  std::vector<std::pair<std::string, std::vector<std::string>>> functions;
  for (int i = 0; i < 5000; ++i)
    functions.push_back(
        {"F" + std::to_string(i), {i < 4999 ? "F" + std::to_string(i + 1) : "Relu"}});
  ExpectRefused(WithFunctions(functions), "more than 32 deep");
}

TEST_F(HostileFile, NestedTenThousandDeep) {
  // From the inside out, as a list of beginnings: copies of all that lies within would be slow.
  std::vector<std::string> begins;
  size_t size = 0;
  const auto wrap = [&](const std::string& fields, int field) {
    const std::string begin = fields + Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(size);
    size += begin.size();
    begins.push_back(begin);
  };
  for (int depth = 0; depth < 10000; ++depth) {
    wrap(BytesField(1, "then_branch") + NumberField(20, 5), 6);              // attribute
    wrap(BytesField(1, "c") + BytesField(2, "y") + BytesField(4, "If"), 5);  // node
    wrap("", 1);                                                             // graph
  }
  std::string graph;
  for (size_t i = begins.size(); i-- > 0;) graph += begins[i];
  ExpectRefused(OnnxModel(17, graph), "more than 32 graphs within graphs");
}

TEST_F(HostileFile, WithLoopsThatMultiply) {
  // Each body has the next one twice and changes the extent it carries, so that it is looked at
  // again.
  std::string body;
  for (int depth = 0; depth < 10; ++depth) {
    const auto name = [&](const char* what, int at) { return what + std::to_string(at); };
    const std::string in = name("s", depth), out = name("t", depth), mid = name("u", depth);
    std::vector<std::string> nodes;
    if (depth == 0) {
      nodes = {OnnxNode("Concat", {in, in}, {out}, {IntAttribute("axis", 0)})};
    } else {
      nodes = {OnnxNode("Loop", {"m", "", in}, {mid}, {GraphAttribute("body", body)}),
               OnnxNode("Loop", {"m", "", mid}, {out}, {GraphAttribute("body", body)})};
    }
    body = OnnxGraph(nodes,
                     {OnnxValue(name("i", depth), kInt64, {}),
                      OnnxValue(name("c", depth), kBool, {}), OnnxValue(in, kFloat, {"k"})},
                     {OnnxValue(name("c", depth), kBool, {}), OnnxValue(out)});
  }
  ExpectRefused(OneNode(OnnxNode("Loop", {"m", "", "x"}, {"y"}, {GraphAttribute("body", body)}),
                        {OnnxTensor("m", kInt64, {}, RawBytes<int64_t>({2}))}),
                "are looked at more than 2048 times");
}

TEST_F(HostileFile, WithNamesGivenTwice) {
  ExpectRefused(
      OnnxModel(17, OnnxGraph({OnnxNode("Relu", {"x"}, {"y"}), OnnxNode("Neg", {"x"}, {"y"})},
                              {OnnxValue("x", kFloat, {kTwo})}, {OnnxValue("y")})),
      "value \"y\": is defined twice");
  ExpectRefused(
      OneNode(OnnxNode("Add", {"x", "w"}, {"y"}), {OnnxFloats("w", {1}), OnnxFloats("w", {2})}),
      "initializer \"w\": is defined twice");
}

TEST_F(HostileFile, WithNamesThatAreNoText) {
  ExpectRefused(OneNode(OnnxNode("Relu", {"x\xff\xfe"}, {"y"})), "is not UTF-8");
  ExpectRefused(OneNode(OnnxNode("Relu", {"x"}, {"y\xc0\xaf"})), "is not UTF-8");
}

TEST_F(HostileFile, WithDataOutsideOfItsFolder) {
  const std::string outside = dir_.File("secret");
  std::ofstream(outside) << "12345678";
  ExpectExternalRefused("../secret");
  ExpectExternalRefused("/etc/passwd");
  std::filesystem::create_symlink(outside, dir_.File("link"));
  ExpectExternalRefused("link");
  std::filesystem::create_hard_link(outside, dir_.File("hard"));
  ExpectExternalRefused("hard");
}

// Whoever opens a pipe that nobody writes to waits for ever.
TEST_F(HostileFile, PipesAreRefusedAtOnce) {
  const std::string pipe = dir_.File("pipe"), graph = dir_.File("g.graph");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::ofstream(graph) << "graph g\ninput x : f32 [2]\ny = neg(x)\noutput y\n";
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", pipe},
      {"explain", graph, "--machine", pipe},
      {"run", graph, "--cache-dir", pipe, "--compile-mode", "never"},
  };
  for (std::vector<std::string> command : commands) {
    command.insert(command.begin(), {"/usr/bin/timeout", "10", KilnPath()});
    const ProcessResult result = RunProcess(command);
    EXPECT_LT(result.exit, 10) << result.err;
    EXPECT_LT(result.seconds, kMostSeconds) << command[3];
  }
}

}  // namespace
}  // namespace kiln
