// SPDX-License-Identifier: Apache-2.0
// A model is compiled for a device that only this test's tables know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "compiler/kernel_service.h"
#include "exec/support/kernel_code.h"
#include "graph/text.h"
#include "kernel/text.h"
#include "persistent_cache/store.h"
#include "schedule/choose.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/second_device/device.h"

namespace kiln {
namespace {

constexpr char kGraph[] =
    "graph g\ninput x : f32 [n, 70]\ninput b : f32 [70]\n"
    "s = add(x, b)\nt = tanh(s)\ny = mul(t, x)\nz = reduce_sum(y) {axes = [1], keepdims = 1}\n"
    "w = sub(y, z)\noutput w\n";

Tensor Values(std::vector<int64_t> shape) {
  Tensor t = Tensor::Allocate(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < t.num_elements(); ++i)
    static_cast<float*>(t.data())[i] = static_cast<float>(i % 89) * 0.03F - 1;
  return t;
}

class SecondDevice : public testing::Test {
 protected:
  CompileOptions OptionsFor(Target target) {
    CompileOptions options;
    options.target = target;
    options.codegen = KILN_TEST_BIN_DIR "/second_device_codegen";
    options.validator = KILN_TEST_BIN_DIR "/second_device_validate";
    options.cache.directory = dir_.path();
    options.kernels = std::make_shared<KernelService>(options);
    return options;
  }

  // All bytes of outputs.
  static std::string Run(const CompileOptions& options) {
    absl::StatusOr<Model> model = Compile(*ParseGraph(kGraph), options);
    EXPECT_THAT(model, IsOk());
    std::string bytes;
    for (const int64_t n : {1, 33}) {
      const auto y = model->Run({{"x", Values({n, 70})}, {"b", Values({70})}});
      EXPECT_THAT(y, IsOk());
      const Tensor& w = (*y)[0];
      bytes.append(static_cast<const char*>(w.data()), static_cast<size_t>(w.size_bytes()));
    }
    return bytes;
  }

  TempDir dir_;
};

TEST_F(SecondDevice, ComputesTheBitsOfTheFirst) {
  if (HostTarget(kScalarDevice) != kScalarTarget) GTEST_SKIP() << "no compiled code runs here";
  const CompileOptions scalar = OptionsFor(kScalarTarget);
  EXPECT_EQ(Run(scalar), Run(OptionsFor(HostTarget())));
  const KernelCounts counts = scalar.kernels->counts();
  EXPECT_EQ(counts.built, 2);  // before the sum, and after it
  EXPECT_EQ(counts.vm, 1);     // the sum
  EXPECT_EQ(counts.failed, 0);
}

TEST_F(SecondDevice, NamesItselfInTheCacheAndIsFoundThereAgain) {
  if (HostTarget(kScalarDevice) != kScalarTarget) GTEST_SKIP() << "no compiled code runs here";
  Run(OptionsFor(kScalarTarget));
  const CompileOptions again = OptionsFor(kScalarTarget);
  Run(again);
  EXPECT_EQ(again.kernels->counts().built, 0);
  int found = 0;
  Store& store = *again.kernels->store();
  KILN_ASSERT_OK_AND_ASSIGN(const std::vector<EntryInfo> all, store.List());
  for (const EntryInfo& info : all) {
    const absl::StatusOr<Entry> entry = store.Read(info.key);
    if (!entry.ok() || !CodeOf(*entry)) continue;
    ++found;
    EXPECT_EQ(MetaOf(*entry)["device"], "cpu-scalar");
    EXPECT_EQ(MetaOf(*entry)["schedule"], "scalar_loops");
    EXPECT_EQ(FieldOf(*entry->Find("preimage"), "artefact"), "cpu-scalar kernel elf");
    EXPECT_TRUE(RunsHere(MetaOf(*entry)));
  }
  EXPECT_EQ(found, 2);
}

// Grouping asks the device: what it cannot are collapsed kernel is none.
TEST_F(SecondDevice, DecidesWhatIsOneKernel) {
  const Kernel sum = *ParseKernel(
      "kernel v1 math 1\ndims a b\nin   0 f32 [a, b] dense\n"
      "s0 : f32 [a] = reduce add over b (in0[a, b])\nout  0 f32 [a] dense = s0[a]\n");
  EXPECT_TRUE(AcceptsKernel(sum, LowestTarget()));
  EXPECT_FALSE(AcceptsKernel(sum, kScalarTarget));
  EXPECT_THAT(AcceptsKernel(sum, kScalarTarget).reason(), testing::StartsWith("scalar_loops: "));
}

}  // namespace
}  // namespace kiln
