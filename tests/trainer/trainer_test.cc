// SPDX-License-Identifier: Apache-2.0
// Trainers: against plain loops in f64, and interrupted against uninterrupted runs.
// 12 random networks, or as many as KILN_TRAINED_NETWORKS says, from the seed KILN_SEED on;
// 4 writers of checkpoints are killed, or KILN_KILLED_CHECKPOINTS.
#include "kiln/trainer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "base/file_system.h"
#include "base/safetensors.h"
#include "compiler/compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/graph/tensors.h"
#include "tests/trainer/plain_graph.h"
#include "tests/trainer/plain_network.h"
#include "tests/trainer/stateful_network.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using training::DrawnNetwork;
using training::Numbers;
using training::PlainLoss;
using training::PlainNetwork;

TrainerOptions OptionsOf(const PlainNetwork& net) {
  TrainerOptions options = VmOptions();
  if (net.loss == PlainLoss::kCrossEntropy)
    options.loss = training::CrossEntropyLoss{.label_smoothing = net.smoothing};
  if (net.loss == PlainLoss::kSquares) options.loss = training::MeanSquaredErrorLoss();
  if (net.loss == PlainLoss::kBinary) options.loss = training::BinaryCrossEntropyLoss();
  if (net.adam) {
    options.optimizer = training::Adam{.weight_decay = net.decay};
  } else {
    options.optimizer = training::Sgd{.momentum = net.momentum, .weight_decay = net.decay};
  }
  options.schedule.lr = net.lr;
  options.clip_norm = net.clip_norm;
  return options;
}

// Samples of one step, as the trainer and as the judge take them.
struct Batch {
  Tensor x, labels;
  Numbers plain_x, plain_labels;
  size_t n = 0;
};

Batch DrawnBatch(const PlainNetwork& net, size_t n, std::mt19937& random) {
  const auto rows = static_cast<int64_t>(n), out = static_cast<int64_t>(net.widths.back());
  Batch batch;
  batch.n = n;
  batch.x = Drawn({rows, static_cast<int64_t>(net.widths[0])}, random());
  if (net.loss == PlainLoss::kCrossEntropy) {
    batch.labels = Classes(rows, out, random());
    for (int64_t i = 0; i < rows; ++i)
      batch.plain_labels.push_back(static_cast<double>(ReadInt(batch.labels, i)));
  } else {
    batch.labels = Drawn({rows, out}, random());
    if (net.loss == PlainLoss::kBinary) {
      for (int64_t i = 0; i < rows * out; ++i)
        WriteFloat(batch.labels, i, ReadFloat(batch.labels, i) > 0 ? 1 : 0);
    }
    batch.plain_labels = Values(batch.labels);
  }
  batch.plain_x = Values(batch.x);
  return batch;
}

void ExpectParameters(const Trainer& trainer, const PlainNetwork& net, double bound) {
  for (size_t l = 0; l < net.layers(); ++l) {
    for (const auto& [prefix, want] : {std::pair("w", &net.weights[l]), {"b", &net.biases[l]}}) {
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor got, trainer.Parameter(absl::StrCat(prefix, l)));
      const Numbers values = Values(got);
      ASSERT_EQ(values.size(), want->size());
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], (*want)[i], bound) << prefix << l << " " << i;
    }
  }
}

// Losses and parameters of random networks after each of five steps, of batches of several sizes,
// some cut into micro-batches.
TEST(Trainer, RandomNetworksAgreeWithPlainLoops) {
  const uint64_t networks = FromEnvironment("KILN_TRAINED_NETWORKS", 12);
  const uint64_t seed = FromEnvironment("KILN_SEED", 1);
  for (uint64_t k = seed; k < seed + networks; ++k) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", k));
    std::mt19937 random(static_cast<unsigned>(k));
    PlainNetwork net = DrawnNetwork(random);
    TrainerOptions options = OptionsOf(net);
    options.micro_batches = 1 + static_cast<int>(random() % 3);
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(GraphOf(net), options));
    EXPECT_EQ(trainer.parameters().size(), 2 * net.layers());
    for (int step = 0; step < 5; ++step) {
      const size_t n = static_cast<size_t>(options.micro_batches) * (1 + random() % 4);
      const Batch batch = DrawnBatch(net, n, random);
      KILN_ASSERT_OK_AND_ASSIGN(const Evaluation before,
                                trainer.Evaluate({{"x", batch.x}, {"labels", batch.labels}}));
      KILN_ASSERT_OK_AND_ASSIGN(const double loss,
                                trainer.Step({{"labels", batch.labels}, {"x", batch.x}}));
      const Numbers want_y = net.Forward(batch.plain_x, n).back();
      const double want = net.Step(batch.plain_x, batch.plain_labels, n);
      EXPECT_NEAR(loss, want, 2e-4 * (1 + std::fabs(want)));
      EXPECT_NEAR(before.loss, want, 2e-4 * (1 + std::fabs(want)));
      const Numbers y = Values(before.outputs.at(0));
      ASSERT_EQ(y.size(), want_y.size());
      for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want_y[i], 1e-3);
      // Adam divides by sqrt(v): a tiny gradient's rounding is as large as the gradient.
      ExpectParameters(trainer, net, net.adam ? 2e-3 : 2e-4);
    }
    EXPECT_EQ(trainer.step(), 5);
  }
}

// Products in bf16, and all else in f32: nearer to plain loops that round so than to those that do
// not, by far. Sums of another order round to the neighbour now and then.
TEST(Trainer, RandomNetworksInBf16AgreeWithPlainLoopsInBf16) {
  const uint64_t networks = FromEnvironment("KILN_TRAINED_NETWORKS", 12);
  const uint64_t seed = FromEnvironment("KILN_SEED", 1);
  double off = 0, rounding = 0;
  for (uint64_t k = seed; k < seed + networks; ++k) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", k));
    std::mt19937 random(static_cast<unsigned>(k));
    PlainNetwork exact = DrawnNetwork(random), net = exact;
    net.bf16_products = true;
    TrainerOptions options = OptionsOf(net);
    options.precision = DType::kBF16;
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(GraphOf(net), options));
    for (int step = 0; step < 5; ++step) {
      const size_t n = 1 + random() % 6;
      const Batch batch = DrawnBatch(net, n, random);
      KILN_ASSERT_OK_AND_ASSIGN(const double loss,
                                trainer.Step({{"labels", batch.labels}, {"x", batch.x}}));
      const double want = net.Step(batch.plain_x, batch.plain_labels, n);
      EXPECT_NEAR(loss, want, 4e-3 * (1 + std::fabs(want)));
      off += std::fabs(loss - want);
      rounding += std::fabs(exact.Step(batch.plain_x, batch.plain_labels, n) - want);
    }
    ExpectParameters(trainer, net, 2 * net.lr);
  }
  EXPECT_LT(off, rounding / 4);
}

void ExpectSameState(const Trainer& a, const Trainer& b, const std::string& folder) {
  KILN_ASSERT_OK(a.Save(folder + "/a"));
  KILN_ASSERT_OK(b.Save(folder + "/b"));
  EXPECT_EQ(Contents(folder + "/a"), Contents(folder + "/b"));
}

TEST(Trainer, AResumedRunHasTheBitsOfAnUninterruptedOne) {
  TempDir dir;
  TrainerOptions options = VmOptions();
  options.seed = 7;
  options.micro_batches = 2;
  options.schedule = {.lr = 0.1, .warmup = 3, .decay = training::CosineDecay{10}};
  KILN_ASSERT_OK_AND_ASSIGN(Trainer whole, Trainer::Create(Stateful(), options));
  KILN_ASSERT_OK_AND_ASSIGN(Trainer first, Trainer::Create(Stateful(), options));
  options.seed = 8;  // the checkpoint's counts
  KILN_ASSERT_OK_AND_ASSIGN(Trainer second, Trainer::Create(Stateful(), options));
  std::vector<double> want, got;
  for (unsigned step = 0; step < 6; ++step) {
    KILN_ASSERT_OK_AND_ASSIGN(want.emplace_back(), whole.Step(StepData(step)));
    Trainer& now = step < 3 ? first : second;
    KILN_ASSERT_OK_AND_ASSIGN(got.emplace_back(), now.Step(StepData(step)));
    if (step != 2) continue;
    KILN_ASSERT_OK(first.Save(dir.File("run"), {{"epoch", "4"}}));
    KILN_ASSERT_OK_AND_ASSIGN(const auto metadata, second.Load(dir.File("run")));
    EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"epoch", "4"}}));
    EXPECT_EQ(second.step(), 3);
  }
  EXPECT_EQ(got, want);
  ExpectSameState(whole, second, dir.path());
  // Another seed, other drops.
  KILN_ASSERT_OK_AND_ASSIGN(Trainer other, Trainer::Create(Stateful(), options));
  KILN_ASSERT_OK_AND_ASSIGN(const double loss, other.Step(StepData(0)));
  EXPECT_NE(loss, want[0]);
}

// The same bits in compiled code and on the VM: of losses, and of everything that is saved.
TEST(Trainer, CompiledStepsHaveTheBitsOfTheVm) {
  TempDir dir;
  TrainerOptions compiled = VmOptions();
  compiled.compile.compile_mode = CompileMode::kBlock;
  compiled.compile.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  KILN_ASSERT_OK_AND_ASSIGN(Trainer vm, Trainer::Create(Stateful(), VmOptions()));
  KILN_ASSERT_OK_AND_ASSIGN(Trainer code, Trainer::Create(Stateful(), compiled));
  for (unsigned step = 0; step < 3; ++step) {
    KILN_ASSERT_OK_AND_ASSIGN(const double want, vm.Step(StepData(step)));
    KILN_ASSERT_OK_AND_ASSIGN(const double got, code.Step(StepData(step)));
    EXPECT_EQ(got, want);
  }
  ExpectSameState(vm, code, dir.path());
}

// Statistics follow the batches; a step drops anew each time, and an evaluation never.
TEST(Trainer, NormalisesAndDropsInTrainingOnly) {
  TrainerOptions options = VmOptions();
  options.schedule.lr = 0;
  options.optimizer = training::Sgd();
  options.batch_norm_momentum = 0.75;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), options));
  ASSERT_EQ(trainer.statistics().size(), 2u);
  EXPECT_EQ(trainer.statistics()[0].name, "running_mean");
  const NamedTensors data = StepData(1);
  KILN_ASSERT_OK_AND_ASSIGN(const double first, trainer.Step(data));
  const Numbers x = Values(data[0].second), w = Values(Drawn({6, 8}, 1));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor mean, trainer.Parameter("running_mean"));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor variance, trainer.Parameter("running_var"));
  for (size_t c = 0; c < 8; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < 12; ++i) {
      double h = 0;
      for (size_t k = 0; k < 6; ++k) h += x[i * 6 + k] * w[k * 8 + c];
      sum += h;
      squares += h * h;
    }
    const double batch = sum / 12;
    EXPECT_NEAR(Values(mean)[c], 0.25 * batch, 1e-5);
    EXPECT_NEAR(Values(variance)[c], 0.75 + 0.25 * (squares / 12 - batch * batch), 1e-4);
  }
  KILN_ASSERT_OK_AND_ASSIGN(const double second, trainer.Step(data));
  EXPECT_NE(first, second);  // lr is 0: other drops
  KILN_ASSERT_OK_AND_ASSIGN(const Evaluation once, trainer.Evaluate(data));
  KILN_ASSERT_OK_AND_ASSIGN(const Evaluation again, trainer.Evaluate(data));
  EXPECT_EQ(once.loss, again.loss);
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> run, trainer.Run({data[0]}));
  EXPECT_TRUE(Compare(run.at(0), once.outputs.at(0), 0, 0).ok);
}

// 1e8 - 1e8 + 1 is 1 in the order of the parts, and 0 in any other.
TEST(Trainer, MicroBatchesAreAddedInTheirOrder) {
  GraphBuilder b("line");
  const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n")});
  const ValueId w = b.Constant(F32({1}, {0}), "w");
  b.Output(b.Op("reduce_sum", {b.Op("mul", {x, w})}, {{"keepdims", int64_t{0}}}), "sum");
  TrainerOptions options = VmOptions();
  options.loss = training::OutputLoss();
  options.optimizer = training::Sgd();
  options.schedule.lr = 1;
  options.micro_batches = 3;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(std::move(b), options));
  EXPECT_EQ(trainer.inputs().size(), 1u);
  KILN_ASSERT_OK(trainer.Step({{"x", F32({3}, {1e8, -1e8, 1})}}).status());
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor after, trainer.Parameter("w"));
  EXPECT_FLOAT_EQ(static_cast<float>(Values(after)[0]), -1.0f / 3);
  EXPECT_THAT(trainer.Step({{"x", F32({4}, {1, 2, 3, 4})}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not divide by 3")));
}

TEST(Trainer, LearningRatesAreNoPartOfTheProgram) {
  TrainerOptions options = VmOptions();
  options.schedule = {.lr = 1, .decay = training::StepDecay{2, 0.5}};
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), options));
  std::vector<double> rates;
  for (unsigned step = 0; step < 4; ++step) {
    rates.push_back(trainer.learning_rate());
    KILN_ASSERT_OK(trainer.Step(StepData(step)).status());
  }
  EXPECT_THAT(rates, testing::ElementsAre(1, 1, 0.5, 0.5));
  KILN_EXPECT_OK(trainer.SetSchedule({.lr = 3}));
  EXPECT_EQ(trainer.learning_rate(), 3);
}

// 16 bits: near to f32; a gradient that overflows changes nothing but the scale.
TEST(Trainer, MixedPrecision) {
  TempDir dir;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer plain, Trainer::Create(Stateful(), VmOptions()));
  KILN_ASSERT_OK_AND_ASSIGN(const double want, plain.Step(StepData(1)));
  for (const DType type : {DType::kBF16, DType::kF16}) {
    TrainerOptions options = VmOptions();
    options.precision = type;
    options.loss_scale = 1024;
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), options));
    KILN_ASSERT_OK_AND_ASSIGN(const double loss, trainer.Step(StepData(1)));
    EXPECT_NE(loss, want);
    EXPECT_NEAR(loss, want, 0.05 * want);
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor w, trainer.Parameter("w2"));
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor w32, plain.Parameter("w2"));
    EXPECT_EQ(w.dtype(), DType::kF32);
    EXPECT_TRUE(Compare(w, w32, 0, 3e-3).ok);
  }
  TrainerOptions options = VmOptions();
  options.precision = DType::kF16;
  options.loss_scale = 1e15;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), options));
  KILN_ASSERT_OK(trainer.Step(StepData(1)).status());
  KILN_ASSERT_OK(trainer.Save(dir.File("c")));
  KILN_ASSERT_OK_AND_ASSIGN(const Safetensors saved,
                            ReadSafetensors(RealFileSystem(), dir.File("c")));
  EXPECT_EQ(ReadInt(saved.tensors.at("kiln/step"), 0), 1);
  EXPECT_EQ(ReadInt(saved.tensors.at("kiln/updates"), 0), 0);
  EXPECT_EQ(ReadFloat(saved.tensors.at("kiln/loss_scale"), 0), 5e14);
  EXPECT_TRUE(Compare(saved.tensors.at("w2"), Drawn({8, 3}, 4), 0, 0).ok);
  EXPECT_EQ(Values(saved.tensors.at("kiln/exp_avg/w2")), Numbers(24, 0));
}

TEST(Trainer, ChoosesParametersByName) {
  const auto names = [](const std::vector<std::string>& trained,
                        const std::vector<std::string>& frozen) {
    TrainerOptions options = VmOptions();
    options.parameters = trained;
    options.frozen = frozen;
    const absl::StatusOr<Trainer> trainer = Trainer::Create(Stateful(), options);
    if (!trainer.ok()) return std::vector<std::string>{std::string(trainer.status().message())};
    std::vector<std::string> found;
    for (const PortInfo& port : trainer->parameters()) found.push_back(port.name);
    return found;
  };
  EXPECT_THAT(names({}, {}), testing::UnorderedElementsAre("w1", "scale", "bias", "w2"));
  EXPECT_THAT(names({"w?"}, {}), testing::UnorderedElementsAre("w1", "w2"));
  EXPECT_THAT(names({}, {"w1", "b*"}), testing::UnorderedElementsAre("scale", "w2"));
  EXPECT_THAT(names({"v*"}, {})[0],
              HasSubstr("parameters \"v*\" names no constant of floats that the loss depends on; "
                        "there are w1, scale, bias, w2"));
  EXPECT_THAT(names({}, {"*"})[0], HasSubstr("has no constant of floats to train"));
}

TEST(Trainer, FrozenOnesStay) {
  TrainerOptions options = VmOptions();
  options.frozen = {"w1"};
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), options));
  KILN_ASSERT_OK(trainer.Step(StepData(1)).status());
  EXPECT_THAT(trainer.Parameter("w1").status(), StatusIs(absl::StatusCode::kNotFound));
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor w2, trainer.Parameter("w2"));
  EXPECT_FALSE(Compare(w2, Drawn({8, 3}, 4), 0, 0).ok);
  KILN_ASSERT_OK(trainer.SetParameter("w2", Drawn({8, 3}, 9)));
  EXPECT_TRUE(Compare(*trainer.Parameter("w2"), Drawn({8, 3}, 9), 0, 0).ok);
  EXPECT_THAT(
      trainer.SetParameter("w2", F32({2}, {1, 2})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is f32 [8, 3], the value f32 [2]")));
}

// A product of x and w in f32 [..., 4], with `activation` behind it, if it has a name.
GraphBuilder Product(Shape x_shape, const char* activation) {
  GraphBuilder b("product");
  const ValueId x = b.Input("x", DType::kF32, std::move(x_shape));
  ValueId y = b.Op("matmul", {x, b.Constant(Drawn({3, 4}, 1), "w")});
  if (activation[0] != 0) y = b.Op(activation, {y});
  b.Output(y, "y");
  return b;
}

// Losses of three steps, and the parameter after them.
std::vector<double> LossesOf(GraphBuilder graph, const training::Loss& loss,
                             const NamedTensors& data) {
  TrainerOptions options = VmOptions();
  options.loss = loss;
  options.schedule.lr = 0.1;
  absl::StatusOr<Trainer> trainer = Trainer::Create(std::move(graph), options);
  KILN_EXPECT_OK(trainer.status());
  std::vector<double> found;
  for (int step = 0; step < 3 && trainer.ok(); ++step) {
    const absl::StatusOr<double> value = trainer->Step(data);
    KILN_EXPECT_OK(value.status());
    found.push_back(value.value_or(NAN));
  }
  if (!trainer.ok()) return found;
  const Numbers w = Values(trainer->Parameter("w").value_or(F32({0}, {})));
  found.insert(found.end(), w.begin(), w.end());
  return found;
}

void ExpectSameLosses(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  ASSERT_EQ(got.size(), 15u);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5) << i;
}

// The same loss said in two ways.
TEST(Trainer, FormsOfALossAgree) {
  const Dim n = Dim::Symbol("n");
  const Tensor flat = Drawn({10, 3}, 5), labels = Classes(10, 4, 6);
  const Tensor rows = Tensor::View(flat.data(), DType::kF32, {5, 2, 3}, {}, flat.owner());
  const Tensor places = Tensor::View(labels.data(), DType::kI64, {5, 2}, {}, labels.owner());
  const NamedTensors data = {{"x", flat}, {"labels", labels}};
  const training::CrossEntropyLoss entropy, last{.class_axis = -1};
  const std::vector<double> want = LossesOf(Product({n, 3}, ""), entropy, data);
  ExpectSameLosses(LossesOf(Product({n, 2, 3}, ""), last, {{"x", rows}, {"labels", places}}), want);
  ExpectSameLosses(LossesOf(Product({n, 3}, "softmax"), entropy, data), want);

  // Places that do not count are as places that are not there.
  Tensor more = Tensor::Allocate(DType::kF32, {12, 3}), ignored = I64({12}, Numbers(12, -7));
  for (int64_t i = 0; i < 36; ++i) WriteFloat(more, i, i < 30 ? ReadFloat(flat, i) : 9);
  for (int64_t i = 0; i < 10; ++i) WriteInt(ignored, i, ReadInt(labels, i));
  ExpectSameLosses(LossesOf(Product({n, 3}, ""), training::CrossEntropyLoss{.ignore_index = -7},
                            {{"x", more}, {"labels", ignored}}),
                   want);

  // Where no place counts, the loss is 0, and so are its gradients.
  const std::vector<double> nothing =
      LossesOf(Product({n, 3}, ""), training::CrossEntropyLoss{.ignore_index = -7},
               {{"x", flat}, {"labels", I64({10}, Numbers(10, -7))}});
  ASSERT_EQ(nothing.size(), 15u);
  const Numbers untrained = Values(Drawn({3, 4}, 1));
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(nothing[i], i < 3 ? 0 : untrained[i - 3]) << i;

  const NamedTensors halves = {{"x", flat}, {"labels", F32({10, 4}, Numbers(40, 0.5))}};
  ExpectSameLosses(LossesOf(Product({n, 3}, "sigmoid"), training::BinaryCrossEntropyLoss(), halves),
                   LossesOf(Product({n, 3}, ""), training::BinaryCrossEntropyLoss(), halves));
  // Within delta Huber's loss is half of the square; Adam steps by the gradient's sign.
  const std::vector<double> huber =
      LossesOf(Product({n, 3}, ""), training::HuberLoss{.delta = 1e3}, halves);
  const std::vector<double> squares =
      LossesOf(Product({n, 3}, ""), training::MeanSquaredErrorLoss(), halves);
  EXPECT_NEAR(2 * huber[0], squares[0], 1e-5);
}

TEST(Trainer, ErrorsSayWhatIsWrong) {
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), VmOptions()));
  TempDir dir;
  KILN_ASSERT_OK(trainer.Save(dir.File("before")));
  const NamedTensors data = StepData(0);
  const auto error = [&](const NamedTensors& inputs) {
    const absl::Status status = trainer.Step(inputs).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error({data[0]}), HasSubstr("input \"labels\" is not given; a step has \"x\", "));
  EXPECT_THAT(error({data[0], data[0], data[1]}), HasSubstr("\"x\" is given twice"));
  EXPECT_THAT(error({data[0], {"label", data[1].second}}), HasSubstr("no input \"label\""));
  EXPECT_THAT(error({{"x", Drawn({12, 5}, 1)}, data[1]}), HasSubstr("x"));
  EXPECT_THAT(error({data[0], {"labels", Classes(11, 3, 1)}}), HasSubstr("11"));
  EXPECT_THAT(error({data[0], {"labels", Drawn({12}, 1)}}), HasSubstr("give integers"));
  EXPECT_THAT(error({data[0], {"labels", I64({12}, {0, 1, 2, 0, 1, 3, 0, 0, 0, 0, 0, 0})}}),
              HasSubstr("labels: element 5 of 12 is 3; classes are numbered from 0 to 2"));
  EXPECT_THAT(error({data[0], {"labels", I64({12}, Numbers(12, -1))}}), HasSubstr("is -1"));
  KILN_ASSERT_OK(trainer.Save(dir.File("after")));
  EXPECT_EQ(Contents(dir.File("before")), Contents(dir.File("after")));
  KILN_EXPECT_OK(trainer.Step(data).status());  // as if nothing had been

  const auto refused = [](auto change) {
    TrainerOptions options = VmOptions();
    change(options);
    const absl::Status status = Trainer::Create(Stateful(), options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](TrainerOptions& o) { o.output = "logit"; }),
              HasSubstr("no output \"logit\"; it has logits"));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.labels = "x"; }), HasSubstr("another name"));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.micro_batches = 0; }), HasSubstr("1 or above"));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.clip_norm = NAN; }), HasSubstr("clip_norm is nan"));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.precision = DType::kI8; }), HasSubstr("f16"));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.loss = training::OutputLoss(); }),
              HasSubstr("expected one element"));
  EXPECT_THAT(
      refused([](TrainerOptions& o) { o.loss = training::CrossEntropyLoss{.label_smoothing = 1}; }),
      HasSubstr("label_smoothing is 1"));
  EXPECT_THAT(refused([](TrainerOptions& o) { o.optimizer = training::Adam{.beta1 = 2}; }),
              HasSubstr("beta1"));
  EXPECT_THAT(Trainer::Create("m.kiln", VmOptions()).status().message(), HasSubstr("is a package"));
}

// Trains and saves for ever, telling each step that is saved.
[[noreturn]] void SaveForEver(Trainer& trainer, const std::string& path, int told) {
  for (unsigned step = 0;; ++step) {
    if (!trainer.Step(StepData(step)).ok() || !trainer.Save(path).ok()) _exit(1);
    const int64_t done = trainer.step();
    if (write(told, &done, sizeof(done)) != sizeof(done)) _exit(1);
  }
}

TEST(Trainer, AKilledSaveLeavesTheLastCheckpointOrTheNext) {
  TempDir dir;
  const std::string path = dir.File("run");
  std::mt19937 random(1);
  for (uint64_t k = 0; k < FromEnvironment("KILN_KILLED_CHECKPOINTS", 4); ++k) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
      absl::StatusOr<Trainer> trainer = Trainer::Create(Stateful(), VmOptions());
      if (!trainer.ok()) _exit(1);
      SaveForEver(*trainer, path, ends[1]);
    }
    close(ends[1]);
    int64_t last = 0;
    ASSERT_EQ(read(ends[0], &last, sizeof(last)), static_cast<ssize_t>(sizeof(last)));
    usleep(random() % 20'000);
    kill(writer, SIGKILL);
    for (int64_t step = 0; read(ends[0], &step, sizeof(step)) == sizeof(step);) last = step;
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    close(ends[0]);
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), VmOptions()));
    KILN_ASSERT_OK(trainer.Load(path).status());
    EXPECT_TRUE(trainer.step() == last || trainer.step() == last + 1)
        << trainer.step() << " after " << last;
    KILN_EXPECT_OK(trainer.Step(StepData(0)).status());
  }
}

}  // namespace
}  // namespace kiln
