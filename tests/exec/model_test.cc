// SPDX-License-Identifier: Apache-2.0
#include "kiln/model.h"

#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "exec/plan_info.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Model Make(const FakeProgram& p, int threads = 1) {
  return *Model::Create(p.Provider(), {threads});
}

// y = 3 * -(x + 2 * z), all [n].
FakeProgram Chain() {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), z = p.Input("z", {"n"}), y = p.Output("y", {"n"});
  const int a = p.Temporary({"n"}), b = p.Temporary({"n"});
  p.Kernel(kMix, {x, z}, {a}, {"n"});
  p.Kernel(kNegate, {a}, {b}, {"n"});
  p.Kernel(kScale, {b}, {y}, {"n"}, {3});
  return p;
}

TEST(Model, RunsAndReturnsOwnedOutputs) {
  Model model = Make(Chain());
  KILN_ASSERT_OK_AND_ASSIGN(auto first,
                            model.Run({{"x", Values({1, 2})}, {"z", Values({10, 20})}}));
  KILN_ASSERT_OK_AND_ASSIGN(auto second, model.Run({{"x", Values({0, 0})}, {"z", Values({0, 0})}}));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_THAT(Read(first[0]), ElementsAre(-63, -126));
  EXPECT_THAT(Read(second[0]), ElementsAre(0, 0));
}

TEST(Model, ChainInPlaceLiesInTheOutput) {
  Model model = Make(Chain());
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2, 3})));
  KILN_ASSERT_OK(context.Bind("z", Values({0, 0, 0})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(context.report().arena, 0);
  EXPECT_EQ(context.report().kernel_launches, 3);
  EXPECT_EQ(context.report().bytes_moved, (3 + 2 + 2) * 12);
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor y, context.Output("y"));
  EXPECT_THAT(Read(y), ElementsAre(-3, -6, -9));
}

TEST(Model, RunsWithZeroExtentsWithoutLaunching) {
  Model model = Make(Chain());
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Tensor::Allocate(DType::kF32, {0})));
  KILN_ASSERT_OK(context.Bind("z", Tensor::Allocate(DType::kF32, {0})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(context.report().kernel_launches, 0);
  KILN_ASSERT_OK_AND_ASSIGN(const Tensor y, context.Output("y"));
  EXPECT_THAT(y.shape(), ElementsAre(0));
}

// Operands of a launch that writes nothing are not read: where they lie does not matter.
TEST(Model, ReadsNothingForALaunchWithoutElements) {
  const FakeKernel rows = {"rows",
                           "kernel v1 math 1\ndims a b\nin 0 f32 [b] dense\n"
                           "out 0 f32 [a, b] dense = neg(in0[b])\n",
                           FailFn,
                           {}};
  FakeProgram p;
  const int x = p.Input("x", {"n", "3"}), y = p.Output("y", {"n", "3"});
  program::KernelThunk& thunk = p.Kernel(rows, {x}, {y}, {"n", "3"});
  thunk.clear_inputs();
  FakeProgram::Ref(*thunk.add_inputs(), x, {"3"});
  Model model = Make(p);
  KILN_ASSERT_OK_AND_ASSIGN(const auto got,
                            model.Run({{"x", Tensor::Allocate(DType::kF32, {0, 3})}}));
  EXPECT_THAT(got[0].shape(), ElementsAre(0, 3));
}

TEST(Model, PlansEachExtentOnceAndAsksTheProviderOnce) {
  const FakeProgram p = Chain();
  const auto provider = p.Provider();
  Model model = *Model::Create(provider, {1});
  Context context = model.NewContext();
  for (int round = 0; round < 3; ++round) {
    for (const size_t n : {size_t{1}, size_t{5}, size_t{300}}) {
      KILN_ASSERT_OK(context.Bind("x", Values(std::vector<float>(n, 1))));
      KILN_ASSERT_OK(context.Bind("z", Values(std::vector<float>(n, 1))));
      KILN_ASSERT_OK(context.Run());
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor y, context.Output("y"));
      EXPECT_EQ(Read(y), std::vector<float>(n, -9));
    }
  }
  EXPECT_EQ(provider->gets, 3);
}

TEST(Model, ForgetsTheOldestOfManyExtents) {
  const auto provider = Chain().Provider();
  Model model = *Model::Create(provider, {1});
  Context context = model.NewContext();
  const auto run = [&](size_t n) {
    KILN_EXPECT_OK(context.Bind("x", Values(std::vector<float>(n, 1))));
    KILN_EXPECT_OK(context.Bind("z", Values(std::vector<float>(n, 1))));
    KILN_EXPECT_OK(context.Run());
  };
  for (size_t n = 1; n <= 17; ++n) run(n);
  run(17);
  EXPECT_EQ(provider->gets, 17);
  run(1);
  EXPECT_EQ(provider->gets, 18);
}

TEST(Model, NamesInputDimAndBothValues) {
  Model model = Make(Chain());
  const auto run = [&](const Tensor& x, const Tensor& z) {
    return model.Run({{"x", x}, {"z", z}}).status();
  };
  EXPECT_THAT(
      run(Values({1, 2}), Values({1, 2, 3})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("input \"z\": dim 0 is 3, but n is 2 as input \"x\" has it"))));
  EXPECT_THAT(run(Values({1, 2}), Tensor::Allocate(DType::kF64, {2})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("input \"z\": type is f64, expected f32")));
  EXPECT_THAT(
      run(Values({1, 2}), Values({1, 2}, {1, 2})),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("shape is [1, 2], expected [n]")));
  EXPECT_THAT(model.Run({{"x", Values({1})}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("input \"z\": not bound")));
  EXPECT_THAT(
      model.Run({{"w", Values({1})}}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("input \"w\": the model has no such input")));
  const Tensor x = Values({1});
  EXPECT_EQ(model.Run({{"x", x}, {"z", x}, {"x", x}}).status(),
            absl::InvalidArgumentError("input \"x\": given twice"));
}

TEST(Model, SolvesDimsLinearInOneSymbol) {
  FakeProgram p;
  const int x = p.Input("x", {"2*n + 1"}), y = p.Output("y", {"2*n + 1"});
  p.Kernel(kNegate, {x}, {y}, {"2*n + 1"});
  Model model = Make(p);
  KILN_ASSERT_OK_AND_ASSIGN(const auto y5, model.Run({{"x", Values({1, 2, 3, 4, 5})}}));
  EXPECT_THAT(Read(y5[0]), ElementsAre(-1, -2, -3, -4, -5));
  EXPECT_THAT(
      model.Run({{"x", Values({1, 2})}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dim 0 is 2, expected 2*n + 1")));
}

TEST(Model, CopiesInputsThatAreNotDense) {
  FakeProgram p;
  const int x = p.Input("x", {"a", "b"}), y = p.Output("y", {"a*b"});
  p.Kernel(kNegate, {x}, {y}, {"a*b"});
  Model model = Make(p);
  const Tensor base = Values({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor transposed = Tensor::View(base.data(), DType::kF32, {3, 2}, {1, 3}, base.owner());
  KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", transposed}}));
  EXPECT_THAT(Read(out[0]), ElementsAre(-1, -4, -2, -5, -3, -6));
  const Tensor reversed = Tensor::View(static_cast<float*>(base.data()) + 5, DType::kF32, {1, 6},
                                       {1, -1}, base.owner());
  KILN_ASSERT_OK_AND_ASSIGN(const auto back, model.Run({{"x", reversed}}));
  EXPECT_THAT(Read(back[0]), ElementsAre(-6, -5, -4, -3, -2, -1));
}

TEST(Model, WritesIntoBoundOutputs) {
  Model model = Make(Chain());
  Context context = model.NewContext();
  const Tensor out = Values({0, 0});
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  KILN_ASSERT_OK(context.Bind("z", Values({1, 1})));
  KILN_ASSERT_OK(context.BindOutput("y", out));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(out), ElementsAre(-9, -12));
  KILN_ASSERT_OK(context.BindOutput("y", Values({0, 0, 0})));
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("bound memory is [3], the result [2]")));
}

TEST(Model, OutputBoundToAnInputIsRight) {
  Model model = Make(Chain());
  Context context = model.NewContext();
  const Tensor shared = Values({1, 2});
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  KILN_ASSERT_OK(context.Bind("z", shared));
  KILN_ASSERT_OK(context.BindOutput("y", shared));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(shared), ElementsAre(-9, -18));
}

TEST(Model, InputsConstantsAndTwinsCanBeOutputs) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), c = p.Constant(Values({7, 8}));
  const int t = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.OutputOf("same", {"n"}, x);
  p.OutputOf("const", {"2"}, c);
  p.OutputOf("one", {"n"}, t);
  p.OutputOf("two", {"n"}, t);
  Model model = Make(p);
  KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", Values({1, 2, 3})}}));
  EXPECT_THAT(Read(out[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(Read(out[1]), ElementsAre(7, 8));
  EXPECT_THAT(Read(out[2]), ElementsAre(-1, -2, -3));
  EXPECT_THAT(Read(out[3]), ElementsAre(-1, -2, -3));
  EXPECT_NE(out[2].data(), out[3].data());
}

TEST(Model, NeverWritesInPlaceIntoWhatIsStillNeeded) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), c = p.Constant(Values({1, 1})), y = p.Output("y", {"2"});
  const int a = p.Temporary({"2"}), b = p.Temporary({"2"}), d = p.Temporary({"2"});
  p.Kernel(kNegate, {x}, {a}, {"2"});  // x is an input
  p.Kernel(kNegate, {a}, {b}, {"2"});  // a is read again
  p.Kernel(kNegate, {c}, {d}, {"2"});  // c is a constant
  const int e = p.Temporary({"2"});
  p.Kernel(kMix, {b, a}, {e}, {"2"});
  p.Kernel(kMix, {e, d}, {y}, {"2"});
  Model model = Make(p);
  for (int round = 0; round < 2; ++round) {
    KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", Values({3, 4})}}));
    EXPECT_THAT(Read(out[0]), ElementsAre(3 - 6 - 2, 4 - 8 - 2));
  }
}

TEST(Model, ViewsAndPartsOfConcatsShareMemory) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), whole = p.Temporary({"2*n"}), y = p.Output("y", {"2*n"});
  const int left = p.Temporary({"n"}), right = p.Temporary({"n"}), head = p.Temporary({"n"});
  const int z = p.Output("z", {"n"});
  p.SubRange(left, whole, "0");
  p.SubRange(right, whole, "4*n");
  p.Kernel(kNegate, {x}, {left}, {"n"});
  p.Kernel(kScale, {x}, {right}, {"n"}, {10});
  p.View(whole, "4*n", head, {"n"});
  p.Kernel(kNegate, {head}, {z}, {"n"});
  p.Kernel(kNegate, {whole}, {y}, {"2*n"});
  Model model = Make(p);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.Output("y")), ElementsAre(1, 2, -10, -20));
  EXPECT_THAT(Read(*context.Output("z")), ElementsAre(-10, -20));
  EXPECT_EQ(context.report().arena, 0);  // all of it lies in y
  EXPECT_EQ(context.report().other_launches, 0);
}

TEST(Model, CopiesStridesAndWritesDims) {
  FakeProgram p;
  const int x = p.Input("x", {"a", "b"}), y = p.Output("y", {"b", "a"}), s = p.Output("s", {"1"});
  p.Copy(x, y, {"a", "b"}, {}, {"1", "a"});
  program::HostThunk& host = *p.region().add_thunks()->mutable_host();
  host.set_op("dims");
  host.add_dims("a*b");
  FakeProgram::Ref(*host.add_outputs(), s, {"1"});
  host.mutable_outputs(0)->set_dtype(static_cast<uint32_t>(DType::kI32));
  Model model = Make(p);
  KILN_ASSERT_OK_AND_ASSIGN(const auto out, model.Run({{"x", Values({1, 2, 3, 4, 5, 6}, {2, 3})}}));
  EXPECT_THAT(Read(out[0]), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(*static_cast<const int32_t*>(out[1].data()), 6);
}

TEST(Model, CallsTheLibraryWithPackedConstants) {
  FakeProgram p;
  const int x = p.Input("x", {"n", "2"}), w = p.Constant(Values({1, 2, 3, 4}, {2, 2})),
            y = p.Output("y", {"n", "2"});
  program::LibraryThunk& mm = p.Library("matmul");
  FakeProgram::Ref(*mm.add_inputs(), x, {"n", "2"});
  FakeProgram::Ref(*mm.add_inputs(), w, {"2", "2"});
  FakeProgram::Ref(*mm.add_outputs(), y, {"n", "2"});
  program::Attribute& trans = *mm.add_attributes();
  trans.set_name("trans_b");
  trans.add_ints(1);
  Model model = Make(p, 2);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 0, 0, 1, 1, 1}, {3, 2})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.Output("y")), ElementsAre(1, 3, 2, 4, 3, 7));
  EXPECT_EQ(context.report().library_launches, 1);
}

TEST(Model, FailingKernelNamesItsThunk) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), y = p.Output("y", {"n"});
  p.Kernel(kFail, {x}, {y}, {"n"});
  EXPECT_THAT(
      Make(p).Run({{"x", Values({1})}}),
      StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("fail_0"), HasSubstr("code 7"))));
}

// What lies in the output is of no run.
TEST(Model, AfterARunThatFailedThereIsNoOutput) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), y = p.Output("y", {"n"});
  p.Kernel(kNegate, {x}, {y}, {"n"});
  Model model = Make(p);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  KILN_ASSERT_OK(context.Run());
  KILN_ASSERT_OK(context.Output("y").status());
  auto failing = std::make_shared<KernelFunction>();
  failing->run = FailFn;
  const std::shared_ptr<KernelHandle> handle = p.variant->kernels[0][0];
  const auto good = handle->Get();
  handle->Swap(failing);
  ASSERT_FALSE(context.Run().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(context.Output("y").status()));
  handle->Swap(good);
  KILN_ASSERT_OK(context.Run());
  KILN_EXPECT_OK(context.Output("y").status());
  // Nor after one for which nothing could be made ready.
  KILN_ASSERT_OK(context.BindOutput("y", Values({1, 2, 3})));
  ASSERT_FALSE(context.Run().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(context.Output("y").status()));
}

TEST(Model, WhatWasMovedFromAnswersWithErrors) {
  Model model = Make(Chain());
  Context context = model.NewContext();
  const Context taken = std::move(context);
  const Model moved = std::move(model);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested.
  Model never;
  for (Model* const empty : {&model, &never}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(empty->Run({}).status()));
    EXPECT_TRUE(empty->inputs().empty() && empty->outputs().empty());
    EXPECT_EQ(empty->threads(), 0);
    Context none = empty->NewContext();
    EXPECT_TRUE(absl::IsFailedPrecondition(none.Run()));
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(context.Bind("x", Values({1}))));
  EXPECT_TRUE(absl::IsFailedPrecondition(context.BindOutput("y", Values({1}))));
  EXPECT_TRUE(absl::IsFailedPrecondition(context.Run()));
  EXPECT_TRUE(absl::IsFailedPrecondition(context.Output("y").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(context.Profile().status()));
  EXPECT_EQ(context.report().kernel_launches, 0);
  // NOLINTEND(bugprone-use-after-move)
}

// Where things lie is looked into once; what lies there is read each time, copies included.
TEST(Model, RunsWithoutABindingInBetweenReadWhatIsThereNow) {
  Model model = Make(Chain());
  Context context = model.NewContext();
  Tensor x = Values({1, 2}), both = Values({0, 7, 0, 7}), y = Values({0, 0});
  const Tensor z = Tensor::View(both.data(), DType::kF32, {2}, {2}, both.owner());  // every second
  KILN_ASSERT_OK(context.Bind("x", x));
  KILN_ASSERT_OK(context.Bind("z", z));
  KILN_ASSERT_OK(context.BindOutput("y", y));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(y), ElementsAre(-3, -6));
  static_cast<float*>(x.data())[0] = 5;
  static_cast<float*>(both.data())[2] = 10;
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(y), ElementsAre(-15, -66));
  Tensor other = Values({0, 0});
  KILN_ASSERT_OK(context.BindOutput("y", other));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(other), ElementsAre(-15, -66));
  KILN_ASSERT_OK(context.BindOutput("y", x));  // over an input
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(x), ElementsAre(-15, -66));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(x), ElementsAre(45, 138));
}

TEST(Model, SwappedKernelServesTheNextRun) {
  const FakeProgram p = Chain();
  Model model = Make(p);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1})));
  KILN_ASSERT_OK(context.Bind("z", Values({0})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(context.report().vm_launches, 0);
  auto better = std::make_shared<KernelFunction>();
  better->run = [](void** argv) {
    Out(argv, 3)[0] = 100;
    return 0;
  };
  better->vm = true;
  p.variant->kernels[1][0]->Swap(better);
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(context.report().vm_launches, 1);
  EXPECT_THAT(Read(*context.Output("y")), ElementsAre(300));
}

TEST(Model, ChoosesTheFirstFormWhoseBoundsHoldElseTheVm) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), y = p.Output("y", {"n"});
  p.Kernel(kNegate, {x}, {y}, {"n"});
  program::KernelDef& def = *p.proto().mutable_kernels(0);
  def.mutable_choices(0)->add_at_most(2);
  def.add_choices()->add_at_most(4);
  auto other = std::make_shared<KernelFunction>();
  other->run = FailFn;
  p.variant->kernels[0].push_back(std::make_shared<KernelHandle>(other));
  Model model = Make(p);
  KILN_EXPECT_OK(model.Run({{"x", Values({1, 2})}}));
  EXPECT_THAT(model.Run({{"x", Values({1, 2, 3})}}), StatusIs(absl::StatusCode::kInternal));
  KILN_ASSERT_OK_AND_ASSIGN(auto beyond, model.Run({{"x", Values({1, 2, 3, 4, 5})}}));
  EXPECT_THAT(Read(beyond[0]), ElementsAre(-1, -2, -3, -4, -5));
}

TEST(Model, ProfilesEveryLaunch) {
  Model model = Make(Chain());
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1})));
  KILN_ASSERT_OK(context.Bind("z", Values({1})));
  KILN_ASSERT_OK_AND_ASSIGN(const auto times, context.Profile());
  ASSERT_EQ(times.size(), 3U);
  EXPECT_EQ(times[0].kind, "kernel");
  EXPECT_EQ(times[2].name, "scale_2");
  EXPECT_GE(times[1].ms, 0);
}

TEST(Model, TellsThePlanAsText) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), c = p.Constant(Values({5, 6})), y = p.Output("y", {"n"});
  const int a = p.Temporary({"n"});
  p.Kernel(kMix, {x, c}, {a}, {"n"});
  p.Copy(a, y, {"n"});
  std::vector<std::string> texts;
  RunOptions options;
  options.threads = 1;
  options.on_plan = [&](const PlanInfo& plan) { texts.push_back(plan.text); };
  Model model = *Model::Create(p.Provider(), options);
  for (int i = 0; i < 2; ++i) KILN_ASSERT_OK(model.Run({{"x", Values({1, 2})}}));
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0],
            "input \"x\" [2]\n"
            "arena 64 bytes, lower bound 64, sum 64; constants 8 bytes; serial\n"
            "b0 input 0 \"\" 8 bytes\n"
            "b1 constant 0 \"\" 8 bytes\n"
            "b2 output 0 \"\" 8 bytes\n"
            "b3 temporary \"\" 8 bytes in the arena at 0\n"
            "0 kernel mix \"mix_0\": b0 f32[n], b1 f32[n] -> b3 f32[n]; 24 bytes\n"
            "1 copy \"copy\": b3 f32[n] -> b2 f32[n]; 16 bytes\n");
}

TEST(Model, EightCallersAtOnce) {
  Model model = Make(Chain(), 2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 100; ++i) {
        const auto n = static_cast<size_t>(1 + (caller + i) % 5);
        const auto v = static_cast<float>(caller * 1000 + i);
        const auto out = model.Run(
            {{"x", Values(std::vector<float>(n, v))}, {"z", Values(std::vector<float>(n, 1))}});
        if (!out.ok() || Read((*out)[0]) != std::vector<float>(n, -3 * (v + 2))) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Model, ContextOutlivesItsModel) {
  std::optional<Context> context;
  {
    Model model = Make(Chain());
    context.emplace(model.NewContext());
  }
  KILN_ASSERT_OK(context->Bind("x", Values({1})));
  KILN_ASSERT_OK(context->Bind("z", Values({1})));
  KILN_EXPECT_OK(context->Run());
}

TEST(Model, AbsentOptionalInputIsAbsentForTheLibrary) {
  FakeProgram p;
  const int x = p.Input("x", {"1", "1", "n"}), b = p.Input("b", {"1"}, true),
            y = p.Output("y", {"1", "1", "n"});
  program::LibraryThunk& conv = p.Library("conv");
  FakeProgram::Ref(*conv.add_inputs(), x, {"1", "1", "n"});
  FakeProgram::Ref(*conv.add_inputs(), p.Constant(Values({2}, {1, 1, 1})), {"1", "1", "1"});
  FakeProgram::Ref(*conv.add_inputs(), b, {"1"});
  FakeProgram::Ref(*conv.add_outputs(), y, {"1", "1", "n"});
  Model model = Make(p);
  KILN_ASSERT_OK_AND_ASSIGN(auto out, model.Run({{"x", Values({1, 2}, {1, 1, 2})}}));
  EXPECT_THAT(Read(out[0]), ElementsAre(2, 4));
  KILN_ASSERT_OK_AND_ASSIGN(out, model.Run({{"x", Values({1, 2}, {1, 1, 2})}, {"b", Values({5})}}));
  EXPECT_THAT(Read(out[0]), ElementsAre(7, 9));
}

// Random chains of kernels, views and parts, run with everything shared and compared with values
// computed one by one.
TEST(Model, RandomProgramsAreRight) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    FakeProgram p;
    std::vector<std::pair<int, std::vector<float>>> live;  // buffer, its value
    live.emplace_back(p.Input("x", {"n"}), std::vector<float>{1, 2, 3});
    live.emplace_back(p.Constant(Values({5, 6, 7})), std::vector<float>{5, 6, 7});
    const auto pick = [&]() -> auto& { return live[random() % live.size()]; };
    for (int step = 0; step < 12; ++step) {
      const auto a = pick(), b = pick();
      const int out = p.Temporary({"n"});
      std::vector<float> value = a.second;
      switch (random() % 4) {
        case 0:
          p.Kernel(kNegate, {a.first}, {out}, {"n"});
          for (float& v : value) v = -v;
          break;
        case 1:
          p.Kernel(kMix, {a.first, b.first}, {out}, {"n"});
          for (size_t i = 0; i < 3; ++i) value[i] = a.second[i] + 2 * b.second[i];
          break;
        case 2:
          p.View(a.first, "", out, {"n"});
          break;
        default: {
          // Two parts written in place of a whole of which the second is used on.
          const int whole = p.Temporary({"2*n"}), left = p.Temporary({"n"});
          p.SubRange(left, whole, "0");
          p.SubRange(out, whole, "4*n");
          p.Kernel(kNegate, {b.first}, {left}, {"n"});
          p.Kernel(kScale, {a.first}, {out}, {"n"}, {2});
          for (float& v : value) v = 2 * v;
          std::vector<float> negated = b.second;
          for (float& v : negated) v = -v;
          live.emplace_back(left, negated);
          break;
        }
      }
      live.emplace_back(out, value);
    }
    std::vector<std::vector<float>> want;
    for (int i = 0; i < 3; ++i) {
      const auto& [buffer, value] = pick();
      p.OutputOf(absl::StrCat("y", i), {"n"}, buffer);
      want.push_back(value);
    }
    Model model = Make(p);
    for (int again = 0; again < 2; ++again) {
      KILN_ASSERT_OK_AND_ASSIGN(const auto got, model.Run({{"x", Values({1, 2, 3})}}));
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_EQ(Read(got[i]), want[i]) << "round " << round << " output " << i;
    }
  }
}

}  // namespace
// y = x + 2 * z, and whether y lies where x does.
int WatchingMixFn(void** argv) {
  if (Out(argv, 4) == In(argv, 0)) return MixFn(argv);
  const int code = MixFn(argv);
  Out(argv, 4)[0] = -1;
  return code;
}

TEST(Model, AnOutputBoundOverAnInputIsUpdatedInPlaceWhereThatIsSafe) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), z = p.Input("z", {"n"}), y = p.Output("y", {"n"});
  FakeKernel mix = kMix;
  mix.run = WatchingMixFn;
  p.Kernel(mix, {x, z}, {y}, {"n"});
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Model::Create(p.Provider(), {.threads = 1}));
  std::vector<float> state = {1, 2, 3}, step = {1, 1, 2};
  const Tensor view = Tensor::View(state.data(), DType::kF32, {3});
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", view));
  KILN_ASSERT_OK(context.Bind("z", Tensor::View(step.data(), DType::kF32, {3})));
  KILN_ASSERT_OK(context.BindOutput("y", view));
  KILN_ASSERT_OK(context.Run());
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(state, (std::vector<float>{5, 6, 11}));
  // Memory that only begins as the input does is staged: the kernel reads what it has not written.
  std::vector<float> both = {1, 2, 3, 4};
  KILN_ASSERT_OK(context.Bind("x", Tensor::View(both.data(), DType::kF32, {3})));
  KILN_ASSERT_OK(context.BindOutput("y", Tensor::View(both.data() + 1, DType::kF32, {3})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(both, (std::vector<float>{1, -1, 4, 7}));
}

// t = -(x), which lies in y; y = x + 2 * t.
TEST(Model, AnOutputOverAnInputThatIsReadAfterItsMemoryIsWrittenIsRight) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), y = p.Output("y", {"n"}), t = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.Kernel(kMix, {x, t}, {y}, {"n"});
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Model::Create(p.Provider(), {.threads = 1}));
  std::vector<float> state = {1, 2, 3};
  const Tensor view = Tensor::View(state.data(), DType::kF32, {3});
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", view));
  KILN_ASSERT_OK(context.BindOutput("y", view));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(state, (std::vector<float>{-1, -2, -3}));
}

TEST(Model, AnUnboundOutputFedBackIsNotOverwrittenWhileItIsRead) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), y = p.Output("y", {"n"}), t = p.Temporary({"n"});
  p.Kernel(kNegate, {x}, {t}, {"n"});
  p.Kernel(kMix, {x, t}, {y}, {"n"});
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Model::Create(p.Provider(), {.threads = 1}));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  for (const float sign : {-1.0F, 1.0F, -1.0F, 1.0F}) {
    KILN_ASSERT_OK(context.Run());
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor made, context.Output("y"));
    EXPECT_EQ(Read(made), (std::vector<float>{sign, 2 * sign}));
    KILN_ASSERT_OK(context.Bind("x", made));
  }
}

}  // namespace kiln
