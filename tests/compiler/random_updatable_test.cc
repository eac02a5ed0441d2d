// SPDX-License-Identifier: Apache-2.0
// Random graphs of which some constants are updatable: after each update, runs give what the graph
// gives that has the new values as constants, compiled and in the interpreter.
//
//   KILN_UPDATABLE_GRAPHS   how many of each kind, 150 unless given
//   KILN_SEED               the first seed
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "compiler/compile.h"
#include "graph/graph.h"
#include "graph/rebuild.h"
#include "graph/reference/interpreter.h"
#include "graph/tensors.h"
#include "graph/text.h"
#include "kiln/graph.h"
#include "tests/base/environment.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/draw.h"
#include "tests/compiler/on_vm.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {
namespace {

using Named = std::map<std::string, Tensor>;

// The constants of a graph that nodes read.
std::vector<std::string> ConstantsOf(const Graph& graph) {
  std::vector<std::string> names;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const Value& value = graph.values()[v];
    if (value.constant && value.producer.v < 0 &&
        !graph.UsersOf(ValueId{static_cast<int32_t>(v)}).empty())
      names.push_back(value.name);
  }
  return names;
}

// The graph with other constants, inferred anew.
absl::StatusOr<Graph> With(const Graph& graph, const Named& values) {
  Graph made = graph;
  made.maker = nullptr;
  for (size_t v = 0; v < graph.values().size(); ++v) {
    const auto found = values.find(graph.values()[v].name);
    if (found != values.end())
      made.mutable_value(ValueId{static_cast<int32_t>(v)}).constant = found->second;
  }
  std::vector<Shape> shapes;
  for (const ValueId id : made.inputs()) shapes.push_back(made.value(id).shape);
  return WithInputShapes(made, shapes);
}

// Other values for a constant: of integers the same ones in another order, as they may be places.
Tensor Other(const Tensor& tensor, bool boundaries, Draw& draw) {
  Tensor made = tensor.Clone();
  if (IsFloat(tensor.dtype()) && boundaries)
    return TypedNoise(tensor.dtype(), tensor.shape(), draw.bits());
  const int64_t count = tensor.num_elements();
  for (int64_t i = 0; i < count && IsFloat(tensor.dtype()); ++i)
    WriteFloat(made, i, static_cast<double>(draw.Below(2001) - 1000) / 1000);
  for (int64_t i = count - 1; i > 0 && !IsFloat(tensor.dtype()); --i) {
    const int64_t j = draw.Below(i + 1), kept = ReadInt(made, i);
    WriteInt(made, i, ReadInt(made, j));
    WriteInt(made, j, kept);
  }
  return made;
}

// Layers over x [n, c] with constants that are weights, rows, places, masks, and made of others.
class LayersMaker {
 public:
  explicit LayersMaker(uint64_t seed) : draw_(seed), b_("layers") {}

  absl::StatusOr<TypedGraph> Run() {
    TypedGraph made;
    type_ = draw_.Pick({DType::kF32, DType::kF32, DType::kF16, DType::kF64});
    columns_ = 1 + draw_.Below(12);
    const int64_t rows = 1 + draw_.Below(6);
    const Dim n = draw_.OneIn(2) ? Dim::Symbol("n") : Dim(rows);
    ValueId x = b_.Input("x", type_, {n, Dim(columns_)});
    made.inputs.push_back(Noise({rows, columns_}));
    for (int64_t steps = 2 + draw_.Below(5); steps > 0; --steps) x = Step(x);
    b_.Output(x, "y");
    if (draw_.OneIn(4)) b_.Output(Weights({3}), "w");  // a constant that is an output
    absl::StatusOr<Graph> graph = std::move(b_).Finish();
    if (!graph.ok()) return graph.status();
    made.graph = *std::move(graph);
    return made;
  }

 private:
  Tensor Noise(std::vector<int64_t> shape) {
    return Other(Tensor::Allocate(type_, std::move(shape)), false, draw_);
  }
  ValueId Weights(std::vector<int64_t> shape) { return b_.Constant(Noise(std::move(shape))); }

  ValueId Step(ValueId x) {
    switch (draw_.Below(7)) {
      case 0: {
        const int64_t from = std::exchange(columns_, 1 + draw_.Below(12));
        return b_.Op("matmul", {x, Weights({from, columns_})});
      }
      case 1:
        return b_.Op(draw_.Pick({"add", "mul", "max"}), {x, Weights({columns_})});
      case 2:  // a pass folds it, where it may
        return b_.Op("add",
                     {x, b_.Op("tanh", {b_.Op("mul", {Weights({columns_}), Weights({1})})})});
      case 3: {
        std::vector<int64_t> places(static_cast<size_t>(columns_));
        std::iota(places.begin(), places.end(), 0);
        return b_.Op("gather", {x, b_.Ints(places)}, {{"axis", int64_t{1}}});
      }
      case 4: {
        Tensor mask = Tensor::Allocate(DType::kBool, {columns_});
        for (int64_t i = 0; i < columns_; ++i) WriteInt(mask, i, draw_.Below(2));
        return b_.Op("where", {b_.Constant(mask), x, b_.Op("neg", {x})});
      }
      case 5:
        return b_.Op("softmax", {x}, {{"axis", int64_t{1}}});
      default: {
        Tensor scale = Noise({columns_});
        const ValueId one = b_.Constant(scale);
        return b_.Op("sub", {b_.Op("mul", {x, one}), one});  // read twice
      }
    }
  }

  Draw draw_;
  GraphBuilder b_;
  DType type_ = DType::kF32;
  int64_t columns_ = 1;
};

class Judge {
 public:
  Judge(const TypedGraph& program, uint64_t seed, bool bits)
      : program_(program), draw_(seed), bits_(bits) {
    options_ = OnVm();
    options_.graph_opt_level = static_cast<int>(seed % 4);
    options_.jit_level = static_cast<int>(seed / 4 % 3);
    options_.threads = seed % 5 == 0 ? 2 : 1;
  }

  // False: there is nothing to judge.
  bool Run() {
    CompileOptions options = options_;
    for (const std::string& name : ConstantsOf(program_.graph))
      if (draw_.OneIn(2)) options.updatable.push_back(name);
    std::shuffle(options.updatable.begin(), options.updatable.end(), draw_.bits());
    if (options.updatable.empty()) return false;
    absl::StatusOr<Model> model = Compile(program_.graph, options);
    if (absl::IsInvalidArgument(model.status())) return false;  // a structure hangs on it
    KILN_EXPECT_OK(model.status());
    if (!model.ok()) return false;
    EXPECT_EQ(model->inputs().size(), program_.graph.inputs().size());
    EXPECT_EQ(model->updatable().size(), options.updatable.size());
    Context context = model->NewContext();
    for (size_t k = 0; k < program_.inputs.size(); ++k)
      KILN_EXPECT_OK(context.Bind(k, program_.inputs[k]));
    Named values;
    for (int round = 0; round < 3 && !testing::Test::HasFailure(); ++round) {
      for (const PortInfo& port : model->updatable()) {
        if (round == 0 || draw_.OneIn(2)) continue;
        values[port.name] = Other(ConstantOf(port.name), bits_, draw_);
        KILN_EXPECT_OK(model->Update(port.name, values[port.name]));
      }
      Compare(*model, context, values);
    }
    return true;
  }

 private:
  const Tensor& ConstantOf(const std::string& name) {
    const auto& all = program_.graph.values();
    return *std::find_if(all.begin(), all.end(), [&](const Value& v) {
              return v.name == name;
            })->constant;
  }

  void Compare(Model& model, Context& context, const Named& values) {
    KILN_ASSERT_OK_AND_ASSIGN(const Graph plain, With(program_.graph, values));
    KILN_ASSERT_OK_AND_ASSIGN(Model fresh, Compile(plain, options_));
    NamedTensors named;
    for (size_t k = 0; k < program_.inputs.size(); ++k)
      named.emplace_back(model.inputs()[k].name, program_.inputs[k]);
    const auto want = fresh.Run(named), got = model.Run(named);
    ASSERT_EQ(got.status().code(), want.status().code()) << got.status() << want.status();
    ASSERT_EQ(context.Run().code(), want.status().code());
    if (!want.ok()) return;
    const auto interpreted = Interpret(plain, program_.inputs);
    KILN_ASSERT_OK(interpreted.status());
    for (size_t k = 0; k < want->size(); ++k) {
      const Tensor& w = (*want)[k];
      EXPECT_EQ(Differ((*got)[k], w), "") << "output " << k;
      EXPECT_EQ(Differ(*context.Output(k), w), "") << "of the context, output " << k;
      if (bits_) continue;  // the interpreter works in float64
      EXPECT_EQ(Differ((*got)[k], (*interpreted)[k]), "") << "interpreted, output " << k;
    }
  }

  std::string Differ(const Tensor& got, const Tensor& want) const {
    if (bits_) return CompareBits(got, want).what;
    const double tolerance = got.dtype() == DType::kF16 ? 0.05 : 1e-4;
    return kiln::Compare(got, want, tolerance, tolerance).what;
  }

  const TypedGraph& program_;
  Draw draw_;
  const bool bits_;
  CompileOptions options_;
};

uint64_t Count() { return FromEnvironment("KILN_UPDATABLE_GRAPHS", 150); }

// All types, values at which types differ, no library operators: the same bits.
TEST(RandomUpdatable, GraphsOfAllTypesGiveTheBitsOfTheirConstants) {
  int judged = 0;
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  for (uint64_t seed = first; seed < first + Count() && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    KILN_ASSERT_OK_AND_ASSIGN(const TypedGraph program, MakeTypedGraph(seed));
    judged += Judge(program, seed, true).Run();
    if (HasFailure()) ADD_FAILURE() << Print(program.graph);
  }
  EXPECT_GE(judged, Count() >= 100 ? 20 : 0);
  RecordProperty("judged", judged);
}

TEST(RandomUpdatable, LayersGiveTheValuesOfTheirConstants) {
  int judged = 0;
  const uint64_t first = FromEnvironment("KILN_SEED", 0);
  for (uint64_t seed = first; seed < first + Count() && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    KILN_ASSERT_OK_AND_ASSIGN(const TypedGraph program, LayersMaker(seed).Run());
    judged += Judge(program, seed, false).Run();
    if (HasFailure()) ADD_FAILURE() << Print(program.graph);
  }
  EXPECT_GE(judged, Count() >= 100 ? 60 : 0);
  RecordProperty("judged", judged);
}

}  // namespace
}  // namespace kiln
