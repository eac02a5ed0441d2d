// SPDX-License-Identifier: Apache-2.0
// The text of a plan read back: against the numbers of the plan that printed it, and its arena
// against the planner's own bound and verifier.
#include "tools/plan_text.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "exec/memory_plan.h"
#include "exec/plan_info.h"
#include "gmock/gmock.h"
#include "graph/graph.h"
#include "graph/tensors.h"
#include "gtest/gtest.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

using testing::HasSubstr;

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Some layers of random operators over [n, 16], with names that look like lines of a plan.
Graph RandomGraph(std::mt19937_64& random, bool hostile) {
  GraphBuilder b("random");
  const Dim n = Dim::Symbol("n");
  std::vector<ValueId> values = {b.Input(hostile ? "x\" 9 bytes" : "x", DType::kF32, {n, 16})};
  const ValueId w = b.Constant(FilledTensor(DType::kF32, {16, 16}, 0.25), "w");
  const int nodes = 3 + static_cast<int>(random() % 12);
  for (int k = 0; k < nodes; ++k) {
    const auto any = [&] { return values[random() % values.size()]; };
    const std::string name = absl::StrCat(hostile ? "a\": b0 f32[1] -> " : "n", k);
    switch (random() % 6) {
      case 0:
        values.push_back(b.Op("matmul", {any(), w}, {}, name));
        break;
      case 1:
        values.push_back(b.Op("softmax", {any()}, {{"axis", int64_t{1}}}, name));
        break;
      case 2:
        values.push_back(b.Op("relu", {any()}, {}, name));
        break;
      case 3:
        values.push_back(b.Op("mul", {any(), any()}, {}, name));
        break;
      default:
        values.push_back(b.Op("add", {any(), any()}, {}, name));
    }
  }
  b.Output(values.back(), "y");
  if (random() % 2 == 0) b.Output(values[values.size() / 2], "z");
  absl::StatusOr<Graph> graph = std::move(b).Finish();
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

struct Made {
  std::string text;
  PlanReport report;
};

absl::StatusOr<Made> PlanOf(const Graph& graph, int level) {
  Made made;
  CompileOptions options;
  options.compile_mode = CompileMode::kNever;
  options.cache.enabled = false;
  options.threads = 1;
  options.graph_opt_level = level;
  options.on_plan = [&](const PlanInfo& plan) { made.text = plan.text; };
  absl::StatusOr<Model> model = Compile(graph, options);
  if (!model.ok()) return model.status();
  Context context = model->NewContext();
  absl::Status status = context.Bind(size_t{0}, FilledTensor(DType::kF32, {5, 16}, 0.5));
  if (status.ok()) status = context.Run();
  if (!status.ok()) return status;
  made.report = context.report();
  return made;
}

TEST(PlanText, HasTheNumbersAndTheArenaOfItsPlan) {
  int shared = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937_64 random(seed);
    const Graph graph = RandomGraph(random, /*hostile=*/seed % 3 == 2);
    KILN_ASSERT_OK_AND_ASSIGN(const Made made, PlanOf(graph, static_cast<int>(seed % 4)));
    KILN_ASSERT_OK_AND_ASSIGN(const PlanText plan, ParsePlanText(made.text));
    EXPECT_EQ(plan.arena, made.report.arena);
    EXPECT_EQ(plan.lower_bound, made.report.lower_bound);
    EXPECT_EQ(plan.sum, made.report.sum);
    EXPECT_EQ(plan.constants, made.report.constants);
    int kernels = 0, libraries = 0, others = 0;
    int64_t bytes = 0;
    bool scratch = false;
    for (const PlanText::Launch& launch : plan.launches) {
      ++(launch.what == "kernel" ? kernels : launch.what == "library" ? libraries : others);
      bytes += launch.bytes;
      scratch = scratch || launch.scratch_offset >= 0;
    }
    EXPECT_EQ(kernels, made.report.kernel_launches);
    EXPECT_EQ(libraries, made.report.library_launches);
    EXPECT_EQ(others, made.report.other_launches);
    EXPECT_EQ(bytes, made.report.bytes_moved);

    // Two that live at once do not overlap, by the planner's verifier.
    MemoryPlan memory;
    std::vector<Interval> intervals;
    std::vector<int64_t> live(plan.launches.size());
    memory.peak = plan.arena;
    for (const PlannedInterval& interval : ArenaIntervals(plan)) {
      intervals.push_back({interval.lower, interval.upper, interval.size});
      memory.offsets.push_back(interval.offset);
      memory.sum += Aligned(interval.size);
      for (int64_t k = interval.lower; k < interval.upper; ++k)
        live[static_cast<size_t>(k)] += Aligned(interval.size);
    }
    const int64_t most = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
    memory.lower_bound = memory.best_bound = most;
    if (!intervals.empty()) {
      KILN_EXPECT_OK(VerifyPlan(intervals, memory, 64));
    }
    // And they live exactly as long as the plan has it.
    if (!scratch) {
      EXPECT_EQ(most, plan.lower_bound) << made.text;
      EXPECT_EQ(memory.sum, plan.sum) << made.text;
    }
    shared += memory.sum > plan.arena ? 1 : 0;
  }
  EXPECT_GT(shared, 10) << "nothing was put where something else had been";
}

constexpr char kText[] =
    "input \"x\" [4, 64]\n"
    "arena 4096 bytes, lower bound 2048, sum 3072; constants 16 bytes; parallel\n"
    "b0 input 0 \"x\" 1024 bytes\n"
    "b1 temporary \"t\" 1024 bytes in the arena at 1024, lanes 2048 apart\n"
    "b2 output 0 \"y\" 1024 bytes\n"
    "b3 constant 0 \"\" 16 bytes\n"
    "b4 temporary \"v\" 512 bytes in b1 at 512\n"
    "0 kernel exp+mul in 3 pieces \"t\": b0 f32[`a, b` + 1, min(n, 64)] strides [64, 1] at 4*n -> "
    "b1 f32[4, 64]; 2048 bytes in 2 parts on 2 lanes\n"
    "1 library conv \"y\": b4 f32[], absent, b3 i64[2] -> b2 f32[4, 64]; 18432 bytes in 2 parts on "
    "2 lanes, scratch at 64\n"
    "2 dims \"d\":  -> b2 f32[]; 0 bytes\n";

TEST(PlanText, TakesAllThatAPlanSays) {
  KILN_ASSERT_OK_AND_ASSIGN(const PlanText plan, ParsePlanText(kText));
  EXPECT_EQ(plan.constants, 16);
  ASSERT_EQ(plan.buffers.size(), 5u);
  EXPECT_EQ(plan.buffers[1].lane_step, 2048);
  EXPECT_EQ(plan.buffers[4].root, 1);
  ASSERT_EQ(plan.launches.size(), 3u);
  EXPECT_EQ(plan.launches[0].op, "exp+mul in 3 pieces");
  EXPECT_EQ(ToString(plan.launches[0].inputs[0].shape), "[`a, b` + 1, min(n, 64)]");
  EXPECT_EQ(plan.launches[0].parts, 2);
  EXPECT_EQ(plan.launches[1].inputs.size(), 3u);
  EXPECT_EQ(plan.launches[1].inputs[1].buffer, -1);
  EXPECT_EQ(plan.launches[1].inputs[2].type, DType::kI64);
  EXPECT_EQ(plan.launches[1].scratch_offset, 64);
  EXPECT_TRUE(plan.launches[2].inputs.empty());
  const std::vector<PlannedInterval> intervals = ArenaIntervals(plan);
  ASSERT_EQ(intervals.size(), 2u);
  EXPECT_EQ(intervals[1].name, "t (lane 1)");
  EXPECT_EQ(intervals[1].offset, 3072);
  EXPECT_EQ(intervals[1].upper, 2) << "the class lives as long as what lies in it";
  EXPECT_EQ(LiveBytes(plan), (std::vector<int64_t>{2048, 2048, 0}));
  EXPECT_THAT(MemoryPlanHtml(ArenaPlan(plan, "Arena")),
              HasSubstr("(without the scratch memory of 1 launches)"));
}

TEST(PlanText, SaysWhereATextIsNone) {
  const auto error = [](const std::string& text) {
    const auto plan = ParsePlanText(text);
    EXPECT_TRUE(absl::IsInternal(plan.status()));
    return std::string(plan.status().message());
  };
  EXPECT_EQ(error(""),
            "text of a plan: byte 0: expected the line of the arena; please report it with the "
            "model");
  const std::string head = "arena 8 bytes, lower bound 8, sum 8; constants 0 bytes; serial\n";
  EXPECT_THAT(error(head + "b1 temporary \"t\" 8 bytes\n"), HasSubstr("byte 63: expected a line;"));
  EXPECT_THAT(error(head + "b0 temporary \"t\" 8 bytes in the arena\n"),
              HasSubstr("expected a line of a buffer;"));
  EXPECT_THAT(error(head + "0 copy \"t\": b0 f32[2 -> b0 f32[2]; 8 bytes\n"),
              HasSubstr("expected a line of a launch;"));
  EXPECT_THAT(error(head + "0 copy \"t\": b7 f32[2] -> b0 f32[2]; 8 bytes\n"),
              HasSubstr("expected numbers of buffers and places;"));
  EXPECT_THAT(error(head + "b0 temporary \"t\" 8 bytes in b1 at 0\n"),
              HasSubstr("expected numbers of buffers and places;"));
  EXPECT_THAT(error(head + "b0 temporary \"t\" 99999999999999999999 bytes\n"),
              HasSubstr("expected a line of a buffer;"));
}

// Whatever the bytes: a plan or an error.
TEST(PlanText, TakesDamagedTexts) {
  std::mt19937_64 random(1);
  const std::string whole = kText;
  for (int k = 0; k < 20'000; ++k) {
    std::string text = whole;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = whole[random() % whole.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, whole.substr(random() % whole.size(), random() % 30));
      }
      if (text.empty()) text = "b";
    }
    const auto plan = ParsePlanText(text);
    if (!plan.ok()) continue;
    LiveBytes(*plan);
    ArenaIntervals(*plan);
  }
}

TEST(FlopsOf, CountsProductsAndSums) {
  const auto launch = [](const std::string& op, std::vector<Shape> inputs, const Shape& output) {
    PlanText::Launch made;
    made.what = "library";
    made.op = op;
    for (Shape& shape : inputs) made.inputs.push_back({0, DType::kF32, std::move(shape)});
    made.outputs.push_back({1, DType::kF32, output});
    return made;
  };
  const Dim n = Dim::Symbol("n");
  const SymbolValues symbols = {{"n", 3}};
  EXPECT_EQ(FlopsOf(launch("matmul", {{n, 8}, {8, 5}}, {n, 5}), symbols), 2 * 3 * 5 * 8);
  EXPECT_EQ(FlopsOf(launch("matmul", {{8, n}, {8, 5}}, {n, 5}), symbols), 2 * 3 * 5 * 8);
  EXPECT_EQ(FlopsOf(launch("matmul", {{7, n, 8}, {5, 8}}, {7, n, 5}), symbols), 2 * 7 * 3 * 5 * 8);
  EXPECT_EQ(FlopsOf(launch("matmul", {{8}, {8, 5}}, {5}), symbols), 2 * 5 * 8);
  EXPECT_EQ(FlopsOf(launch("matmul", {{n, 8}, {8}}, {n}), symbols), 2 * 3 * 8);
  EXPECT_EQ(FlopsOf(launch("conv", {{1, 8, 9, 9}, {16, 4, 3, 3}, {16}}, {1, 16, 7, 7}), symbols),
            2 * 16 * 7 * 7 * 4 * 9);
  EXPECT_EQ(FlopsOf(launch("conv_transpose", {{1, 8, 4, 4}, {8, 6, 2, 2}}, {1, 6, 8, 8}), symbols),
            2 * 8 * 4 * 4 * 6 * 4);
  EXPECT_EQ(FlopsOf(launch("conv_backward_weights", {{2, 8, 9, 9}, {2, 16, 7, 7}}, {16, 4, 3, 3}),
                    symbols),
            2 * 2 * 16 * 7 * 7 * 4 * 9);
  EXPECT_FALSE(FlopsOf(launch("max_pool", {{1, 8, 4, 4}, {1}}, {1, 8, 2, 2}), symbols));
  EXPECT_FALSE(FlopsOf(launch("matmul", {{n, 8}, {8, 5}}, {n, 5}), {}));
  PlanText::Launch bytes = launch("matmul", {{n, 8}, {8, 5}}, {n, 5});
  bytes.inputs[0].type = DType::kU8;
  EXPECT_FALSE(FlopsOf(bytes, symbols));
}

}  // namespace
}  // namespace kiln
