// SPDX-License-Identifier: Apache-2.0
// Compiles a kernel for one level and compares it with EvalKernel at given extents.
#ifndef KILN_TESTS_HALIDE_GEN_HARNESS_H_
#define KILN_TESTS_HALIDE_GEN_HARNESS_H_

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "halide_gen/common/protocol.h"
#include "kernel/kernel.h"
#include "schedule/schedule.h"
#include "tests/halide_gen/loaded_kernel.h"

namespace kiln {

// A kernel compiled in-process (well, in a child), ready to run. Fails the current test if anything
// goes wrong.
class CompiledKernel {
 public:
  // With the cheapest candidate that has all of `words`: a template's name, or fields with values,
  // as in "transpose columns=64". `sizes` empty: nothing is known of the extents.
  CompiledKernel(const std::string& text, IsaLevel isa, const std::string& words = "",
                 SizeClass sizes = {});
  CompiledKernel(const std::string& text, IsaLevel isa, const Schedule& schedule);

  bool ok() const { return loaded_ != nullptr; }
  const Kernel& kernel() const { return kernel_; }
  const Schedule& schedule() const { return schedule_; }
  const CodegenAnswer& answer() const { return answer_; }
  const LoadedKernel& loaded() const { return *loaded_; }

  // Runs both on inputs made from `seed` and reports the first difference as a test failure. With
  // `in_place` also runs once per guaranteed pair with the output over the input, and once with
  // many.
  void Check(const std::vector<int32_t>& extents, uint32_t seed, bool in_place = true);

 private:
  void Choose(const std::string& text, IsaLevel isa, const std::string& words, SizeClass sizes);
  void Compile(const std::string& text, IsaLevel isa);
  std::vector<HostArray> MakeInputs(const std::vector<int32_t>& extents,
                                    std::mt19937& random) const;
  std::vector<HostArray> MakeOutputs(const std::vector<int32_t>& extents) const;
  std::vector<uint64_t> MakeParams(std::mt19937& random) const;
  void CheckAllInPlace(const std::vector<int32_t>& extents, const std::vector<HostArray>& inputs,
                       const std::vector<HostArray>& want, const std::vector<uint64_t>& params);

  Kernel kernel_;
  Schedule schedule_;
  CodegenAnswer answer_;
  std::unique_ptr<LoadedKernel> loaded_;
};

// The loops of `kernel`, whose header is left out, for x86-64-v4, as the worker prints them.
std::string Statements(const std::string& kernel, const std::string& schedule,
                       const std::string& target = "x86-64-v4");

// The same of a pointwise kernel of f32 in0[a], in vectors of `lanes`.
std::string StatementsOf(const std::string& expr, int lanes);

// The levels this machine can run, for parameterised tests; at least x86-64-v3 is needed for any.
std::vector<IsaLevel> RunnableLevels();

}  // namespace kiln

#endif  // KILN_TESTS_HALIDE_GEN_HARNESS_H_
