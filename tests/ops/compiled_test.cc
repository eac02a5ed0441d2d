// SPDX-License-Identifier: Apache-2.0
// Every record for every type that it takes: compiled and on the VM, at both ends of optimisation,
// it gives what the interpreter gives, and the same bits. Adding a record adds these tests for it.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/compare.h"
#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "graph/op.h"
#include "graph/reference/interpreter.h"
#include "gtest/gtest.h"
#include "tests/base/status_matchers.h"
#include "tests/compiler/on_vm.h"
#include "tests/graph/tensors.h"
#include "tests/ops/one_call.h"

namespace kiln {
namespace {

// What inputs are drawn from.
enum class Draw : uint8_t {
  kRange,  // the record's range
  kEdges,  // and NaN, infinities, -0; integers: the least, the greatest
};

int64_t EdgeInt(DType type, bool least) {
  if (type == DType::kBool) return least ? 0 : 1;
  const int bits = static_cast<int>(8 * SizeOf(type));
  const bool is_signed =
      type == DType::kI8 || type == DType::kI16 || type == DType::kI32 || type == DType::kI64;
  if (!is_signed) return least ? 0 : -1;  // all bits
  const int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - bits);
  return least ? lowest : ~lowest;
}

double EdgeFloat(unsigned which) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double edges[] = {std::nan(""), kInf, -kInf, -0.0};
  return edges[which % 4];
}

Tensor Drawn(const Value& value, const TestRange& range, Draw draw, std::mt19937& random) {
  Tensor tensor = Tensor::Allocate(value.type, *Constant(value.shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const bool edge = draw == Draw::kEdges && random() % 3 == 0;
    const unsigned which = static_cast<unsigned>(random());
    const double plain = std::uniform_real_distribution<double>(range.lo, range.hi)(random);
    if (IsFloat(value.type)) {
      WriteFloat(tensor, i, edge ? EdgeFloat(which) : plain);
    } else {
      WriteInt(tensor, i, edge ? EdgeInt(value.type, which % 2 == 0) : static_cast<int64_t>(plain));
    }
  }
  return tensor;
}

double Tolerance(DType type) {
  if (type == DType::kF64) return 1e-9;
  if (type == DType::kF32) return 2e-5;
  return type == DType::kF16 ? 4e-3 : 3e-2;
}

// Kernels are built, by workers that all tests of the process share.
CompileOptions Compiled() {
  static auto* const service = new std::shared_ptr<KernelService>;  // as long as the process
  CompileOptions options;
  options.compile_mode = CompileMode::kBlock;
  options.threads = 1;
  options.codegen = KILN_TEST_BIN_DIR "/kiln-codegen";
  if (*service == nullptr) *service = std::make_shared<KernelService>(options);
  options.kernels = *service;
  return options;
}

class CompiledTest : public testing::TestWithParam<const OpDef*> {
 protected:
  // A record that is neither host arithmetic nor a library call is a kernel, and kernels are built.
  static void ExpectBuilt() {
    const KernelCounts counts = Compiled().kernels->counts();
    EXPECT_EQ(counts.vm, 0) << "kernels stayed on the VM";
    EXPECT_EQ(counts.failed, 0);
  }

  static void ExpectAgrees(const Graph& graph, const std::vector<Tensor>& inputs) {
    const absl::StatusOr<std::vector<Tensor>> want = Interpret(graph, inputs);
    std::vector<std::pair<std::string, Tensor>> named;
    for (size_t k = 0; k < inputs.size(); ++k) named.emplace_back(absl::StrCat("x", k), inputs[k]);
    for (const int level : {0, 3}) {
      std::vector<Tensor> on_vm;
      for (CompileOptions options : {OnVm(), Compiled()}) {
        options.graph_opt_level = level;
        KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(graph, options));
        const absl::StatusOr<std::vector<Tensor>> got = model.Run(named);
        ASSERT_EQ(got.ok(), want.ok()) << got.status() << " and " << want.status();
        if (!got.ok()) continue;
        ASSERT_EQ(got->size(), want->size());
        for (size_t k = 0; k < got->size(); ++k) {
          const double bound = Tolerance((*want)[k].dtype());
          const Comparison c = Compare((*got)[k], (*want)[k], bound, bound);
          EXPECT_TRUE(c.ok) << "-O" << level << " output " << k << ": " << c.what;
          if (!on_vm.empty()) {
            const Comparison same = Compare((*got)[k], on_vm[k], 0, 0);
            EXPECT_TRUE(same.ok) << "-O" << level << " compiled and VM, output " << k << ": "
                                 << same.what;
          }
        }
        on_vm = *got;
      }
    }
    ExpectBuilt();
  }

  static void ExpectAgreesForAllTypes(Draw draw) {
    if (!HasPlainCall(*GetParam()))
      GTEST_SKIP() << "tests/compiler/control_test.cc has calls of it";
    for (const DType type : kTypes) {
      const absl::StatusOr<Graph> graph = OneCall(*GetParam(), type);
      if (!graph.ok()) continue;
      SCOPED_TRACE(std::string(Name(type)));
      std::mt19937 random(7);
      std::vector<Tensor> inputs;
      for (const ValueId id : graph->inputs())
        inputs.push_back(Drawn(graph->value(id), GetParam()->test, draw, random));
      ExpectAgrees(*graph, inputs);
    }
  }
};

TEST_P(CompiledTest, AgreesWithTheInterpreterForEveryType) {
  ExpectAgreesForAllTypes(Draw::kRange);
}

TEST_P(CompiledTest, AgreesOnEdgesOfEveryType) {
  const std::string op = GetParam()->name;
  if (op == "elements") GTEST_SKIP() << "its input is extents";
  if (op == "conv") GTEST_SKIP() << "oneDNN multiplies the zeros of its padding (docs/numerics.md)";
  ExpectAgreesForAllTypes(Draw::kEdges);
}

INSTANTIATE_TEST_SUITE_P(All, CompiledTest, testing::ValuesIn(AllOps().begin(), AllOps().end()),
                         [](const testing::TestParamInfo<const OpDef*>& info) {
                           return std::string(info.param->name);
                         });

}  // namespace
}  // namespace kiln
