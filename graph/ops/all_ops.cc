// SPDX-License-Identifier: Apache-2.0
// The registry: every record of every family once, by name.
#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"
#include "graph/ops/ops.h"

namespace kiln {
namespace {

std::vector<const OpDef*> Sorted() {
  std::vector<const OpDef*> all;
  for (const std::span<const OpDef> family :
       {ops::ActivationOps(), ops::ArithmeticOps(), ops::ConvBackwardOps(), ops::ControlOps(),
        ops::ConvOps(),       ops::CustomOps(),     ops::DynamicOps(),      ops::FunctionOps(),
        ops::HostOps(),       ops::IndexingOps(),   ops::LogicOps(),        ops::LookupOps(),
        ops::MatmulOps(),     ops::MovementOps(),   ops::NormalizeOps(),    ops::OrderOps(),
        ops::PoolOps(),       ops::RandomOps(),     ops::ReduceOps(),       ops::SliceOps(),
        ops::ViewOps()}) {
    for (const OpDef& op : family) all.push_back(&op);
  }
  std::sort(all.begin(), all.end(), [](const OpDef* a, const OpDef* b) {
    return absl::string_view(a->name) < absl::string_view(b->name);
  });
  return all;
}

}  // namespace

std::span<const OpDef* const> AllOps() {
  static const auto* const all = new std::vector<const OpDef*>(Sorted());
  return *all;
}

const OpDef* FindOp(absl::string_view name) {
  const std::span<const OpDef* const> all = AllOps();
  const auto found = std::lower_bound(
      all.begin(), all.end(), name,
      [](const OpDef* op, absl::string_view n) { return absl::string_view(op->name) < n; });
  return found != all.end() && absl::string_view((*found)->name) == name ? *found : nullptr;
}

std::vector<absl::string_view> OnnxNames(const OpDef& op) {
  std::vector<absl::string_view> names;
  for (const OnnxForm& form : op.onnx) {
    if (form.op != nullptr) names.emplace_back(form.op);
  }
  for (const absl::string_view name : absl::StrSplit(op.onnx_converted, ' ', absl::SkipEmpty()))
    names.push_back(name);
  return names;
}

}  // namespace kiln
