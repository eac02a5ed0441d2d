// SPDX-License-Identifier: Apache-2.0
// Whether a graph gives the same bits however it is compiled: at -O0 on the VM, which is one kernel
// per operator, and at every other level, on the VM and compiled.
#ifndef KILN_TESTS_FUSION_STRICT_JUDGE_H_
#define KILN_TESTS_FUSION_STRICT_JUDGE_H_

#include <string>
#include <vector>

#include "kiln/compiler/options.h"
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
  explicit StrictJudge(std::string cache) : cache_(std::move(cache)) {}

  // What is wrong with `net`, or "". Then `net` has become the least part of it that is still
  // wrong: one output, computed by as few of its nodes as a prefix allows.
  std::string Check(TypedGraph& net, const std::vector<StrictSetting>& settings);

 private:
  std::string Difference(const TypedGraph& net, const StrictSetting& setting,
                         const std::vector<Tensor>& want);
  std::string Shrink(TypedGraph& net, const StrictSetting& setting);

  const std::string cache_;
};

// The levels on the VM, fusion of element-wise nodes alone among them.
std::vector<StrictSetting> SettingsOnVm();

// `net` as files for `kiln run`: its graph and inputs, under `directory`. Returns the command.
std::string WriteCase(const TypedGraph& net, const std::string& directory);

}  // namespace kiln

#endif  // KILN_TESTS_FUSION_STRICT_JUDGE_H_
