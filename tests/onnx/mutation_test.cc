// SPDX-License-Identifier: Apache-2.0
// Tiny networks with random damage: the importer refuses them or takes them, and never crashes.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "graph/onnx/import.h"
#include "graph/onnx/tensor_proto.h"
#include "gtest/gtest.h"
#include "tests/base/fetched_data.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

constexpr int kRounds = 2000;

std::string ReadTiny(const std::string& name) {
  std::ifstream in(std::string(KILN_TEST_DATA_DIR) + "/models/tiny/" + name + "/model.onnx",
                   std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// One to four changes of bytes: flips, values that matter to the format, cuts, pieces moved or
// doubled.
void Damage(std::string& file, std::mt19937_64& rng) {
  constexpr char kTelling[] = {'\x00', '\x01', '\x7f', '\x80', '\xff', '\x0a', '\x12', '\x2a'};
  const auto pick = [&](size_t below) { return static_cast<size_t>(rng() % below); };
  const size_t changes = 1 + pick(4);
  for (size_t k = 0; k < changes && !file.empty(); ++k) {
    const size_t at = pick(file.size());
    switch (pick(6)) {
      case 0:
        file[at] = static_cast<char>(file[at] ^ (1 << pick(8)));
        break;
      case 1:
        file[at] = kTelling[pick(sizeof(kTelling))];
        break;
      case 2:
        file[at] = static_cast<char>(rng());
        break;
      case 3:
        file.erase(at, 1 + pick(8));
        break;
      case 4:
        file.insert(at, file.substr(pick(file.size()), 1 + pick(64)));
        break;
      default:
        if (pick(8) == 0) file.resize(at);
        break;
    }
  }
}

TEST(Mutation, DamagedModelsNeverCrash) {
  const std::vector<std::string> names = {"bert_base", "lstm_free", "unet_small", "mobilenetv2"};
  std::mt19937_64 rng(20240229);
  int taken = 0;
  for (const std::string& name : names) {
    const std::string original = ReadTiny(name);
    ASSERT_FALSE(original.empty()) << name;
    for (int round = 0; round < kRounds / static_cast<int>(names.size()); ++round) {
      std::string file = original;
      Damage(file, rng);
      taken += ImportOnnxBytes(file).ok() ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, kRounds);
}

TEST(Mutation, DamagedSmallModelsNeverCrash) {
  const std::string original = OnnxModel(
      17,
      OnnxGraph({OnnxNode("Conv", {"x", "w"}, {"a"},
                          {IntsAttribute("pads", {1, 1, 1, 1}), IntsAttribute("strides", {2, 2})}),
                 OnnxNode("Shape", {"a"}, {"s"}), OnnxNode("Slice", {"s", "zero", "one"}, {"b"}),
                 OnnxNode("Concat", {"b", "rest"}, {"t"}, {IntAttribute("axis", 0)}),
                 OnnxNode("Reshape", {"a", "t"}, {"r"}),
                 OnnxNode("ReduceSum", {"r", "one"}, {"u"}, {IntAttribute("keepdims", 0)}),
                 OnnxNode("Softmax", {"u"}, {"y"}, {IntAttribute("axis", -1)})},
                {OnnxValue("x", kFloat, {"n", 1, 8, 8})}, {OnnxValue("y", kFloat, {"n"})},
                {OnnxTensor("w", kFloat, {2, 1, 3, 3}, std::string(72, 'w')), OnnxInts("zero", {0}),
                 OnnxInts("one", {1}), OnnxInts("rest", {2, -1})}));
  std::mt19937_64 rng(7);
  for (int round = 0; round < 5 * kRounds; ++round) {
    std::string file = original;
    Damage(file, rng);
    (void)ImportOnnxBytes(file);
  }
}

// A model with a function, a branch and a loop, whose graphs take values from around them.
std::string ControlFlowModel() {
  const auto branch = [](const char* op, const char* out) {
    return OnnxGraph({OnnxNode(op, {"x"}, {out})}, {}, {OnnxValue(out)});
  };
  const std::string body = OnnxGraph(
      {OnnxNode("Concat", {"s", "x"}, {"t"}, {IntAttribute("axis", 0)}),
       OnnxNode("Twice", {"x"}, {"u"}, {FloatAttribute("by", 2)}, "f")},
      {OnnxValue("i", kInt64, {}), OnnxValue("go", kBool, {}), OnnxValue("s", kFloat, {"k"})},
      {OnnxValue("go", kBool, {}), OnnxValue("t", kFloat, {"l"}), OnnxValue("u", kFloat, {"n"})});
  const std::string function =
      BytesField(1, "Twice") + BytesField(4, "a") + BytesField(5, "b") + BytesField(6, "by") +
      BytesField(7,
                 OnnxNode("Elu", {"a"}, {"b"},
                          {BytesField(1, "alpha") + NumberField(20, 1) + BytesField(21, "by")})) +
      BytesField(9, BytesField(1, "") + NumberField(2, 17)) + BytesField(10, "f");
  return OnnxModel(17, OnnxGraph({OnnxNode("If", {"c"}, {"y"},
                                           {GraphAttribute("then_branch", branch("Relu", "p")),
                                            GraphAttribute("else_branch", branch("Neg", "q"))}),
                                  OnnxNode("Loop", {"m", "", "y"}, {"z", "w"},
                                           {GraphAttribute("body", body)}),
                                  OnnxNode("NonZero", {"z"}, {"v"})},
                                 {OnnxValue("c", kBool, {}), OnnxValue("m", kInt64, {}),
                                  OnnxValue("x", kFloat, {"n"})},
                                 {OnnxValue("v"), OnnxValue("w")})) +
         BytesField(8, BytesField(1, "f") + NumberField(2, 1)) + BytesField(25, function);
}

TEST(Mutation, DamagedControlFlowNeverCrashes) {
  const std::string original = ControlFlowModel();
  ASSERT_TRUE(ImportOnnxBytes(original).ok()) << ImportOnnxBytes(original).status();
  std::mt19937_64 rng(13);
  for (int round = 0; round < 5 * kRounds; ++round) {
    std::string file = original;
    Damage(file, rng);
    (void)ImportOnnxBytes(file);
  }
}

// Every operator that ONNX tests: its first model of many, each damaged twice.
TEST(Mutation, DamagedNodeTestsNeverCrash) {
  const std::filesystem::path folder =
      std::filesystem::path(KILN_TEST_DATA_DIR) / "../../.deps/onnx-tests/node";
  if (!std::filesystem::is_directory(folder))
    KILN_LACKS_DATA("the ONNX tests", "scripts/fetch_onnx_tests");
  std::mt19937_64 rng(17);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path path = entry.path() / "model.onnx";
    if (!std::filesystem::exists(path) || std::filesystem::file_size(path) > (1 << 16)) continue;
    std::ifstream in(path, std::ios::binary);
    const std::string original(std::istreambuf_iterator<char>(in), {});
    for (int round = 0; round < 2; ++round) {
      std::string file = original;
      Damage(file, rng);
      (void)ImportOnnxBytes(file, nullptr, {.allow_unsupported = round == 1});
    }
  }
}

TEST(Mutation, DamagedTensorsNeverCrash) {
  const std::string original = OnnxTensor("t", kFloat, {2, 3}, std::string(24, 'f'));
  std::mt19937_64 rng(11);
  for (int round = 0; round < 5 * kRounds; ++round) {
    std::string file = original;
    Damage(file, rng);
    (void)onnx::ReadTensorProto(file);
  }
}

}  // namespace
}  // namespace kiln
