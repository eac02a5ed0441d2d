// SPDX-License-Identifier: Apache-2.0
#include "tools/train_evaluate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/status.h"
#include "base/status_macros.h"
#include "graph/tensors.h"

namespace kiln {
namespace {

// How many labels the mean that a loss is counts.
int64_t Counted(const Tensor& labels, std::optional<int64_t> ignored) {
  if (!ignored) return labels.num_elements();
  int64_t count = 0;
  for (int64_t i = 0; i < labels.num_elements(); ++i) count += ReadInt(labels, i) != *ignored;
  return count;
}

// How many of them are the class whose output is largest, for outputs [n, classes].
std::optional<int64_t> Right(const Tensor& output, const Tensor& labels,
                             std::optional<int64_t> ignored) {
  if (output.rank() != 2 || labels.rank() != 1 || !IsInt(labels.dtype())) return std::nullopt;
  const int64_t n = output.shape()[0], classes = output.shape()[1];
  int64_t right = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t label = ReadInt(labels, i);
    if (label == ignored) continue;
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (ReadFloat(output, i * classes + c) > ReadFloat(output, i * classes + best)) best = c;
    }
    right += best == label;
  }
  return right;
}

size_t OutputNumber(const Trainer& trainer, const std::string& name) {
  for (size_t k = 0; k < trainer.outputs().size(); ++k) {
    if (trainer.outputs()[k].name == name) return k;
  }
  return 0;
}

}  // namespace

absl::StatusOr<EvaluatedSamples> EvaluateSamples(Trainer& trainer, const Samples& samples,
                                                 const EvaluatedSamples::Of& of) {
  const int64_t n = samples.size(), used = of.whole_batches ? n - n % of.batch : n;
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const bool has_labels = trainer.inputs().back().name == of.labels;
  const size_t output = OutputNumber(trainer, of.output);
  int64_t count = 0, right = 0;
  double loss = 0;
  bool has_classes = has_labels;
  for (int64_t begin = 0; begin < used; begin += of.batch) {
    const int64_t end = std::min(begin + of.batch, used);
    KILN_ASSIGN_OR_RETURN(const NamedTensors some, samples.Batch(order, begin, end));
    KILN_ASSIGN_OR_RETURN(const Evaluation found, trainer.Evaluate(some));
    const Tensor& labels = some.back().second;
    const int64_t counted = has_labels ? Counted(labels, of.ignored) : end - begin;
    count += counted;
    loss += found.loss * static_cast<double>(counted);
    if (!has_classes) continue;
    const std::optional<int64_t> own = Right(found.outputs[output], labels, of.ignored);
    has_classes = own.has_value();
    right += own.value_or(0);
  }
  if (used == 0)
    return Invalid("--eval: there are ", n, " samples; the model takes ", of.batch, " at once");
  if (count == 0) return Invalid("--eval: all labels are ignored; give some that count");
  EvaluatedSamples evaluated;
  evaluated.loss = loss / static_cast<double>(count);
  if (has_classes) evaluated.accuracy = static_cast<double>(right) / static_cast<double>(count);
  return evaluated;
}

}  // namespace kiln
