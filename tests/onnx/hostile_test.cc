// SPDX-License-Identifier: Apache-2.0
// Every limit of graph/onnx/limits.h and every rule on external data, each broken by a file made
// here.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "graph/onnx/import.h"
#include "graph/onnx/limits.h"
#include "graph/onnx/mapped_file.h"
#include "graph/onnx/wire.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kDenied = absl::StatusCode::kPermissionDenied;

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

absl::Status Import(const std::string& graph) {
  return ImportOnnxBytes(OnnxModel(17, graph)).status();
}

// A model that gives back one constant.
std::string ModelOf(const std::string& tensor) {
  return OnnxModel(17,
                   OnnxGraph({OnnxNode("Identity", {"w"}, {"y"})}, {}, {OnnxValue("y")}, {tensor}));
}

// ---- limits

TEST(Limits, FileBytes) {
  const TempDir dir;
  Write(dir.File("m.onnx"), "");
  std::filesystem::resize_file(dir.File("m.onnx"),
                               static_cast<uintmax_t>(onnx::kMaxFileBytes) + 1);  // sparse
  EXPECT_THAT(ImportOnnx(dir.File("m.onnx")),
              StatusIs(kExhausted, HasSubstr("has 2147483648 bytes, more than 2147483647")));
}

TEST(Limits, Nodes) {
  const std::string nodes = Repeat(BytesField(1, ""), onnx::kMaxNodes + 1);
  EXPECT_THAT(Import(nodes), StatusIs(kExhausted, HasSubstr("more than 1000000 nodes")));
}

TEST(Limits, Fields) {
  const std::string graph = Repeat(NumberField(15000, 0), 1 << 10);
  EXPECT_THAT(onnx::Skeleton(Repeat(BytesField(7, graph), (onnx::kMaxFields >> 10) + 1),
                             onnx::Root::kModel),
              StatusIs(kExhausted, HasSubstr("fields")));
}

TEST(Limits, SkeletonBytes) {
  // Repeated copies of a long text: metadata is no tensor.
  const std::string entry = BytesField(14, BytesField(2, std::string(16 << 20, 'm')));
  EXPECT_THAT(
      onnx::Skeleton(Repeat(entry, (onnx::kMaxSkeletonBytes >> 24) + 1), onnx::Root::kModel),
      StatusIs(kExhausted, HasSubstr("beside the raw data")));
}

TEST(Limits, NameBytes) {
  const std::string longest(static_cast<size_t>(onnx::kMaxNameBytes), 'n');
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {longest}, {"y"})},
                               {OnnxValue(longest, kFloat, {1})}, {OnnxValue("y")})),
              IsOk());
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {longest + "n"}, {"y"})}, {}, {})),
              StatusIs(kExhausted, HasSubstr("more than 4096 bytes in a name")));
  EXPECT_THAT(Import(OnnxGraph({}, {OnnxValue(longest + "n", kFloat, {1})}, {})),
              StatusIs(kExhausted));
}

TEST(Limits, Attributes) {
  const std::vector<std::string> attributes(static_cast<size_t>(onnx::kMaxAttributes) + 1,
                                            IntAttribute("a", 1));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"}, attributes)}, {}, {})),
              StatusIs(kExhausted, HasSubstr("more than 1024 attributes")));
}

TEST(Limits, ListLength) {
  const std::string packed =
      BytesField(1, "axes") +
      BytesField(8, std::string(static_cast<size_t>(onnx::kMaxListLength) + 1, '\1'));
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("Relu", {"x"}, {"y"}, {packed})}, {}, {})),
              StatusIs(kExhausted, HasSubstr("more than 1000000 numbers in one attribute")));
  const std::string inputs =
      Repeat(BytesField(1, ""), onnx::kMaxListLength + 1) + BytesField(4, "Sum");
  EXPECT_THAT(Import(OnnxGraph({inputs}, {}, {})), StatusIs(kExhausted, HasSubstr("in one list")));
}

TEST(Limits, GraphDepth) {
  std::string graph = OnnxGraph({}, {}, {});
  for (int depth = 0; depth < onnx::kMaxGraphDepth; ++depth) {
    graph =
        OnnxGraph({OnnxNode("If", {"c"}, {"y"}, {GraphAttribute("then_branch", graph)})}, {}, {});
  }
  KILN_EXPECT_OK(onnx::Skeleton(OnnxModel(17, graph), onnx::Root::kModel));
  graph = OnnxGraph({OnnxNode("If", {"c"}, {"y"}, {GraphAttribute("then_branch", graph)})}, {}, {});
  EXPECT_THAT(Import(graph), StatusIs(kExhausted, HasSubstr("more than 32 graphs within graphs")));
}

TEST(Limits, Bodies) {
  // Each body runs the one within twice, and is looked at again because it changes an extent.
  std::string body;
  for (int depth = 0; depth < 8; ++depth) {
    const auto name = [depth](const char* what) { return what + std::to_string(depth); };
    std::vector<std::string> nodes;
    if (depth == 0) {
      nodes = {OnnxNode("Concat", {name("s"), name("s")}, {name("t")}, {IntAttribute("axis", 0)})};
    } else {
      nodes = {OnnxNode("Loop", {"m", "", name("s")}, {name("u")}, {GraphAttribute("body", body)}),
               OnnxNode("Loop", {"m", "", name("u")}, {name("t")}, {GraphAttribute("body", body)})};
    }
    body = OnnxGraph(nodes,
                     {OnnxValue(name("i"), kInt64, {}), OnnxValue(name("c"), kBool, {}),
                      OnnxValue(name("s"), kFloat, {"k"})},
                     {OnnxValue(name("c"), kBool, {}), OnnxValue(name("t"))});
  }
  EXPECT_THAT(Import(OnnxGraph(
                  {OnnxNode("Loop", {"m", "", "x"}, {"y"}, {GraphAttribute("body", body)})},
                  {OnnxValue("x", kFloat, {1}), OnnxValue("m", kInt64, {})}, {OnnxValue("y")})),
              StatusIs(kExhausted, HasSubstr("are looked at more than 2048 times")));
}

// The number that a loop of 2^63 - 1 iterations leaves is no extent that an import could wait for.
TEST(Limits, IterationsOfALoopThatTellsAShape) {
  const std::string body =
      OnnxGraph({OnnxNode("Identity", {"on"}, {"o"}), OnnxNode("Add", {"s", "s"}, {"t"})},
                {OnnxValue("i", kInt64, {}), OnnxValue("on", kBool, {}), OnnxValue("s")},
                {OnnxValue("o"), OnnxValue("t")});
  const absl::Status status = Import(OnnxGraph(
      {OnnxNode("Loop", {"most", "", "zero"}, {"shape"}, {GraphAttribute("body", body)}),
       OnnxNode("Reshape", {"x", "shape"}, {"y"})},
      {OnnxValue("x", kFloat, {4})}, {OnnxValue("y")},
      {OnnxTensor("most", kInt64, {}, RawBytes<int64_t>({INT64_MAX})), OnnxInts("zero", {0})}));
  // What the loop leaves is found out by a run, or refused; either way the import ends.
  EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kOk, absl::StatusCode::kUnimplemented));
}

TEST(Limits, PartsOfASequence) {
  for (const char* size : {"", "one"}) {
    EXPECT_THAT(Import(OnnxGraph({OnnxNode("SplitToSequence", {"x", size}, {"s"}),
                                  OnnxNode("SequenceAt", {"s", "one"}, {"y"})},
                                 {OnnxValue("x", kFloat, {2'000'000'000})}, {OnnxValue("y")},
                                 {OnnxTensor("one", kInt64, {}, RawBytes<int64_t>({1}))})),
                StatusIs(kExhausted, HasSubstr("makes 2000000000 parts, more than 10000")));
  }
}

// Each table is allowed; all together are not.
TEST(Limits, ElementsOfAllTables) {
  std::vector<std::string> nodes;
  for (int k = 0; k < 65; ++k)
    nodes.push_back(OnnxNode("MelWeightMatrix", {"bins", "length", "rate", "low", "high"},
                             {"y" + std::to_string(k)}));
  const auto one = [](const char* name, int64_t value) {
    return OnnxTensor(name, kInt64, {}, RawBytes<int64_t>({value}));
  };
  const auto edge = [](const char* name, float value) {
    return OnnxTensor(name, kFloat, {}, RawBytes<float>({value}));
  };
  EXPECT_THAT(Import(OnnxGraph(nodes, {OnnxValue("x", kFloat, {1})}, {OnnxValue("x")},
                               {one("bins", 1 << 10), one("length", 1 << 11), one("rate", 16000),
                                edge("low", 0), edge("high", 8000)})),
              StatusIs(kExhausted, HasSubstr("more than 67108864 elements together")));
}

// Weights of 8 bits in the file are as many floats: they count as such.
TEST(Limits, WeightsThatAreMadeDense) {
  const std::string model =
      OnnxModel(17, OnnxGraph({OnnxNode("MatMulNBits", {"x", "b", "s"}, {"y"},
                                        {IntAttribute("K", 64), IntAttribute("N", 8),
                                         IntAttribute("bits", 4), IntAttribute("block_size", 32)},
                                        "com.microsoft")},
                              {OnnxValue("x", kFloat, {2, 64})}, {OnnxValue("y")},
                              {OnnxTensor("b", 2, {8, 2, 16}, std::string(256, 'b')),
                               OnnxFloats("s", std::vector<float>(16, 1))})) +
      BytesField(8, BytesField(1, "com.microsoft") + NumberField(2, 1));
  KILN_EXPECT_OK(ImportOnnxBytes(model));
  EXPECT_THAT(ImportOnnxBytes(model, nullptr, {.max_total_bytes = 1024}),
              StatusIs(kExhausted, HasSubstr("makes a tensor f32 [64, 8]")));
}

// Few iterations over large values, that constants decide, would take seconds: the extent stays
// open.
TEST(Limits, WorkOfALoopThatTellsAShape) {
  const auto import = [](int64_t iterations) {
    const std::string body = OnnxGraph(
        {OnnxNode("Identity", {"on"}, {"o"}), OnnxNode("Expand", {"s", "wide"}, {"e"}),
         OnnxNode("ReduceMax", {"e"}, {"t"}, {IntsAttribute("axes", {0})})},
        {OnnxValue("i", kInt64, {}), OnnxValue("on", kBool, {}), OnnxValue("s", kInt64, {1})},
        {OnnxValue("o"), OnnxValue("t", kInt64, {1})}, {OnnxInts("wide", {1 << 16})});
    return Import(OnnxGraph(
        {OnnxNode("Loop", {"most", "", "four"}, {"shape"}, {GraphAttribute("body", body)}),
         OnnxNode("Reshape", {"x", "shape"}, {"y"})},
        {OnnxValue("x", kFloat, {4})}, {OnnxValue("y")},
        {OnnxTensor("most", kInt64, {}, RawBytes<int64_t>({iterations})), OnnxInts("four", {5})}));
  };
  // That 4 elements are no 5 is seen only where the loop is computed.
  EXPECT_THAT(import(4), StatusIs(kInvalid));
  EXPECT_THAT(import(10'000), Not(StatusIs(kInvalid)));
}

// A limit of work is none of elements.
TEST(Limits, AShapeMayComeFromALongRunningSum) {
  const std::string model = OnnxGraph(
      {OnnxNode("CumSum", {"ones", "zero"}, {"sums"}),
       OnnxNode("Gather", {"sums", "two"}, {"shape"}), OnnxNode("Expand", {"x", "shape"}, {"y"})},
      {OnnxValue("x", kFloat, {1})}, {OnnxValue("y")},
      {OnnxInts("ones", std::vector<int64_t>(20'000, 1)), OnnxInts("two", {2}),
       OnnxTensor("zero", kInt64, {}, RawBytes<int64_t>({0}))});
  KILN_EXPECT_OK(Import(model));
}

// Many sequences are cut, or each is the one before and one item more.
TEST(Limits, PartsAndItemsOfAllSequences) {
  std::vector<std::string> cuts, inserts = {OnnxNode("SequenceEmpty", {}, {"q0"})};
  for (int k = 0; k < 11; ++k)
    cuts.push_back(OnnxNode("SplitToSequence", {"x"}, {"s" + std::to_string(k)}));
  for (int k = 1; k < 1500; ++k) {
    inserts.push_back(
        OnnxNode("SequenceInsert", {"q" + std::to_string(k - 1), "x"}, {"q" + std::to_string(k)}));
  }
  const std::vector<std::string> x = {OnnxValue("x", kFloat, {10'000})};
  EXPECT_THAT(Import(OnnxGraph(cuts, x, {OnnxValue("x")})),
              StatusIs(kExhausted, HasSubstr("expand to more than 100000 nodes")));
  EXPECT_THAT(Import(OnnxGraph(inserts, x, {OnnxValue("x")})),
              StatusIs(kExhausted, HasSubstr("more than 1000000 items together")));
}

// What a converter makes of the default, after an attribute of another type, may be nothing.
TEST(Operands, OfAttributesOfAnotherTypeEndNothing) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("DFT", {"x"}, {"y"}, {FloatAttribute("axis", 1)})},
                               {OnnxValue("x", kFloat, {1, 10, 10, 1})}, {OnnxValue("y")})),
              StatusIs(kInvalid, HasSubstr("attribute \"axis\" has type 1")));
}

// Products of extents overflow to small ones.
TEST(Limits, TablesOfTransforms) {
  EXPECT_THAT(Import(OnnxGraph({OnnxNode("DFT", {"x", "n"}, {"y"})},
                               {OnnxValue("x", kFloat, {1, 8, 1})}, {OnnxValue("y")},
                               {OnnxTensor("n", kInt64, {}, RawBytes<int64_t>({1LL << 61}))})),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("2305843009213693952")));
  EXPECT_THAT(
      Import(OnnxGraph({OnnxNode("STFT", {"x", "one", "", "frame"}, {"y"})},
                       {OnnxValue("x", kFloat, {1, 2'000'000'000})}, {OnnxValue("y")},
                       {OnnxTensor("one", kInt64, {}, RawBytes<int64_t>({1})),
                        OnnxTensor("frame", kInt64, {}, RawBytes<int64_t>({1'000'000'000}))})),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("the frames are too many")));
}

TEST(Limits, WidthsAndBlocksOfContribOperators) {
  const auto import = [](const std::string& node, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& constants) {
    const std::string opsets = BytesField(8, BytesField(1, "com.microsoft") + NumberField(2, 1));
    const std::string graph = OnnxGraph({node}, inputs, {OnnxValue("y")}, constants);
    return ImportOnnxBytes(OnnxModel(17, graph) + opsets).status();
  };
  EXPECT_THAT(import(OnnxNode("RotaryEmbedding", {"x", "i", "c", "c"}, {"y"}, {}, "com.microsoft"),
                     {OnnxValue("x", kFloat, {1, 2, 4}), OnnxValue("i", kInt64, {1, 2}),
                      OnnxValue("c", kFloat, {4, 0})},
                     {}),
              StatusIs(kInvalid, HasSubstr("has a width of 0, expected at least 1")));
  EXPECT_THAT(
      import(OnnxNode("MatMulNBits", {"x", "b", "s"}, {"y"},
                      {IntAttribute("K", 1), IntAttribute("N", 1), IntAttribute("bits", 4),
                       IntAttribute("block_size", int64_t{1} << 62)},
                      "com.microsoft"),
             {OnnxValue("x", kFloat, {2, 1})}, {OnnxTensor("b", 2, {0}, ""), OnnxFloats("s", {1})}),
      StatusIs(kInvalid, HasSubstr("block_size 4611686018427387904")));
}

// Inputs that are left out, or no tensors, where the operator must have tensors.
TEST(Operands, AreThere) {
  EXPECT_THAT(
      Import(OnnxGraph({OnnxNode("Concat", {"x", "", "x"}, {"y"}, {IntAttribute("axis", 0)})},
                       {OnnxValue("x", kFloat, {2})}, {OnnxValue("y")})),
      StatusIs(kInvalid, HasSubstr("input 1 is absent")));
  for (const std::vector<std::string>& inputs :
       {std::vector<std::string>{}, {""}, {"q"}, {"x", "q"}}) {
    EXPECT_THAT(Import(OnnxGraph({OnnxNode("SequenceConstruct", {"x"}, {"q"}),
                                  OnnxNode("SplitToSequence", inputs, {"s"}),
                                  OnnxNode("SequenceAt", {"s", "at"}, {"y"})},
                                 {OnnxValue("x", kFloat, {2})}, {OnnxValue("y")},
                                 {OnnxTensor("at", kInt64, {}, RawBytes<int64_t>({0}))})),
                StatusIs(kInvalid, HasSubstr("is no tensor")));
  }
}

// Sequences, and optionals without a value, where nodes of sequences take tensors.
TEST(Operands, OfSequencesAreTensors) {
  const std::string make = OnnxNode("SequenceConstruct", {"x", "x"}, {"q"});
  const std::string none = OnnxNode("Optional", {}, {"none"});
  const auto result = [&](const std::string& node) {
    return Import(OnnxGraph(
        {make, none, node, OnnxNode("ConcatFromSequence", {"s"}, {"y"}, {IntAttribute("axis", 0)})},
        {OnnxValue("x", kFloat, {2})}, {OnnxValue("y")}));
  };
  for (const char* other : {"q", "none"}) {
    for (const std::string& node : {OnnxNode("SequenceConstruct", {"x", other}, {"s"}),
                                    OnnxNode("SequenceInsert", {"q", other}, {"s"}),
                                    OnnxNode("SplitToSequence", {other}, {"s"})}) {
      EXPECT_THAT(result(node), StatusIs(kInvalid, HasSubstr("is no tensor")));
    }
  }
  for (const std::string& node : {OnnxNode("SequenceInsert", {"q", "x", "q"}, {"s"}),
                                  OnnxNode("SequenceErase", {"q", "q"}, {"s"}),
                                  OnnxNode("SplitToSequence", {"x", "q"}, {"s"})}) {
    EXPECT_THAT(result(node), StatusIs(kInvalid, HasSubstr("is no tensor")));
  }
  const auto parts = [&](const std::vector<int64_t>& sizes) {
    return Import(
        OnnxGraph({OnnxNode("SplitToSequence", {"x", "n"}, {"s"}),
                   OnnxNode("ConcatFromSequence", {"s"}, {"y"}, {IntAttribute("axis", 0)})},
                  {OnnxValue("x", kFloat, {2})}, {OnnxValue("y")}, {OnnxInts("n", sizes)}));
  };
  EXPECT_THAT(parts({1, 1}), IsOk());
  EXPECT_THAT(parts({-1, 3}), StatusIs(kInvalid, HasSubstr("a part of -1 from 0 on")));
  EXPECT_THAT(parts({1, INT64_MAX}), StatusIs(kInvalid, HasSubstr("from 1 on, of an axis of 2")));
}

TEST(Limits, DeepNestingOfAnyKindEnds) {
  std::string graph;
  for (int depth = 0; depth < 20000; ++depth)
    graph = BytesField(1, BytesField(5, BytesField(6, graph)));
  EXPECT_THAT(Import(graph), StatusIs(kExhausted));
}

TEST(Limits, Rank) {
  const std::vector<OnnxDim> dims(static_cast<size_t>(onnx::kMaxRank) + 1, OnnxDim(1));
  EXPECT_THAT(Import(OnnxGraph({}, {OnnxValue("x", kFloat, dims)}, {})),
              StatusIs(kExhausted, HasSubstr("more than 16 dims")));
  const std::vector<int64_t> extents(static_cast<size_t>(onnx::kMaxRank) + 1, 1);
  EXPECT_THAT(ImportOnnxBytes(ModelOf(OnnxTensor("w", kFloat, extents, "abcd"))),
              StatusIs(kExhausted, HasSubstr("initializer \"w\": has rank 17, more than 16")));
}

TEST(Limits, BytesOfOneTensor) {
  const int64_t big = int64_t{1} << 40;
  EXPECT_THAT(
      ImportOnnxBytes(ModelOf(OnnxTensor("w", kFloat, {big, big}, "abcd"))),
      StatusIs(
          kInvalid,
          HasSubstr(
              "initializer \"w\": shape [1099511627776, 1099511627776] is negative or too large")));
  EXPECT_THAT(ImportOnnxBytes(ModelOf(OnnxTensor("w", kFloat, {2}, "abcd"))),
              StatusIs(kInvalid, HasSubstr("initializer \"w\": has 4 bytes, but f32 [2] needs 8")));
}

TEST(Limits, BytesOfAllTensors) {
  const std::string model =
      OnnxModel(17, OnnxGraph({OnnxNode("Add", {"a", "b"}, {"y"})}, {}, {OnnxValue("y")},
                              {OnnxFloats("a", {1, 2}), OnnxFloats("b", {3, 4})}));
  KILN_EXPECT_OK(ImportOnnxBytes(model, nullptr, {.max_total_bytes = 16}));
  EXPECT_THAT(
      ImportOnnxBytes(model, nullptr, {.max_total_bytes = 15}),
      StatusIs(
          kExhausted,
          HasSubstr("initializer \"b\": has 8 bytes and the tensors before it 8, together more "
                    "than 15, the most that all may have; --max-weights or "
                    "CompileOptions::max_weight_bytes raises it")));
}

// ---- external data

class ExternalData : public testing::Test {
 protected:
  ExternalData() {
    std::filesystem::create_directory(dir_.File("model"));
    Write(dir_.File("model/w.bin"), std::string("\0\0\x80\x3f\0\0\0\x40", 8));  // 1.0f 2.0f
    Write(dir_.File("secret"), "12345678");
  }
  absl::StatusOr<OnnxImport> ImportWith(
      const std::vector<std::pair<std::string, std::string>>& entries,
      const OnnxImportOptions& options = {}) {
    Write(dir_.File("model/m.onnx"), ModelOf(OnnxExternal("w", kFloat, {2}, entries)));
    return ImportOnnx(dir_.File("model/m.onnx"), options);
  }
  absl::StatusOr<OnnxImport> ImportFrom(const std::string& location,
                                        const OnnxImportOptions& options = {}) {
    return ImportWith({{"location", location}}, options);
  }

  const OnnxImportOptions kFollow = {.external_links = onnx::Links::kFollow};

  TempDir dir_;
};

TEST_F(ExternalData, IsReadBesideTheModel) {
  KILN_ASSERT_OK_AND_ASSIGN(const OnnxImport import, ImportFrom("w.bin"));
  bool found = false;
  for (const Value& value : import.graph.values()) {
    if (value.name != "w") continue;
    found = true;
    EXPECT_EQ(static_cast<const float*>(value.constant->data())[1], 2.0f);
  }
  EXPECT_TRUE(found);
}

TEST_F(ExternalData, IsReadFromFoldersBelow) {
  std::filesystem::create_directory(dir_.File("model/sub"));
  std::filesystem::copy_file(dir_.File("model/w.bin"), dir_.File("model/sub/w.bin"));
  KILN_EXPECT_OK(ImportFrom("./sub/w.bin"));
}

TEST_F(ExternalData, StaysBeneathTheFolder) {
  EXPECT_THAT(ImportFrom("../secret"), StatusIs(kDenied, HasSubstr("leads out of the folder")));
  EXPECT_THAT(ImportFrom("sub/../../secret"), StatusIs(kDenied));
  EXPECT_THAT(ImportFrom(dir_.File("secret")), StatusIs(kDenied, HasSubstr("absolute")));
  EXPECT_THAT(ImportFrom(""), StatusIs(kDenied, HasSubstr("no name")));
  EXPECT_THAT(ImportFrom(std::string("w.bin\0.txt", 10)),
              StatusIs(kDenied, HasSubstr("zero byte")));
  EXPECT_THAT(ImportFrom(std::string(5000, 'n')), StatusIs(kDenied, HasSubstr("more than 4096")));
  EXPECT_THAT(ImportFrom("missing.bin"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing.bin")));
}

TEST_F(ExternalData, FollowsNoLinks) {
  std::filesystem::create_symlink(dir_.File("secret"), dir_.File("model/link"));
  EXPECT_THAT(ImportFrom("link"), StatusIs(kDenied, HasSubstr("link")));
  std::filesystem::create_symlink("w.bin", dir_.File("model/inside"));
  EXPECT_THAT(ImportFrom("inside"), StatusIs(kDenied));
  std::filesystem::create_directory_symlink(dir_.path(), dir_.File("model/up"));
  EXPECT_THAT(ImportFrom("up/secret"), StatusIs(kDenied));
  std::filesystem::create_hard_link(dir_.File("secret"), dir_.File("model/hard"));
  EXPECT_THAT(ImportFrom("hard"),
              StatusIs(kDenied, HasSubstr("has 2 names (hard links), expected 1")));
}

TEST_F(ExternalData, FollowsNoLinksWhereTheSystemHasNoOpenat2) {
  const auto open = [&](const std::string& location) {
    return onnx::MappedFile::OpenBeneath(dir_.File("model"), location, onnx::Links::kRefuse,
                                         /*openat2=*/false)
        .status();
  };
  std::filesystem::create_directory(dir_.File("model/sub"));
  std::filesystem::copy_file(dir_.File("model/w.bin"), dir_.File("model/sub/w.bin"));
  KILN_EXPECT_OK(open("w.bin"));
  KILN_EXPECT_OK(open("./sub//w.bin"));
  std::filesystem::create_symlink("w.bin", dir_.File("model/link"));
  EXPECT_THAT(open("link"), StatusIs(kDenied));
  std::filesystem::create_directory_symlink(dir_.File("model/sub"), dir_.File("model/up"));
  EXPECT_THAT(open("up/w.bin"), StatusIs(kDenied));
  EXPECT_THAT(open("../secret"), StatusIs(kDenied));
  EXPECT_THAT(open("/etc/passwd"), StatusIs(kDenied));
}

// A snapshot of a hub's cache: names are links to blobs beside it.
TEST_F(ExternalData, FollowsLinksWhereAsked) {
  std::filesystem::create_directories(dir_.File("blobs"));
  std::filesystem::create_directories(dir_.File("snapshots/1/onnx"));
  Write(dir_.File("blobs/a"), ModelOf(OnnxExternal("w", kFloat, {2}, {{"location", "w_data"}})));
  std::filesystem::copy_file(dir_.File("model/w.bin"), dir_.File("blobs/b"));
  std::filesystem::create_symlink("../../../blobs/a", dir_.File("snapshots/1/onnx/m.onnx"));
  const std::string data = dir_.File("snapshots/1/onnx/w_data");
  std::filesystem::create_symlink("../../../blobs/b", data);
  const std::string model = dir_.File("snapshots/1/onnx/m.onnx");
  EXPECT_THAT(
      ImportOnnx(model),
      StatusIs(kDenied,
               HasSubstr("external data \"w_data\": is reached through a link; if you trust "
                         "who made the model's folder, follow links with "
                         "--external-data-links follow or "
                         "CompileOptions::external_data_links")));
  KILN_EXPECT_OK(ImportOnnx(model, kFollow).status());
  // Data lie beside the name of the model, not beside what it leads to.
  std::filesystem::remove(data);
  std::filesystem::copy_file(dir_.File("blobs/b"), dir_.File("blobs/w_data"));
  EXPECT_THAT(ImportOnnx(model, kFollow),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("w_data")));
  // A model that is a link needs nothing else where its data are none.
  std::filesystem::copy_file(dir_.File("blobs/b"), data);
  KILN_EXPECT_OK(ImportOnnx(model).status());
}

TEST_F(ExternalData, FollowsLinksOfFoldersAndHardOnesToo) {
  std::filesystem::create_directory_symlink(dir_.path(), dir_.File("model/up"));
  KILN_EXPECT_OK(ImportFrom("up/secret", kFollow).status());
  std::filesystem::create_hard_link(dir_.File("secret"), dir_.File("model/hard"));
  KILN_EXPECT_OK(ImportFrom("hard", kFollow).status());
}

// Following links gives a model no more names than it had.
TEST_F(ExternalData, NamesNothingOutsideWhereLinksAreFollowed) {
  EXPECT_THAT(ImportFrom("../secret", kFollow),
              StatusIs(kDenied, HasSubstr("leads out of the folder")));
  EXPECT_THAT(ImportFrom("sub/../../secret", kFollow), StatusIs(kDenied));
  EXPECT_THAT(ImportFrom(dir_.File("secret"), kFollow), StatusIs(kDenied, HasSubstr("absolute")));
  EXPECT_THAT(ImportFrom(std::string("w.bin\0.txt", 10), kFollow),
              StatusIs(kDenied, HasSubstr("zero byte")));
}

TEST_F(ExternalData, FollowsLinksToRegularFilesOnly) {
  constexpr absl::StatusCode kOther = absl::StatusCode::kFailedPrecondition;
  const auto link = [&](const std::filesystem::path& to, const char* name) {
    std::filesystem::create_symlink(to, dir_.File(absl::StrCat("model/", name)));
  };
  ASSERT_EQ(mkfifo(dir_.File("pipe").c_str(), 0600), 0);
  link("../pipe", "pipe");
  link("/dev/zero", "device");
  link("..", "folder");
  for (const char* name : {"pipe", "device", "folder"}) {
    EXPECT_THAT(ImportFrom(name, kFollow),
                StatusIs(kOther, HasSubstr(absl::StrCat("\"", name, "\": is no regular file"))));
    // The same where the system has no openat2.
    EXPECT_THAT(onnx::MappedFile::OpenBeneath(dir_.File("model"), name, onnx::Links::kFollow,
                                              /*openat2=*/false)
                    .status(),
                StatusIs(kOther));
  }
  link("circle", "circle");
  EXPECT_THAT(ImportFrom("circle", kFollow), StatusIs(kDenied, HasSubstr("lead in a circle")));
  link("nowhere", "dangling");
  EXPECT_THAT(ImportFrom("dangling", kFollow), StatusIs(absl::StatusCode::kNotFound));
  // What the process has open is not the folder's to hand out.
  const int open_file = open(dir_.File("secret").c_str(), O_RDONLY);
  link(absl::StrCat("/proc/self/fd/", open_file), "magic");
  EXPECT_THAT(ImportFrom("magic", kFollow), StatusIs(kDenied, HasSubstr("or through /proc")));
  close(open_file);
}

// The name is looked up once: what it led to then is what is read.
TEST_F(ExternalData, StaysTheFileThatWasOpened) {
  std::filesystem::create_symlink("w.bin", dir_.File("model/link"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto file, onnx::MappedFile::OpenBeneath(
                                                 dir_.File("model"), "link", onnx::Links::kFollow));
  std::filesystem::remove(dir_.File("model/link"));
  std::filesystem::create_symlink("../secret", dir_.File("model/link"));
  EXPECT_EQ(file->bytes(), std::string("\0\0\x80\x3f\0\0\0\x40", 8));
}

TEST_F(ExternalData, IsARegularFile) {
  ASSERT_EQ(mkfifo(dir_.File("model/pipe").c_str(), 0600), 0);
  EXPECT_THAT(ImportFrom("pipe"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no regular file")));
  std::filesystem::create_directory(dir_.File("model/folder"));
  EXPECT_THAT(ImportFrom("folder"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ExternalData, LiesWithinTheFile) {
  EXPECT_THAT(ImportWith({{"location", "w.bin"}, {"offset", "4"}}),
              StatusIs(kInvalid, HasSubstr("8 at offset 4 are asked for")));
  EXPECT_THAT(ImportWith({{"location", "w.bin"}, {"offset", "9223372036854775807"}}),
              StatusIs(kInvalid));
  EXPECT_THAT(ImportWith({{"location", "w.bin"}, {"offset", "-8"}}),
              StatusIs(kInvalid, HasSubstr("offset is \"-8\"")));
  EXPECT_THAT(ImportWith({{"location", "w.bin"}, {"offset", "99999999999999999999"}}),
              StatusIs(kInvalid));
  EXPECT_THAT(ImportWith({{"location", "w.bin"}, {"length", "4"}}),
              StatusIs(kInvalid, HasSubstr("has 4 bytes, but f32 [2] needs 8")));
  EXPECT_THAT(ImportWith({{"location", "w.bin"}, {"length", "junk"}}), StatusIs(kInvalid));
  EXPECT_THAT(ImportWith({{"location", "w.bin"}, {"size", "1"}, {"__class__", "x"}}), IsOk());
}

TEST_F(ExternalData, NeedsAFolder) {
  EXPECT_THAT(ImportOnnxBytes(ModelOf(OnnxExternal("w", kFloat, {2}, {{"location", "w.bin"}}))),
              StatusIs(kDenied, HasSubstr("no folder")));
}

// ---- files that are no models

TEST(NoModel, IsRefused) {
  const TempDir dir;
  EXPECT_THAT(ImportOnnx(dir.File("absent.onnx")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.onnx")));
  EXPECT_THAT(ImportOnnx(dir.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no regular file")));
  Write(dir.File("empty.onnx"), "");
  EXPECT_THAT(ImportOnnx(dir.File("empty.onnx")), StatusIs(kInvalid, HasSubstr("no graph")));
  Write(dir.File("text.onnx"), "this is no model at all, only text");
  EXPECT_THAT(ImportOnnx(dir.File("text.onnx")),
              AnyOf(StatusIs(absl::StatusCode::kDataLoss), StatusIs(kInvalid)));
}

}  // namespace
}  // namespace kiln
