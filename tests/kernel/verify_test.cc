// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel/kernel.h"
#include "kernel/text.h"

namespace kiln {
namespace {

using ::testing::HasSubstr;

Kernel RowSum() {
  return *ParseKernel(
      "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\npar 0 f32\n"
      "s0 : f32 [a] = reduce add over b (in0[a, b])\nout 0 f32 [a] dense = mul(s0[a], par0)\n");
}

std::string Error(const Kernel& kernel) { return std::string(Verify(kernel).message()); }

std::string OutputError(const std::string& expr, const std::string& type = "f32") {
  const auto kernel = ParseKernel(
      "kernel v1 math 1\ndims a b\nin 0 f32 [a, b] dense\nin 1 i32 [a] dense\npar 0 f32\npar 1 "
      "f64\n"
      "s0 : f32 [a] = reduce add over b (in0[a, b])\nout 0 " +
      type + " [a] dense = " + expr + "\n");
  return kernel.ok() ? "" : std::string(kernel.status().message());
}

TEST(KernelVerify, AcceptsTheRowSum) { EXPECT_EQ(Error(RowSum()), ""); }

TEST(KernelVerify, NamesTheLineAndBothTypes) {
  EXPECT_THAT(OutputError("add(par0, par1)"),
              HasSubstr("out 0: \"add\" gives f32 from f32, f64; insert a cast"));
  EXPECT_THAT(OutputError("select(par0, par0, par0)"),
              HasSubstr("\"select\" gives f32 from f32, f32, f32"));
  EXPECT_THAT(OutputError("in1[a]"), HasSubstr("out 0: is f32, its expression i32; insert a cast"));
  EXPECT_THAT(OutputError("roundto<f64>(par0)"), HasSubstr("roundto"));
  EXPECT_THAT(OutputError("sqrt(in1[a])", "i32"), HasSubstr("sqrt"));
  EXPECT_THAT(OutputError("mod(par0, par0)"), HasSubstr("mod"));
}

TEST(KernelVerify, RefusesCoordinatesThatAreNotIteratedThere) {
  EXPECT_THAT(OutputError("in0[a, b]"),
              HasSubstr("uses coordinate \"b\", which is not iterated here"));
  EXPECT_THAT(OutputError("cast<f32>(index(b))"), HasSubstr("index(b) is not iterated here"));
  EXPECT_EQ(OutputError("cast<f32>(extent(b))"), "");
  EXPECT_EQ(OutputError("in0[a, |b|-1]"), "");
}

TEST(KernelVerify, RefusesReadsWithWrongRankOrLoads) {
  EXPECT_THAT(OutputError("in0[a]"), HasSubstr("with 1 indices, it has 2 axes"));
  EXPECT_THAT(OutputError("in0[[par0], 0]"), HasSubstr("no earlier integer node"));
  EXPECT_EQ(OutputError("in0[[in1[a]], 0]"), "");
}

TEST(KernelVerify, RefusesSumsAtPlacesThatAreNone) {
  const auto error = [](const std::string& outputs) {
    const auto kernel = ParseKernel(
        "kernel v1 math 1\ndims a b\nsizes n\nin 0 f32 [a, b] dense\nin 1 i32 [a] dense\n" +
        outputs);
    return kernel.ok() ? "" : std::string(kernel.status().message());
  };
  EXPECT_EQ(error("out 0 f32 [n, b] dense = add_at[[in1[a]], b](in0[a, b])\n"), "");
  const auto adds = HasSubstr("adds numbers of 32 or 64 bits to a dense output of their type");
  for (const char* const wrong : {"out 0 f32 [n, b] rows = add_at[[in1[a]], b](in0[a, b])\n",
                                  "out 0 f32 [n, b] dense = add_at[[in1[a]], a](in0[a, b])\n",
                                  "out 0 f32 [n, b] dense = add_at[0, b](in0[a, b])\n",
                                  "out 0 f32 [n, b] dense = add_at[[in1[a]]](in0[a, b])\n",
                                  "out 0 f32 [b] dense = add_at[b](in0[a, b])\n",
                                  "out 0 f16 [n, b] dense = add_at[[in1[a]], b](in0[a, b])\n"})
    EXPECT_THAT(error(wrong), adds) << wrong;
  const auto only = HasSubstr("\"add_at\" is only the root of a kernel's only output");
  EXPECT_THAT(error("out 0 f32 [n] dense = add_at[[in1[a]]](in0[a, b])\n"
                    "out 1 f32 [a, b] dense = in0[a, b]\n"),
              only);
  EXPECT_THAT(error("s0 : f32 [a, b] = add_at[[in1[a]], b](in0[a, b])\n"
                    "out 0 f32 [a, b] dense = s0[a, b]\n"),
              only);
  EXPECT_THAT(error("out 0 f32 [n, b] dense = in0[a, b]\n"), HasSubstr("iterated dims"));
}

TEST(KernelVerify, RefusesForwardAndMissingReferences) {
  Kernel kernel = RowSum();
  kernel.stages.push_back(kernel.stages[0]);
  kernel.stages[0].expr = ScalarExpr();
  kernel.stages[0].expr.set_root(
      Read(kernel.stages[0].expr, DType::kF32, ReadSource::kStage, 1, {IndexExpr::Dim(0)}).id);
  EXPECT_THAT(Error(kernel), HasSubstr("s0: reads s1, but only 0 stages come before it"));
  kernel = RowSum();
  kernel.params.clear();
  EXPECT_THAT(Error(kernel), HasSubstr("par0 of type f32 does not exist"));
}

TEST(KernelVerify, RefusesDimsOutOfOrderOrTwice) {
  Kernel kernel = RowSum();
  kernel.stages[0].dims = {1};
  EXPECT_THAT(Error(kernel), HasSubstr("reduced dim is a dim of the result"));
  kernel = RowSum();
  kernel.outputs[0].dims = {0, 0};
  EXPECT_THAT(Error(kernel), HasSubstr("out 0: dims are not distinct"));
  kernel = RowSum();
  kernel.inputs[0].dims = {0, 9};
  EXPECT_THAT(Error(kernel), HasSubstr("in 0: dims are not distinct known dims"));
  kernel = RowSum();
  kernel.dims[0].iterated = false;
  EXPECT_THAT(Error(kernel), HasSubstr("stands after a size"));
  kernel = RowSum();
  kernel.dims[1].name = "a";
  EXPECT_THAT(Error(kernel), HasSubstr("\"a\" is no identifier or is taken"));
}

TEST(KernelVerify, RefusesDamagedNodes) {
  Kernel kernel = RowSum();
  ExprNode bad;
  bad.op = ScalarOp::kAdd;
  bad.args[0] = 0;
  bad.args[1] = 99;
  kernel.outputs[0].expr.set_root(kernel.outputs[0].expr.Add(bad));
  EXPECT_THAT(Error(kernel), HasSubstr("does not take operands as given"));
  kernel = RowSum();
  kernel.outputs[0].expr = ScalarExpr();
  EXPECT_THAT(Error(kernel), HasSubstr("out 0: has no expression"));
  kernel = RowSum();
  kernel.outputs.clear();
  EXPECT_THAT(Error(kernel), HasSubstr("has no output"));
  kernel = RowSum();
  kernel.math = 2;
  EXPECT_THAT(Error(kernel), HasSubstr("math version 2, this build has 1"));
}

TEST(ScalarExpr, StoresEqualNodesOnceAlsoWhenThereAreMany) {
  ScalarExpr expr;
  std::vector<ExprId> ids;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) {
      const Ex x = Literal(expr, DType::kI32, i) + Literal(expr, DType::kI32, i / 2);
      if (round == 0) ids.push_back(x.id);
      EXPECT_EQ(x.id, ids[static_cast<size_t>(i)]);
    }
  }
  EXPECT_EQ(expr.nodes().size(), 2000u);
  expr.set_root(ids[999]);
  expr.Prune();
  EXPECT_EQ(expr.nodes().size(), 3u);
  EXPECT_EQ((Literal(expr, DType::kI32, 999) + Literal(expr, DType::kI32, 499)).id, expr.root());
}

TEST(ScalarExpr, KeepsOnePatternPerConstant) {
  ScalarExpr expr;
  EXPECT_EQ(LiteralBits(expr, DType::kF32, 0x7fc12345u).id,
            LiteralBits(expr, DType::kF32, 0xff800001u).id);
  EXPECT_EQ(LiteralBits(expr, DType::kI8, 0xff).id, LiteralBits(expr, DType::kI8, ~uint64_t{0}).id);
  EXPECT_NE(Literal(expr, DType::kF32, 0.0).id, Literal(expr, DType::kF32, -0.0).id);
  EXPECT_EQ(ConstValue(DType::kI8, ConstBits(DType::kI8, -3.7)), -3.0);
  EXPECT_EQ(ConstValue(DType::kF32, ConstBits(DType::kF32, 0.1)), static_cast<double>(0.1f));
}

}  // namespace
}  // namespace kiln
