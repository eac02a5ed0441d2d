// SPDX-License-Identifier: Apache-2.0
// What trainers refuse, and what they keep within bounds: schedules, labels, loss scales, and
// hostile checkpoints.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/file_system.h"
#include "base/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kiln/trainer.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/graph/tensors.h"
#include "tests/trainer/stateful_network.h"
#include "training/state.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using training::Numbers;

TEST(TrainerLimits, SchedulesThatAreNoneAreRefused) {
  using training::LearningRateSchedule;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), VmOptions()));
  const auto refused = [&](const LearningRateSchedule& schedule, const std::string& message) {
    TrainerOptions options = VmOptions();
    options.schedule = schedule;
    for (const absl::Status& status :
         {trainer.SetSchedule(schedule), Trainer::Create(Stateful(), options).status()})
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
    EXPECT_EQ(trainer.learning_rate(), 1e-3);
  };
  refused({.lr = NAN}, "lr is nan; it is a finite number from 0 on");
  refused({.lr = INFINITY}, "lr is inf");
  refused({.lr = -0.5}, "lr is -0.5");
  refused({.warmup = -3}, "warmup is -3; it is 0 or above");
  refused({.warmup = 3, .warmup_start = NAN}, "warmup_start is nan");
  for (const int64_t none : {int64_t{0}, int64_t{-5}}) {
    refused({.decay = training::StepDecay{none, 0.5}}, absl::StrCat("every is ", none));
    refused({.decay = training::CosineDecay{none}}, absl::StrCat("steps is ", none));
  }
  refused({.decay = training::CosineDecay{3, -INFINITY}}, "lowest is -inf");
  refused({.decay = training::StepDecay{3, -1}}, "factor is -1");
  refused({.decay = training::ExponentialDecay{-1}}, "factor is -1");
}

// Halved wherever it begins, also below 1.
TEST(TrainerLimits, LossScalesBelowOneAreHalved) {
  TempDir dir;
  TrainerOptions options = VmOptions();
  options.precision = DType::kF16;
  for (const double scale : {0.5, 1.0, training::kLeastScale}) {
    options.loss_scale = scale;
    KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), options));
    KILN_ASSERT_OK(trainer.SetParameter("w2", F32({8, 3}, Numbers(24, INFINITY))));
    KILN_ASSERT_OK(trainer.Step(StepData(1)).status());
    KILN_ASSERT_OK(trainer.Save(dir.File("c")));
    KILN_ASSERT_OK_AND_ASSIGN(const Safetensors saved,
                              ReadSafetensors(RealFileSystem(), dir.File("c")));
    EXPECT_EQ(ReadInt(saved.tensors.at("kiln/updates"), 0), 0);
    EXPECT_EQ(ReadFloat(saved.tensors.at("kiln/loss_scale"), 0),
              std::max(scale / 2, training::kLeastScale));
    KILN_EXPECT_OK(trainer.Load(dir.File("c")).status());
  }
  for (const double scale : {0.0, 1e-30, 1e30, double{NAN}}) {
    options.loss_scale = scale;
    EXPECT_THAT(Trainer::Create(Stateful(), options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("loss_scale is ")));
  }
}

// A checkpoint of another precision: steps go on as without a scale, or from the option's.
TEST(TrainerLimits, LossScalesAreThoseOfCheckpointsOfF16Alone) {
  TempDir dir;
  const std::vector<DType> types = {DType::kF32, DType::kBF16, DType::kF16};
  for (const DType from : types) {
    TrainerOptions options = VmOptions();
    options.precision = from;
    options.loss_scale = 512;
    KILN_ASSERT_OK_AND_ASSIGN(Trainer first, Trainer::Create(Stateful(), options));
    KILN_ASSERT_OK(first.Step(StepData(0)).status());
    KILN_ASSERT_OK(first.Save(dir.File("from")));
    for (const DType to : types) {
      options.precision = to;
      options.loss_scale = 2048;
      KILN_ASSERT_OK_AND_ASSIGN(Trainer second, Trainer::Create(Stateful(), options));
      KILN_ASSERT_OK(second.Load(dir.File("from")).status());
      KILN_ASSERT_OK(second.Save(dir.File("to")));
      KILN_ASSERT_OK_AND_ASSIGN(const Safetensors saved,
                                ReadSafetensors(RealFileSystem(), dir.File("to")));
      const double scaled = from == DType::kF16 ? 512 : 2048;
      EXPECT_EQ(ReadFloat(saved.tensors.at("kiln/loss_scale"), 0), to == DType::kF16 ? scaled : 1)
          << Name(from) << " " << Name(to);
      EXPECT_EQ(ReadInt(saved.tensors.at("kiln/steady"), 0),
                from == DType::kF16 && to == DType::kF16 ? 1 : 0);
      EXPECT_EQ(second.step(), 1);
    }
  }
}

// Classes whose number is that of an input's extent: labels are checked for each run.
TEST(TrainerLimits, LabelsAreBelowTheRunsNumberOfClasses) {
  const auto graph = [] {
    GraphBuilder b("open");
    const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), Dim::Symbol("c")});
    const ValueId y = b.Op("mul", {x, b.Constant(F32({1}, {1}), "w")});
    b.Output(b.Op("concat", {y, y}, {{"axis", int64_t{1}}}), "y");  // 2 c classes
    return b;
  };
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(graph(), VmOptions()));
  for (const int64_t classes : {3, 2}) {
    const Tensor x = Drawn({2, classes}, 1);
    const double most = static_cast<double>(2 * classes - 1);
    KILN_EXPECT_OK(trainer.Step({{"x", x}, {"labels", I64({2}, {0, most})}}).status());
    const NamedTensors wrong = {{"x", x}, {"labels", I64({2}, {0, most + 1})}};
    for (const absl::Status& status :
         {trainer.Step(wrong).status(), trainer.Evaluate(wrong).status()})
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr(absl::StrCat("labels: element 1 of 2 is ", most + 1,
                                                          "; classes are numbered from 0 to "))));
  }
  // Of a micro-batch: each sample is a class of its own part.
  GraphBuilder b("pairs");
  const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), 2});
  const ValueId y = b.Op("mul", {x, b.Constant(F32({2}, {1, 1}), "w")});
  b.Output(b.Op("matmul", {y, b.Op("transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}})}),
           "y");
  TrainerOptions options = VmOptions();
  options.micro_batches = 2;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer parts, Trainer::Create(std::move(b), options));
  const Tensor pairs = Drawn({4, 2}, 1);
  KILN_EXPECT_OK(parts.Step({{"x", pairs}, {"labels", I64({4}, {0, 1, 0, 1})}}).status());
  EXPECT_THAT(parts.Step({{"x", pairs}, {"labels", I64({4}, {0, 1, 2, 3})}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("element 2 of 4 is 2")));
}

// Files that are cut, or well-formed and wrong: an error, and nothing has changed.
TEST(TrainerLimits, HostileCheckpointsChangeNothing) {
  TempDir dir;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), VmOptions()));
  KILN_ASSERT_OK(trainer.Step(StepData(0)).status());
  const std::string good = dir.File("good"), bad = dir.File("bad");
  KILN_ASSERT_OK(trainer.Save(good));
  const std::string bytes = Contents(good);
  for (size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 40) {
    std::ofstream(bad, std::ios::binary) << bytes.substr(0, cut);
    EXPECT_FALSE(trainer.Load(bad).ok()) << cut;
  }
  KILN_ASSERT_OK_AND_ASSIGN(const Safetensors saved, ReadSafetensors(RealFileSystem(), good));
  const auto error = [&](auto change) {
    Safetensors other = saved;
    change(other);
    KILN_EXPECT_OK(WriteSafetensors(RealFileSystem(), bad, other.tensors, other.metadata));
    const absl::Status status = trainer.Load(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error([](Safetensors& s) { s.metadata.clear(); }), HasSubstr("version \"\""));
  EXPECT_THAT(error([](Safetensors& s) { s.tensors.erase("w2"); }), HasSubstr("has no \"w2\""));
  EXPECT_THAT(error([](Safetensors& s) { s.tensors.erase("kiln/exp_avg/w2"); }),
              HasSubstr("has no \"kiln/exp_avg/w2\""));
  EXPECT_THAT(error([](Safetensors& s) { s.tensors["v"] = F32({1}, {1}); }), HasSubstr("\"v\""));
  EXPECT_THAT(error([](Safetensors& s) {
                s.tensors["w2"] = F32({3, 8}, {});
              }),
              HasSubstr("\"w2\" is f32 [8, 3], the value f32 [3, 8]"));
  EXPECT_THAT(error([](Safetensors& s) { s.tensors["kiln/step"] = I64({}, {-1}); }),
              HasSubstr("\"kiln/step\" is -1"));
  for (const char* const count : {"kiln/step", "kiln/updates", "kiln/steady"}) {
    EXPECT_THAT(error([&](Safetensors& s) {
                  WriteInt(s.tensors[count] = Tensor::Allocate(DType::kI64, {}), 0, INT64_MAX);
                }),
                HasSubstr(absl::StrCat("\"", count, "\" is 9223372036854775807; it is from 0 to")));
  }
  for (const double scale : {0.0, -1.0, 1e-300, 1e300, double{NAN}, double{INFINITY}}) {
    EXPECT_THAT(error([&](Safetensors& s) {
                  s.tensors["kiln/loss_scale"] = Make(DType::kF64, {}, {scale});
                }),
                HasSubstr("loss_scale"));
  }
  EXPECT_FALSE(trainer.Load(dir.File("none")).ok());
  KILN_ASSERT_OK(trainer.Save(bad));
  EXPECT_EQ(Contents(bad), bytes);
}

// The count of draws is the seed's, and any: behind the last one comes the first.
TEST(TrainerLimits, CountsOfDrawsDoNotOverflow) {
  TempDir dir;
  TrainerOptions options = VmOptions();
  options.seed = UINT32_MAX;
  options.micro_batches = 2;
  KILN_ASSERT_OK_AND_ASSIGN(Trainer trainer, Trainer::Create(Stateful(), options));
  KILN_ASSERT_OK(trainer.Save(dir.File("c")));
  KILN_ASSERT_OK_AND_ASSIGN(Safetensors saved, ReadSafetensors(RealFileSystem(), dir.File("c")));
  WriteInt(saved.tensors["kiln/draws"] = Tensor::Allocate(DType::kI64, {}), 0, INT64_MAX);
  KILN_ASSERT_OK(WriteSafetensors(RealFileSystem(), dir.File("c"), saved.tensors, saved.metadata));
  KILN_ASSERT_OK(trainer.Load(dir.File("c")).status());
  KILN_ASSERT_OK(trainer.Step(StepData(0)).status());
  KILN_ASSERT_OK(trainer.Save(dir.File("c")));
  KILN_ASSERT_OK_AND_ASSIGN(saved, ReadSafetensors(RealFileSystem(), dir.File("c")));
  EXPECT_EQ(ReadInt(saved.tensors.at("kiln/draws"), 0), 1);
  KILN_EXPECT_OK(trainer.Load(dir.File("c")).status());
}

}  // namespace
}  // namespace kiln
