// SPDX-License-Identifier: Apache-2.0
// Options of an embedded user on models that are compiled: launches of loops that are watched,
// memory of outputs of scripts, shapes that are constant, plans that are given up, and kernels that
// preprocess.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/compile.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor Floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  Tensor t = Tensor::Allocate(DType::kF32, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<float*>(t.data()));
  return t;
}
Tensor Turns(int64_t turns) { return FilledTensor(DType::kI64, {}, static_cast<double>(turns)); }

constexpr char kLoop[] = R"(graph g
input m : i64 []
input s : f32 [n]
body b
input i : i64 []
input c : bool []
input s : f32 [n]
d : f32 [n] = add(s, s)
output c
output d
end
last = loop(m, _, s) {body = b, carried = 1, extents = [n]}
z : f32 [n] = neg(last)
output z
)";

TEST(OnThunk, SeesTheLaunchesOfEachIteration) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kLoop));
  CompileOptions options = OnVm();
  std::vector<double> first;  // elements of what is written
  options.on_thunk = [&](const ThunkView& thunk) {
    for (const Tensor& output : thunk.outputs)
      if (output.dtype() == DType::kF32) first.push_back(ReadFloat(output, 0));
    return first.size() > 20 ? absl::AbortedError("too many") : absl::OkStatus();
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  KILN_ASSERT_OK(model.Run({{"m", Turns(3)}, {"s", Floats({2}, {1, 5})}}).status());
  EXPECT_THAT(first, ElementsAre(2, 4, 8, -8));
  first.clear();
  EXPECT_THAT(model.Run({{"m", Turns(50)}, {"s", Floats({2}, {1, 5})}}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("too many")));
  EXPECT_EQ(first.size(), 21U);
}

TEST(OnThunk, SeesStepsOfTheHost) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(R"(graph g
input x : f32 [n]
k : i64 [1, m] = nonzero(x) {extents = [1, m]}
output k
)"));
  CompileOptions options = OnVm();
  std::vector<std::string> kinds;
  options.on_thunk = [&](const ThunkView& thunk) {
    kinds.emplace_back(thunk.kind);
    return absl::OkStatus();
  };
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  KILN_ASSERT_OK(model.Run({{"x", Floats({3}, {1, 0, 5})}}).status());
  EXPECT_THAT(kinds, testing::Contains("host"));
}

TEST(Outputs, OfScriptsLieWhereTheyAreWanted) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kLoop));
  CompileOptions options = OnVm();
  options.output_memory = OutputMemory::kFresh;
  KILN_ASSERT_OK_AND_ASSIGN(Model fresh, Compile(graph, options));
  Context context = fresh.NewContext();
  KILN_ASSERT_OK(context.Bind("m", Turns(1)));
  KILN_ASSERT_OK(context.Bind("s", Floats({1}, {3})));
  KILN_ASSERT_OK(context.Run());
  const Tensor first = *context.Output("z");
  KILN_ASSERT_OK(context.Bind("s", Floats({1}, {4})));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(ReadFloat(first, 0), -6);
  EXPECT_EQ(ReadFloat(*context.Output("z"), 0), -8);

  options.output_memory = OutputMemory::kBound;
  KILN_ASSERT_OK_AND_ASSIGN(Model bound, Compile(graph, options));
  context = bound.NewContext();
  KILN_ASSERT_OK(context.Bind("m", Turns(1)));
  KILN_ASSERT_OK(context.Bind("s", Floats({1}, {3})));
  EXPECT_THAT(context.Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("output \"z\": it is not bound")));
  const Tensor z = Floats({1}, {0});
  KILN_ASSERT_OK(context.BindOutput("z", z));
  KILN_ASSERT_OK(context.Run());
  EXPECT_EQ(ReadFloat(z, 0), -6);
}

TEST(CheckFirstRun, FindsNoFaultWithTheParts) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kLoop));
  CompileOptions options = OnVm();
  options.check_first_run = true;
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  KILN_ASSERT_OK_AND_ASSIGN(const auto z, model.Run({{"m", Turns(3)}, {"s", Floats({2}, {1, 5})}}));
  EXPECT_EQ(ReadFloat(z[0], 1), -40);
}

constexpr char kShapes[] = R"(graph g
input x : f32 [n, h]
input y : f32 [n, 4]
s : f32 [n, 1] = reduce_sum(x) {axes = [1], keepdims = 1}
z : f32 [n, 4] = add(s, y)
output z
)";

TEST(ConstShapes, AreNumbersBeforeAllPasses) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kShapes));
  CompileOptions options = OnVm();
  std::string imported;
  options.dump = [&](const std::string& stage, const std::string& name, const std::string& text) {
    if (stage == "graph" && name == "imported") imported = text;
  };
  options.const_shapes = {{"x", {2, 3}}};
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
  EXPECT_THAT(imported, HasSubstr("input x : f32 [2, 3]"));
  EXPECT_THAT(imported, HasSubstr("input y : f32 [2, 4]"));
  EXPECT_THAT(imported, Not(HasSubstr("[n")));
  EXPECT_EQ(model.inputs()[1].shape, (Shape{2, 4}));
  EXPECT_EQ(model.outputs()[0].shape, (Shape{2, 4}));
  const std::vector<Tensor> inputs = {Floats({2, 3}, {1, 2, 3, 4, 5, 6}),
                                      Floats({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7})};
  KILN_ASSERT_OK_AND_ASSIGN(const auto want, Interpret(graph, inputs));
  KILN_ASSERT_OK_AND_ASSIGN(const auto got, model.Run({{"x", inputs[0]}, {"y", inputs[1]}}));
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(ReadFloat(got[0], i), ReadFloat(want[0], i));
  EXPECT_THAT(model.Run({{"x", Floats({1, 3}, {1, 2, 3})}, {"y", inputs[1]}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("input \"x\": dim 0 is 1, expected 2")));
}

TEST(ConstShapes, SayWhatIsWrong) {
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, ParseGraph(kShapes));
  const auto failure = [&](NamedShapes shapes) {
    CompileOptions options = OnVm();
    options.const_shapes = std::move(shapes);
    const absl::Status status = Compile(graph, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(failure({{"q", {1}}}),
            "const_shapes: the model has no input \"q\"; it has \"x\", \"y\"");
  EXPECT_EQ(failure({{"x", {1, 2, 3}}}),
            "const_shapes: input \"x\": [1, 2, 3] has rank 3, the model's [n, h] has 2; give all "
            "extents");
  EXPECT_EQ(failure({{"y", {1, 5}}}),
            "const_shapes: input \"y\": dim 1 is 5, the model's is 4; give one of [n, 4]");
  EXPECT_EQ(failure({{"x", {1, 2}}, {"x", {1, 2}}}), "const_shapes: input \"x\" is named twice");
  EXPECT_EQ(failure({{"x", {1, 2}}, {"y", {2, 4}}}),
            "const_shapes: input \"y\": dim 0 (n) is 2, and 1 elsewhere; give shapes that go "
            "together");
}

// What an app does before a network of images: bytes with the channels last become floats with the
// channels first, less the mean, scaled, with a channel of zeros. `shuffle`: where the dims are
// shuffled.
enum class Shuffle : uint8_t { kFirst, kLast, kNever };
std::string Preprocess(Shuffle shuffle) {
  const std::string channels = shuffle == Shuffle::kLast ? "[3]" : "[3, 1, 1]";
  return absl::StrCat(
      "graph preprocess\ninput x : u8 ",
      shuffle == Shuffle::kNever ? "[n, 3, 32, 48]" : "[n, 32, 48, 3]", "\nconst mean : f32 ",
      channels, " = [123.7, 116.3, 103.5]\nconst scale : f32 ", channels,
      " = [0.017, 0.0175, 0.0174]\n",
      shuffle == Shuffle::kFirst ? "t = transpose(x) {perm = [0, 3, 1, 2]}\n" : "", "f = cast(",
      shuffle == Shuffle::kFirst ? "t" : "x", ") {to = f32}\nd = sub(f, mean)\n",
      "s = mul(d, scale)\n",
      shuffle == Shuffle::kLast ? "m = transpose(s) {perm = [0, 3, 1, 2]}\n" : "", "y = pad(",
      shuffle == Shuffle::kLast ? "m" : "s", ") {pads = [0, 0, 0, 0, 0, 1, 0, 0]}\noutput y\n");
}

// Launches of a run that gives what the interpreter does; all are kernels.
int KernelsOf(Shuffle shuffle, const CompileOptions& options) {
  const absl::StatusOr<Graph> graph = ParseGraph(Preprocess(shuffle));
  KILN_EXPECT_OK(graph.status());
  absl::StatusOr<Model> model = Compile(*graph, options);
  KILN_EXPECT_OK(model.status());
  Tensor x = shuffle == Shuffle::kNever ? Tensor::Allocate(DType::kU8, {2, 3, 32, 48})
                                        : Tensor::Allocate(DType::kU8, {2, 32, 48, 3});
  for (int64_t i = 0; i < x.num_elements(); ++i) WriteInt(x, i, i * 7 % 256);
  Context context = model->NewContext();
  KILN_EXPECT_OK(context.Bind("x", x));
  KILN_EXPECT_OK(context.Run());
  const absl::StatusOr<std::vector<Tensor>> want = Interpret(*graph, {&x, 1});
  KILN_EXPECT_OK(want.status());
  const Tensor y = *context.Output("y");
  EXPECT_EQ(y.shape(), (std::vector<int64_t>{2, 4, 32, 48}));
  int64_t far = 0;
  for (int64_t i = 0; i < y.num_elements(); ++i)
    far += std::abs(ReadFloat(y, i) - ReadFloat((*want)[0], i)) > 1e-6 ? 1 : 0;
  EXPECT_EQ(far, 0);
  EXPECT_EQ(context.report().library_launches + context.report().other_launches, 0);
  return context.report().kernel_launches;
}

// A transposition of bytes alone costs less than loads that are far apart in a kernel that pads:
// the price keeps it apart. It is one kernel where somebody asks for that.
TEST(FusePreprocess, IsOneKernelButForATranspositionThatPaysApart) {
  EXPECT_EQ(KernelsOf(Shuffle::kNever, OnVm()), 1);
  for (const Shuffle shuffle : {Shuffle::kFirst, Shuffle::kLast}) {
    EXPECT_LE(KernelsOf(shuffle, OnVm()), 2);
    CompileOptions options = OnVm();
    if (shuffle == Shuffle::kFirst)
      options.forced_fusion = {{"t", "f"}, {"f", "d"}, {"d", "s"}, {"s", "y"}};
    if (shuffle == Shuffle::kLast) options.forced_fusion = {{"m", "y"}};
    EXPECT_EQ(KernelsOf(shuffle, options), 1);
  }
}

int64_t HeapBytes() {
  malloc_trim(0);
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// KILN_RECORD_MODEL: another model, with one input; KILN_RECORD_SHAPE is its shape, as 1,3,224,224.
TEST(RecordLevel, TwoTakesLessMemory) {
  const char* const other = secure_getenv("KILN_RECORD_MODEL");
  const std::string path = other != nullptr ? other
                                            : std::string(KILN_SOURCE_DIR) +
                                                  "/tests/data/models/tiny/resnet50/model.onnx";
  std::map<int, int64_t> taken;
  for (const int level :
       {0, 1, 2, 0, 1, 2}) {  // the first round warms what is kept for the process
    const int64_t before = HeapBytes();
    CompileOptions options = OnVm();
    options.record_level = level;
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(path, options));
    std::vector<int64_t> shape;
    for (const Dim& dim : model.inputs()[0].shape) shape.push_back(dim.constant().value_or(1));
    const Tensor x = FilledTensor(DType::kF32, shape, 0.5);
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.Bind(size_t{0}, x));
    KILN_ASSERT_OK(context.Run());
    KILN_ASSERT_OK(context.Run());
    taken[level] = HeapBytes() - before - x.size_bytes();
  }
  for (const auto& [level, bytes] : taken)
    std::cout << "record_level " << level << ": " << bytes / 1024 << " KiB of heap\n";
  EXPECT_LT(taken[2], taken[0]);
}

}  // namespace
}  // namespace kiln
