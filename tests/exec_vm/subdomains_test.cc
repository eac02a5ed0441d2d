// SPDX-License-Identifier: Apache-2.0
#include "exec/support/subdomains.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exec/support/launch.h"
#include "exec/vm/vm.h"
#include "kernel/text.h"

namespace kiln {
namespace {

Kernel Parse(const std::string& text) {
  const auto kernel = ParseKernel("kernel v1 math 1\n" + text);
  EXPECT_TRUE(kernel.ok()) << kernel.status() << "\n" << text;
  return kernel.ok() ? *kernel : Kernel();
}

constexpr char kSoftmax[] = R"(dims a b c
in   0 f32 [a, b, c] dense
in   1 f32 [b, c] dense
par  0 f32
s0 : f32 [a, b]    = reduce max over c (mul(in0[a, b, c], par0))
out  0 f32 [a, b, c] dense = sub(add(in0[a, b, c], in1[b, c]), s0[a, b])
out  1 f32 [a, b] dense = s0[a, b]
)";

TEST(CuttableDimsTest, OuterDimsOfRows) {
  EXPECT_EQ(CuttableDims(Parse(kSoftmax)), 2);
  EXPECT_EQ(CuttableDims(Parse("dims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = neg(in0[a])\n")),
            1);
}

TEST(CuttableDimsTest, NotWhereValuesDependOnThem) {
  const auto cuttable = [](const std::string& value) {
    return CuttableDims(
        Parse("dims a b c\nin 0 f32 [a, b, c] dense\nin 1 f32 [b, a] dense\nout 0 "
              "f32 [a, b, c] dense = " +
              value + "\n"));
  };
  EXPECT_EQ(cuttable("in0[a, b, c]"), 0);  // in 1 cannot be cut along a
  const auto plain = [](const std::string& value) {
    return CuttableDims(
        Parse("dims a b c\nin 0 f32 [a, b, c] dense\nout 0 f32 [a, b, c] dense = " + value + "\n"));
  };
  EXPECT_EQ(plain("in0[a, b, c]"), 2);
  EXPECT_EQ(plain("in0[a, b/2, c]"), 1);
  EXPECT_EQ(plain("in0[a/2, b, c]"), 0);
  EXPECT_EQ(plain("add(in0[a, b, c], cast<f32>(index(b)))"), 1);
  EXPECT_EQ(plain("add(in0[a, b, c], cast<f32>(extent(a)))"), 0);
  EXPECT_EQ(plain("add(in0[a, b, c], cast<f32>(index(c)))"), 2);
}

TEST(CuttableDimsTest, NotReducedDims) {
  EXPECT_EQ(CuttableDims(Parse("dims a b\nin 0 f32 [a, b] dense\ns0 : f32 [b] = reduce add over a "
                               "(in0[a, b])\nout 0 f32 [b] dense = s0[b]\n")),
            0);
}

// Operands of kSoftmax with memory.
struct Operands {
  explicit Operands(std::vector<int32_t> e) : extents(std::move(e)) {
    const auto [a, b, c] = std::tuple(extents[0], extents[1], extents[2]);
    Add({a, b, c});
    Add({b, c});
    Add({a, b, c});
    Add({a, b});
    for (size_t i = 0; i < memory.size(); ++i) {
      buffers[i].host = reinterpret_cast<uint8_t*>(memory[i].data());
      buffers[i].dim = dims[i].data();
    }
  }
  void Add(const std::vector<int32_t>& shape) {
    std::vector<BufferDim> axes;
    int32_t stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      axes.push_back({0, shape[d], stride, 0});
      stride *= shape[d];
    }
    dims.push_back(axes);
    std::vector<float>& values = memory.emplace_back(static_cast<size_t>(stride));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 2654435761u % 1000);
    BufferArg buffer;
    buffer.type_code = 2;
    buffer.type_bits = 32;
    buffer.dimensions = static_cast<int32_t>(shape.size());
    buffers.push_back(buffer);
  }
  std::vector<void*> Argv() {
    std::vector<void*> argv = {nullptr, &buffers[0], &buffers[1]};
    for (int32_t& extent : extents) argv.push_back(&extent);
    argv.push_back(&scale);
    argv.push_back(&buffers[2]);
    argv.push_back(&buffers[3]);
    return argv;
  }
  std::vector<int64_t> Extents() const { return {extents.begin(), extents.end()}; }
  std::vector<OperandShape> Shapes() {
    shapes.clear();
    for (const std::vector<BufferDim>& axes : dims) {
      auto& [shape, strides] = shapes.emplace_back();
      for (size_t k = axes.size(); k-- > 0;) {
        shape.push_back(axes[k].extent);
        strides.push_back(axes[k].stride);
      }
    }
    std::vector<OperandShape> made;
    for (const auto& [shape, strides] : shapes) made.push_back({shape, strides, 4});
    return made;
  }
  std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> shapes;
  float scale = 0.5f;
  std::vector<int32_t> extents;
  std::vector<std::vector<float>> memory;
  std::vector<std::vector<BufferDim>> dims;
  std::vector<BufferArg> buffers;
};

TEST(PiecesTest, SameBitsAsAtOnceHoweverFewElementsAPieceMayHave) {
  const Kernel kernel = Parse(kSoftmax);
  const auto vm = VmKernel::Compile(kernel);
  ASSERT_TRUE(vm.ok()) << vm.status();
  Pool pool(3);
  Launcher launcher(&pool);
  const std::pair<int64_t, int64_t> cases[] = {{99, 0},   {100, 65}, {501, 15},
                                               {700, 10}, {1300, 5}, {6499, 2}};
  for (const auto& [most, boxes] : cases) {
    Operands whole({5, 13, 100}), cut(whole.extents);
    const auto pieces = PlanPieces(kernel, cut.Extents(), cut.Shapes(), most);
    ASSERT_EQ(pieces ? pieces->subdomains : 0, boxes) << most;
    if (!pieces) continue;
    std::vector<void*> argv = whole.Argv();
    ASSERT_EQ(launcher.Launch(&RunVm, vm->get(), argv.data()), 0);
    argv = cut.Argv();
    ASSERT_EQ(launcher.Launch(&RunVm, vm->get(), argv.data(), *pieces), 0);
    EXPECT_TRUE(cut.memory == whole.memory) << most;
  }
}

// What becomes of a launch: "at once", "<pieces> of <range>", or "one".
std::string Pieces(const Kernel& kernel, const std::vector<int64_t>& extents,
                   const std::vector<std::vector<int64_t>>& strides, int64_t item) {
  std::vector<std::vector<int64_t>> shapes;
  const auto add = [&](const auto& operand) {
    std::vector<int64_t>& shape = shapes.emplace_back();
    for (const int32_t dim : operand.dims) shape.push_back(extents[static_cast<size_t>(dim)]);
  };
  for (const KernelInput& input : kernel.inputs) add(input);
  for (const KernelOutput& output : kernel.outputs) add(output);
  std::vector<OperandShape> operands;
  for (size_t i = 0; i < shapes.size(); ++i) operands.push_back({shapes[i], strides[i], item});
  if (FitsAtOnce(kernel, extents, operands)) return "at once";
  const auto pieces = PlanPieces(kernel, extents, operands);
  if (!pieces) return "one";
  return std::to_string(pieces->subdomains) + " of " + std::to_string(pieces->range);
}

TEST(PiecesTest, AreBelowWhatKernelsCount) {
  const Kernel flat = Parse("dims a\nin 0 u8 [a] dense\nout 0 u8 [a] dense = in0[a]\n");
  EXPECT_EQ(Pieces(flat, {2'000'000'000}, {{1}, {1}}, 1), "at once");
  EXPECT_EQ(Pieces(flat, {kMostElements}, {{1}, {1}}, 1), "at once");
  EXPECT_EQ(Pieces(flat, {2'200'000'000}, {{1}, {1}}, 1), "2 of 2145386496");
  EXPECT_EQ(Pieces(flat, {int64_t{1} << 40}, {{1}, {1}}, 1), "513 of 2145386496");
  const Kernel rows = Parse(
      "dims a b\nin 0 f32 [a, b] rows\nin 1 f32 [b] dense\ns0 : f32 [a] = reduce add over b "
      "(add(in0[a, b], in1[b]))\nout 0 f32 [a] dense = s0[a]\n");
  EXPECT_EQ(Pieces(rows, {3, 800'000'000}, {{800'000'000, 1}, {1}, {1}}, 4), "2 of 2");
  EXPECT_EQ(Pieces(rows, {3, 100}, {{3'000'000'000, 1}, {1}, {1}}, 4), "3 of 1");
  EXPECT_EQ(Pieces(rows, {60'000, 60'000}, {{0, 1}, {1}, {1}}, 4), "2 of 35756");
  EXPECT_EQ(Pieces(rows, {3, 2'200'000'000}, {{2'200'000'000, 1}, {1}, {1}}, 4), "one");
  EXPECT_EQ(Pieces(rows, {3'000'000'000, 0}, {{0, 1}, {1}, {1}}, 4), "2 of 2145386496");
  const Kernel columns = Parse(
      "dims a b\nin 0 u8 [a, b] dense\ns0 : u8 [b] = reduce add over a (in0[a, b])\nout 0 u8 [b] "
      "dense = s0[b]\n");
  EXPECT_EQ(Pieces(columns, {50'000, 50'000}, {{50'000, 1}, {1}}, 1), "one");
}

}  // namespace
}  // namespace kiln
