// SPDX-License-Identifier: Apache-2.0
// Models in memory, against the same bytes in files; and what a model is, without compiling it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "compiler/compile.h"
#include "compiler/compile_graph.h"
#include "compiler/kernel_service.h"
#include "compiler/model_bytes.h"
#include "compiler/model_source.h"
#include "compiler/package_writer.h"
#include "compiler/warm_model.h"
#include "exec/ports.h"
#include "graph/text.h"
#include "tests/base/in_child.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

ModelBytes Bytes(const std::string& bytes, const std::string& name = "model",
                 const std::string& folder = "") {
  return {bytes.data(), bytes.size(), nullptr, name, folder};
}

std::string OnnxWith(const std::string& w) {
  return OnnxModel(
      17, OnnxGraph({OnnxNode("Add", {"x", "w"}, {"y"})}, {OnnxValue("x", kFloat, {"n", 2})},
                    {OnnxValue("y", kFloat, {"n", 2})}, {w}));
}
std::string Sum() { return OnnxWith(OnnxFloats("w", {1, 2})); }
std::string SumOfExternal(const std::string& location = "w.bin") {
  return OnnxWith(OnnxExternal("w", kFloat, {2}, {{"location", location}}));
}
constexpr char kText[] =
    "graph g\ninput x : f32 [n, 2]\nconst w : f32 [2] = [1, 2]\n"
    "y = add(x, w)\noutput y\n";

std::vector<double> Ran(Model& model, int64_t rows) {
  const auto made = model.Run({{"x", FilledTensor(DType::kF32, {rows, 2}, 1)}});
  KILN_EXPECT_OK(made.status());
  return made.ok() ? Values((*made)[0]) : std::vector<double>{};
}

class ModelBytesTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kOff); }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  CompileOptions Cached() {
    CompileOptions options = OnVm();
    options.cache.enabled = true;
    options.cache.directory = dir_.File("cache");
    return options;
  }
  std::string Package() {
    CompileOptions options = Cached();
    const Graph graph = *ParseGraph(kText);
    const Compiled compiled = *CompileGraph(graph, options);
    KernelService service(options);
    PackageWriter writer(*GetPorts(compiled.variant.program.inputs()),
                         *GetPorts(compiled.variant.program.outputs()), options.math);
    KILN_EXPECT_OK(writer.Add(LowestTarget(), compiled.variant));
    return *writer.Encode(*service.store());
  }

  TempDir dir_;
};

TEST_F(ModelBytesTest, InEveryForm) {
  const std::string package = Package();
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"model", Sum()}, {"m.onnx", Sum()}, {"m.graph", kText}, {"m.kiln", package}}) {
    SCOPED_TRACE(name);
    std::string copy = bytes;
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(Bytes(copy, name), OnVm()));
    std::fill(copy.begin(), copy.end(), 'x');  // it was copied
    EXPECT_THAT(Ran(model, 1), ElementsAre(2, 3));
    EXPECT_THAT(Ran(model, 2), ElementsAre(2, 3, 2, 3));
  }
}

TEST_F(ModelBytesTest, NoOutputIsBoundOverThem) {
  // Weights are read where they lie.
  auto owner = std::make_shared<std::string>(Sum());
  owner->reserve(owner->size() + 64);
  ModelBytes bytes = Bytes(*owner);
  bytes.owner = owner;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(bytes, OnVm()));
  Context context = model.NewContext();
  const auto begin = reinterpret_cast<uintptr_t>(owner->data());
  auto* const inside = reinterpret_cast<void*>((begin + 3) / 4 * 4);
  EXPECT_THAT(context.BindOutput("y", Tensor::View(inside, DType::kF32, {1, 2})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the memory overlaps that of constant \"model\"")));
}

TEST_F(ModelBytesTest, AnOwnerIsKeptAsLongAsAModelLives) {
  for (const std::string& name : {std::string("model"), std::string("m.graph")}) {
    auto owner = std::make_shared<std::string>(name == "model" ? Sum() : kText);
    const std::weak_ptr<std::string> alive = owner;
    ModelBytes bytes = Bytes(*owner, name);
    bytes.owner = std::move(owner);
    {
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(bytes, OnVm()));
      bytes.owner = nullptr;
      EXPECT_FALSE(alive.expired());
      EXPECT_THAT(Ran(model, 3).size(), 6u);
    }
    EXPECT_TRUE(alive.expired());
  }
}

TEST_F(ModelBytesTest, ExternalDataLieInTheFolderAlone) {
  std::filesystem::create_directory(dir_.File("in"));
  Write(dir_.File("in/w.bin"), RawBytes<float>({3, 4}));
  Write(dir_.File("out.bin"), RawBytes<float>({3, 4}));
  std::filesystem::create_symlink("../out.bin", dir_.File("in/link.bin"));
  KILN_ASSERT_OK_AND_ASSIGN(Model model,
                            Compile(Bytes(SumOfExternal(), "model", dir_.File("in")), OnVm()));
  EXPECT_THAT(Ran(model, 1), ElementsAre(4, 5));
  const auto error = [&](const std::string& location, const std::string& folder) {
    const std::string bytes = SumOfExternal(location);
    return Compile(Bytes(bytes, "model", folder), OnVm()).status();
  };
  EXPECT_EQ(error("w.bin", "").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(error("w.bin", "").message()), HasSubstr("importing \"model\": "));
  EXPECT_EQ(error("link.bin", dir_.File("in")).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(error("../out.bin", dir_.File("in")).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(error("absent.bin", dir_.File("in")).code(), absl::StatusCode::kNotFound);
  CompileOptions follow = OnVm();
  follow.external_data_links = ExternalDataLinks::kFollow;
  const std::string link = SumOfExternal("link.bin");
  KILN_EXPECT_OK(Compile(Bytes(link, "model", dir_.File("in")), follow).status());
  CompileOptions little = OnVm();
  little.max_weight_bytes = 7;
  const std::string sum = SumOfExternal();
  EXPECT_EQ(Compile(Bytes(sum, "model", dir_.File("in")), little).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// y = ReduceSum(x + w, axes): each value of axes is imported anew.
std::string ImportedForEachAxis() {
  return OnnxModel(
      18, OnnxGraph({OnnxNode("Add", {"x", "w"}, {"a"}),
                     OnnxNode("ReduceSum", {"a", "axes"}, {"y"}, {IntAttribute("keepdims", 0)})},
                    {OnnxValue("x", kFloat, {"n", 2}), OnnxValue("axes", kInt64, {1})},
                    {OnnxValue("y", kFloat, {"m"})},
                    {OnnxExternal("w", kFloat, {2}, {{"location", "w.bin"}})}));
}

TEST_F(ModelBytesTest, NewShapesNeedNoFileFolderOrDescriptor) {
  for (const bool cached : {false, true}) {
    std::filesystem::create_directory(dir_.File("in"));
    Write(dir_.File("in/w.bin"), RawBytes<float>({0, 1}));
    const std::string path = dir_.File("in/m.onnx");
    Write(path, ImportedForEachAxis());
    EXPECT_EQ(InChild(
                  [&] {
                    std::filesystem::current_path(dir_.path());
                    const int fd = open(path.c_str(), O_RDONLY);
                    absl::StatusOr<ModelBytes> bytes = MapModel(fd);
                    if (!bytes.ok()) return 1;
                    bytes->folder = "in";
                    absl::StatusOr<Model> model = Compile(*bytes, cached ? Cached() : OnVm());
                    if (!model.ok()) return 2;
                    std::filesystem::current_path("/");
                    std::filesystem::remove_all(dir_.File("in"));
                    for (int k = 3; k < 256 && !cached; ++k) close(k);
                    for (const int64_t n : {3, 5}) {
                      for (const double axis : {0.0, 1.0}) {
                        const auto made = model->Run({{"x", FilledTensor(DType::kF32, {n, 2}, 1)},
                                                      {"axes", I64({1}, {axis})}});
                        if (!made.ok() || (*made)[0].shape()[0] != (axis == 0 ? 2 : n)) return 3;
                        if (Values((*made)[0])[0] != (axis == 0 ? n : 3)) return 4;
                      }
                    }
                    return 0;
                  },
                  60),
              0);
  }
}

TEST_F(ModelBytesTest, ShareTheCacheWithFiles) {
  std::filesystem::create_directory(dir_.File("in"));
  Write(dir_.File("in/w.bin"), RawBytes<float>({3, 4}));
  for (const std::string& name : {std::string("m.onnx"), std::string("m.graph")}) {
    const std::string bytes = name == "m.onnx" ? SumOfExternal() : kText;
    Write(dir_.File("in/" + name), bytes);
    const auto opened = [&](bool memory) {
      const CompileOptions options = Cached();
      auto service = std::make_shared<KernelService>(options);
      if (!memory) return *WarmModel::Open(dir_.File("in/" + name), options, service);
      const ModelBytes own = *OwnBytes(Bytes(bytes, name, dir_.File("in")));
      return *WarmModel::Open(name, options, service, /*compiles=*/false,
                              *OpenInMemory(own, ImportOptionsOf(options)));
    };
    for (const bool first : {true, false}) {
      std::filesystem::remove_all(dir_.File("cache"));
      const auto cold = opened(first);
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(cold, Cached()));
      const std::vector<double> want = Ran(model, 1);
      cold->WaitUntilKept();
      const auto warm = opened(!first);
      EXPECT_EQ(warm->key(), cold->key());
      EXPECT_EQ(warm->weights().mapped, 0);  // until the Program is taken from the cache
      KILN_ASSERT_OK_AND_ASSIGN(Model again, Compile(warm, Cached()));
      EXPECT_EQ(warm->weights().mapped, 8);
      EXPECT_EQ(warm->weights().copied, 0);
      EXPECT_EQ(Ran(again, 1), want);
    }
  }
}

// Cut short or with a byte changed: the same error as of a file, or the same result.
TEST_F(ModelBytesTest, HostileBytesAreAsHostileFiles) {
  const std::string package = Package();
  for (const auto& [name, whole] : std::vector<std::pair<std::string, std::string>>{
           {"m.onnx", Sum()}, {"m.graph", kText}, {"m.kiln", package}}) {
    const std::string path = dir_.File(name);
    const size_t step = std::max<size_t>(1, whole.size() / 40);
    for (size_t at = 0; at < whole.size(); at += step) {
      for (const bool cut : {true, false}) {
        std::string bytes = cut ? whole.substr(0, at) : whole;
        if (!cut) bytes[at] = static_cast<char>(bytes[at] ^ 0x5a);
        Write(path, bytes);
        const absl::Status file = Compile(path, OnVm()).status();
        const absl::Status memory = Compile(Bytes(bytes, path), OnVm()).status();
        EXPECT_EQ(memory.code(), file.code()) << name << " " << at << cut << memory << file;
        EXPECT_EQ(Describe(Bytes(bytes, path)).status().code(), Describe(path).status().code());
      }
    }
  }
  EXPECT_EQ(Compile(ModelBytes{nullptr, 5}, OnVm()).status().message(),
            "\"model\": no data for 5 bytes");
  EXPECT_EQ(Compile(ModelBytes{}, OnVm()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelBytesTest, DescriptorsOfOtherThingsAreRefused) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(MapModel(ends[0]).status().code(), absl::StatusCode::kFailedPrecondition);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(MapModel(-1).status(), absl::InvalidArgumentError("descriptor -1: it is not open"));
  Write(dir_.File("m.onnx"), Sum());
  const int write_only = open(dir_.File("m.onnx").c_str(), O_WRONLY);
  EXPECT_EQ(MapModel(write_only).status().code(), absl::StatusCode::kPermissionDenied);
  close(write_only);
  const int folder = open(dir_.path().c_str(), O_RDONLY);
  EXPECT_EQ(MapModel(folder).status().code(), absl::StatusCode::kFailedPrecondition);
  close(folder);
  const int fd = open(dir_.File("m.onnx").c_str(), O_RDONLY);
  KILN_ASSERT_OK_AND_ASSIGN(const ModelBytes bytes, MapModel(fd));
  EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 0);
  close(fd);
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(bytes, OnVm()));
  EXPECT_THAT(Ran(model, 1), ElementsAre(2, 3));
}

std::string PortText(const std::vector<PortInfo>& ports) {
  std::string text;
  for (const PortInfo& port : ports)
    text += port.name + " " + std::string(Name(port.type)) + " " +
            (port.any_rank ? "any" : ToString(port.shape)) + "; ";
  return text;
}

TEST_F(ModelBytesTest, Describe) {
  const std::string package = Package();
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"m.onnx", Sum()}, {"m.graph", kText}, {"m.kiln", package}}) {
    SCOPED_TRACE(name);
    Write(dir_.File(name), bytes);
    KILN_ASSERT_OK_AND_ASSIGN(const ModelDescription file, kiln::Describe(dir_.File(name)));
    KILN_ASSERT_OK_AND_ASSIGN(const ModelDescription memory, kiln::Describe(Bytes(bytes, name)));
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(dir_.File(name), OnVm()));
    EXPECT_EQ(file.form, name == "m.onnx" ? "onnx" : name == "m.graph" ? "graph" : "package");
    EXPECT_EQ(memory.form, file.form);
    for (const ModelDescription& one : {file, memory}) {
      EXPECT_EQ(PortText(one.inputs), PortText(model.inputs()));
      EXPECT_EQ(PortText(one.outputs), PortText(model.outputs()));
      EXPECT_TRUE(one.unsupported.empty());
    }
    EXPECT_EQ(PortText(file.inputs), "x f32 [n, 2]; ");
  }
  const std::string unknown =
      OnnxModel(17, OnnxGraph({OnnxNode("Mystery", {"x"}, {"a"}), OnnxNode("Riddle", {"a"}, {"b"}),
                               OnnxNode("Mystery", {"b"}, {"y"})},
                              {OnnxValue("x", kFloat, {"n", 2})}, {OnnxValue("y", kFloat, {2})}));
  KILN_ASSERT_OK_AND_ASSIGN(const ModelDescription odd, kiln::Describe(Bytes(unknown)));
  EXPECT_THAT(odd.unsupported, ElementsAre("Mystery", "Riddle"));
  EXPECT_EQ(PortText(odd.outputs), "y f32 [2]; ");
  Write(dir_.File("w.bin"), RawBytes<float>({0, 1}));
  const std::string axes = ImportedForEachAxis();
  KILN_ASSERT_OK_AND_ASSIGN(const ModelDescription open,
                            kiln::Describe(Bytes(axes, "model", dir_.path())));
  EXPECT_TRUE(open.unsupported.empty());
  EXPECT_EQ(PortText(open.outputs), "y f32 [m]; ");
  EXPECT_EQ(kiln::Describe(dir_.File("absent.onnx")).status().code(), absl::StatusCode::kNotFound);
}

TEST(OwnBytes, MoreThanThereCanBeAreRefused) {
  const char byte = 0;
  for (const char* name : {"m", "m.kiln"}) {
    const ModelBytes bytes{.data = &byte, .size = SIZE_MAX, .name = name};
    EXPECT_THAT(OwnBytes(bytes), StatusIs(absl::StatusCode::kResourceExhausted,
                                          HasSubstr("has 18446744073709551615 bytes, more than")));
  }
}

}  // namespace
}  // namespace kiln
