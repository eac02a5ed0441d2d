// SPDX-License-Identifier: Apache-2.0
// Whether a graph gives the same bits however it is compiled: at -O0 on the VM, which is one kernel
// per operator, and at every other level, on the VM and compiled.
#ifndef KILN_TESTS_FUSION_STRICT_JUDGE_H_
#define KILN_TESTS_FUSION_STRICT_JUDGE_H_

#include <memory>
#include <string>
#include <vector>

#include "compiler/kernel_service.h"
#include "compiler/machine_of.h"
#include "tests/fusion/typed_graph.h"

namespace kiln {

struct StrictSetting {
  int level = 3;
  int jit_level = 2;
  bool compiled = false;
};

class StrictJudge {
 public:
  // Compiled kernels are kept under `cache`.
  explicit StrictJudge(const std::string& cache);

  // What is wrong with `net`, or "": other bits than those of -O0, or a kernel that cannot be built
  // or validated. Then `net` has become the least part of it that is still
  // wrong: one output, computed by as few of its nodes as a prefix allows.
  std::string Check(TypedGraph& net, const std::vector<StrictSetting>& settings);

 private:
  std::string Difference(const TypedGraph& net, const StrictSetting& setting,
                         const std::vector<Tensor>& want);
  std::string Shrink(TypedGraph& net, const StrictSetting& setting);

  CompileOptions OptionsFor(const StrictSetting& setting) const;

  const std::shared_ptr<KernelService> kernels_;  // builds and keeps them
};

// The levels on the VM, fusion of element-wise nodes alone among them.
std::vector<StrictSetting> SettingsOnVm();

// `net` as files for `kiln run`: its graph and inputs, under `directory`. Returns the command.
std::string WriteCase(const TypedGraph& net, const std::string& directory);

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_STRICT_JUDGE_H_
