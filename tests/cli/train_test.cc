// SPDX-License-Identifier: Apache-2.0
// kiln train as a user calls it: what it prints and writes, interrupted runs, exit codes; and
// archives of NumPy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/npy.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/cli/process.h"
#include "tests/graph/tensors.h"
#include "tools/npz.h"
#include "tools/train_data.h"
#include "tools/train_history.h"

namespace kiln {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kModel[] =
    "graph line\n"
    "input x : f32 [n, 3]\n"
    "const w : f32 [3, 2] = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]\n"
    "const b : f32 [2] = [0, 0]\n"
    "z = matmul(x, w)\n"
    "y = add(z, b)\n"
    "output y\n";

// An entry of a ZIP file that is stored, before the directory and in it.
std::string Stored(const std::string& name, const std::string& bytes) {
  const auto number = [](uint64_t value, int size) {
    std::string out;
    for (int i = 0; i < size; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  };
  const auto common = [&](int method) {
    return number(method, 2) + number(0, 8) + number(bytes.size(), 4) + number(bytes.size(), 4) +
           number(name.size(), 2) + number(0, 2);
  };
  const std::string local = number(0x04034b50, 4) + number(20, 2) + number(0, 2) + common(0);
  std::string file = local + name + bytes;
  const size_t directory = file.size();
  file += number(0x02014b50, 4) + number(20, 2) + number(20, 2) + number(0, 2) + common(0) +
          number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(0, 4) + name;
  const size_t end = file.size();
  return file + number(0x06054b50, 4) + number(0, 4) + number(1, 2) + number(1, 2) +
         number(end - directory, 4) + number(directory, 4) + number(0, 2);
}

class TrainTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(model_) << kModel;
    for (const auto& [x, labels, n, seed] :
         {std::tuple(x_, labels_, 64, 1U), std::tuple(test_, test_labels_, 20, 2U)}) {
      std::mt19937 random(seed);
      std::normal_distribution<double> normal;
      Tensor values = Tensor::Allocate(DType::kF32, {n, 3});
      Tensor classes = Tensor::Allocate(DType::kU8, {n});
      for (int64_t i = 0; i < n * 3; ++i) WriteFloat(values, i, normal(random));
      for (int64_t i = 0; i < n; ++i) WriteInt(classes, i, ReadFloat(values, 3 * i) > 0 ? 1 : 0);
      KILN_ASSERT_OK(WriteNpy(x, values));
      KILN_ASSERT_OK(WriteNpy(labels, classes));
    }
  }

  // With these flags, in place of those that every test has.
  std::vector<std::string> Command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"train", model_, "--labels", labels_};
    const std::vector<std::pair<std::string, std::string>> usual = {{"--data", x_},
                                                                    {"--batch", "16"},
                                                                    {"--threads", "1"},
                                                                    {"--compile-mode", "never"},
                                                                    {"--optimizer", "adam:lr=0.1"}};
    for (const auto& [flag, value] : usual) {
      if (std::find(more.begin(), more.end(), flag) != more.end()) continue;
      command.push_back(flag);
      command.push_back(value);
    }
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  static ProcessResult Fails(const std::vector<std::string>& command, int exit,
                             const std::string& message) {
    ProcessResult result = Kiln(command);
    EXPECT_EQ(result.exit, exit) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    return result;
  }

  TempDir dir_;
  const std::string model_ = dir_.File("line.graph"), x_ = dir_.File("x.npy"),
                    labels_ = dir_.File("labels.npy"), test_ = dir_.File("test.npy"),
                    test_labels_ = dir_.File("test_labels.npy"), state_ = dir_.File("run"),
                    curve_ = dir_.File("curve.html"), onnx_ = dir_.File("trained.onnx");
};

TEST_F(TrainTest, TrainsEvaluatesAndWrites) {
  const ProcessResult result =
      Kiln(Command({"--epochs", "5", "--eval", test_, "--eval-labels", test_labels_, "--json",
                    "--curve", curve_, "-o", onnx_, "--schedule", "cosine:steps=20,warmup=2"}));
  ASSERT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("epoch 5/5  loss "));
  const json told = json::parse(result.out);
  EXPECT_EQ(told["schema"], "kiln.train/1");
  const json& results = told["results"];
  EXPECT_EQ(results["steps"], 20);
  EXPECT_EQ(results["parameters"], 2);
  ASSERT_EQ(results["epochs"].size(), 5u);
  EXPECT_EQ(results["epochs"][4]["epoch"], 5);
  EXPECT_LT(results["epochs"][4]["loss"], 0.7 * results["epochs"][0]["loss"].get<double>());
  EXPECT_GT(results["epochs"][4]["accuracy"], 0.8);
  EXPECT_GT(results["first_loss_ms"], 0);
  EXPECT_GT(results["step_ms"], 0);
  const std::string page = Contents(curve_);
  EXPECT_THAT(page, HasSubstr("<polyline"));
  EXPECT_THAT(page, testing::Not(HasSubstr("http:")));
  EXPECT_THAT(page, testing::Not(HasSubstr("src=")));
  const ProcessResult run =
      Kiln({"run", onnx_, "--input", "x=@" + test_, "--compile-mode", "never", "-q"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("y: f32 [20, 2]"));
}

// Kernels have the bits of the CPU: its checkpoint is the same file, and the CPU goes on from it.
TEST_F(TrainTest, TrainsOnAGpuThatTheCpuPlays) {
  std::ofstream(model_) << "graph scale\ninput x : f32 [n, 3]\nconst w : f32 [1] = [0.5]\n"
                           "y = mul(x, w)\noutput y\n";
  const auto train = [&](const std::string& state, const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        "train",  model_,         "--data",     x_,        "--labels", x_,          "--loss",
        "mse",    "--optimizer",  "sgd:lr=0.1", "--batch", "64",       "--threads", "1",
        "--json", "--checkpoint", state};
    all.insert(all.end(), more.begin(), more.end());
    return Kiln(all);
  };
  // With --require-device a program without code for the device is an error.
  const std::vector<std::string> there = {"--device", "cuda-emulated", "--require-device",
                                          "--compile-mode"};
  const auto with = [](std::vector<std::string> flags, const char* value) {
    flags.emplace_back(value);
    return flags;
  };
  const ProcessResult gpu = train(state_, with(there, "block"));
  ASSERT_EQ(gpu.exit, 0) << gpu.err;
  EXPECT_EQ(json::parse(gpu.out)["config"]["device"], "cuda-emulated");
  const std::string on_cpu = dir_.File("cpu");
  const ProcessResult cpu = train(on_cpu, {"--compile-mode", "never"});
  ASSERT_EQ(cpu.exit, 0) << cpu.err;
  EXPECT_EQ(Contents(state_), Contents(on_cpu));
  const ProcessResult rest =
      train(state_, {"--compile-mode", "never", "--resume", "--epochs", "2"});
  ASSERT_EQ(rest.exit, 0) << rest.err;
  const json epochs = json::parse(rest.out)["results"]["epochs"];
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_EQ(epochs[0], json::parse(gpu.out)["results"]["epochs"][0]);
  EXPECT_LT(epochs[1]["loss"], epochs[0]["loss"].get<double>());
  const ProcessResult none = train(state_, with(there, "never"));
  EXPECT_EQ(none.exit, 7);
  EXPECT_THAT(none.err, HasSubstr("asks for device \"cuda-emulated\""));
  Fails(Command({"--device", "cuda-emulate"}), 2, "did you mean \"cuda-emulated\"?");
}

TEST_F(TrainTest, EachFlagDoesWhatItSays) {
  const auto results = [&](const std::vector<std::string>& flags) -> json {
    std::vector<std::string> all = {"--optimizer", "sgd:lr=0.5", "--epochs", "2", "--json"};
    all.insert(all.end(), flags.begin(), flags.end());
    const ProcessResult result = Kiln(Command(all));
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.exit == 0 ? json::parse(result.out)["results"] : json();
  };
  const auto loss = [](const json& of) { return of["epochs"][1]["loss"].get<double>(); };
  const json plain = results({});
  EXPECT_EQ(plain["parameters"], 2);
  EXPECT_EQ(results({"--parameters", "w"})["parameters"], 1);
  EXPECT_EQ(results({"--freeze", "b"})["parameters"], 1);
  EXPECT_EQ(results({"--loss-of", "y"})["epochs"], plain["epochs"]);
  EXPECT_GT(loss(results({"--clip-norm", "0.001"})), 1.5 * loss(plain));
  EXPECT_GT(loss(results({"--clip-value", "0.001"})), 1.5 * loss(plain));
  const double rounded = loss(results({"--precision", "bf16"}));
  EXPECT_NE(rounded, loss(plain));
  EXPECT_NEAR(rounded, loss(plain), 0.05);
  results({"--checkpoint", state_, "--save-every", "1", "--output", onnx_});
  EXPECT_THAT(Contents(onnx_), HasSubstr("MatMul"));
  Fails(Command({"--loss-of", "nothing"}), 3, "no output \"nothing\"");
  Fails(Command({"--save-every", "1"}), 2, "--checkpoint");
  Fails(Command({"-o", dir_.File("trained.kiln")}), 2, "ends in .onnx");
}

TEST_F(TrainTest, ArchivesHaveInputsAndLabelsByName) {
  const auto bytes_of = [](const std::string& path) { return Contents(path); };
  const std::string archive = dir_.File("x.npz");
  std::ofstream(archive, std::ios::binary) << Stored("x.npy", bytes_of(x_));
  const ProcessResult result =
      Kiln({"train", model_, "--data", archive, "--data", "classes=" + labels_, "--labels-name",
            "classes", "--compile-mode", "never", "-q"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 steps, loss "));
  const std::string link = dir_.File("link.npz");
  std::filesystem::create_symlink(archive, link);
  EXPECT_EQ(Kiln(Command({"--data", link})).exit, 0);
}

// Before the first step, not behind the last: folders that are not there, cannot be written, or
// stand where the file would.
TEST_F(TrainTest, FilesThatCannotBeWrittenAreSaidFirst) {
  const std::string folder = dir_.File("folder.onnx");
  std::filesystem::create_directory(folder);
  for (const char* flag : {"--checkpoint", "--output", "--curve"}) {
    for (const std::string& path :
         {dir_.File("no/file.onnx"), std::string("/proc/file.onnx"), folder}) {
      const ProcessResult result = Fails(Command({flag, path}), 7, path);
      EXPECT_THAT(result.err, testing::Not(HasSubstr("epoch"))) << flag << " " << path;
    }
  }
}

TEST(Npz, DamagedArchivesAreRefused) {
  const Tensor tensor = F32({2, 2}, {1, 2, 3, 4});
  const std::string good = Stored("a.npy", NpyBytes(tensor));
  KILN_ASSERT_OK_AND_ASSIGN(const auto arrays, ParseNpz(good));
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0].first, "a");
  EXPECT_EQ(Values(arrays[0].second), (std::vector<double>{1, 2, 3, 4}));
  for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_FALSE(ParseNpz(good.substr(0, cut)).ok());
  std::mt19937 random(1);
  for (int k = 0; k < 3000; ++k) {  // an error, or an array: never a crash
    std::string other = good;
    other[random() % other.size()] = static_cast<char>(random());
    ParseNpz(other).status().IgnoreError();
  }
  std::string packed = good;
  packed[packed.rfind("PK\x01\x02") + 10] = 8;
  EXPECT_THAT(ParseNpz(packed).status().message(), HasSubstr("numpy.savez, not"));
}

// Entries that name one member often: what is read is never more than the file.
TEST(Npz, MembersDoNotLieOverEachOther) {
  const Tensor tensor = Tensor::Allocate(DType::kU8, {1 << 20});
  const std::string good = Stored("a.npy", NpyBytes(tensor));
  const size_t directory = good.rfind("PK\x01\x02"), end = good.rfind("PK\x05\x06");
  std::string bad = good.substr(0, directory), tail = good.substr(end);
  for (int k = 0; k < 200; ++k) {
    std::string entry = good.substr(directory, end - directory);
    entry[46] = static_cast<char>('!' + k);  // the name's first character
    bad += entry;
  }
  tail[8] = tail[10] = static_cast<char>(200);
  EXPECT_THAT(ParseNpz(bad + tail),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("members lie over each other")));
}

// Random headers, some of them hostile, in both kinds of file: the numbers that were written, in
// the order that the header says, or an error; never a signal, and no memory that the file has not.
TEST(TrainData, RandomFilesAreReadOrRefused) {
  const TempDir dir;
  const std::vector<PortInfo> ports = {{"x", DType::kF32, {Dim::Symbol("n"), Dim::Symbol("m")}}};
  std::mt19937 random(3);
  const auto any = [&](size_t n) { return static_cast<size_t>(random() % n); };
  size_t read = 0, refused = 0;
  for (int k = 0; k < 300; ++k) {
    const size_t n = 1 + any(4), m = 1 + any(4);
    const bool fortran = any(2) == 0, wide = any(2) == 0;
    std::string descr = wide ? "<i8" : "|u1";
    std::string shape = absl::StrCat("(", n, ", ", m, ")");
    size_t bytes = n * m * (wide ? 8 : 1);
    const char* const descrs[] = {"|O", ">i8", "<c16", "<U3", "|V8", "", "<i8,<i8", "<f3"};
    const char* const shapes[] = {"(9223372036854775807,)",
                                  "(4294967296, 4294967296)",
                                  "(-1, 4)",
                                  "()",
                                  "(0, 5)",
                                  "(3,",
                                  "(1.5, 2)",
                                  "(99999999999999999999, 1)"};
    const size_t harm = any(6);
    if (harm == 0) descr = descrs[any(8)];
    if (harm == 1) shape = shapes[any(8)];
    if (harm == 2) bytes = any(2) == 0 ? bytes - 1 : bytes + 1;
    std::string header =
        absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", fortran ? "True" : "False",
                     ", 'shape': ", shape, ", }");
    if (harm == 3) header.resize(any(header.size()));
    std::string file = std::string("\x93NUMPY\x01\x00", 8);
    file += {static_cast<char>(header.size()), '\0'};
    file += header;
    for (size_t i = 0; i < bytes; ++i) {  // in the order of the file
      const bool low = !wide || i % 8 == 0;
      file.push_back(static_cast<char>(low ? 1 + i / (wide ? 8 : 1) : 0));
    }
    const bool zip = any(2) == 0;
    const std::string path = dir.File(zip ? "a.npz" : "a.npy");
    std::ofstream(path, std::ios::binary) << (zip ? Stored("x.npy", file) : file);
    const absl::StatusOr<Samples> samples = Samples::Read("--data", {path}, "--labels", "", ports);
    ASSERT_EQ(samples.ok(), harm > 3) << header << ": " << samples.status();
    if (!samples.ok()) {
      ++refused;
      EXPECT_FALSE(samples.status().message().empty());
      continue;
    }
    ++read;
    std::vector<int64_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = static_cast<int64_t>(i);
    KILN_ASSERT_OK_AND_ASSIGN(const NamedTensors batch,
                              samples->Batch(order, 0, static_cast<int64_t>(n)));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < m; ++j) {
        EXPECT_EQ(ReadFloat(batch[0].second, static_cast<int64_t>(i * m + j)),
                  static_cast<double>(1 + (fortran ? j * n + i : i * m + j)));
      }
    }
  }
  EXPECT_GT(read, 50u);
  EXPECT_GT(refused, 50u);
}

TEST(TrainData, IntegersThatDoNotFitAreRefused) {
  const TempDir dir;
  const std::vector<PortInfo> ports = {{"x", DType::kI8, {Dim::Symbol("n")}}};
  const std::string path = dir.File("x.npy");
  KILN_ASSERT_OK(WriteNpy(path, I64({2}, {-128, 127})));
  KILN_EXPECT_OK(Samples::Read("--data", {path}, "--labels", "", ports).status());
  KILN_ASSERT_OK(WriteNpy(path, I64({2}, {1, 300})));
  EXPECT_THAT(Samples::Read("--data", {path}, "--labels", "", ports).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("input \"x\": element 1 is 300, which the input, i8")));
}

TEST(TrainData, OrdersAreThoseOfTheSeed) {
  const std::vector<int64_t> order = Shuffled(1000, 3, 1);
  EXPECT_EQ(order, Shuffled(1000, 3, 1));
  EXPECT_NE(order, Shuffled(1000, 3, 2));
  EXPECT_NE(order, Shuffled(1000, 4, 1));
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
}

TEST(TrainHistoryText, IsReadBackAndRefusedWhereDamaged) {
  TrainHistory history;
  history.data = {7, 100, 16};
  history.epoch = 1;
  history.sum = 0.1 + 0.2;
  history.points = {{3, 0.5}, {6, NAN}};
  history.epochs = {{.epoch = 1, .loss = 1.0 / 3, .lr = 0.1, .eval_loss = 2, .accuracy = {}}};
  const std::string text = ToText(history);
  KILN_ASSERT_OK_AND_ASSIGN(const TrainHistory again, ParseTrainHistory(text));
  EXPECT_EQ(ToText(again), text);
  EXPECT_EQ(again.sum, history.sum);
  for (size_t cut = 0; cut < text.size(); ++cut)
    EXPECT_FALSE(ParseTrainHistory(text.substr(0, cut)).ok()) << cut;
  for (int64_t TrainHistory::*const count :
       {&TrainHistory::epoch, &TrainHistory::next, &TrainHistory::point_steps}) {
    for (const int64_t value : {INT64_MAX, int64_t{-1}}) {
      TrainHistory other = history;
      other.*count = value;
      EXPECT_THAT(ParseTrainHistory(ToText(other)).status().message(),
                  HasSubstr(absl::StrCat(" is ", value, "; it is from 0 to")));
    }
  }
  EXPECT_FALSE(ParseTrainHistory("[]").ok());
  EXPECT_FALSE(ParseTrainHistory("{\"seed\": \"x\"}").ok());
}

// As a file that is opened to be written: the link stays, and the run goes on by it.
TEST_F(TrainTest, ACheckpointMayBeALink) {
  std::filesystem::create_directory(dir_.File("disk"));
  const std::string file = dir_.File("disk/run.1");
  std::filesystem::create_symlink("disk/run.1", state_);
  for (const char* const name : {"whole", "run"})
    ASSERT_EQ(Kiln(Command({"--checkpoint", dir_.File(name)})).exit, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(state_));
  EXPECT_EQ(Contents(file), Contents(dir_.File("whole")));
  const ProcessResult rest = Kiln(Command({"--epochs", "2", "--checkpoint", state_, "--resume"}));
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_TRUE(std::filesystem::is_symlink(state_));
  EXPECT_NE(Contents(file), Contents(dir_.File("whole")));
}

TEST_F(TrainTest, ResumedRunsEndWithTheSameBytes) {
  const std::string whole = dir_.File("whole");
  ASSERT_EQ(Kiln(Command({"--epochs", "4", "--checkpoint", whole})).exit, 0);
  ASSERT_EQ(Kiln(Command({"--epochs", "2", "--checkpoint", state_})).exit, 0);
  const ProcessResult rest = Kiln(Command({"--epochs", "4", "--checkpoint", state_, "--resume"}));
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("goes on after step 8"));
  EXPECT_EQ(Contents(state_), Contents(whole));
  Fails(Command({"--epochs", "4", "--checkpoint", state_, "--resume", "--seed", "9"}), 2,
        "the checkpoint is of a run with --seed 0");
}

// A run that ends between an epoch's last step and its row, which has the step's rate.
TEST_F(TrainTest, ARunThatGoesOnAtTheEndOfAnEpochHasTheSameBytes) {
  const std::string whole = dir_.File("whole"), bad = dir_.File("bad.npy");
  KILN_ASSERT_OK(WriteNpy(bad, I64({20}, std::vector<double>(20, 9))));
  const auto command = [&](const std::string& state, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--save-every", "1",  "--schedule", "exponential:factor=0.9",
                                    "--checkpoint", state};
    all.insert(all.end(), more.begin(), more.end());
    return Command(all);
  };
  ASSERT_EQ(Kiln(command(whole, {})).exit, 0);
  Fails(command(state_, {"--eval", test_, "--eval-labels", bad}), 2, "is 9; classes");
  const ProcessResult rest = Kiln(command(state_, {"--resume"}));
  ASSERT_EQ(rest.exit, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("goes on after step 4"));
  EXPECT_EQ(Contents(state_), Contents(whole));
}

// Ctrl-C at several moments: the step in progress ends, its checkpoint is whole, and what goes on
// from there ends with the bytes of a run that was left alone.
TEST_F(TrainTest, InterruptedRunsGoOn) {
  const std::string whole = dir_.File("whole");
  const std::vector<std::string> long_run = {"--epochs", "200", "--checkpoint"};
  const auto command = [&](const std::string& state, bool resume) {
    std::vector<std::string> all = long_run;
    all.push_back(state);
    if (resume) all.emplace_back("--resume");
    return Command(all);
  };
  ASSERT_EQ(Kiln(command(whole, false)).exit, 0);
  int interrupted = 0;
  bool begun = false;
  for (int try_number = 0; try_number < 4; ++try_number) {
    const ProcessResult result =
        Kiln(command(state_, begun), {.kill_after_us = 300'000, .signal = SIGINT});
    if (result.exit == 0) break;
    EXPECT_EQ(result.exit, -SIGINT) << result.err;
    begun = begun || !Contents(state_).empty();
    interrupted += result.err.find("interrupted; --resume goes on after step") != std::string::npos;
  }
  ASSERT_EQ(Kiln(command(state_, begun)).exit, 0);
  EXPECT_EQ(Contents(state_), Contents(whole));
  RecordProperty("interrupted", interrupted);
}

TEST_F(TrainTest, ExitCodesAreThoseOfOtherVerbs) {
  Fails(Command({"--loss", "mean"}), 2, "there are cross_entropy, mse, bce, huber, output");
  Fails(Command({"--loss", "huber:delto=1"}), 2, "there is no \"delto\"; there are delta");
  Fails(Command({"--optimizer", "adam:beta1=2"}), 2, "beta1");
  Fails(Command({"--loss", "cross_entropy:smoothing=2"}), 2, "label_smoothing is 2");
  Fails(Command({"--schedule", "cosine:steps=x"}), 2, "is no such pair");
  Fails(Command({"--schedule", "step:every=0"}), 2, "every is 0; it is 1 or above");
  Fails(Command({"--schedule", "step:factor=0.5"}), 2, "every is 0; it is 1 or above");
  Fails(Command({"--schedule", "cosine"}), 2, "steps is 0; it is 1 or above");
  Fails(Command({"--schedule", "cosine:steps=-5"}), 2, "steps is -5; it is 1 or above");
  Fails(Command({"--schedule", "constant:warmup=-3"}), 2, "warmup is -3; it is 0 or above");
  Fails(Command({"--optimizer", "sgd:lr=-1"}), 2, "lr is -1");
  Fails(Command({"--optimizer", "sgd:lr=1,lr=2"}), 2, "\"lr\" is given twice, as 1 and 2");
  Fails(Command({"--checkpoint", ""}), 2, "--checkpoint: is \"\", expected the name of a file");
  const std::string both = dir_.File("both.onnx");
  Fails(Command({"--checkpoint", both, "-o", both}), 2, "--checkpoint is the same file");
  Fails(Command({"--checkpoint", x_}), 2, "--data is the same file");
  Fails(Command({"--checkpoint", model_}), 2, "the model is the same file");
  const std::string same = dir_.File("./both.onnx");
  Fails(Command({"--checkpoint", both, "-o", same}), 2, "--checkpoint is the same file");
  Fails(Command({"--seed", "4294967296"}), 2, "--seed 4294967296: a seed is from 0 to 4294967295");
  Fails(Command({"--eval", dir_.File("none.npy")}), 7, "none.npy");
  Fails(Command({"--data", "y=" + x_}), 2, "there is no input \"y\"");
  Fails(Command({"--batch", "100", "--micro-batches", "3"}), 2, "does not divide");
  Fails(Command({"--resume"}), 2, "--checkpoint");
  Fails(Command({"--dim", "n=3"}), 2, "shapes from its data");
  Fails(Command({"--checkpoint", dir_.File("no/such/folder")}), 7, "no/such/folder\": ");
  Fails(Command({"--seed", "-1"}), 2, "--seed: is \"-1\", expected a number >= 0");
  KILN_ASSERT_OK(WriteNpy(labels_, I64({64}, std::vector<double>(64, 2))));
  Fails(Command(), 2, "labels: element 0 of 16 is 2; classes are numbered from 0 to 1");
  KILN_ASSERT_OK(WriteNpy(labels_, I64({63}, std::vector<double>(63, 1))));
  Fails(Command(), 2, "\"labels\" has 63 samples, \"x\" has 64");
  std::ofstream(model_) << "graph broken\ninput x : f32 [n, 3]\ny = nosuch(x)\noutput y\n";
  Fails(Command(), 3, "nosuch");
}

// Labels that are ignored are as samples that are not there, however samples lie in batches.
TEST_F(TrainTest, EvaluationIsThatOfOneBatch) {
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor all, ReadNpy(test_labels_));
  Tensor some = all.Clone();
  for (int64_t i = 0; i < 9; ++i) WriteInt(some, i, 7);
  KILN_ASSERT_OK(WriteNpy(test_labels_, some));
  const auto evaluated = [&](const std::string& batch) {
    const ProcessResult result =
        Kiln(Command({"--eval", test_, "--eval-labels", test_labels_, "--batch", batch, "--json",
                      "--loss", "cross_entropy:ignore=7", "--optimizer", "sgd:lr=0"}));
    EXPECT_EQ(result.exit, 0) << result.err;
    const json told = json::parse(result.out, nullptr, false);
    return told.is_discarded() ? json() : told["results"]["epochs"][0];
  };
  // All weights are equal, so both classes have the logarithm of 2, and the first is the largest.
  int64_t first = 0;
  for (int64_t i = 9; i < 20; ++i) first += ReadInt(some, i) == 0 ? 1 : 0;
  for (const char* batch : {"20", "8", "3"}) {
    const json epoch = evaluated(batch);
    EXPECT_NEAR(epoch["eval_loss"].get<double>(), std::log(2), 1e-6) << batch;
    EXPECT_EQ(epoch["accuracy"], static_cast<double>(first) / 11) << batch;
  }
  for (int64_t i = 9; i < 20; ++i) WriteInt(some, i, 7);
  KILN_ASSERT_OK(WriteNpy(test_labels_, some));
  Fails(
      Command({"--eval", test_, "--eval-labels", test_labels_, "--loss", "cross_entropy:ignore=7"}),
      2, "all labels are ignored");
}

TEST_F(TrainTest, ALossThatIsNotFiniteEndsTheRun) {
  Tensor bad = F32({64, 3}, std::vector<double>(192, 1));
  WriteFloat(bad, 191, INFINITY);
  KILN_ASSERT_OK(WriteNpy(x_, bad));
  const ProcessResult result = Fails(Command({"--checkpoint", state_}), 1, "lower the learning");
  EXPECT_EQ(Contents(state_), "");
}

}  // namespace
}  // namespace kiln
