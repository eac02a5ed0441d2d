// SPDX-License-Identifier: Apache-2.0
// Choices by measurements: remembered, taken by the next process, never believed when forged.
#include "compiler/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "compiler/compile.h"
#include "compiler/fill.h"
#include "compiler/variants.h"
#include "fusion/lower.h"
#include "graph/text.h"
#include "kernel/text.h"
#include "schedule/device.h"
#include "schedule/workspace.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"

namespace kiln {
namespace {

TEST(Measured, TextGivesTheSameBack) {
  const Measured measured{
      "b step=2", 12, 0, "4096,768", {{"a", 812500}, {"b step=2", 760100}, {"c", INFINITY}}};
  KILN_ASSERT_OK_AND_ASSIGN(const Measured back, ParseMeasured(FormatMeasured(measured)));
  EXPECT_EQ(FormatMeasured(back), FormatMeasured(measured));
  EXPECT_EQ(back.winner, "b step=2");
  EXPECT_EQ(back.rounds, 12);
  ASSERT_EQ(back.times.size(), 3u);
  EXPECT_TRUE(std::isinf(back.times[2].ns));
  KILN_EXPECT_OK(ParseMeasured(FormatMeasured({})).status());
}

TEST(Measured, OtherTextsAreRefused) {
  for (const std::string text :
       {"", "kiln tune 2\n", "kiln tune 1\nwinner a\n", "kiln tune 1\nrounds -1\n",
        "kiln tune 1\nrounds x\n", "kiln tune 1\ntime nan a\n", "kiln tune 1\ntime -4 a\n",
        "kiln tune 1\nother line\n"})
    EXPECT_TRUE(absl::IsDataLoss(ParseMeasured(text).status())) << text;
  EXPECT_FALSE(ParseMeasured(absl::StrCat("kiln tune 1\n", std::string(1 << 17, '\n'))).ok());
}

TEST(ExtentsToTime, AreLaunchesOfTheGraphInTheClass) {
  const Dim n = *Dim::Parse("n"), twice = *Dim::Parse("2*n");
  const SizeClass any{{kUnbounded, kUnbounded}};
  using Extents = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(ExtentsToTime({n, twice}, {}, any, {}), (Extents{{16, 32}, {256, 512}, {4096, 8192}}));
  EXPECT_EQ(ExtentsToTime({n, twice}, {}, any, {{"n", 7}}), (Extents{{7, 14}}));
  EXPECT_EQ(ExtentsToTime({n, twice}, {}, {{kUnbounded, 600}, {false, true}}, {}),
            (Extents{{16, 32}, {256, 512}}));
  EXPECT_EQ(ExtentsToTime({Dim(3), Dim(5)}, {}, {{3, 5}}, {}), (Extents{{3, 5}}));
  EXPECT_TRUE(ExtentsToTime({n, Dim(0)}, {}, any, {}).empty());
  KILN_ASSERT_OK_AND_ASSIGN(const Guard guard, Guard::Parse("n % 100 == 0"));
  EXPECT_TRUE(ExtentsToTime({n, twice}, {guard}, any, {}).empty());
  EXPECT_EQ(ExtentsToTime({n, twice}, {guard}, any, {{"n", 300}}), (Extents{{300, 600}}));
}

constexpr char kSoftmax[] =
    "graph g\ninput x : f32 [96, 768]\ny = softmax(x) {axis = 1}\nz = exp(y)\noutput z\n";

class TunerTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kOff);
    std::ofstream(model_) << kSoftmax;
    absl::SleepFor(absl::Milliseconds(200));  // what is known of new files is not kept
  }
  void TearDown() override { SetLogLevel(LogLevel::kWarning); }

  CompileOptions Options(ScheduleChoice choice) {
    CompileOptions options;
    options.cache.directory = dir_.File("cache");
    options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
    options.validator = KILN_TEST_BIN_DIR "/kiln-validate";
    options.threads = 1;
    options.schedule_choice = choice;
    return options;
  }

  struct Start {
    std::vector<std::string> schedules;
    int measured = -1;  // -1: nothing was looked up
    std::string bits;   // of the result
    std::vector<PlannedCall> calls;
  };
  // A process of its own, as far as caches go.
  Start Run(const CompileOptions& given) {
    Start start;
    CompileOptions options = given;
    options.on_plan = [&](const PlanInfo& plan) { start.calls = plan.library_calls; };
    const auto service = std::make_shared<KernelService>(options);
    const auto opened = WarmModel::Open(model_, options, service);
    if (!opened.ok()) return ADD_FAILURE() << opened.status(), start;
    absl::StatusOr<Model> model = Compile(*opened, options);
    if (!model.ok()) return ADD_FAILURE() << model.status(), start;
    std::vector<InputInfo> info;
    std::vector<std::pair<std::string, Tensor>> inputs;
    for (const PortInfo& port : (*opened)->inputs()) {
      inputs.emplace_back(port.name, Tensor::Allocate(port.type, *Evaluate(port.shape, {})));
      FillNearOne(inputs.back().second);
      info.push_back({port.name, true, inputs.back().second});
    }
    const auto outputs = model->Run(inputs);
    if (!outputs.ok()) return ADD_FAILURE() << outputs.status(), start;
    start.bits.assign(static_cast<const char*>((*outputs)[0].data()),
                      static_cast<size_t>((*outputs)[0].size_bytes()));
    const std::shared_ptr<const Variant> variant = *(*opened)->Get(info);
    for (const program::KernelDef& def : variant->program.kernels())
      for (const program::KernelChoice& choice : def.choices())
        start.schedules.push_back(choice.schedule());
    (*opened)->WaitUntilKept();
    if ((*opened)->tuner() != nullptr) start.measured = (*opened)->tuner()->records().measured();
    return start;
  }

  // Lets `change` alter the records of the cache, and returns how many there are.
  int ChangeRecords(const std::function<std::string(Measured)>& change) {
    StoreOptions options;
    options.directory = dir_.File("cache");
    const auto store = *Store::Open(RealFileSystem(), options);
    int changed = 0;
    const std::vector<EntryInfo> entries = *store->List();
    for (const EntryInfo& info : entries) {
      Entry entry = *store->Read(info.key);
      const auto measured = MeasuredOf(entry);
      if (!measured.has_value()) continue;
      ++changed;
      for (Section& section : entry.sections)
        if (section.tag == "tune") section.bytes = change(**measured);
      KILN_EXPECT_OK(store->Publish(entry));
    }
    return changed;
  }

  TempDir dir_;
  const std::string model_ = dir_.File("g.graph");
};

std::string LetLastWin(Measured measured) {
  measured.winner = measured.times.back().way;
  return FormatMeasured(measured);
}

TEST_F(TunerTest, WhatWasMeasuredIsRememberedAndTakenByOtherModes) {
  const Start price = Run(Options(ScheduleChoice::kHeuristic));
  EXPECT_EQ(price.measured, -1) << "a machine without records looks for none";
  const Start tuned = Run(Options(ScheduleChoice::kProfile));
  EXPECT_GT(tuned.measured, 0);
  const Start again = Run(Options(ScheduleChoice::kProfile));
  EXPECT_EQ(again.measured, 0) << "the second process measures nothing";
  EXPECT_EQ(again.schedules, tuned.schedules);
  const Start heuristic = Run(Options(ScheduleChoice::kHeuristic));
  EXPECT_EQ(heuristic.measured, 0);
  EXPECT_EQ(heuristic.schedules, tuned.schedules);
  const Start reproducible = Run(Options(ScheduleChoice::kReproducible));
  EXPECT_EQ(reproducible.measured, -1);
  EXPECT_EQ(reproducible.schedules, price.schedules);
  for (const Start& start : {tuned, again, heuristic, reproducible})
    EXPECT_EQ(start.bits, price.bits) << "no schedule changes a bit";
}

TEST_F(TunerTest, AProgramFromBeforeARecordIsNotTakenForTuned) {
  const Start price = Run(Options(ScheduleChoice::kHeuristic));
  const Start tuned = Run(Options(ScheduleChoice::kProfile));
  // Whatever has won, another candidate wins from now on.
  std::string last;
  ASSERT_GT(ChangeRecords([&](const Measured& measured) {
              EXPECT_GT(measured.times.size(), 1u);
              last = measured.times.back().way == tuned.schedules[0] ? measured.times.front().way
                                                                     : measured.times.back().way;
              Measured changed = measured;
              changed.winner = last;
              return FormatMeasured(changed);
            }),
            0);
  const Start changed = Run(Options(ScheduleChoice::kHeuristic));
  EXPECT_EQ(changed.schedules, std::vector<std::string>{last});
  EXPECT_EQ(changed.bits, price.bits);
  EXPECT_EQ(Run(Options(ScheduleChoice::kHeuristic)).schedules, changed.schedules);
  EXPECT_EQ(Run(Options(ScheduleChoice::kReproducible)).schedules, price.schedules);
}

TEST_F(TunerTest, ForgedRecordsAreMisses) {
  const Start price = Run(Options(ScheduleChoice::kReproducible));
  Run(Options(ScheduleChoice::kProfile));
  // No candidate of this kernel: fields beyond those that templates offer, or another template.
  for (const std::string way : {"pointwise step=1", "row_reduction step=7 task=3", "", "x"}) {
    ChangeRecords([&](Measured measured) {
      measured.times.push_back({way, 1});
      measured.winner = way;
      return FormatMeasured(measured);
    });
    EXPECT_EQ(Run(Options(ScheduleChoice::kHeuristic)).schedules, price.schedules) << way;
  }
}

TEST_F(TunerTest, ForgedRecordsAreMeasuredAnew) {
  const Start tuned = Run(Options(ScheduleChoice::kProfile));
  ChangeRecords([&](Measured measured) {
    measured.times.push_back({"pointwise step=1", 1});
    measured.winner = "pointwise step=1";
    return FormatMeasured(measured);
  });
  EXPECT_EQ(Run(Options(ScheduleChoice::kProfile)).measured, tuned.measured);
  EXPECT_EQ(Run(Options(ScheduleChoice::kProfile)).measured, 0);
}

TEST_F(TunerTest, WithoutACompilerOrValidatorNothingIsRemembered) {
  CompileOptions without_compiler = Options(ScheduleChoice::kProfile);
  without_compiler.codegen = dir_.File("none");
  CompileOptions without_validator = Options(ScheduleChoice::kProfile);
  without_validator.validator = dir_.File("none");
  for (const CompileOptions& options : {without_compiler, without_validator})
    EXPECT_EQ(Run(options).measured, 0);
  EXPECT_GT(Run(Options(ScheduleChoice::kProfile)).measured, 0);
}

TEST_F(TunerTest, WithoutLaunchesNothingIsRemembered) {
  std::ofstream(model_) << "graph g\ninput x : f32 [n, 64]\ny = softmax(x) {axis = 1}\noutput y\n";
  const auto measured_at = [&](SymbolValues at) {
    CompileOptions options = Options(ScheduleChoice::kProfile);
    options.tune_at = std::move(at);
    const auto opened = WarmModel::Open(model_, options, std::make_shared<KernelService>(options));
    KILN_EXPECT_OK(opened.status());
    KILN_EXPECT_OK(Compile(*opened, options).status());
    return (*opened)->tuner()->records().measured();
  };
  EXPECT_EQ(measured_at({{"n", 0}}), 0);
  EXPECT_EQ(measured_at({}), 1);
}

TEST_F(TunerTest, ALostMarkerIsWrittenAnew) {
  const Start tuned = Run(Options(ScheduleChoice::kProfile));
  {
    StoreOptions options;
    options.directory = dir_.File("cache");
    const auto store = *Store::Open(RealFileSystem(), options);
    const std::vector<EntryInfo> entries = *store->List();
    for (const EntryInfo& info : entries) {
      const Entry entry = *store->Read(info.key);
      const bool marker = entry.Find("tune") != nullptr && !MeasuredOf(entry).has_value();
      if (marker) {
        KILN_EXPECT_OK(store->Remove(info.key));
      }
    }
  }
  EXPECT_EQ(Run(Options(ScheduleChoice::kHeuristic)).measured, -1);
  EXPECT_EQ(Run(Options(ScheduleChoice::kProfile)).measured, 0);
  EXPECT_EQ(Run(Options(ScheduleChoice::kHeuristic)).schedules, tuned.schedules);
}

TEST_F(TunerTest, RecordsAreOfOneNumberOfThreadsAndOneLimit) {
  Run(Options(ScheduleChoice::kProfile));
  CompileOptions two = Options(ScheduleChoice::kHeuristic);
  two.threads = 2;
  EXPECT_EQ(Run(two).measured, -1);
  CompileOptions limited = Options(ScheduleChoice::kHeuristic);
  limited.workspace_limit = 4096;
  EXPECT_EQ(Run(limited).measured, -1);
}

TEST_F(TunerTest, WithoutACacheTheProcessKnowsWhatItMeasured) {
  CompileOptions options = Options(ScheduleChoice::kProfile);
  options.cache.enabled = false;
  EXPECT_GT(Run(options).measured, 0);
}

TEST_F(TunerTest, WhatCannotBeMeasuredIsNotTriedAgain) {
  // No launch of this class has less than 1 GiB.
  std::ofstream(model_) << "graph g\ninput x : f32 [n, 400000]\ny = exp(x)\noutput y\n";
  CompileOptions options = Options(ScheduleChoice::kProfile);
  options.tune_at = {{"n", 4000}};
  const auto service = std::make_shared<KernelService>(options);
  for (const int measured : {1, 0}) {
    const auto opened = WarmModel::Open(model_, options, service);
    KILN_ASSERT_OK(opened.status());
    KILN_ASSERT_OK(Compile(*opened, options).status());
    EXPECT_EQ((*opened)->tuner()->records().measured(), measured);
  }
  EXPECT_EQ(ChangeRecords([](const Measured& measured) {
              EXPECT_EQ(measured.winner, "");
              return FormatMeasured(measured);
            }),
            1);
}

TEST_F(TunerTest, LibraryCallsAreMeasuredToo) {
  std::ofstream(model_) << "graph g\ninput x : f32 [1, 256]\ninput w : f32 [256, 256]\n"
                           "y = matmul(x, w)\noutput y\n";
  const Start price = Run(Options(ScheduleChoice::kReproducible));
  ASSERT_EQ(price.calls.size(), 1u);
  const Start tuned = Run(Options(ScheduleChoice::kProfile));
  EXPECT_EQ(tuned.measured, 1);
  EXPECT_EQ(Run(Options(ScheduleChoice::kProfile)).measured, 0);
  ASSERT_EQ(ChangeRecords(LetLastWin), 1);
  const Start other = Run(Options(ScheduleChoice::kHeuristic));
  EXPECT_NE(other.calls[0].considered.back().implementation,
            price.calls[0].considered.back().implementation);
  EXPECT_EQ(Run(Options(ScheduleChoice::kReproducible)).calls[0].considered.back().implementation,
            price.calls[0].considered.back().implementation);
  ChangeRecords([](Measured measured) {
    measured.winner = "x";
    measured.times.push_back({"x", 1});
    return FormatMeasured(measured);
  });
  EXPECT_EQ(Run(Options(ScheduleChoice::kHeuristic)).calls[0].considered.back().implementation,
            price.calls[0].considered.back().implementation);
}

TEST_F(TunerTest, LibraryCallsKeepToTheWorkspaceLimit) {
  std::ofstream(model_) << "graph g\ninput x : f32 [64, 256]\ninput w : f32 [256, 256]\n"
                           "y = matmul(x, w)\noutput y\n";
  CompileOptions options = Options(ScheduleChoice::kReproducible);
  options.workspace_limit = 1;
  const Start start = Run(options);
  ASSERT_EQ(start.calls.size(), 1u);
  EXPECT_EQ(start.calls[0].considered.back().refusal, "");
}

TEST(WorkspaceLimit, SchedulesThatNeedMoreAreNoCandidates) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kSoftmax));
  KILN_ASSERT_OK_AND_ASSIGN(const Compiled compiled, CompileGraph(graph, {}));
  KILN_ASSERT_OK_AND_ASSIGN(const LoweredGroup lowered,
                            LowerGroup(compiled.graph, compiled.grouping.groups.front()));
  const Kernel& kernel = lowered.canonical.kernel;
  const Machine& machine = ShippedMachine(HostTarget());
  const SizeClass sizes{{96, 768}};
  const auto all = CandidatesFor(kernel, sizes, machine);
  double least = INFINITY, most = 0;
  for (const Candidate& candidate : all) {
    const double bytes = WorkspaceBytes(kernel, sizes.at_most, candidate.schedule);
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  ASSERT_LT(least, most);
  const auto limit = static_cast<int64_t>(most) - 1;
  const auto kept = CandidatesFor(kernel, sizes, machine, limit);
  EXPECT_LT(kept.size(), all.size());
  for (const Candidate& candidate : kept)
    EXPECT_LE(WorkspaceBytes(kernel, sizes.at_most, candidate.schedule), limit);
  const auto one = CandidatesFor(kernel, sizes, machine, 1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(WorkspaceBytes(kernel, sizes.at_most, one[0].schedule), least);
}

}  // namespace
}  // namespace kiln
