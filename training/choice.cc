// SPDX-License-Identifier: Apache-2.0
#include "training/choice.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/printable.h"
#include "base/status.h"
#include "base/status_macros.h"
#include "graph/op.h"
#include "graph/tensors.h"

namespace kiln::training {
namespace {

constexpr absl::string_view kOwnPrefix = "kiln/";
constexpr size_t kFirstStatistic = 3;  // inputs of batch_norm: x, scale, bias, mean, variance

bool IsBatchNorm(const Node& node) { return absl::string_view(node.op->name) == "batch_norm"; }

bool IsConstant(const Value& value) { return value.constant && value.producer.v < 0; }

// The constant that `id` is, or is an identity of: exporters that merge equal constants leave those
// in their places. Null: none.
const Value* ConstantOf(const Graph& model, ValueId id) {
  while (model.value(id).producer.v >= 0) {
    const Node& node = model.node(model.value(id).producer);
    if (absl::string_view(node.op->name) != "identity") return nullptr;
    id = node.inputs[0];
  }
  return IsConstant(model.value(id)) ? &model.value(id) : nullptr;
}

// The values that `output` is made of in training: no statistics.
std::vector<bool> Reached(const Graph& model, ValueId output) {
  std::vector<bool> reached(model.values().size());
  reached[static_cast<size_t>(output.v)] = true;
  for (auto node = model.nodes().rbegin(); node != model.nodes().rend(); ++node) {
    const bool needed = std::any_of(node->outputs.begin(), node->outputs.end(),
                                    [&](ValueId id) { return reached[static_cast<size_t>(id.v)]; });
    if (!needed) continue;
    const bool has = !StatisticsOf(model, *node).mean.empty();
    const size_t read = has ? kFirstStatistic : node->inputs.size();
    for (const ValueId id : std::span(node->inputs).first(read)) {
      if (id.valid()) reached[static_cast<size_t>(id.v)] = true;
    }
  }
  return reached;
}

// Whether `id` is computed from `source`.
bool IsMadeOf(const Graph& model, ValueId id, ValueId source) {
  std::vector<ValueId> work = {id};
  std::set<ValueId> seen;
  while (!work.empty()) {
    const ValueId next = work.back();
    work.pop_back();
    if (next == source) return true;
    if (!next.valid() || !seen.insert(next).second || model.value(next).producer.v < 0) continue;
    const Node& node = model.node(model.value(next).producer);
    work.insert(work.end(), node.inputs.begin(), node.inputs.end());
  }
  return false;
}

// A batch norm without statistics normalises by those that the model computes from the batch.
absl::Status CheckNormalizesByBatch(const Graph& model, const Node& node) {
  for (size_t k = kFirstStatistic; k < node.inputs.size(); ++k) {
    if (IsMadeOf(model, node.inputs[k], node.inputs[0])) continue;
    return Invalid("trainer: batch norm \"", Printable(node.name), "\": its ",
                   k == kFirstStatistic ? "mean" : "variance", " \"",
                   Printable(model.value(node.inputs[k]).name),
                   "\" is no constant, and not made of what it normalises; export the model with "
                   "constants folded");
  }
  return absl::OkStatus();
}

bool AllFinite(const Tensor& tensor) {
  const Tensor dense = Dense(tensor);
  if (dense.dtype() == DType::kF32) {  // all of a network's weights, mostly
    const auto* const data = static_cast<const float*>(dense.data());
    return std::all_of(data, data + dense.num_elements(), [](float x) { return std::isfinite(x); });
  }
  for (int64_t i = 0; i < dense.num_elements(); ++i) {
    if (!std::isfinite(ReadFloat(dense, i))) return false;
  }
  return true;
}

// Tensors of one name and type; the constants that they are.
class Groups {
 public:
  void Add(const std::string& name, const Tensor& value) {
    if (values_.emplace(name, value).second)
      shapes_[value.dtype()].push_back({name, value.shape()});
  }

  absl::StatusOr<std::vector<FlatGroup>> LaidOut(std::map<std::string, Tensor>& values) const {
    std::vector<FlatGroup> groups;
    for (const auto& [type, shapes] : shapes_) {
      KILN_ASSIGN_OR_RETURN(FlatLayout layout, LayOut(shapes, type));
      groups.push_back({type, std::move(layout)});
    }
    for (const auto& [name, value] : values_) {
      if (absl::StartsWith(name, kOwnPrefix))
        return Invalid("trainer: constant \"", Printable(name),
                       "\": names that begin with \"kiln/\" are those of a checkpoint; rename it");
      if (!values.emplace(name, value).second)
        return Invalid("trainer: constant \"", Printable(name),
                       "\" is a parameter and a running statistic; rename one");
    }
    return groups;
  }

  bool empty() const { return values_.empty(); }

 private:
  std::map<DType, std::vector<NamedShape>> shapes_;
  std::map<std::string, Tensor> values_;
};

// Patterns, and which of them have named something.
class Patterns {
 public:
  explicit Patterns(const std::vector<std::string>& patterns)
      : patterns_(patterns), used_(patterns.size()) {}

  bool Matches(const std::string& name) {
    bool any = false;
    for (size_t k = 0; k < patterns_.size(); ++k) {
      if (fnmatch(patterns_[k].c_str(), name.c_str(), 0) != 0) continue;
      used_[k] = any = true;
    }
    return any;
  }

  absl::Status CheckUsed(absl::string_view what, const std::vector<std::string>& names) const {
    for (size_t k = 0; k < patterns_.size(); ++k) {
      if (used_[k]) continue;
      constexpr size_t kMost = 12;  // in a message
      std::string text;
      for (size_t i = 0; i < names.size() && i < kMost; ++i)
        absl::StrAppend(&text, i == 0 ? "" : ", ", Printable(names[i]));
      if (names.size() > kMost) absl::StrAppend(&text, " and ", names.size() - kMost, " more");
      return Invalid("trainer: ", what, " \"", Printable(patterns_[k]),
                     "\" names no constant of floats that the loss depends on; there are ",
                     names.empty() ? "none" : text);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<std::string>& patterns_;
  std::vector<bool> used_;
};

}  // namespace

StatisticNames StatisticsOf(const Graph& model, const Node& node) {
  if (!IsBatchNorm(node)) return {};
  const auto name_of = [&](size_t input) -> std::string {
    const ValueId id = node.inputs[input];
    const Value& value = model.value(id);
    if (ConstantOf(model, id) == nullptr) return "";
    const auto reads = std::count(node.inputs.begin(), node.inputs.end(), id);
    if (model.UsersOf(id).size() == 1 && reads == 1) return value.name;
    return absl::StrCat(value.name, "@", model.value(node.outputs[0]).name, input == 3 ? "" : ".v");
  };
  StatisticNames names = {name_of(3), name_of(4)};
  return names.mean.empty() || names.variance.empty() ? StatisticNames() : names;
}

absl::StatusOr<Choice> Choose(const Graph& model, ValueId output,
                              const std::vector<std::string>& parameters,
                              const std::vector<std::string>& frozen) {
  const std::vector<bool> reached = Reached(model, output);
  Groups statistics, trained;
  for (const Node& node : model.nodes()) {
    if (!IsBatchNorm(node) || !reached[static_cast<size_t>(node.outputs[0].v)]) continue;
    const StatisticNames names = StatisticsOf(model, node);
    if (names.mean.empty()) {
      KILN_RETURN_IF_ERROR(CheckNormalizesByBatch(model, node));
      continue;
    }
    statistics.Add(names.mean, *ConstantOf(model, node.inputs[3])->constant);
    statistics.Add(names.variance, *ConstantOf(model, node.inputs[4])->constant);
  }
  Patterns wanted(parameters), unwanted(frozen);
  std::vector<std::string> names;
  for (size_t v = 0; v < model.values().size(); ++v) {
    const Value& value = model.values()[v];
    if (!IsConstant(value) || !IsFloat(value.type) || !reached[v]) continue;
    if (value.constant->num_elements() == 0) continue;
    names.push_back(value.name);
    const bool named = wanted.Matches(value.name), left_out = unwanted.Matches(value.name);
    const bool usual = value.constant->rank() > 0 && !value.literal && AllFinite(*value.constant);
    const bool chosen = parameters.empty() ? usual : named;
    if (chosen && !left_out) trained.Add(value.name, *value.constant);
  }
  KILN_RETURN_IF_ERROR(wanted.CheckUsed("parameters", names));
  KILN_RETURN_IF_ERROR(unwanted.CheckUsed("frozen", names));
  if (trained.empty())
    return Invalid("trainer: the model \"", Printable(model.name),
                   "\" has no constant of floats to train that the loss depends on; name some with "
                   "`parameters`, or freeze fewer");
  Choice choice;
  KILN_ASSIGN_OR_RETURN(choice.parameters, trained.LaidOut(choice.values));
  KILN_ASSIGN_OR_RETURN(choice.statistics, statistics.LaidOut(choice.values));
  return choice;
}

}  // namespace kiln::training
