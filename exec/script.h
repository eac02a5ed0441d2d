// SPDX-License-Identifier: Apache-2.0
// Script: a program whose course or extents depend on data, as a list of steps between which the
// executor may look at results. Everything that is heavy happens in its callees, each a program
// with guards, variants and plans of its own: a segment of the model, a branch, the body of a loop.
//
//   slots: 0 x [n]   1 found [1, k]   2 y [k]
//   step 0  host nonzero(0) -> 1            k is the extent that came out
//   step 1  call callee 0 (1, x, k) -> 2    a plan for n and k, made once per pair
//
// Symbols get values from the inputs, and then from every result: an extent, or an element, that is
// written as one symbol and has no value yet. A callee that needs symbols which its own inputs do
// not tell takes them as its last input, an i64 vector.
#ifndef KILN_EXEC_SCRIPT_H_
#define KILN_EXEC_SCRIPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "exec/library/library.h"
#include "exec/provider.h"
#include "kiln/dim.h"
#include "kiln/model.h"

namespace kiln {

struct ScriptStep {
  enum class Kind : uint8_t {
    kCall,  // callees[0](inputs) -> outputs
    kHost,  // `op` of exec/library/dynamic_ops.h
    kIf,    // input 0 chooses between callees[0] and callees[1], called with the other inputs
    kLoop,  // as ops/control.cc says; callees[0] is the body
  };
  Kind kind = Kind::kCall;
  std::string name, op;
  library::Attributes attributes;  // kHost
  // kHost of the caller's: fills outputs whose shapes are those of the slots.
  std::function<absl::Status(const std::vector<Tensor>&, std::vector<Tensor>&)> custom;
  std::vector<int> inputs, outputs;  // slots; -1: absent
  std::vector<int> callees;
  int carried = 0;            // kLoop
  std::vector<int> released;  // slots that no later step reads
};

struct Script {
  struct Slot {
    std::string name;
    DType type = DType::kF32;
    Shape shape, elements;  // elements: empty unless they are symbols
  };
  struct Callee {
    std::shared_ptr<VariantProvider> program;
    std::vector<std::string> symbols;  // its last input, if there are any
  };
  std::vector<Slot> slots;
  std::vector<std::pair<int, Tensor>> constants;  // by slot
  std::vector<int> inputs, outputs;               // slots of the ports
  std::vector<Callee> callees;
  std::vector<ScriptStep> steps;
};

// Runs one script for one caller; keeps the callees' plans and memory from run to run.
class ScriptRun {
 public:
  // `owner` is the model on whose pool everything runs; it outlives this.
  ScriptRun(std::shared_ptr<const Script> script, Model::State& owner);
  ~ScriptRun();

  // `inputs` in port order, dense. Errors name the step. With `times`, one entry per step that ran.
  // Stops where `control` says so.
  absl::StatusOr<std::vector<Tensor>> Run(const std::vector<Tensor>& inputs, SymbolValues symbols,
                                          const RunControl& control,
                                          std::vector<ThunkTime>* times = nullptr);
  const PlanReport& report() const { return report_; }  // sums over the last run

 private:
  struct Callee;
  // What the iterations of a loop give, one after the other.
  class Stack {
   public:
    explicit Stack(const Script::Slot& slot) : slot_(slot) {}
    absl::Status Push(const Tensor& iteration);
    absl::StatusOr<Tensor> Finish(const SymbolValues& symbols) &&;

   private:
    const Script::Slot& slot_;
    std::vector<int64_t> shape_;  // of an iteration
    int64_t count_ = 0;
    Tensor memory_;  // bytes, more than are needed
  };
  absl::StatusOr<std::vector<Tensor>> Call(int callee, const std::vector<Tensor>& inputs);
  // The parts of a call: inputs stay bound and results are in the context.
  absl::Status BindCallee(int callee, const std::vector<Tensor>& inputs);
  absl::Status RunCallee(Callee& callee);
  absl::StatusOr<Tensor> SymbolsOf(const Script::Callee& callee) const;
  absl::StatusOr<std::vector<Tensor>> RunStep(const ScriptStep& step,
                                              const std::vector<Tensor>& inputs);
  absl::StatusOr<std::vector<Tensor>> Custom(const ScriptStep& step,
                                             const std::vector<Tensor>& inputs);
  absl::StatusOr<std::vector<Tensor>> Loop(const ScriptStep& step,
                                           const std::vector<Tensor>& inputs);
  absl::Status Iterate(const ScriptStep& step, Callee& body, std::vector<Tensor>& state,
                       std::vector<Stack>& stacks);
  absl::Status Learn(const Script::Slot& slot, const Tensor& tensor);

  // For who watches launches (RunOptions::on_thunk).
  absl::Status See(const ScriptStep& step, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& outputs) const;

  const std::shared_ptr<const Script> script_;
  const RunOptions& options_;  // the owner's
  std::vector<std::unique_ptr<Callee>> callees_;
  SymbolValues symbols_;
  RunControl control_;  // of the run in progress
  PlanReport report_;
};

}  // namespace kiln

#endif  // KILN_EXEC_SCRIPT_H_
