// SPDX-License-Identifier: Apache-2.0
#include "fusion/legality.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "fusion/literal.h"
#include "fusion/lower.h"
#include "fusion/node_key.h"
#include "graph/op.h"
#include "kiln/dim.h"
#include "schedule/analysis.h"
#include "schedule/choose.h"
#include "schedule/device.h"

namespace kiln {
namespace {

// True if a loop nest for each stage is as good as any schedule for this kernel.
bool StageByStageWillDo(const Kernel& kernel) {
  if (kernel.num_iterated() <= 1) return true;
  const Stage* reduce = nullptr;
  for (const Stage& stage : kernel.stages) {
    if (stage.kind != Stage::Kind::kReduce) continue;
    if (reduce != nullptr) return false;
    reduce = &stage;
  }
  return reduce != nullptr &&
         std::all_of(kernel.outputs.begin(), kernel.outputs.end(),
                     [&](const KernelOutput& output) { return output.dims == reduce->dims; });
}

Decision CheckKernel(const Kernel& kernel, const DeviceModel& model) {
  const GroupCaps& caps = model.caps;
  if (const size_t buffers = kernel.inputs.size() + kernel.outputs.size(); buffers > caps.buffers) {
    return Decision::No(absl::StrCat("the kernel would have ", buffers,
                                     " inputs and outputs, the limit is ", caps.buffers));
  }
  if (const int64_t work = CompileWork(kernel); work > caps.compile_work) {
    return Decision::No(absl::StrCat("compiling the kernel would take long: ", work,
                                     " operations with functions expanded, the limit is ",
                                     caps.compile_work));
  }
  const Decision fuses = model.fuses(kernel);
  if (fuses || (!Scatters(kernel) && StageByStageWillDo(kernel))) return Decision::Yes();
  return Decision::No(absl::StrCat("no template takes them as one kernel (", fuses.reason(), ")"));
}

}  // namespace

const Verdict& Legality::Check(const Group& group) {
  const auto [it, added] = known_.try_emplace(Structure(group));
  if (!added) return it->second;
  const absl::StatusOr<LoweredGroup> lowered = LowerGroup(graph_, group);
  if (lowered.ok()) {
    it->second = {CheckKernel(lowered->canonical.kernel, ModelOf(machine_.target)),
                  EstimatedPrice(*lowered, machine_)};
  } else {
    it->second.legal = Decision::No(std::string(lowered.status().message()));
  }
  return it->second;
}

// Equal for two sets that lower to kernels alike but for numbers: ops, attributes, who reads whom,
// types and shapes.
std::string Legality::Structure(const Group& group) const {
  std::string key;
  std::map<ValueId, int> local;
  const auto name = [&](ValueId value) {
    const auto [it, added] = local.emplace(value, static_cast<int>(local.size()));
    absl::StrAppend(&key, ",", it->second);
    if (!added) return;
    const Value& described = graph_.value(value);
    absl::StrAppend(&key, Name(described.type), ToString(described.shape));
    const bool inside =
        std::binary_search(group.nodes.begin(), group.nodes.end(), described.producer);
    absl::StrAppend(&key, inside ? "i" : LiteralOf(described) ? "c" : "");
  };
  for (const NodeId id : group.nodes) {
    const Node& node = graph_.node(id);
    absl::StrAppend(&key, "\n", node.op->name);
    AppendAttrs(node.attrs, key);
    for (const ValueId input : node.inputs) {
      if (!input.valid()) {
        key += ",-";
        continue;
      }
      name(input);
      if (const ValueId root = analysis_.root[static_cast<size_t>(input.v)]; root != input) {
        key += '<';  // a view of
        name(root);
      }
    }
    key += '>';
    for (const ValueId output : node.outputs) {
      name(output);
      if (std::binary_search(group.outputs.begin(), group.outputs.end(), output)) key += '!';
    }
  }
  return key;
}

Price EstimatedPrice(const LoweredGroup& lowered, const Machine& machine) {
  std::vector<int64_t> extents;
  for (const Dim& dim : lowered.dims) extents.push_back(EstimatedElements({dim}));
  return PriceOf(lowered.canonical.kernel, extents, machine);
}

}  // namespace kiln
