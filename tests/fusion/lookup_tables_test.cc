// SPDX-License-Identifier: Apache-2.0
// Chains of bytes as tables: which chains, and that the tables hold the bits of the chain's kernel.
#include <cstdint>
#include <string>

#include "fusion/pass.h"
#include "gtest/gtest.h"
#include "tests/fusion/nets.h"
#include "tests/fusion/run_groups.h"

namespace kiln {
namespace {

constexpr int64_t kChannels = 3;

// A quantised relu with one scale, of `type`, for each of `channels`.
struct Chain {
  explicit Chain(DType stored = DType::kU8, int64_t channels = kChannels,
                 Shape over = {2, 3, 16, 20})
      : type(stored), shape(std::move(over)), scale(Numbers(channels)) {}

  Tensor Numbers(int64_t channels) {
    Tensor tensor = Tensor::Allocate(DType::kF32, {channels, 1, 1});
    for (int64_t i = 0; i < channels; ++i)
      static_cast<float*>(tensor.data())[i] = 0.013F + 0.002F * static_cast<float>(i);
    return tensor;
  }
  ValueId Operate(ValueId in) {
    const ValueId zero = b.Scalar(DType::kF32, 12);
    const ValueId wide = b.Op("sub", {b.Op("cast", {in}, {{"to", DType::kF32}}), zero});
    const ValueId real = b.Op("relu", {b.Op("mul", {wide, b.Constant(scale)})});
    const ValueId scaled = b.Op("round", {b.Op("div", {b.Op("tanh", {real}), b.Constant(scale)})});
    return b.Op("cast",
                {b.Op("clip", {scaled, b.Scalar(DType::kF32, 0), b.Scalar(DType::kF32, 127)})},
                {{"to", type}});
  }
  Graph Built() {
    b.Output(Operate(x), "y");
    return FinishOrDie(b);
  }

  DType type;
  Shape shape;
  Tensor scale;
  GraphBuilder b{"chain"};
  ValueId x = b.Input("x", type, shape);
};

bool Tabulated(Graph& graph) {
  const absl::StatusOr<bool> changed = RunPass(*FindPass("lookup_tables"), graph, {});
  EXPECT_TRUE(changed.ok()) << changed.status();
  return changed.ok() && *changed;
}

Tensor EveryByte(DType type, const Shape& shape) {
  Tensor tensor = Tensor::Allocate(type, *Constant(shape));
  auto* bytes = static_cast<uint8_t*>(tensor.data());
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    bytes[i] = static_cast<uint8_t>(i * 7 + i / 256);
  return tensor;
}

void ExpectTheChainsBits(Chain chain) {
  Graph graph = chain.Built();
  const Tensor x = EveryByte(chain.type, chain.shape);
  const absl::StatusOr<std::vector<Tensor>> want = RunGroups(graph, Grouped(graph, {}), {x}, {});
  ASSERT_TRUE(want.ok()) << want.status();
  ASSERT_TRUE(Tabulated(graph));
  ASSERT_EQ(graph.nodes().size(), 1u);
  const Node& lookup = graph.nodes()[0];
  ASSERT_STREQ(lookup.op->name, "lookup");
  const Tensor& table = *graph.value(lookup.inputs[1]).constant;
  const auto* rows = static_cast<const uint8_t*>(table.data());
  const auto* in = static_cast<const uint8_t*>(x.data());
  const auto* out = static_cast<const uint8_t*>((*want)[0].data());
  const int64_t inner = 16 * 20;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t row = i / inner % table.shape()[0];
    ASSERT_EQ(rows[row * 256 + in[i]], out[i]) << "element " << i;
  }
}

TEST(LookupTables, HoldsTheBitsOfTheChain) {
  ExpectTheChainsBits(Chain(DType::kU8));
  ExpectTheChainsBits(Chain(DType::kI8));
  ExpectTheChainsBits(Chain(DType::kU8, 1));
}

TEST(LookupTables, TakesUnknownExtentsAroundLongRows) {
  Graph graph = Chain(DType::kU8, kChannels, {Sym("n"), 3, 16, 16}).Built();
  EXPECT_TRUE(Tabulated(graph));
  Graph unknown = Chain(DType::kU8, kChannels, {2, 3, Sym("h"), Sym("w")}).Built();
  EXPECT_FALSE(Tabulated(unknown));
}

TEST(LookupTables, LeavesShortRows) {
  Graph graph = Chain(DType::kU8, kChannels, {64, 3, 7, 9}).Built();
  EXPECT_FALSE(Tabulated(graph));
}

TEST(LookupTables, LeavesWhatIsCheap) {
  GraphBuilder b("cheap");
  const ValueId x = b.Input("x", DType::kU8, {64, 64});
  b.Output(b.Op("max", {x, b.Constant(FilledTensor(DType::kU8, {1}, 9))}), "y");
  Graph graph = FinishOrDie(b);
  EXPECT_FALSE(Tabulated(graph));
}

TEST(LookupTables, LeavesWhatOthersRead) {
  Chain read;  // a value inside
  const ValueId inside = read.b.Op("tanh", {read.b.Op("cast", {read.x}, {{"to", DType::kF32}})});
  read.b.Output(inside, "inside");
  read.b.Output(read.b.Op("cast", {read.b.Op("exp", {inside})}, {{"to", DType::kU8}}), "y");
  Graph graph = FinishOrDie(read.b);
  EXPECT_FALSE(Tabulated(graph));

  Chain fused;  // the result, by a kernel
  fused.b.Output(fused.b.Op("cast", {fused.Operate(fused.x)}, {{"to", DType::kF32}}), "y");
  Graph with_reader = FinishOrDie(fused.b);
  EXPECT_FALSE(Tabulated(with_reader));
}

TEST(LookupTables, LeavesFunctionsOfTwoValues) {
  Chain two;
  const ValueId other = two.b.Input("other", DType::kU8, two.shape);
  two.b.Output(two.Operate(two.b.Op("add", {two.x, other})), "y");
  Graph graph = FinishOrDie(two.b);
  EXPECT_FALSE(Tabulated(graph));
}

}  // namespace
}  // namespace kiln
