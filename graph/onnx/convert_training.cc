// SPDX-License-Identifier: Apache-2.0
// Optimizers of ONNX (ai.onnx.preview.training): the updates of graph/training/optimizer.h, one for
// each of the parameters that a node has.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/onnx/compose.h"
#include "graph/onnx/converter.h"
#include "graph/onnx/node_view.h"
#include "graph/training/optimizer.h"

namespace kiln::onnx {
namespace {

using training::Adagrad;
using training::Adam;
using training::Optimizer;
using training::Sgd;
using training::Updated;

// Inputs are R, T, then all parameters, all gradients, and all of each moment; outputs the new
// parameters and moments in the same order. `kept` is what is left of a parameter at the end.
absl::Status EmitUpdates(NodeView& n, const Optimizer& optimizer, ValueId t, double kept = 1) {
  KILN_RETURN_IF_ERROR(n.status());
  KILN_RETURN_IF_ERROR(n.Need(n.num_inputs(), n.num_inputs()));
  const int kinds = 2 + static_cast<int>(training::MomentNames(optimizer).size());
  const int count = (n.num_inputs() - 2) / kinds;
  if (count < 1 || n.num_inputs() != 2 + count * kinds)
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", n.num_inputs(), " inputs, expected R, T and ", kinds, " for each parameter"));
  for (int k = 0; k < count; ++k) {
    const auto input = [&](int kind) { return n.in(2 + kind * count + k); };
    std::vector<ValueId> moments;
    for (int kind = 1; kind < kinds; ++kind) {
      KILN_RETURN_IF_ERROR(RequireShape(n, input(kind), ShapeOf(n, input(0)), "an operand"));
      if (TypeOf(n, input(kind)) != TypeOf(n, input(0)))
        return absl::InvalidArgumentError(
            absl::StrCat("an operand is ", Name(TypeOf(n, input(kind))), ", its parameter ",
                         Name(TypeOf(n, input(0)))));
      if (kind > 1) moments.push_back(input(kind));
    }
    KILN_ASSIGN_OR_RETURN(Updated next, training::Update(n.builder(), optimizer, input(0), input(1),
                                                         moments, n.in(0), t));
    if (kept != 1)
      next.parameter = n.Op("mul", {next.parameter, n.Scalar(n.value(input(0)).type, kept)});
    KILN_RETURN_IF_ERROR(n.status());
    next.moments.insert(next.moments.begin(), next.parameter);
    for (size_t kind = 0; kind < next.moments.size(); ++kind) {
      const int output = static_cast<int>(kind) * count + k;
      if (n.wants(output)) KILN_RETURN_IF_ERROR(n.Give(output, next.moments[kind]));
    }
  }
  return n.status();
}

// ONNX counts updates from 0.
ValueId NextOf(NodeView& n, ValueId t) { return n.Op("add", {t, n.Scalar(DType::kI64, 1)}); }

absl::Status ConvertAdam(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(6, n.num_inputs()));
  const Adam adam = {.beta1 = n.Float("alpha", 0.9F),
                     .beta2 = n.Float("beta", 0.999F),
                     .epsilon = n.Float("epsilon", 1e-6F),
                     .weight_decay = n.Float("norm_coefficient", 0),
                     .epsilon_hat = true};
  return EmitUpdates(n, adam, n.in(1), 1 - n.Float("norm_coefficient_post", 0));
}

absl::Status ConvertAdagrad(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(5, n.num_inputs()));
  const Adagrad adagrad = {.lr_decay = n.Float("decay_factor", 0),
                           .weight_decay = n.Float("norm_coefficient", 0),
                           .epsilon = n.Float("epsilon", 1e-6F)};
  return EmitUpdates(n, adagrad, NextOf(n, n.in(1)));
}

absl::Status ConvertMomentum(NodeView& n) {
  KILN_RETURN_IF_ERROR(n.Need(5, n.num_inputs()));
  const std::string mode = n.Text("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return absl::InvalidArgumentError(
        absl::StrCat("mode is \"", mode, "\", expected standard or nesterov"));
  if (n.Float("alpha", 0) == 0)
    return absl::UnimplementedError("alpha is 0: there is no momentum to keep");
  const Sgd sgd = {.momentum = n.Float("alpha", 0),
                   .dampening = 1 - n.Float("beta", 0),
                   .weight_decay = n.Float("norm_coefficient", 0),
                   .nesterov = mode == "nesterov"};
  return EmitUpdates(n, sgd, NextOf(n, n.in(1)));
}

constexpr Converter kTrainingRows[] = {
    {"ai.onnx.preview.training.Adagrad", kOldestOpset, ConvertAdagrad},
    {"ai.onnx.preview.training.Adam", kOldestOpset, ConvertAdam},
    {"ai.onnx.preview.training.Momentum", kOldestOpset, ConvertMomentum},
};

}  // namespace

std::span<const Converter> TrainingConverters() { return kTrainingRows; }

}  // namespace kiln::onnx
