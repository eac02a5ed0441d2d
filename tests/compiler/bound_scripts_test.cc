// SPDX-License-Identifier: Apache-2.0
// Scripts whose results are other values' memory: inputs that branches and loops hand on, one value
// under two names, constants.
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "exec/binding.h"
#include "gmock/gmock.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<Model> CompileText(const std::string& text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return graph.status();
  return Compile(*std::move(graph), OnVm());
}

// Carries a and b, and changes their places each iteration; outputs under two names.
constexpr char kSwap[] = R"(graph g
input m : i64 []
input x : f32 [2]
input y : f32 [2]
body b
input i : i64 []
input go : bool []
input s : f32 [2]
input t : f32 [2]
output go
output s0 = t
output t0 = s
end
p, q = loop(m, _, x, y) {body = b, carried = 2, extents = [2, 2]}
output p
output q
output again = p
output kept = x
)";

TEST(BoundScripts, StatesThatChangePlacesAreRightOverEachOther) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, CompileText(kSwap));
  for (const double iterations : {0.0, 1.0, 2.0, 3.0}) {
    const Tensor x = F32({2}, {1, 2}), y = F32({2}, {3, 4});
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.Bind("m", I64({}, {iterations})));
    KILN_ASSERT_OK(context.Bind("x", x));
    KILN_ASSERT_OK(context.Bind("y", y));
    KILN_ASSERT_OK(context.BindOutput("p", y));
    KILN_ASSERT_OK(context.BindOutput("q", x));
    KILN_ASSERT_OK(context.Run());
    const bool swapped = iterations == 1 || iterations == 3;
    EXPECT_THAT(Values(y), swapped ? ElementsAre(3, 4) : ElementsAre(1, 2)) << iterations;
    EXPECT_THAT(Values(x), swapped ? ElementsAre(1, 2) : ElementsAre(3, 4)) << iterations;
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor kept, context.Output("kept"));
    EXPECT_THAT(Values(kept), ElementsAre(1, 2)) << iterations;
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor again, context.Output("again"));
    EXPECT_THAT(Values(again), swapped ? ElementsAre(3, 4) : ElementsAre(1, 2)) << iterations;
  }
}

// One that is written leaves the others as they are, and all may be bound for the next run.
TEST(BoundScripts, OutputsOfTheContextsOwnLieApart) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, CompileText(kSwap));
  for (const double iterations : {0.0, 1.0}) {
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.Bind("m", I64({}, {iterations})));
    KILN_ASSERT_OK(context.Bind("x", F32({2}, {1, 2})));
    KILN_ASSERT_OK(context.Bind("y", F32({2}, {3, 4})));
    KILN_ASSERT_OK(context.Run());
    std::vector<Tensor> outputs;
    for (const PortInfo& port : model.outputs()) {
      KILN_ASSERT_OK_AND_ASSIGN(outputs.emplace_back(), context.Output(port.name));
      for (size_t k = 0; k + 1 < outputs.size(); ++k)
        EXPECT_FALSE(Overlap(outputs[k], outputs.back())) << port.name << " and " << k;
    }
    for (size_t k = 0; k < outputs.size(); ++k)
      KILN_ASSERT_OK(context.BindOutput(model.outputs()[k].name, outputs[k]));
    KILN_EXPECT_OK(context.Run());
  }
}

TEST(BoundScripts, OwnedOutputsAreNoTwins) {
  KILN_ASSERT_OK_AND_ASSIGN(Model model, CompileText(kSwap));
  KILN_ASSERT_OK_AND_ASSIGN(
      const std::vector<Tensor> got,
      model.Run({{"m", I64({}, {1})}, {"x", F32({2}, {1, 2})}, {"y", F32({2}, {3, 4})}}));
  ASSERT_EQ(got.size(), 4u);
  static_cast<float*>(got[0].data())[0] = 9;
  EXPECT_THAT(Values(got[2]), ElementsAre(3, 4));
}

}  // namespace
}  // namespace kiln
