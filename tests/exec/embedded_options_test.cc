// SPDX-License-Identifier: Apache-2.0
// What an embedded user may ask of a model's runs: where memory lies, what is checked, what is
// seen, and what is given up.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "exec/check_plan.h"
#include "exec/sample_tiling.h"
#include "gtest/gtest.h"
#include "kiln/model.h"
#include "kiln/runtime.h"
#include "tests/base/status_matchers.h"
#include "tests/exec/fake_program.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// y = -x, and one element too many.
int WriteBeyondFn(void** argv) {
  const int32_t n = *static_cast<int32_t*>(argv[2]);
  Out(argv, 3)[n] = 7;
  return NegateFn(argv);
}
const FakeKernel kWriteBeyond = {"write_beyond", kNegate.text, WriteBeyondFn, {}};

// y = -x, and the element before it.
int WriteBeforeFn(void** argv) {
  Out(argv, 3)[-1] = 7;
  return NegateFn(argv);
}
const FakeKernel kWriteBefore = {"write_before", kNegate.text, WriteBeforeFn, {}};

// y = -x; then x = 0.
int WriteToInputFn(void** argv) {
  NegateFn(argv);
  const_cast<float*>(In(argv, 0))[0] = 0;
  return 0;
}
const FakeKernel kWriteToInput = {"write_to_input", kNegate.text, WriteToInputFn, {}};

// y = -x, and somewhere that is none of its operands.
float* elsewhere = nullptr;
int WriteElsewhereFn(void** argv) {
  if (elsewhere != nullptr) *elsewhere += 1;
  return NegateFn(argv);
}
const FakeKernel kWriteElsewhere = {"write_elsewhere", kNegate.text, WriteElsewhereFn, {}};

// y = -x, after having kept where x is.
int KeepPlaceFn(void** argv) {
  elsewhere = const_cast<float*>(In(argv, 0));
  return NegateFn(argv);
}
const FakeKernel kKeepPlace = {"keep_place", kNegate.text, KeepPlaceFn, {}};

// x -> t -> u -> y by these kernels.
FakeProgram Chain(const FakeKernel& first, const FakeKernel& second, const FakeKernel& third) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), t = p.Temporary({"n"}), u = p.Temporary({"n"});
  p.Kernel(first, {x}, {t}, {"n"});
  p.Kernel(second, {t}, {u}, {"n"});
  p.Kernel(third, {u}, {p.Output("y", {"n"})}, {"n"});
  return p;
}

// Surrounds what it gives with known bytes, and counts those that have changed when it comes back.
class CanaryAllocator : public Allocator {
 public:
  static constexpr size_t kCanary = 256;
  void* Allocate(size_t bytes, size_t alignment) override {
    auto* const memory = static_cast<uint8_t*>(std::aligned_alloc(
        alignment, (bytes + 2 * kCanary + alignment - 1) / alignment * alignment));
    std::memset(memory, 0xab, bytes + 2 * kCanary);
    ++blocks, ++made;
    largest = std::max(largest, bytes);
    return memory + kCanary;
  }
  void Free(void* memory, size_t bytes) override {
    auto* const data = static_cast<uint8_t*>(memory);
    for (size_t i = 0; i < kCanary; ++i)
      changed += (data[-static_cast<ptrdiff_t>(i) - 1] != 0xab) + (data[bytes + i] != 0xab);
    --blocks;
    std::free(data - kCanary);
  }
  int blocks = 0, made = 0, changed = 0;
  size_t largest = 0;
};

RunOptions OneThread(std::shared_ptr<Allocator> allocator = nullptr) {
  RunOptions options;
  options.threads = 1;
  options.runtime = *Runtime::Create({.threads = 1, .allocator = std::move(allocator)});
  return options;
}

absl::Status RunOnce(const FakeProgram& p, const RunOptions& options, size_t n = 10) {
  Model model = *Model::Create(p.Provider(), options);
  return model.Run({{"x", Values(std::vector<float>(n, 3))}}).status();
}

// What the allocator has seen of a run.
int BytesBeyond(const FakeProgram& p, Temporaries temporaries) {
  const auto allocator = std::make_shared<CanaryAllocator>();
  RunOptions options = OneThread(allocator);
  options.temporaries = temporaries;
  KILN_EXPECT_OK(RunOnce(p, options));
  options.runtime.reset();
  EXPECT_EQ(allocator->blocks, 0);
  return allocator->changed;
}

TEST(Allocated, TheAllocatorSeesWhatIsBeyondATemporary) {
  const FakeProgram right = Chain(kNegate, kNegate, kNegate);
  EXPECT_EQ(BytesBeyond(right, Temporaries::kAllocated), 0);
  for (const auto& [wrong, seen] : {std::pair{Chain(kWriteBeyond, kNegate, kNegate), true},
                                    {Chain(kNegate, kWriteBeyond, kNegate), true},
                                    {Chain(kNegate, kWriteBefore, kNegate), true}}) {
    EXPECT_EQ(BytesBeyond(wrong, Temporaries::kAllocated) > 0, seen);
  }
  // In an arena nobody does.
  EXPECT_EQ(BytesBeyond(Chain(kWriteBeyond, kNegate, kNegate), Temporaries::kPlanned), 0);
  EXPECT_EQ(BytesBeyond(Chain(kWriteBeyond, kNegate, kNegate), Temporaries::kSeparate), 0);
}

TEST(Allocated, EachRunHasNewMemoryAndGivesItBack) {
  const auto allocator = std::make_shared<CanaryAllocator>();
  RunOptions options = OneThread(allocator);
  options.temporaries = Temporaries::kAllocated;
  Model model = *Model::Create(Chain(kNegate, kNegate, kNegate).Provider(), options);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2, 3})));
  KILN_ASSERT_OK(context.Run());
  const int made = allocator->made, kept = allocator->blocks;
  for (int run = 1; run <= 5; ++run) {
    KILN_ASSERT_OK(context.Run());
    EXPECT_EQ(allocator->made, made + 2 * run);
    EXPECT_EQ(allocator->blocks, kept);
    EXPECT_THAT(Read(*context.Output("y")), ElementsAre(-1, -2, -3));
  }
  EXPECT_EQ(model.memory().arenas, 0);
}

// The judge knows nothing of plans: chains of kernels, views and concats of random sizes give what
// they give in one arena.
TEST(Allocated, RandomProgramsGiveTheSame) {
  std::mt19937 random(20261127);
  for (int round = 0; round < 100; ++round) {
    FakeProgram p;
    std::vector<int> made = {p.Input("x", {"n"})};
    const int count = 2 + static_cast<int>(random() % 8);
    for (int i = 0; i < count; ++i) {
      const int to = i + 1 == count ? p.Output("y", {"n"}) : p.Temporary({"n"});
      const auto pick = [&] { return made[random() % made.size()]; };
      switch (random() % 3) {
        case 0:
          p.Kernel(kNegate, {pick()}, {to}, {"n"});
          break;
        case 1:
          p.Kernel(kMix, {pick(), made.back()}, {to}, {"n"});
          break;
        default:
          p.Copy(made.back(), to, {"n"});
      }
      made.push_back(to);
    }
    const size_t n = 1 + random() % 300;
    std::vector<float> x(n);
    for (float& value : x) value = static_cast<float>(random() % 100);
    std::vector<std::vector<float>> results;
    for (const Temporaries where : {Temporaries::kPlanned, Temporaries::kAllocated}) {
      RunOptions options = OneThread();
      options.temporaries = where;
      options.check_first_run = round % 2 == 0;
      Model model = *Model::Create(p.Provider(), options);
      KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", Values(x)}}));
      results.push_back(Read(y[0]));
    }
    ASSERT_EQ(results[0], results[1]) << "round " << round;
  }
}

TEST(Outputs, FreshOnesOutliveTheNextRun) {
  for (const OutputMemory where : {OutputMemory::kReused, OutputMemory::kFresh}) {
    RunOptions options = OneThread();
    options.output_memory = where;
    Model model = *Model::Create(Chain(kNegate, kNegate, kNegate).Provider(), options);
    Context context = model.NewContext();
    std::vector<float> x = {1, 2};
    KILN_ASSERT_OK(context.Bind("x", Tensor::View(x.data(), DType::kF32, {2})));
    KILN_ASSERT_OK(context.Run());
    const Tensor first = *context.Output("y");
    x = {5, 6};
    KILN_ASSERT_OK(context.Run());
    const Tensor second = *context.Output("y");
    EXPECT_THAT(Read(second), ElementsAre(-5, -6));
    if (where == OutputMemory::kReused) {
      EXPECT_EQ(first.data(), second.data());
    } else {
      EXPECT_THAT(Read(first), ElementsAre(-1, -2));
      context = model.NewContext();  // the other one has gone
      EXPECT_THAT(Read(second), ElementsAre(-5, -6));
    }
  }
}

TEST(Outputs, ThoseThatAreToBeBoundSaySo) {
  RunOptions options = OneThread();
  options.output_memory = OutputMemory::kBound;
  FakeProgram p = Chain(kNegate, kNegate, kNegate);
  p.Kernel(kScale, {0}, {p.Output("z", {"n"})}, {"n"}, {2});
  Model model = *Model::Create(p.Provider(), options);
  EXPECT_THAT(model.Run({{"x", Values({1})}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "Model::Run: outputs are to be bound (OutputMemory::kBound), and it binds "
                       "none; run a context"));
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  const Tensor y = Values({0, 0});
  KILN_ASSERT_OK(context.BindOutput("y", y));
  EXPECT_THAT(context.Run(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "output \"z\": it is not bound, and the model has no memory for outputs "
                       "(OutputMemory::kBound); bind memory, or leave it out of SetOutputs"));
  KILN_ASSERT_OK(context.SetOutputs({"y"}));
  KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(y), ElementsAre(-1, -2));
  EXPECT_EQ(model.memory().outputs, 0);
}

absl::Status Checked(const FakeProgram& p, size_t n = 10) {
  RunOptions options = OneThread();
  options.check_first_run = true;
  elsewhere = nullptr;
  return RunOnce(p, options, n);
}

TEST(CheckFirstRun, NamesTheLaunchThatWritesBeyond) {
  KILN_EXPECT_OK(Checked(Chain(kNegate, kNegate, kNegate)));
  EXPECT_THAT(
      Checked(Chain(kNegate, kWriteBeyond, kNegate)),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("check_first_run: thunk 1 \"write_beyond_1\" (kernel) writes "
                               "beyond its operands: byte 0 after buffer 2"))));
  EXPECT_THAT(Checked(Chain(kNegate, kNegate, kWriteBeyond)),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("writes beyond its operands: byte 0 after output \"y\"")));
  EXPECT_THAT(
      Checked(Chain(kWriteBefore, kNegate, kNegate)),
      StatusIs(absl::StatusCode::kInternal,
               HasSubstr("thunk 0 \"write_before_0\" (kernel) writes beyond its operands")));
}

TEST(CheckFirstRun, NamesTheLaunchThatWritesToItsInput) {
  const FakeProgram wrong = Chain(kNegate, kWriteToInput, kNegate);
  EXPECT_THAT(Checked(wrong), StatusIs(absl::StatusCode::kInternal,
                                       HasSubstr("thunk 1 \"write_to_input_1\" (kernel) writes to "
                                                 "its input 0, buffer 1")));
  // Of the caller's input it is the copy that is written to.
  RunOptions options = OneThread();
  options.check_first_run = true;
  const Tensor x = Values({1, 2});
  Model model = *Model::Create(Chain(kWriteToInput, kNegate, kNegate).Provider(), options);
  for (int run = 0; run < 2; ++run) {  // a plan with a fault never runs
    EXPECT_THAT(model.Run({{"x", x}}), StatusIs(absl::StatusCode::kInternal));
    EXPECT_THAT(Read(x), ElementsAre(1, 2));
  }
}

TEST(CheckFirstRun, NamesTheLaunchThatWritesToConstants) {
  FakeProgram p;
  const int x = p.Input("x", {"n"}), w = p.Constant(Values({1, 2, 3})), t = p.Temporary({"3"});
  p.Kernel(kWriteToInput, {w}, {t}, {"3"});
  p.Kernel(kMix, {x, t}, {p.Output("y", {"n"})}, {"n"});
  EXPECT_THAT(Checked(p, 3),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("writes to its input 0, buffer 1")));
}

// A write into another buffer far away is found when that is read, or at the end; then everything
// is compared after each launch.
TEST(CheckFirstRun, FindsWhoWritesIntoABufferFarAway) {
  for (const bool read_later : {false, true}) {
    FakeProgram p;
    const int x = p.Input("x", {"n"}), t = p.Temporary({"n"}), u = p.Temporary({"n"}),
              v = p.Temporary({"n"});
    p.Kernel(kNegate, {x}, {t}, {"n"});
    p.Kernel(kKeepPlace, {t}, {u}, {"n"});
    p.Kernel(kWriteElsewhere, {u}, {v}, {"n"});
    p.Kernel(kNegate, {v}, {p.Output("y", {"n"})}, {"n"});
    if (read_later) p.Kernel(kNegate, {t}, {p.Output("z", {"n"})}, {"n"});
    EXPECT_THAT(Checked(p), StatusIs(absl::StatusCode::kInternal,
                                     HasSubstr("thunk 2 \"write_elsewhere_2\" (kernel) writes "
                                               "beyond its operands: byte 2 of buffer 1")));
  }
}

TEST(CheckFirstRun, IsDoneOncePerPlanAndCostsNothingAfter) {
  const auto allocator = std::make_shared<CanaryAllocator>();
  RunOptions options = OneThread(allocator);
  options.check_first_run = true;
  int launches = 0;
  Model model = *Model::Create(Chain(kNegate, kNegate, kNegate).Provider(), options);
  Context one = model.NewContext(), two = model.NewContext();
  for (Context* context : {&one, &two}) {
    KILN_ASSERT_OK(context->Bind("x", Values({1, 2})));
    const int before = allocator->made;
    KILN_ASSERT_OK(context->Run());
    launches = allocator->made - before;
  }
  EXPECT_LE(launches, 2);  // the second context: its arena and its output
  const int made = allocator->made;
  for (int run = 0; run < 3; ++run) KILN_ASSERT_OK(one.Run());
  EXPECT_EQ(allocator->made, made);
  EXPECT_THAT(Read(*one.Output("y")), ElementsAre(-1, -2));
}

struct Seen {
  std::string kind, name;
  std::vector<std::vector<float>> inputs, outputs;
};

TEST(OnThunk, SeesEveryLaunchWithItsOperands) {
  std::vector<Seen> seen;
  std::vector<int64_t> strides;
  RunOptions options = OneThread();
  options.temporaries = Temporaries::kSeparate;
  options.on_thunk = [&](const ThunkView& thunk) {
    Seen& one = seen.emplace_back(Seen{thunk.kind, thunk.name, {}, {}});
    for (const Tensor& input : thunk.inputs) one.inputs.push_back(Read(input.Clone()));
    for (const Tensor& output : thunk.outputs) one.outputs.push_back(Read(output.Clone()));
    strides = thunk.outputs[0].strides();
    return absl::OkStatus();
  };
  FakeProgram q;
  const int in = q.Input("x", {"n"}), mid = q.Temporary({"n"});
  q.Kernel(kNegate, {in}, {mid}, {"n"});
  q.Copy(mid, q.Output("y", {"n", "1"}), {"1", "n"}, {"n", "1"}, {"1", "1"});
  Model model = *Model::Create(q.Provider(), options);
  KILN_ASSERT_OK(model.Run({{"x", Values({1, 2})}}).status());
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].kind, "kernel");
  EXPECT_EQ(seen[0].name, "negate_0");
  EXPECT_THAT(seen[0].inputs, ElementsAre(ElementsAre(1, 2)));
  EXPECT_THAT(seen[0].outputs, ElementsAre(ElementsAre(-1, -2)));
  EXPECT_EQ(seen[1].kind, "copy");
  EXPECT_THAT(strides, ElementsAre(1, 1));
}

TEST(OnThunk, AnErrorEndsTheRun) {
  int calls = 0;
  RunOptions options = OneThread();
  options.on_thunk = [&](const ThunkView&) {
    return ++calls == 2 ? absl::AbortedError("enough") : absl::OkStatus();
  };
  Model model = *Model::Create(Chain(kNegate, kNegate, kNegate).Provider(), options);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kAborted, "enough"));
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(context.Output("y"), StatusIs(absl::StatusCode::kFailedPrecondition));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(calls, 5);
}

// A matmul of these factors.
absl::StatusOr<SampleCut> CutOfProduct(std::vector<int64_t> a, std::vector<int64_t> a_strides,
                                       std::vector<int64_t> b, std::vector<int64_t> y,
                                       const library::Attributes& attributes = {}) {
  CheckedProgram program;
  program.buffers.resize(1);
  CheckedThunk thunk;
  thunk.kind = CheckedThunk::Kind::kLibrary;
  thunk.op = library::Find("matmul");
  thunk.attributes = attributes;
  const auto ref = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    ResolvedRef made;
    made.buffer = 0;
    made.elements = 1;
    for (const int64_t extent : shape) made.elements *= extent;
    made.strides = strides.empty() ? DenseStrides(shape) : std::move(strides);
    made.shape = std::move(shape);
    return made;
  };
  Operands operands;
  operands.inputs = {ref(std::move(a), std::move(a_strides)), ref(std::move(b), {})};
  operands.outputs = {ref(std::move(y), {})};
  return CutIntoSamples(program, thunk, operands);
}

TEST(SampleTiling, CutsFactorsThatHaveTheBatch) {
  const auto cut = [](const absl::StatusOr<SampleCut>& made) { return made->cut; };
  // Rows, batches of the left factor alone, of both, and of a right one that is broadcast.
  EXPECT_THAT(cut(CutOfProduct({4, 8}, {}, {8, 5}, {4, 5})), ElementsAre(true, false, true));
  EXPECT_THAT(cut(CutOfProduct({4, 3, 8}, {}, {8, 5}, {4, 3, 5})), ElementsAre(true, false, true));
  EXPECT_THAT(cut(CutOfProduct({4, 3, 8}, {}, {4, 8, 5}, {4, 3, 5})),
              ElementsAre(true, true, true));
  EXPECT_THAT(cut(CutOfProduct({4, 3, 8}, {}, {1, 8, 5}, {4, 3, 5})),
              ElementsAre(true, false, true));
  EXPECT_THAT(cut(CutOfProduct({3, 8}, {}, {4, 8, 5}, {4, 3, 5})), ElementsAre(false, true, true));
  EXPECT_EQ(CutOfProduct({8}, {}, {8, 5}, {5})->samples, 0);
}

TEST(SampleTiling, RefusesWhatHasNoSamplesToCut) {
  EXPECT_THAT(CutOfProduct({4, 3, 8}, {8, 32, 1}, {8, 5}, {4, 3, 5}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "batch_invariant: the samples of input 0 lie among each other in memory, so "
                       "that how they are read depends on the batch; run without it, or a batch of "
                       "1"));
  EXPECT_THAT(CutOfProduct({8, 4}, {}, {8, 5}, {4, 5}, {{"trans_a", {1}}}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "batch_invariant: the left factor is transposed, so that samples are its "
                       "columns; run without it, or a batch of 1"));
}

TEST(RecordLevel, OneKeepsTheShapesOfTheFirstRun) {
  RunOptions options = OneThread();
  options.record_level = 1;
  Model model = *Model::Create(Chain(kNegate, kNegate, kNegate).Provider(), options);
  KILN_ASSERT_OK(model.Run({{"x", Values({1, 2})}}).status());
  EXPECT_THAT(model.Run({{"x", Values({1, 2, 3})}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "input \"x\": shape is [3]; the first run had [2], which record_level 1 "
                       "keeps; give that, or make a model with record_level 0"));
  KILN_ASSERT_OK_AND_ASSIGN(const auto y, model.Run({{"x", Values({4, 5})}}));
  EXPECT_THAT(Read(y[0]), ElementsAre(-4, -5));
  options.record_level = 3;
  EXPECT_THAT(
      Model::Create(Chain(kNegate, kNegate, kNegate).Provider(), options),
      StatusIs(absl::StatusCode::kInvalidArgument, "record_level: is 3, expected 0, 1 or 2"));
  options.record_level = 0;
  options.workspace_limit = -1;
  EXPECT_THAT(Model::Create(Chain(kNegate, kNegate, kNegate).Provider(), options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "workspace_limit: is -1 bytes, expected 0 (no limit) or more"));
}

TEST(RecordLevel, TwoGivesUpTheProvider) {
  RunOptions options = OneThread();
  options.record_level = 2;
  FakeProgram p = Chain(kNegate, kNegate, kNegate);
  p.Kernel(kScale, {0}, {p.Output("z", {"n"})}, {"n"}, {2});
  auto provider = p.Provider();
  const std::weak_ptr<FakeProvider> alive = provider;
  Model model = *Model::Create(std::move(provider), options);
  KILN_ASSERT_OK(model.Prepare({{"x", {2}}}));
  EXPECT_FALSE(alive.expired());  // until a run goes well
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.Bind("x", Values({1, 2})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_TRUE(alive.expired());
  for (int run = 0; run < 2; ++run) KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Read(*context.Output("z")), ElementsAre(2, 4));
  KILN_ASSERT_OK(model.Run({{"x", Values({1, 2})}}).status());
  EXPECT_EQ(model.inputs()[0].name, "x");
  EXPECT_THAT(model.Run({{"x", Values({1, 2, 3})}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("shape is [3]; the first run had [2]")));
  KILN_ASSERT_OK(context.SetOutputs({"z"}));
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("record_level 2: other outputs")));
}

TEST(RecordLevel, TwoLeavesAloneWhatOthersUse) {
  RunOptions options = OneThread();
  const auto provider = Chain(kNegate, kNegate, kNegate).Provider();
  Model other = *Model::Create(provider, options);
  options.record_level = 2;
  Model model = *Model::Create(provider, options);
  KILN_ASSERT_OK(model.Run({{"x", Values({1, 2})}}).status());
  for (const size_t n : {size_t{1}, size_t{2}, size_t{3}})
    KILN_ASSERT_OK(other.Run({{"x", Values(std::vector<float>(n, 1))}}).status());
}

}  // namespace
}  // namespace kiln
