// SPDX-License-Identifier: Apache-2.0
// Whether a program gives the same bits wherever its caller has inputs and outputs: the reference
// is a run on copies of the inputs with all outputs in memory of the context's own.
//
// Every run is also held to what a context promises beside its results: nothing is written but
// outputs, outputs of the context's own lie apart from all that is bound, and outputs that overlap
// each other are refused before anything is written.
#ifndef KILN_TESTS_COMPILER_BOUND_JUDGE_H_
#define KILN_TESTS_COMPILER_BOUND_JUDGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tensor.h"
#include "compiler/machine_of.h"
#include "exec/binding.h"
#include "kiln/model.h"
#include "tests/compiler/bound_programs.h"

namespace kiln {

class BoundJudge {
 public:
  static absl::StatusOr<BoundJudge> Create(const BoundProgram& program,
                                           const CompileOptions& options);

  // Whether the program takes its inputs at all.
  bool Runs() { return Reference(inputs_).ok(); }

  // Each says what is wrong, or "".

  // Every output over every input of as many bytes, alone.
  std::string Pairs();
  // All inputs and most outputs in one piece of memory: outputs over inputs, one or many, from the
  // first byte on or beside; inputs that are one memory, or that are not dense.
  std::string Layout(uint64_t seed);
  // Runs one after the other in one context, where inputs are outputs of the run before, and
  // outputs are bound over inputs, over earlier outputs, elsewhere or not at all.
  std::string FedBack(uint64_t seed, int runs);

  // How many runs there were with an output over an input, and how many were refused.
  int64_t over() const { return over_; }
  int64_t refused() const { return refused_; }

 private:
  struct Ports {
    std::vector<Tensor> inputs;
    std::vector<std::optional<Tensor>> outputs;
    Tensor memory;  // further bytes to watch, or empty
  };
  BoundJudge(Model model, std::vector<Tensor> inputs)
      : model_(std::move(model)), reference_(model_.NewContext()), inputs_(std::move(inputs)) {}

  absl::StatusOr<std::vector<Tensor>> Reference(const std::vector<Tensor>& inputs);
  std::string Run(Context& context, const Ports& ports, const std::vector<Tensor>& want);
  std::string CheckResults(Context& context, const Ports& ports, const std::vector<Tensor>& want);
  std::string Describe(const Ports& ports, const std::string& what) const;
  bool Overlapping(const Ports& ports) const;
  std::vector<Tensor> PlaceInputs(std::mt19937_64& random, const Tensor& memory,
                                  std::vector<int64_t>& places);
  std::optional<Tensor> PlaceOutput(std::mt19937_64& random, const Tensor& memory,
                                    const std::vector<int64_t>& places, const Tensor& like);
  void Feed(std::mt19937_64& random, const std::vector<Tensor>& made, Ports& ports) const;
  void Rebind(std::mt19937_64& random, const std::vector<Tensor>& made,
              const std::vector<Tensor>& want, Ports& ports) const;

  Model model_;
  Context reference_;
  std::vector<Tensor> inputs_;
  int64_t over_ = 0, refused_ = 0;
};

}  // namespace kiln

#endif  // KILN_TESTS_COMPILER_BOUND_JUDGE_H_
