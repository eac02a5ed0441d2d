// SPDX-License-Identifier: Apache-2.0
// Rows and concats that no launch moves: which groups they are, and random programs of them against
// the interpreter. KILN_MOVES random programs from KILN_MOVES_SEED on.
#include "compiler/element_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "compiler/compile.h"
#include "graph/graph.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "kiln/graph.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"

namespace kiln {
namespace {

// Sums of few small integers: exact in any order.
Tensor SmallIntegers(std::vector<int64_t> shape, unsigned seed) {
  Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
  std::mt19937 random(seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    WriteFloat(tensor, i, static_cast<double>(random() % 3) - 1);
  return tensor;
}

// A graph of one input [rows, 16], and what a run on it must give.
class Net {
 public:
  explicit Net(int64_t rows) : rows_(rows), x(b.Input("x", DType::kF32, {rows, 16})) {}

  ValueId Launch(ValueId in) {  // a library call: nothing joins it
    return b.Op("matmul", {in, b.Constant(SmallIntegers({16, 16}, ++seed_))});
  }
  ValueId Row(ValueId in, int64_t row) {
    return b.Op("gather", {in, b.Ints({row})}, {{"axis", int64_t{0}}});
  }
  ValueId Rows(ValueId in, int64_t begin, int64_t end) {
    return b.Op("slice", {in, b.Ints({begin}), b.Ints({end}), b.Ints({0})});
  }
  ValueId Concat(std::vector<ValueId> parts) {
    return b.Op("concat", std::move(parts), {{"axis", int64_t{0}}});
  }

  // Runs the graph on the VM, against the interpreter.
  PlanReport Check() {
    absl::StatusOr<Graph> graph = std::move(b).Finish();
    KILN_EXPECT_OK(graph.status());
    if (!graph.ok()) return {};
    const Tensor input = SmallIntegers({rows_, 16}, 1000);
    const auto want = Interpret(*graph, {&input, 1});
    absl::StatusOr<Model> model = Compile(*graph, OnVm());
    KILN_EXPECT_OK(want.status());
    KILN_EXPECT_OK(model.status());
    if (!want.ok() || !model.ok()) return {};
    Context context = model->NewContext();
    KILN_EXPECT_OK(context.Bind("x", input));
    for (int run = 0; run < 2; ++run) {
      KILN_EXPECT_OK(context.Run());
      for (size_t k = 0; k < want->size(); ++k) {
        const auto got = context.Output(absl::StrCat("y", k));
        KILN_EXPECT_OK(got.status());
        if (!got.ok()) continue;
        const Comparison comparison = Compare(*got, (*want)[k], 0, 0);
        EXPECT_TRUE(comparison.ok) << "output " << k << ": " << comparison.what;
      }
    }
    return context.report();
  }

  GraphBuilder b{"g"};

 private:
  const int64_t rows_;
  unsigned seed_ = 0;

 public:
  const ValueId x;
};

// As a recurrent network: a row a step, and all results side by side.
TEST(ElementMoves, RowsAreReadAndPartsAreWrittenWhereTheyLie) {
  Net net(4);
  const ValueId a = net.Launch(net.x);
  std::vector<ValueId> parts;
  for (const int64_t row : {0, -1, 2, 7}) parts.push_back(net.Launch(net.Row(a, row)));
  net.b.Output(net.Launch(net.Concat(parts)), "y0");
  const PlanReport report = net.Check();
  EXPECT_EQ(report.kernel_launches, 0);
  EXPECT_EQ(report.other_launches, 0);
  EXPECT_EQ(report.library_launches, 6);
}

// What is there twice is copied once; a network whose branches meet has equal gradients.
TEST(ElementMoves, FewPartsThatLieElsewhereAreCopied) {
  Net net(2);
  const ValueId a = net.Launch(net.x), c = net.Launch(a), d = net.Launch(c);
  net.b.Output(net.Launch(net.Concat({a, c, a, d, net.Launch(d)})), "y0");
  const PlanReport report = net.Check();
  EXPECT_EQ(report.kernel_launches, 0);
  EXPECT_EQ(report.other_launches, 1);
  EXPECT_EQ(report.library_launches, 5);
}

// Inputs, outputs and values that another concat has cannot be written there.
TEST(ElementMoves, OtherConcatsStayKernels) {
  for (int kind = 0; kind < 4; ++kind) {
    SCOPED_TRACE(kind);
    Net net(2);
    const ValueId a = net.Launch(net.x), c = net.Launch(a);
    const ValueId y = net.Concat({a, kind == 0 ? net.x : kind == 1 ? a : c});
    net.b.Output(net.Launch(y), "y0");
    if (kind == 2) net.b.Output(a, "y1");
    if (kind == 3) net.b.Output(net.Launch(net.Concat({c, a})), "y1");
    EXPECT_EQ(net.Check().kernel_launches, 1);
  }
}

TEST(ElementMoves, RandomProgramsGiveWhatTheInterpreterGives) {
  const uint64_t seed = FromEnvironment("KILN_MOVES_SEED", 1);
  const uint64_t count = FromEnvironment("KILN_MOVES", 150);
  int kernels = 0, library = 0;
  for (uint64_t k = 0; k < count; ++k) {
    SCOPED_TRACE(absl::StrCat("KILN_MOVES_SEED=", seed + k, " KILN_MOVES=1"));
    std::mt19937_64 random(seed + k);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    Net net(2 + static_cast<int64_t>(below(3)));
    std::vector<ValueId> known = {net.x};
    const auto any = [&] {
      return known[known.size() - 1 - below(std::min<size_t>(3, known.size()))];
    };
    const auto rows = [&](ValueId v) { return *net.b.value(v).shape[0].constant(); };
    for (size_t i = 0; i < 6 + below(6); ++i) {
      const ValueId v = any();
      const auto row = static_cast<int64_t>(below(static_cast<size_t>(rows(v))));
      switch (below(5)) {
        case 0:
          known.push_back(net.Row(v, below(2) == 0 ? row : row - rows(v)));
          break;
        case 1:
          known.push_back(net.Rows(v, row, rows(v)));
          break;
        case 2: {
          std::vector<ValueId> parts = {v};
          for (size_t p = 0; p <= below(2); ++p) parts.push_back(any());
          known.push_back(net.Concat(parts));
          break;
        }
        default:
          known.push_back(net.Launch(v));
      }
    }
    for (size_t k2 = 0; k2 <= below(2); ++k2)
      net.b.Output(k2 == 0 ? known.back() : any(), absl::StrCat("y", k2));
    const PlanReport report = net.Check();
    kernels += report.kernel_launches;
    library += report.library_launches;
  }
  if (count < 100) return;
  EXPECT_GT(kernels, 0);
  EXPECT_GT(library, kernels);
}

}  // namespace
}  // namespace kiln
