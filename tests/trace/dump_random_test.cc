// SPDX-License-Identifier: Apache-2.0
// Random functions, dumped in each form and loaded: the bits of each operation alone on the VM.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kiln/compile.h"
#include "tests/base/status_matchers.h"
#include "tests/base/temp_dir.h"
#include "tests/trace/dumped_function.h"

namespace kiln {
namespace {

int64_t Setting(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

TEST(TraceDumpRandom, LoadedFilesGiveTheBitsOfEachOperationAlone) {
  const int64_t count = Setting("KILN_TRACE_DUMPS", 30), first = Setting("KILN_SEED", 1);
  TempDir dir;
  for (int64_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("KILN_SEED=", seed));
    const RandomFunction f = RandomModel(static_cast<uint64_t>(seed));
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const std::vector<Tensor> inputs = RandomInputs(f, random);
    KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, EagerRunner().Run(f, inputs));
    DumpOptions options;
    options.keep_var_name = static_cast<int>(seed % 3);
    if (seed % 2 == 0) options.optimize_for_inference.emplace();
    for (const char* const form : {"m.graph", "m.onnx", "m.kiln"}) {
      KILN_ASSERT_OK(TraceAndDump(f, inputs, dir.File(form), options).status());
      KILN_ASSERT_OK_AND_ASSIGN(Model model, Compile(dir.File(form), OnVm()));
      NamedTensors named;
      for (size_t k = 0; k < model.inputs().size(); ++k)
        named.emplace_back(model.inputs()[k].name, inputs[k]);
      KILN_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, model.Run(named));
      ASSERT_EQ(got.size(), want.size());
      for (size_t k = 0; k < got.size(); ++k)
        EXPECT_TRUE(SameBits(got[k], want[k])) << form << ", result " << k << "\n" << f.ToString();
    }
  }
}

}  // namespace
}  // namespace kiln
