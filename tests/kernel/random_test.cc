// SPDX-License-Identifier: Apache-2.0
#include "tests/kernel/random.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "kernel/canonical.h"
#include "kernel/text.h"

namespace kiln {
namespace {

bool HasReduction(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages) {
    if (stage.kind == Stage::Kind::kReduce) return true;
  }
  return false;
}

// Every eighth of them adds.
Kernel Either(uint64_t seed) { return seed % 8 == 7 ? RandomSums(seed) : RandomKernel(seed); }

TEST(RandomKernel, IsValidAndVaried) {
  std::set<std::string> texts;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Kernel kernel = Either(seed);
    ASSERT_TRUE(Verify(kernel).ok()) << seed << Verify(kernel);
    const std::string text = Print(kernel);
    texts.insert(text);
    const auto again = ParseKernel(text);
    ASSERT_TRUE(again.ok()) << again.status() << text;
    EXPECT_EQ(Print(*again), text);
  }
  EXPECT_GT(texts.size(), 1900u);
}

TEST(RandomKernel, CanonicalTextIsAFixedPoint) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const auto canonical = Canonicalize(Either(seed));
    ASSERT_TRUE(canonical.ok()) << canonical.status() << Print(Either(seed));
    const std::string text = Print(canonical->kernel);
    const auto again = ParseKernel(text);
    ASSERT_TRUE(again.ok()) << again.status() << text;
    EXPECT_EQ(Print(Canonicalize(*again)->kernel), text) << Print(Either(seed));
  }
}

// The operands of the canonical kernel, made from those of the raw one.
RandomRun ForCanonical(const CanonicalKernel& canonical, const RandomRun& raw) {
  RandomRun run;
  for (const std::vector<int32_t>& dims : canonical.dims) {
    int64_t extent = 1;
    for (const int32_t d : dims) extent *= raw.extents[static_cast<size_t>(d)];
    run.extents.push_back(extent);
  }
  for (const CanonicalKernel::ParamValue& param : canonical.params) {
    run.params.push_back(param.raw >= 0 ? raw.params[static_cast<size_t>(param.raw)] : param.bits);
  }
  const auto reshaped = [&](RandomOperand operand, const std::vector<int32_t>& dims) {
    const bool same = dims.size() == operand.shape.size();
    operand.shape.clear();
    for (const int32_t d : dims) operand.shape.push_back(run.extents[static_cast<size_t>(d)]);
    if (!same) operand.strides = DenseStrides(operand.shape);  // merged dims are dense
    return operand;
  };
  for (size_t k = 0; k < canonical.inputs.size(); ++k) {
    run.inputs.push_back(reshaped(raw.inputs[static_cast<size_t>(canonical.inputs[k])],
                                  canonical.kernel.inputs[k].dims));
  }
  for (size_t k = 0; k < canonical.outputs.size(); ++k) {
    run.outputs.push_back(reshaped(raw.outputs[static_cast<size_t>(canonical.outputs[k])],
                                   canonical.kernel.outputs[k].dims));
  }
  return run;
}

TEST(Canonicalize, KeepsEveryBitOfKernelsWithoutReductions) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const Kernel kernel = Either(seed);
    if (HasReduction(kernel)) continue;
    const auto canonical = Canonicalize(kernel);
    ASSERT_TRUE(canonical.ok());
    RandomRun raw = MakeRandomRun(kernel, seed, 2000);
    RandomRun mapped = ForCanonical(*canonical, raw);
    ASSERT_TRUE(
        EvalKernel(kernel, raw.InputBuffers(), raw.extents, raw.params, raw.OutputBuffers()).ok());
    const auto status = EvalKernel(canonical->kernel, mapped.InputBuffers(), mapped.extents,
                                   mapped.params, mapped.OutputBuffers());
    ASSERT_TRUE(status.ok()) << status;
    RandomRun ordered = mapped;
    for (size_t k = 0; k < canonical->outputs.size(); ++k) {
      RandomOperand operand = raw.outputs[static_cast<size_t>(canonical->outputs[k])];
      operand.bytes = mapped.outputs[k].bytes;
      ordered.outputs[static_cast<size_t>(canonical->outputs[k])] = operand;
    }
    EXPECT_EQ(FirstDifference(kernel, ordered, raw), "")
        << seed << "\n"
        << Print(kernel) << Print(canonical->kernel);
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

TEST(FirstDifference, SeesOneBitAndStrayWrites) {
  const Kernel kernel =
      *ParseKernel("kernel v1 math 1\ndims a\nin 0 f32 [a] dense\nout 0 f32 [a] dense = in0[a]\n");
  RandomRun run = MakeRandomRun(kernel, 3, 100);
  ASSERT_GT(run.extents[0], 0);
  RandomRun other = run;
  EXPECT_EQ(FirstDifference(kernel, run, other), "");
  other.outputs[0].bytes[RandomOperand::kPad] ^= 1;
  EXPECT_NE(FirstDifference(kernel, run, other), "");
  other = run;
  other.outputs[0].bytes[RandomOperand::kPad - 1] = 0;
  EXPECT_NE(FirstDifference(kernel, run, other), "");
}

}  // namespace
}  // namespace kiln
