// SPDX-License-Identifier: Apache-2.0
// RunOptions::batch_invariant: in random networks every sample of a batch has the bits that it has
// alone, for batches, threads and models with and without symbols. The judge is the same model on
// one sample. KILN_BATCH_NETWORKS: how many networks; KILN_SEED: of the first.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "graph/graph.h"
#include "graph/tensors.h"
#include "kiln/graph.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/draw.h"
#include "tests/compiler/on_vm.h"

namespace kiln {
namespace {

using testing::HasSubstr;

Tensor Random(std::vector<int64_t> shape, Draw& draw, double scale = 1) {
  Tensor tensor = Tensor::Allocate(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    WriteFloat(tensor, i, scale * (static_cast<double>(draw.Below(200'001)) - 100'000) / 100'000);
  return tensor;
}

// A network of input x, whose first dim is the batch.
struct Network {
  Graph graph;
  std::vector<int64_t> sample;  // shape of one
};

class Networks {
 public:
  Networks(Draw& draw, Dim batch) : draw_(draw), batch_(std::move(batch)) {}

  Network Make(int kind) {
    std::vector<int64_t> sample = kind == 0   ? std::vector<int64_t>{draw_.Pick({3, 8, 16}), 12, 14}
                                  : kind == 1 ? std::vector<int64_t>{draw_.Pick({5, 16, 33}), 32}
                                              : std::vector<int64_t>{draw_.Pick({17, 64, 200})};
    Shape shape = {batch_};
    for (const int64_t extent : sample) shape.emplace_back(extent);
    const ValueId x = b_.Input("x", DType::kF32, std::move(shape));
    const ValueId y = kind == 0   ? Images(x, sample)
                      : kind == 1 ? Tokens(x, sample)
                                  : Rows(x, sample);
    b_.Output(y, "y");
    return {*std::move(b_).Finish(), sample};
  }

 private:
  ValueId Weights(std::vector<int64_t> shape, double scale = 0.3) {
    return b_.Constant(Random(std::move(shape), draw_, scale));
  }
  ValueId Activation(ValueId x) {
    return b_.Op(draw_.Pick({"relu", "swish", "gelu", "tanh"}), {x});
  }

  ValueId Conv(ValueId x, int64_t in, int64_t out, int64_t group) {
    const int64_t k = draw_.Pick<int64_t>({1, 3});
    return b_.Op("conv", {x, Weights({out, in / group, k, k})},
                 {{"pads", std::vector<int64_t>(4, k / 2)},
                  {"strides", std::vector<int64_t>{1, 1}},
                  {"group", group}});
  }

  ValueId Images(ValueId x, const std::vector<int64_t>& sample) {
    int64_t channels = sample[0];
    for (int64_t layer = 0; layer < 2 + draw_.Below(3); ++layer) {
      switch (draw_.Below(4)) {
        case 0: {
          const int64_t out = draw_.Pick<int64_t>({8, 24, 32});
          x = Activation(Conv(x, channels, out, 1));
          channels = out;
          break;
        }
        case 1:
          x = Activation(Conv(x, channels, channels, channels));
          break;
        case 2:
          x = b_.Op("relu", {b_.Op("add", {Conv(x, channels, channels, 1), x})});
          break;
        default:
          x = b_.Op(draw_.Pick({"average_pool", "max_pool"}), {x},
                    {{"kernel", std::vector<int64_t>{3, 3}},
                     {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                     {"strides", std::vector<int64_t>{1, 1}}});
      }
    }
    x = b_.Op("reshape", {b_.Op("global_average_pool", {x}), b_.Ints({-1, channels})});
    return Rows(x, {channels});
  }

  ValueId Tokens(ValueId x, const std::vector<int64_t>& sample) {
    const int64_t s = sample[0], d = sample[1], heads = 4;
    for (int64_t layer = 0; layer < 1 + draw_.Below(2); ++layer) {
      if (draw_.OneIn(2)) {
        const auto part = [&](const std::vector<int64_t>& perm) {
          const ValueId y = b_.Op("matmul", {x, Weights({d, d})});
          return b_.Op("transpose", {b_.Op("reshape", {y, b_.Ints({-1, s, heads, d / heads})})},
                       {{"perm", perm}});
        };
        const ValueId scores = b_.Op("matmul", {part({0, 2, 1, 3}), part({0, 2, 3, 1})});
        const ValueId mixed = b_.Op(
            "matmul", {b_.Op("softmax", {scores}, {{"axis", int64_t{-1}}}), part({0, 2, 1, 3})});
        const ValueId back =
            b_.Op("transpose", {mixed}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
        x = b_.Op("add", {x, b_.Op("reshape", {back, b_.Ints({-1, s, d})})});
      } else {
        const int64_t wide = draw_.Pick<int64_t>({48, 128});
        const ValueId up =
            Activation(b_.Op("add", {b_.Op("matmul", {x, Weights({d, wide})}), Weights({wide})}));
        x = b_.Op("add", {x, b_.Op("matmul", {up, Weights({wide, d})})});
      }
    }
    return x;
  }

  ValueId Rows(ValueId x, const std::vector<int64_t>& sample) {
    int64_t width = sample[0];
    for (int64_t layer = 0; layer < 1 + draw_.Below(3); ++layer) {
      const int64_t wide = draw_.Pick<int64_t>({16, 100, 256});
      x = Activation(b_.Op("add", {b_.Op("matmul", {x, Weights({width, wide})}), Weights({wide})}));
      width = wide;
    }
    return x;
  }

  Draw& draw_;
  const Dim batch_;
  GraphBuilder b_{"network"};
};

Network NetworkOf(uint64_t seed, const Dim& batch) {
  Draw draw(seed);
  return Networks(draw, batch).Make(static_cast<int>(seed % 3));
}

CompileOptions Options(int threads, bool invariant) {
  CompileOptions options = OnVm();
  options.threads = threads;
  options.batch_invariant = invariant;
  options.schedule_choice = ScheduleChoice::kReproducible;
  return options;
}

Tensor Run(Model& model, const Tensor& x) {
  auto y = model.Run({{"x", x}});
  KILN_EXPECT_OK(y.status());
  return y.ok() ? (*y)[0] : Tensor();
}

Tensor Sample(const Tensor& batch, int64_t i) {
  std::vector<int64_t> shape = batch.shape();
  const int64_t bytes = batch.size_bytes() / shape[0];
  shape[0] = 1;
  return Tensor::View(static_cast<uint8_t*>(batch.data()) + i * bytes, batch.dtype(), shape);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size_bytes())) == 0;
}

// How many samples of a batch differ from what `one` makes of them alone.
int64_t Different(Model& batches, Model& one, const Tensor& x) {
  const Tensor y = Run(batches, x);
  if (y.shape().empty()) return x.shape()[0];
  int64_t different = 0;
  for (int64_t i = 0; i < x.shape()[0]; ++i)
    different += SameBits(Sample(y, i), Run(one, Sample(x, i))) ? 0 : 1;
  return different;
}

TEST(BatchInvariant, SamplesHaveTheBitsTheyHaveAlone) {
  const auto networks = static_cast<int64_t>(FromEnvironment("KILN_BATCH_NETWORKS", 24));
  const auto first = static_cast<int64_t>(FromEnvironment("KILN_SEED", 1));
  int64_t without = 0;  // samples that differ if nothing is asked for: the judge can see it
  for (int64_t seed = first; seed < first + networks; ++seed) {
    SCOPED_TRACE(testing::Message() << "KILN_SEED=" << seed);
    const Network net = NetworkOf(static_cast<uint64_t>(seed), Dim::Symbol("n"));
    Draw draw(static_cast<uint64_t>(seed) + 1'000'000);
    const int64_t batch = draw.Pick<int64_t>({2, 3, 5, 8, 16});
    std::vector<int64_t> shape = {batch};
    shape.insert(shape.end(), net.sample.begin(), net.sample.end());
    const Tensor x = Random(shape, draw);
    for (const int threads : {1, 2, 3, 8}) {
      const CompileOptions options = Options(threads, true);
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(net.graph, options));
      EXPECT_EQ(Different(model, model, x), 0) << threads << " threads, batch " << batch;
      if (threads > 2) continue;
      // The model for this batch alone, and that for a batch of 1.
      const Network fixed = NetworkOf(static_cast<uint64_t>(seed), Dim(batch));
      const Network alone = NetworkOf(static_cast<uint64_t>(seed), Dim(1));
      KILN_ASSERT_OK_AND_ASSIGN(Model of_batch, Compile(fixed.graph, options));
      KILN_ASSERT_OK_AND_ASSIGN(Model of_one, Compile(alone.graph, options));
      EXPECT_EQ(Different(of_batch, of_one, x), 0) << threads << " threads, batch " << batch;
      KILN_ASSERT_OK_AND_ASSIGN(Model any, Compile(net.graph, Options(threads, false)));
      without += Different(any, any, x);
    }
  }
  if (networks >= 24) {
    EXPECT_GT(without, 0);
  }
}

// The second product adds to the first, sample by sample.
TEST(BatchInvariant, SumsOfProducts) {
  for (const bool many : {false, true}) {
    Draw draw(1);
    GraphBuilder b("sum");
    const ValueId x = b.Input("x", DType::kF32, {Dim::Symbol("n"), 3, 5});
    ValueId sum = b.Op("matmul", {x, b.Constant(Random({5, 4}, draw))});
    for (int k = 0; k < (many ? 4 : 1); ++k)
      sum = b.Op("add", {sum, b.Op("matmul", {x, b.Constant(Random({5, 4}, draw))})});
    b.Output(sum, "y");
    KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
    for (const int threads : {1, 3}) {
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, Options(threads, true)));
      EXPECT_EQ(Different(model, model, Random({7, 3, 5}, draw)), 0);
    }
  }
}

TEST(BatchInvariant, RefusesProductsWhoseSamplesAreNoRows) {
  Draw draw(1);
  GraphBuilder b("columns");
  const ValueId x = b.Input("x", DType::kF32, {8, Dim::Symbol("n")});
  b.Output(b.Op("matmul", {b.Constant(Random({4, 8}, draw)), x}), "y");
  KILN_ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(b).Finish());
  KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, Options(1, true)));
  EXPECT_THAT(model.Run({{"x", Random({8, 3}, draw)}}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("batch_invariant: the left factor is a constant, so that samples "
                                 "are columns of the right one; run without it, or a batch of 1")));
}

}  // namespace
}  // namespace kiln
