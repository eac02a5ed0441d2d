// SPDX-License-Identifier: Apache-2.0
// Programs kept from one start to the next: found again, never after a change, never damaged.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/log.h"
#include "compiler/compile.h"
#include "compiler/model_source.h"
#include "compiler/program_cache.h"
#include "compiler/variants.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/onnx/model_writer.h"

namespace kiln {
namespace {

constexpr int kWidth = 8192;  // large enough to be kept outside of the Program's entry

std::vector<float> Ramp(float first) {
  std::vector<float> values(kWidth);
  for (int i = 0; i < kWidth; ++i)
    values[static_cast<size_t>(i)] = first + static_cast<float>(i % 7);
  return values;
}

std::vector<float> Waves(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 37 % 101) * 0.01f - 0.5f;
  return values;
}

// y = (x + w) * (w + w): w is read from the model's file, w + w is made by a pass.
std::string ModelWith(const std::string& w) {
  return OnnxModel(
      17, OnnxGraph({OnnxNode("Add", {"x", "w"}, {"a"}), OnnxNode("Add", {"w", "w"}, {"b"}),
                     OnnxNode("Mul", {"a", "b"}, {"y"})},
                    {OnnxValue("x", kFloat, {"n", kWidth})}, {OnnxValue("y", kFloat, {})}, {w}));
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Writes other bytes into the same file and gives it its old time of modification back.
void WriteUnnoticed(const std::string& path, const std::string& bytes) {
  struct stat before;
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  const int fd = open(path.c_str(), O_WRONLY);
  ASSERT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(futimens(fd, times), 0);
  close(fd);
}

void LetFilesSettle() { absl::SleepFor(absl::Milliseconds(200)); }

class WarmStartTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    WriteModel(1);
    LetFilesSettle();
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  void WriteModel(float first) { Write(model_, ModelWith(OnnxFloats("w", Ramp(first)))); }

  CompileOptions Options() {
    CompileOptions options;
    options.compile_mode = CompileMode::kNever;
    options.cache.directory = dir_.File("cache");
    options.threads = 1;
    return options;
  }

  // A start of its own: checks the result for weights that begin with `first`.
  WeightCounts Start(float first, const CompileOptions& options) {
    const auto service = std::make_shared<KernelService>(options);
    const auto opened = WarmModel::Open(model_, options, service);
    if (!opened.ok()) {
      ADD_FAILURE() << opened.status();
      return {};
    }
    absl::StatusOr<Model> model = Compile(*opened, options);
    if (!model.ok()) {
      ADD_FAILURE() << model.status();
      return {};
    }
    Tensor x = Tensor::Allocate(DType::kF32, {1, kWidth});
    std::memcpy(x.data(), Ramp(0).data(), sizeof(float) * kWidth);
    const auto y = model->Run({{"x", x}});
    EXPECT_TRUE(y.ok()) << y.status();
    const std::vector<float> w = Ramp(first);
    for (int i = 0; y.ok() && i < kWidth; ++i) {
      const auto at = static_cast<size_t>(i);
      const float want = (static_cast<float>(i % 7) + w[at]) * (w[at] + w[at]);
      if (static_cast<const float*>((*y)[0].data())[i] == want) continue;
      ADD_FAILURE() << "element " << i << " is not that of the model";
      break;
    }
    (*opened)->WaitUntilKept();
    return (*opened)->weights();
  }
  WeightCounts Start(float first) { return Start(first, Options()); }
  void ExpectWarm(const WeightCounts& weights) {
    EXPECT_EQ(weights.copied, 0);
    EXPECT_GE(weights.mapped, kWidth * 4);
  }
  void ExpectCold(const WeightCounts& weights) { EXPECT_GT(weights.copied, 0); }

  // Applies `change` to every entry that has a section of this tag; returns how many there were.
  template <typename Change>
  int ForEntriesWith(const std::string& tag, Change change) {
    const auto files = std::filesystem::recursive_directory_iterator(dir_.File("cache/v1/e"));
    std::vector<std::string> found;
    for (const auto& file : files) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      const auto entry = DecodeEntry(bytes);
      if (entry.ok() && entry->Find(tag) != nullptr) found.push_back(file.path());
    }
    for (const std::string& path : found) change(path);
    return static_cast<int>(found.size());
  }
  static void FlipMiddle(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(0, std::ios::end);
    const auto middle = file.tellg() / 2;
    file.seekg(middle);
    const char byte = static_cast<char>(file.get());
    file.seekp(middle);
    file.put(static_cast<char>(byte ^ 0x10));
  }

  TempDir dir_;
  const std::string model_ = dir_.File("m.onnx");
};

TEST_F(WarmStartTest, MapsWhatTheFirstStartMade) {
  ExpectCold(Start(1));
  ExpectWarm(Start(1));
  LetFilesSettle();
  ExpectWarm(Start(1));
  ExpectWarm(Start(1));
}

// Ends after what libraries have registered to be called at exit.
std::optional<Model> model_of_static_duration;

TEST_F(WarmStartTest, AModelMayLiveUntilTheProcessHasEnded) {
  const auto start_and_exit = [&] {
    const auto service = std::make_shared<KernelService>(Options());
    model_of_static_duration = *Compile(*WarmModel::Open(model_, Options(), service), Options());
    const Tensor x = Tensor::Allocate(DType::kF32, {1, kWidth});
    std::memset(x.data(), 0, sizeof(float) * kWidth);
    std::exit(model_of_static_duration->Run({{"x", x}}).ok() ? 0 : 1);
  };
  EXPECT_EXIT(start_and_exit(), testing::ExitedWithCode(0), "");
}

TEST_F(WarmStartTest, FollowsAModelThatIsWrittenOver) {
  Start(1);
  ExpectWarm(Start(1));
  WriteUnnoticed(model_, ModelWith(OnnxFloats("w", Ramp(2))));
  ExpectCold(Start(2));
  WriteUnnoticed(model_, ModelWith(OnnxFloats("w", Ramp(3))));  // at once: times may be the same
  ExpectCold(Start(3));
  WriteUnnoticed(model_, ModelWith(OnnxFloats("w", Ramp(1))));
  ExpectWarm(Start(1));  // known from before
}

TEST_F(WarmStartTest, FollowsAModelThatIsReplaced) {
  Start(1);
  struct stat before;
  ASSERT_EQ(stat(model_.c_str(), &before), 0);
  Write(dir_.File("new"), ModelWith(OnnxFloats("w", Ramp(5))));
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, dir_.File("new").c_str(), times, 0), 0);
  std::filesystem::rename(dir_.File("new"), model_);
  ExpectCold(Start(5));
  ExpectWarm(Start(5));
}

// As a program that compiles ahead may: it imports, the file is replaced, it keeps what it made.
TEST_F(WarmStartTest, AVariantOfAFileThatWasReplacedIsNotKept) {
  KILN_ASSERT_OK_AND_ASSIGN(const ModelSource source, ModelSource::Read(model_));
  KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(source.graph(), Options()));
  const auto service = std::make_shared<KernelService>(Options());
  const auto variants_after_keeping = [&] {
    const auto open = [&] {
      return *ProgramCache::Open(model_, Options(), *service->store(), [] {});
    };
    open()->Keep(compiled.variant, source.inputs(), source.outputs(), *source.import());
    return open()->Variants()->size();
  };
  Write(dir_.File("new"), ModelWith(OnnxFloats("w", Ramp(5))));
  LetFilesSettle();
  std::filesystem::rename(model_, dir_.File("old"));
  std::filesystem::rename(dir_.File("new"), model_);
  EXPECT_EQ(variants_after_keeping(), 0u);
  Start(5);
}

TEST_F(WarmStartTest, AVariantMadeAheadIsKept) {
  KILN_ASSERT_OK_AND_ASSIGN(const ModelSource source, ModelSource::Read(model_));
  KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(source.graph(), Options()));
  const auto service = std::make_shared<KernelService>(Options());
  const auto cache = *ProgramCache::Open(model_, Options(), *service->store(), [] {});
  cache->Keep(compiled.variant, source.inputs(), source.outputs(), *source.import());
  ExpectWarm(Start(1));
}

// A run that fails is run again with a Program that is compiled anew; not where it has written over
// what it read, be it a view that was copied before.
TEST_F(WarmStartTest, ARunIsNotRepeatedOnWhatItHasWrittenOver) {
  const std::string path = dir_.File("scatter.graph");
  Write(path,
        "graph scatter\ninput x : i64 [4]\ninput i : i64 [2, 1]\ninput u : i64 [2]\n"
        "y = scatter_nd(x, i, u)\noutput y\n");
  for (const bool warm : {false, true}) {
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path, Options()));
    std::vector<int64_t> memory = {9, 0, 9, 0}, x(4, 1), u = {5, 6};  // places 9: there are none
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.Bind("x", Tensor::View(x.data(), DType::kI64, {4})));
    KILN_ASSERT_OK(context.Bind("i", Tensor::View(memory.data(), DType::kI64, {2, 1}, {2, 1})));
    KILN_ASSERT_OK(context.Bind("u", Tensor::View(u.data(), DType::kI64, {2})));
    KILN_ASSERT_OK(context.BindOutput("y", Tensor::View(memory.data(), DType::kI64, {4})));
    EXPECT_EQ(context.Run().code(), absl::StatusCode::kInvalidArgument) << warm;
  }
}

TEST_F(WarmStartTest, KnowsACopyOfTheModel) {
  Start(1);
  std::filesystem::copy_file(model_, dir_.File("new"));
  std::filesystem::rename(dir_.File("new"), model_);
  ExpectWarm(Start(1));
}

TEST_F(WarmStartTest, FollowsExternalData) {
  Write(model_, ModelWith(OnnxExternal("w", kFloat, {kWidth}, {{"location", "w.bin"}})));
  Write(dir_.File("w.bin"), RawBytes(Ramp(1)));
  LetFilesSettle();
  ExpectCold(Start(1));
  ExpectWarm(Start(1));
  WriteUnnoticed(dir_.File("w.bin"), RawBytes(Ramp(4)));
  ExpectCold(Start(4));
  ExpectWarm(Start(4));
  std::filesystem::remove(dir_.File("w.bin"));
  const auto service = std::make_shared<KernelService>(Options());
  EXPECT_FALSE(WarmModel::Open(model_, Options(), service).ok());
}

TEST_F(WarmStartTest, OtherOptionsHaveOtherPrograms) {
  Start(1);
  CompileOptions level0 = Options();
  level0.graph_opt_level = 0;
  Start(1, level0);
  ExpectWarm(Start(1));
  ExpectWarm(Start(1, level0));
  CompileOptions fewer = Options();
  fewer.disabled_passes = {"fold_constants"};
  Start(1, fewer);
  ExpectWarm(Start(1, fewer));
}

TEST_F(WarmStartTest, DamageIsAMiss) {
  for (const char* tag : {"program", "blob"}) {
    Start(1);
    LetFilesSettle();
    ExpectWarm(Start(1));
    EXPECT_GT(ForEntriesWith(tag, FlipMiddle), 0) << tag;
    ExpectCold(Start(1));
    ExpectWarm(Start(1));
    EXPECT_GT(ForEntriesWith(tag, [](const std::string& p) { std::filesystem::remove(p); }), 0);
    ExpectCold(Start(1));
    ExpectWarm(Start(1));
    EXPECT_GT(
        ForEntriesWith(tag, [](const std::string& p) { std::filesystem::resize_file(p, 100); }), 0);
    ExpectCold(Start(1));
  }
}

TEST_F(WarmStartTest, WithoutACacheOrWithOneThatIsOnlyRead) {
  CompileOptions none = Options();
  none.cache.enabled = false;
  Start(1, none);
  CompileOptions read_only = Options();
  read_only.cache.read_only = true;
  ExpectCold(Start(1, read_only));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("cache")));
  Start(1);
  ExpectWarm(Start(1, read_only));
}

// Two convolutions, of a weight of the file and of one that a pass makes: oneDNN has layouts of its
// own for both.
TEST_F(WarmStartTest, WeightsPackedForALibraryAreMappedToo) {
  const std::vector<int64_t> shape = {64, 64, 3, 3};
  const std::string odd_name(static_cast<size_t>(3), 'n');  // weights of the file are not aligned
  Write(model_,
        OnnxModel(
            17,
            OnnxGraph({OnnxNode("Conv", {"x", "w"}, {"a"}), OnnxNode("Add", {"w", "w"}, {odd_name}),
                       OnnxNode("Conv", {"a", odd_name}, {"y"})},
                      {OnnxValue("x", kFloat, {1, 64, 9, 9})}, {OnnxValue("y", kFloat, {})},
                      {OnnxTensor("w", kFloat, shape, RawBytes(Waves(64 * 64 * 9)))})));
  LetFilesSettle();
  const Tensor x = Tensor::Allocate(DType::kF32, {1, 64, 9, 9});
  std::memcpy(x.data(), Waves(64 * 81).data(), 64 * 81 * sizeof(float));
  std::vector<std::string> answers;
  const auto start = [&] {
    const auto service = std::make_shared<KernelService>(Options());
    const auto opened = *WarmModel::Open(model_, Options(), service);
    Model model = *Compile(opened, Options());
    const Tensor y = (*model.Run({{"x", x}}))[0];
    answers.emplace_back(static_cast<const char*>(y.data()), static_cast<size_t>(y.size_bytes()));
    opened->WaitUntilKept();
    return opened->weights();
  };
  constexpr int64_t kBytes = 64 * 64 * 9 * sizeof(float);
  EXPECT_GE(start().copied, 3 * kBytes) << "the sum, and two packed forms";
  const WeightCounts warm = start();
  EXPECT_EQ(warm.copied, 0);
  EXPECT_GE(warm.mapped, 4 * kBytes);
  EXPECT_GE(ForEntriesWith("blob", FlipMiddle), 3);
  EXPECT_GT(start().copied, 0);
  start();  // what nobody looked for is found damaged now
  EXPECT_EQ(start().copied, 0);
  for (const std::string& answer : answers) EXPECT_EQ(answer, answers[0]);
}

TEST_F(WarmStartTest, VariantsMadeLaterAreKeptToo) {
  Write(model_,
        OnnxModel(17, OnnxGraph({OnnxNode("Add", {"x", "y"}, {"z"})},
                                {OnnxValue("x", kFloat, {"n"}), OnnxValue("y", kFloat, {"n"})},
                                {OnnxValue("z", kFloat, {})})));
  LetFilesSettle();
  const auto run = [&](int64_t x, int64_t y, bool graph_is_read) {
    const auto service = std::make_shared<KernelService>(Options());
    KILN_ASSERT_OK_AND_ASSIGN(const auto opened, WarmModel::Open(model_, Options(), service));
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(opened, Options()));
    if (!graph_is_read) std::filesystem::rename(model_, dir_.File("away"));
    for (const auto& [n, m] : {std::pair{x, x}, std::pair{x, y}}) {
      Tensor a = Tensor::Allocate(DType::kF32, {n}), b = Tensor::Allocate(DType::kF32, {m});
      for (int64_t i = 0; i < n; ++i) static_cast<float*>(a.data())[i] = 1;
      for (int64_t i = 0; i < m; ++i) static_cast<float*>(b.data())[i] = 2;
      KILN_ASSERT_OK_AND_ASSIGN(const auto z, model.Run({{"x", a}, {"y", b}}));
      EXPECT_EQ(static_cast<const float*>(z[0].data())[n - 1], 3);
    }
    if (!graph_is_read) std::filesystem::rename(dir_.File("away"), model_);
    opened->WaitUntilKept();
  };
  run(4, 4, true);
  run(6, 6, false);
  run(4, 1, true);   // found, then compiled for a broadcast
  run(4, 1, false);  // both found
}

// y = ReduceSum(x, axes) * w. Axes decide the structure: each value has its variant in the entry.
TEST_F(WarmStartTest, VariantsForValuesAreKeptToo) {
  Write(model_,
        OnnxModel(18, OnnxGraph({OnnxNode("ReduceSum", {"x", "axes"}, {"s"}),
                                 OnnxNode("Mul", {"s", "w"}, {"y"})},
                                {OnnxValue("x", kFloat, {"n", 2}), OnnxValue("axes", kInt64, {1})},
                                {OnnxValue("y", kFloat, {"p", "q"})}, {OnnxFloats("w", {2})})));
  LetFilesSettle();
  const auto run = [&](int64_t axis, float want, bool file_is_read) {
    const auto service = std::make_shared<KernelService>(Options());
    KILN_ASSERT_OK_AND_ASSIGN(const auto opened, WarmModel::Open(model_, Options(), service));
    ASSERT_EQ(opened->outputs().size(), 1u);
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(opened, Options()));
    if (!file_is_read) std::filesystem::rename(model_, dir_.File("away"));
    const std::vector<float> x = {1, 2, 3, 4};
    Tensor a = Tensor::Allocate(DType::kF32, {2, 2}), axes = Tensor::Allocate(DType::kI64, {1});
    std::memcpy(a.data(), x.data(), sizeof(float) * x.size());
    *static_cast<int64_t*>(axes.data()) = axis;
    const auto y = model.Run({{"x", a}, {"axes", axes}});
    if (!file_is_read) std::filesystem::rename(dir_.File("away"), model_);
    KILN_ASSERT_OK(y.status());
    EXPECT_EQ(static_cast<const float*>((*y)[0].data())[0], want * 2);
    opened->WaitUntilKept();
  };
  run(1, 3, true);
  run(1, 3, false);
  run(0, 4, true);
  run(0, 4, false);
  run(1, 3, false);
}

}  // namespace
}  // namespace kiln
