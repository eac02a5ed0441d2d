// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of bytes in random nets, at every level: the bits of the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "graph/graph.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "kiln/graph.h"
#include "tests/base/status_matchers.h"

namespace kiln {
namespace {

class Net {
 public:
  explicit Net(unsigned seed) : random_(seed) {}

  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  DType Type() { return In(0, 1) == 0 ? DType::kU8 : DType::kI8; }
  Tensor Bytes(DType type, std::vector<int64_t> shape) {
    Tensor tensor = Tensor::Allocate(type, std::move(shape));
    for (int64_t i = 0; i < tensor.num_elements(); ++i)
      static_cast<uint8_t*>(tensor.data())[i] = static_cast<uint8_t>(In(0, 255));
    return tensor;
  }
  ValueId Constant(DType type, std::vector<int64_t> shape) {
    return b.Constant(Bytes(type, std::move(shape)));
  }
  ValueId Input(DType type, const std::vector<int64_t>& shape) {
    const std::string name = "x" + std::to_string(inputs_.size());
    inputs_.push_back(Bytes(type, shape));
    return b.Input(name, type, ToShape(shape));
  }
  ValueId Scales(std::vector<int64_t> shape, double low) {
    Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
    for (int64_t i = 0; i < tensor.num_elements(); ++i)
      WriteFloat(tensor, i, low * (1 + static_cast<double>(In(0, 999)) / 1000));
    return b.Constant(tensor);
  }
  // Scales and zero points of the operands are one or one for each channel.
  std::vector<int64_t> OneOr(int64_t channels) {
    return In(0, 1) == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{channels};
  }
  ValueId QLinearConv(ValueId x, int64_t filters, int64_t group) {
    const Shape shape = b.value(x).shape;
    const int64_t channels = *shape[1].constant(), kernel = In(1, 3);
    const DType of_w = Type(), to = Type();
    Tensor bias = Tensor::Allocate(DType::kI32, {filters});
    for (int64_t i = 0; i < filters; ++i)
      static_cast<int32_t*>(bias.data())[i] = static_cast<int32_t>(In(-9999, 9999));
    std::vector<ValueId> inputs = {x,
                                   Scales({}, 0.02),
                                   Constant(b.value(x).type, {}),
                                   Constant(of_w, {filters, channels / group, kernel, kernel}),
                                   Scales(OneOr(filters), 0.01),
                                   Constant(of_w, OneOr(filters)),
                                   Scales({}, 0.2),
                                   Constant(to, {})};
    if (In(0, 1) == 0) inputs.push_back(b.Constant(bias));
    return b.Op("qlinear_conv", inputs,
                {{"pads", std::vector<int64_t>{kernel / 2, kernel / 2, kernel / 2, kernel / 2}},
                 {"group", group},
                 {"to", to}});
  }

  void Check(ValueId y) {
    b.Output(y, "y");
    absl::StatusOr<Graph> graph = std::move(b).Finish();
    KILN_ASSERT_OK(graph.status());
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Interpret(*graph, inputs_));
    for (const int level : {0, 1, 2, 3}) {
      SCOPED_TRACE(level);
      CompileOptions options;
      options.compile_mode = CompileMode::kNever;
      options.cache.enabled = false;
      options.threads = 1 + level % 2;
      options.graph_opt_level = level;
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(*graph, options));
      Context context = model.NewContext();
      for (size_t k = 0; k < inputs_.size(); ++k)
        KILN_ASSERT_OK(context.Bind("x" + std::to_string(k), inputs_[k]));
      KILN_ASSERT_OK(context.Run());
      KILN_ASSERT_OK_AND_ASSIGN(const Tensor got, context.Output("y"));
      ASSERT_EQ(got.dtype(), want[0].dtype());
      ASSERT_EQ(std::memcmp(got.data(), want[0].data(), static_cast<size_t>(got.size_bytes())), 0);
    }
  }

  GraphBuilder b{"net"};

 private:
  std::mt19937_64 random_;
  std::vector<Tensor> inputs_;
};

TEST(IntegerCalls, ConvolutionsGiveTheBitsOfTheInterpreter) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Net net(seed);
    const int64_t channels = net.In(2, 24);
    ValueId x = net.Input(net.Type(), {net.In(1, 2), net.In(1, 5), net.In(3, 8), net.In(3, 8)});
    x = net.QLinearConv(x, channels, 1);
    x = net.QLinearConv(x, channels, channels);
    if (seed % 2 == 0) {
      const DType type = net.b.value(x).type, of_w = net.Type();
      x = net.b.Op("conv_integer", {x, net.Constant(of_w, {7, channels, 1, 1}), net.Input(type, {}),
                                    net.Constant(of_w, net.OneOr(7))});
      x = net.b.Op("cast", {x}, {{"to", DType::kF32}});
    }
    net.Check(x);
  }
}

TEST(IntegerCalls, ProductsGiveTheBitsOfTheInterpreter) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Net net(seed);
    const int64_t batch = net.In(1, 3), m = net.In(1, 20), k = net.In(1, 40), n = net.In(1, 40);
    const DType of_a = net.Type(), of_b = net.Type();
    ValueId a = net.Input(of_a, {batch, k, m});
    a = net.b.Op("transpose", {a}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
    const ValueId weights =
        net.In(0, 2) == 0 ? net.Input(of_b, {batch, k, n}) : net.Constant(of_b, {k, n});
    const ValueId a_zero =
        net.Input(of_a, net.In(0, 1) == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{m, 1});
    net.Check(net.b.Op("matmul_integer", {a, weights, a_zero, net.Constant(of_b, net.OneOr(n))}));
  }
}

}  // namespace
}  // namespace kiln
