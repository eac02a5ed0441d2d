// SPDX-License-Identifier: Apache-2.0
// Inputs that are bound in parts, and memory of other libraries, against inputs in one piece.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "compiler/compile.h"
#include "graph/text.h"
#include "kiln/tensor.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/counted_malloc.h"
#include "tests/compiler/draw.h"
#include "tests/compiler/on_vm.h"
#include "tests/fusion/typed_graph.h"
#include "tests/graph/tensors.h"

// As a program's own header has it.
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

namespace kiln {
namespace {

using testing::ElementsAre;

Model ModelOf(const std::string& text, const CompileOptions& options = OnVm()) {
  return *Compile(*ParseGraph(text), options);
}

Model Rows() {
  return ModelOf("graph g\ninput x : f32 [n, 3]\ninput b : f32 [3]\ny = add(x, b)\noutput y\n");
}

class BindPartsTest : public testing::Test {
 protected:
  BindPartsTest() { KILN_EXPECT_OK(context_.Bind("b", F32({3}, {10, 20, 30}))); }
  std::string Error(const std::vector<Tensor>& parts) {
    return std::string(context_.BindParts("x", parts).message());
  }
  std::vector<double> Run() {
    const absl::Status run = context_.Run();
    return run.ok() ? Values(*context_.Output("y")) : std::vector<double>{};
  }
  Model model_ = Rows();
  Context context_ = model_.NewContext();
};

TEST_F(BindPartsTest, FollowEachOther) {
  const Tensor memory = F32({3, 2}, {1, 4, 2, 5, 3, 6});
  const Tensor transposed = Tensor::View(memory.data(), DType::kF32, {2, 3}, {1, 2});
  KILN_ASSERT_OK(context_.BindParts("x", {F32({1, 3}, {7, 8, 9}), transposed, F32({0, 3}, {})}));
  EXPECT_THAT(Run(), ElementsAre(17, 28, 39, 11, 22, 33, 14, 25, 36));
  static_cast<float*>(memory.data())[0] = 100;  // what a part holds when the run begins
  EXPECT_THAT(Run(), ElementsAre(17, 28, 39, 110, 22, 33, 14, 25, 36));
  context_.Trim();
  EXPECT_THAT(Run(), ElementsAre(17, 28, 39, 110, 22, 33, 14, 25, 36));
}

TEST_F(BindPartsTest, GiveWayToBindAndBack) {
  KILN_ASSERT_OK(context_.BindParts("x", {F32({1, 3}, {1, 2, 3}), F32({1, 3}, {4, 5, 6})}));
  EXPECT_EQ(Run().size(), 6u);
  KILN_ASSERT_OK(context_.Bind("x", F32({1, 3}, {0, 0, 0})));
  EXPECT_THAT(Run(), ElementsAre(10, 20, 30));
  KILN_ASSERT_OK(context_.BindParts("x", {F32({1, 3}, {1, 2, 3})}));
  EXPECT_THAT(Run(), ElementsAre(11, 22, 33));
}

TEST_F(BindPartsTest, MayLieWhereAnOutputIsWritten) {
  const Tensor both = F32({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto row = [&](int64_t i) {
    return Tensor::View(static_cast<float*>(both.data()) + 3 * i, DType::kF32, {1, 3});
  };
  KILN_ASSERT_OK(context_.BindParts("x", {row(1), row(0)}));
  KILN_ASSERT_OK(context_.BindOutput("y", both));
  EXPECT_THAT(Run(), ElementsAre(14, 25, 36, 11, 22, 33));
}

TEST_F(BindPartsTest, ThatDoNotGoTogetherAreRefused) {
  const Tensor one = F32({1, 3}, {1, 2, 3});
  KILN_ASSERT_OK(context_.BindParts("x", {one}));
  EXPECT_EQ(Error({}), "input \"x\": no parts; give at least one tensor");
  EXPECT_EQ(Error({one, I64({1, 3}, {1, 2, 3})}),
            "input \"x\": part 1 is i64, expected f32; convert it");
  EXPECT_EQ(Error({one, F32({3}, {1, 2, 3})}),
            "input \"x\": part 1 has rank 1, expected 2; give parts of the input's rank");
  EXPECT_EQ(Error({one, F32({2, 2}, {1, 2, 3, 4})}),
            "input \"x\": part 1: dim 1 is 2, that of part 0 is 3; parts may differ in dim 0 only");
  EXPECT_EQ(Error({one, Tensor::View(nullptr, DType::kF32, {1, 3})}),
            "input \"x\": part 1: no memory; give a tensor with data");
  EXPECT_EQ(Error({F32({1, 2}, {1, 2})}),
            "input \"x\": dim 1 is 2, expected 3; give a tensor of shape [n, 3]");
  EXPECT_EQ(context_.BindParts("z", {one}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(context_.BindParts("b", {F32({2}, {1, 2})}).message(),
            "input \"b\": dim 0 is 2, expected 3; give a tensor of shape [3]");
  Model scalar = ModelOf("graph g\ninput s : f32 []\ny = neg(s)\noutput y\n");
  EXPECT_EQ(scalar.NewContext().BindParts("s", {F32({}, {1})}).message(),
            "input \"s\": has rank 0, so no parts; call Bind");
  EXPECT_THAT(Run(), ElementsAre(11, 22, 33));  // what was bound stays
}

TEST_F(BindPartsTest, ASteadyRunAllocatesNothing) {
  KILN_ASSERT_OK(
      context_.BindParts("x", {F32({1, 3}, {1, 2, 3}), F32({2, 3}, {1, 2, 3, 4, 5, 6})}));
  for (int i = 0; i < 3; ++i) KILN_ASSERT_OK(context_.Run());
  const Allocations before = CountedAllocations();
  for (int i = 0; i < 20; ++i)
    if (!context_.Run().ok()) std::abort();
  EXPECT_EQ((CountedAllocations() - before).others, 0);
}

TEST(BindParts, OfAScript) {
  Model model = ModelOf(
      "graph g\ninput x : f32 [n]\nf = nonzero(x) {extents = [1, k]}\ny = reduce_sum(f) {axes = "
      "[0, 1], keepdims = "
      "0}\n"
      "z = add(x, x)\noutput y\noutput z\n");
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.BindParts("x", {F32({2}, {1, 0}), F32({3}, {1, 0, 1})}));
  for (int run = 0; run < 2; ++run) {
    KILN_ASSERT_OK(context.Run());
    EXPECT_THAT(Values(*context.Output("y")), ElementsAre(6));
    EXPECT_THAT(Values(*context.Output("z")), ElementsAre(2, 0, 2, 0, 2));
  }
}

TEST(BindParts, OfAModelWithAState) {
  CompileOptions options = OnVm();
  options.states = {{"s", "t"}};
  Model model =
      ModelOf("graph g\ninput s : f32 [2]\ninput x : f32 [2]\nt = add(s, x)\noutput t\n", options);
  Context context = model.NewContext();
  KILN_ASSERT_OK(context.BindParts("x", {F32({1}, {1}), F32({1}, {2})}));
  for (int i = 0; i < 3; ++i) KILN_ASSERT_OK(context.Run());
  EXPECT_THAT(Values(*context.State("s")), ElementsAre(3, 6));
  EXPECT_EQ(context.BindParts("s", {F32({2}, {1, 2})}).message(),
            "input \"s\": it is a state of the context; call SetState");
}

// Memory that is neither aligned nor Kiln's to write.
TEST(BindDLPack, ReadsWhatItMayAndWritesNothingElse) {
  alignas(64) char memory[64] = {};
  const float values[] = {1, 2, 3};
  std::memcpy(memory + 1, values, sizeof(values));
  int64_t shape[] = {1, 3};
  int deleted = 0;
  DLManagedTensorVersioned managed{
      1,        0,
      &deleted, [](DLManagedTensorVersioned* self) {
                                     ++*static_cast<int*>(self->manager_ctx); },
      1,        memory,
      1,        0,
      2,        2,
      32,       1,
      shape,    nullptr,
      1};
  {
    KILN_ASSERT_OK_AND_ASSIGN(const Tensor tensor, FromDLPack(&managed));
    Model model = Rows();
    Context context = model.NewContext();
    KILN_ASSERT_OK(context.Bind("x", tensor));
    KILN_ASSERT_OK(context.Bind("b", F32({3}, {10, 20, 30})));
    EXPECT_EQ(context.BindOutput("y", tensor).code(), absl::StatusCode::kInvalidArgument);
    const Tensor aligned = Tensor::View(memory, DType::kF32, {1, 3}, {}, tensor.owner());
    EXPECT_EQ(context.BindOutput("y", aligned).message(),
              "output \"y\": the memory is read-only, as its DLPack producer says; bind other "
              "memory");
    for (int run = 0; run < 2; ++run) {
      KILN_ASSERT_OK(context.Run());
      EXPECT_THAT(Values(*context.Output("y")), ElementsAre(11, 22, 33));
    }
  }
  EXPECT_EQ(deleted, 1);
}

// Random programs whose inputs are cut into parts, dense and strided.
TEST(BindParts, RandomProgramsGiveTheSameBits) {
  const uint64_t count = FromEnvironment("KILN_PARTS_PROGRAMS", 200);
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  int cut = 0;
  for (uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    KILN_ASSERT_OK_AND_ASSIGN(const TypedGraph program, MakeTypedGraph(seed));
    CompileOptions options = OnVm();
    options.threads = seed % 3 == 0 ? 2 : 1;
    KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(program.graph, options));
    Context whole = model.NewContext(), parted = model.NewContext();
    Draw draw(seed);
    for (size_t k = 0; k < program.inputs.size(); ++k) {
      const std::string& name = model.inputs()[k].name;
      const Tensor& input = program.inputs[k];
      KILN_ASSERT_OK(whole.Bind(name, input));
      if (input.rank() == 0) {
        KILN_ASSERT_OK(parted.Bind(name, input));
        continue;
      }
      ++cut;
      std::vector<Tensor> parts;
      std::vector<int64_t> shape = input.shape();
      const int64_t rows = shape[0];
      for (int64_t at = 0; at < rows || parts.empty();) {
        shape[0] = std::min(rows - at, draw.Below(4));
        if (rows == 0) shape[0] = 0;
        char* const from = static_cast<char*>(input.data()) +
                           at * input.strides()[0] * static_cast<int64_t>(SizeOf(input.dtype()));
        Tensor part = Tensor::View(from, input.dtype(), shape, input.strides(), input.owner());
        parts.push_back(draw.OneIn(2) ? part : part.Clone());
        at += shape[0];
      }
      KILN_ASSERT_OK(parted.BindParts(name, parts));
    }
    const absl::Status run = whole.Run();
    ASSERT_EQ(parted.Run().code(), run.code());
    for (size_t k = 0; run.ok() && k < model.outputs().size(); ++k)
      EXPECT_EQ(CompareBits(*parted.Output(k), *whole.Output(k)).what, "") << Print(program.graph);
  }
  EXPECT_GE(cut, count >= 100 ? 100 : 0);
}

}  // namespace
}  // namespace kiln
