// SPDX-License-Identifier: Apache-2.0
#include "compiler/value_variants.h"

#include <algorithm>
#include <utility>

#include "base/compare.h"
#include "base/status_macros.h"

namespace kiln {
namespace {

constexpr size_t kMaxEntries = 16;

const InputInfo* FindInput(const std::vector<InputInfo>& inputs, const std::string& name) {
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const InputInfo& input) { return input.name == name; });
  return found == inputs.end() ? nullptr : &*found;
}

// Whether only the shape is known.
bool IsUnknown(const Tensor& tensor) {
  return tensor.data() == nullptr && tensor.num_elements() > 0;
}

bool Agree(const std::map<std::string, Tensor>& values, const std::vector<InputInfo>& inputs) {
  return std::all_of(values.begin(), values.end(), [&](const auto& named) {
    const InputInfo* input = FindInput(inputs, named.first);
    if (input == nullptr || IsUnknown(input->tensor)) return false;
    return CompareBits(input->tensor, named.second).ok;
  });
}

// Whether the inputs have the extents that the graph's do not leave open.
bool HaveShapes(const Graph& graph, const std::vector<InputInfo>& inputs) {
  return std::all_of(graph.inputs().begin(), graph.inputs().end(), [&](ValueId id) {
    const Value& wanted = graph.value(id);
    const InputInfo* input = FindInput(inputs, wanted.name);
    if (input == nullptr || input->tensor.shape().size() != wanted.shape.size()) return false;
    return std::equal(wanted.shape.begin(), wanted.shape.end(), input->tensor.shape().begin(),
                      [](const Dim& dim, int64_t extent) {
                        return !dim.constant() || *dim.constant() == extent;
                      });
  });
}

}  // namespace

std::shared_ptr<ValueVariants::Entry> ValueVariants::Find(const std::vector<InputInfo>& inputs) {
  const MutexLock lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (!Agree((*it)->values, inputs) || !HaveShapes((*it)->import->graph, inputs)) continue;
    entries_.splice(entries_.begin(), entries_, it);
    return entries_.front();
  }
  return nullptr;
}

absl::StatusOr<ValueVariants::Made> ValueVariants::Make(const std::vector<InputInfo>& inputs) {
  const KeyedMutexLock making(making_, ShapesText(inputs));
  std::shared_ptr<Entry> entry = Find(inputs);
  const bool found = entry != nullptr;
  if (!found) {
    std::map<std::string, Tensor> given;
    for (const InputInfo& input : inputs)
      given.emplace(input.name, IsUnknown(input.tensor) ? input.tensor : input.tensor.Clone());
    entry = std::make_shared<Entry>();
    absl::StatusOr<std::shared_ptr<const OnnxImport>> made = source_.For(given);
    if (!made.ok()) return NamingInputs(made.status(), source_.inputs(), inputs);
    entry->import = *std::move(made);
    for (const Guard& guard : entry->import->graph.guards()) {
      if (guard.kind == Guard::Kind::kValue) entry->values.emplace(guard.input, given[guard.input]);
    }
    entry->variants = std::make_unique<Variants>(entry->import->graph, options_, kernels_);
  }
  KILN_ASSIGN_OR_RETURN(std::shared_ptr<const Variant> variant, entry->variants->Get(inputs));
  const MutexLock lock(mutex_);
  if (!found) entries_.push_front(entry);
  if (entries_.size() > kMaxEntries) entries_.pop_back();
  return Made{std::move(variant), entry->import};
}

}  // namespace kiln
